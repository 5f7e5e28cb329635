"""Applies JSON patches as the API server does (RFC 6902: add, remove, replace).

Strict on purpose: a path into something that is missing, or a removal of what
is not there, is an error, because the API server refuses the whole patch.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any


def apply(document: Any, operations: Iterable[Mapping[str, Any]]) -> Any:
    """Return the patched copy of a document."""
    result = copy.deepcopy(document)
    for operation in operations:
        *parents, last = _steps(operation["path"])
        holder = result
        for step in parents:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        _apply_one(holder, last, operation)
    return result


def _apply_one(holder: Any, last: str, operation: Mapping[str, Any]) -> None:
    kind = operation["op"]
    value = copy.deepcopy(operation.get("value"))
    if isinstance(holder, list):
        if kind != "add" or last != "-":
            raise ValueError(f"only appending to a list is known: {operation}")
        holder.append(value)
        return
    if not isinstance(holder, dict):
        raise TypeError(f"no object at the path of {operation}")
    if kind in ("remove", "replace") and last not in holder:
        raise KeyError(f"nothing to {kind} at {operation['path']}")
    if kind == "remove":
        del holder[last]
    else:
        holder[last] = value


def _steps(pointer: str) -> list[str]:
    if not pointer.startswith("/"):
        raise ValueError(f"no pointer below the root: {pointer!r}")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]
