"""Which of the kubelet's device ids were served to which container of a pod.

Grammar::

    ids = "{" [ container ":" "[" id { "," id } "]" { "," … } ] "}"      JSON

Ours alone: no other program of the protocol reads it.
"""

from collections.abc import Mapping, Sequence

import orjson

from vgpu_operator.model import errors
from vgpu_operator.wire import fields


def decode_device_ids(text: str, *, key: str = "") -> dict[str, tuple[str, ...]]:
    """Read the ids by container name.

    >>> decode_device_ids('{"main":["GPU-a-0"]}')
    {'main': ('GPU-a-0',)}

    Raises:
        DecodeError: no such text.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as fault:
        raise errors.DecodeError(f"JSON is wanted, got {fields.shown(text)}", key=key) from fault
    if not isinstance(value, dict) or not all(map(_is_list_of_text, value.values())):
        raise errors.DecodeError(
            f"lists of ids by container are wanted, got {fields.shown(text)}", key=key
        )
    return {container: tuple(ids) for container, ids in value.items()}


def encode_device_ids(ids: Mapping[str, Sequence[str]]) -> str:
    """Write the ids by container name.

    >>> encode_device_ids({"main": ("GPU-a-0", "GPU-b-3")})
    '{"main":["GPU-a-0","GPU-b-3"]}'
    """
    return orjson.dumps({container: list(each) for container, each in ids.items()}).decode()


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
