"""What a case of ``vgpu simulate --cases`` must look like, checked before it is answered.

Only what the answer cannot do without: objects may be as wrong as those of a
cluster, and then it is the operator's rules that answer.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

from vgpu_operator.model import errors
from vgpu_operator.wire import clock_text, fields, shape

FLAGS: Final = (
    "node_scheduler_policy",
    "gpu_scheduler_policy",
    "force_overwrite_default_scheduler",
    "device_config",
)
"""What ``flags`` may hold."""

CASE: Final = "the case"

LONGEST_S: Final = 10**9
"""How far back an earlier state may lie, in seconds: 31 years."""

_SHARE: Final = {"uuid": str, "type": str, "mem": int, "cores": int}
"""The fields of a share."""

_KINDS: Final = {str: "a text", int: "a whole number"}


def check(case: Mapping[str, Any]) -> None:
    """Refuse a case that lacks what the answer is made of.

    Raises:
        DecodeError: one sentence with the path of the first field that is wrong.
    """
    flags = _object(case, "flags", "flags")
    for name in flags:
        if name not in FLAGS:
            raise wrong(f"flags.{name}: there is no such flag; known are {', '.join(FLAGS)}")
    _object(flags, "device_config", "flags.device_config")
    _object(case, "pod", "pod")
    _list(case, "record", "record")
    for part in ("nodes", "pods"):
        _named_objects(case, part, part)
    _objects(case, "quotas", "quotas")
    for place, state in enumerate(_objects(case, "earlier", "earlier")):
        _named_objects(state, "nodes", f"earlier[{place}].nodes")
        before_s = state.get("seconds_before")
        if not isinstance(before_s, (int, float)) or not 0 <= before_s <= LONGEST_S:
            raise wrong(
                f"earlier[{place}].seconds_before: a number from 0 to {LONGEST_S} is wanted"
            )


def share_rows(case: Mapping[str, Any]) -> Sequence[Sequence[Mapping[str, Any]]]:
    """Return the ``value`` of a case that is to be encoded: shares by container.

    Raises:
        DecodeError: it is missing, or not of that form.
    """
    if case.get("value") is None:
        raise wrong("value is missing")
    found = []
    for place, container in enumerate(_list(case, "value", "value")):
        path = f"value[{place}]"
        found.append(_objects({path: container}, path, path))
        for number, row in enumerate(found[-1]):
            for field, kind in _SHARE.items():
                if type(row.get(field)) is not kind:
                    what = f"{_KINDS[kind]} is wanted, got {fields.shown(row.get(field))}"
                    raise wrong(f"{path}[{number}].{field}: {what}")
    return found


def wrong(sentence: str) -> errors.DecodeError:
    """Return the fault of a case."""
    return errors.DecodeError(sentence, key=CASE)


def _named_objects(parent: Mapping[str, Any], field: str, path: str) -> None:
    for place, raw in enumerate(_objects(parent, field, path)):
        where = f"{path}[{place}].metadata"
        name = _object(raw, "metadata", where).get("name")
        if name is None or name == "":
            raise wrong(f"{where}.name is missing")
        if not isinstance(name, str):
            raise wrong(f"{where}.name: a text is wanted, got {fields.shown(name)}")


def _objects(parent: Mapping[str, Any], field: str, path: str) -> Sequence[Mapping[str, Any]]:
    found = _list(parent, field, path)
    for place, item in enumerate(found):
        if not isinstance(item, dict):
            raise wrong(f"{path}[{place}]: an object is wanted, got {fields.shown(item)}")
    return found


def _object(parent: Mapping[str, Any], field: str, path: str) -> Mapping[str, Any]:
    value = parent.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong(f"{path}: an object is wanted, got {fields.shown(value)}")
    return value


def _list(parent: Mapping[str, Any], field: str, path: str) -> Sequence[Any]:
    value = parent.get(field)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise wrong(f"{path}: a list is wanted, got {fields.shown(value)}")
    return value


def now(case: Mapping[str, Any]) -> datetime.datetime:
    """Return the time of a case.

    Raises:
        RequestError: it has none.
    """
    found = clock_text.decode_time(shape.text(case.get("now")))
    if found is None:
        raise wrong("now is missing or no time")
    return found
