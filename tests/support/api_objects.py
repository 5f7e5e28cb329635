"""What every played API server does with objects: merge, select, find a collection's."""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

_EVERYWHERE: Final = re.compile(r"(?P<prefix>/api(?:s/[^/]+)?/v\w+)/(?P<kind>[a-z]+)")


@functools.lru_cache(maxsize=10_000)
def is_in(address: str, collection: str) -> bool:
    """Whether an object is in a collection, one namespace's or everybody's."""
    home = address.rpartition("/")[0]
    if home == collection:
        return True
    match = _EVERYWHERE.fullmatch(collection)
    return (
        match is not None
        and home.startswith(f"{match['prefix']}/namespaces/")
        and home.endswith(f"/{match['kind']}")
    )


def selector(params: Mapping[str, str]) -> Callable[[Json], bool]:
    """Return a function that says whether an object is selected, by fields and labels."""
    fields = [part for part in params.get("fieldSelector", "").split(",") if part]
    labels = [part for part in params.get("labelSelector", "").split(",") if part]
    if not fields and not labels:
        return lambda _: True
    return lambda item: (
        all(_field_holds(part, item) for part in fields)
        and all(
            item["metadata"].get("labels", {}).get(part.split("=")[0]) == part.split("=")[-1]
            for part in labels
        )
    )


def merged(known: Any, changes: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386).

    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": None}})
    {'a': {'c': 2}}
    """
    if not isinstance(changes, dict):
        return changes
    result = dict(known) if isinstance(known, dict) else {}
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _field_holds(part: str, item: Json) -> bool:
    name, unequal, wanted = part.partition("!=")
    if not unequal:
        name, _, wanted = part.replace("==", "=").partition("=")
    value: Any = item
    for step in name.split("."):
        value = value.get(step, {}) if isinstance(value, dict) else {}
    return ((value or "") == wanted) != bool(unequal)
