"""Which of the kubelet's device ids were served to which container of a pod.

Grammar::

    note       = "{" "uid" ":" uid "," "containers" ":" containers "}"      JSON
    containers = "{" [ container ":" "[" id { "," id } "]" { "," … } ] "}"

The UID is the pod's: the API server makes it, so no manifest that was copied, or
written beforehand, can hold the note of the pod that comes of it. Ours alone: no other
program of the protocol reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from vgpu_operator.model import errors
from vgpu_operator.wire import fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedIds:
    """The note on one pod.

    Attributes:
        uid: of the pod that was served.
        containers: ids by container name, in the order in which they were served.
    """

    uid: str
    containers: Mapping[str, tuple[str, ...]]


def decode_device_ids(text: str, *, key: str = "") -> ServedIds:
    """Read a note.

    >>> decode_device_ids('{"uid":"b3e1","containers":{"main":["GPU-a-0"]}}').containers
    {'main': ('GPU-a-0',)}

    Raises:
        DecodeError: no such text.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as fault:
        raise errors.DecodeError(f"JSON is wanted, got {fields.shown(text)}", key=key) from fault
    if not _is_note(value):
        raise errors.DecodeError(
            f"a uid and lists of ids by container are wanted, got {fields.shown(text)}", key=key
        )
    containers = {name: tuple(ids) for name, ids in value["containers"].items()}
    return ServedIds(uid=value["uid"], containers=containers)


def encode_device_ids(note: ServedIds) -> str:
    """Write a note.

    >>> encode_device_ids(ServedIds(uid="b3e1", containers={"main": ("GPU-a-0", "GPU-b-3")}))
    '{"uid":"b3e1","containers":{"main":["GPU-a-0","GPU-b-3"]}}'
    """
    containers = {name: list(ids) for name, ids in note.containers.items()}
    return orjson.dumps({"uid": note.uid, "containers": containers}).decode()


def served_to(uid: str, text: str | None, *, key: str = "") -> Mapping[str, tuple[str, ...]] | None:
    """Return the ids by container that were served to a pod; None when none ever were.

    A note of another pod, which a copied manifest bears, is none.

    >>> served_to("b3e1", '{"uid":"77aa","containers":{"main":["GPU-a-0"]}}') is None
    True

    Raises:
        DecodeError: no such text.
    """
    if text is None:
        return None
    note = decode_device_ids(text, key=key)
    return note.containers if uid and note.uid == uid else None


def _is_note(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"uid", "containers"}
        and isinstance(value["uid"], str)
        and isinstance(value["containers"], dict)
        and all(map(_is_list_of_text, value["containers"].values()))
    )


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
