"""Comparing resourceVersions.

Since Kubernetes 1.35 the versions of one resource compare as integers
(KEP-5504); where they are no integers, nothing is known and every delivery
counts as newer.
"""

from typing import Final

_LONGEST: Final = 40
"""Digits; etcd's revisions have 19 at most."""


def is_earlier(version: str, other: str) -> bool:
    """Whether ``version`` is known to be an earlier state than ``other``.

    >>> is_earlier("9", "10")
    True
    >>> is_earlier("10", "10"), is_earlier("abc", "10")
    (False, False)
    """
    if _is_number(version) and _is_number(other):
        return int(version) < int(other)
    return False


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST and text.isascii() and text.isdecimal()
