"""Names of Kubernetes objects, as they come from somebody who may write anything.

Grammar (RFC 1123, as ``k8s.io/apimachinery`` checks it)::

    name  = part { "." part }              at most 253 characters
    part  = (letter | digit) [ { letter | digit | "-" } (letter | digit) ]

Letters are lower case. Neither ``..`` nor ``/`` is one, so that no name can lead
to another path of the API.
"""

import re
from typing import Final

LONGEST: Final = 253

_PART: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)
_UID: Final = re.compile(r"[-._:A-Za-z0-9]{1,253}", re.ASCII)


def is_name(text: str) -> bool:
    r"""Whether an object may have that name.

    >>> is_name("gpu-node-1.example.org"), is_name(".."), is_name("a/b"), is_name("a\n")
    (True, False, False, False)
    """
    return len(text) <= LONGEST and _NAME.fullmatch(text) is not None


def is_uid(text: str) -> bool:
    """Whether an object may have that UID: a UUID, or a static pod's hash.

    >>> is_uid("6e5ff3ee-0d54-4c2c-8d1c-3f8e0d3cbd9d"), is_uid("")
    (True, False)
    """
    return _UID.fullmatch(text) is not None
