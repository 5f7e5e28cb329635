"""Building JSON patches (RFC 6902) against an object that is at hand, and applying them."""

from collections.abc import Iterable, Mapping
from typing import Any

Operation = dict[str, Any]


def pointer(*steps: str | int) -> str:
    """Return the JSON pointer (RFC 6901) of a path.

    >>> pointer("metadata", "labels", "hami.io/vgpu-node")
    '/metadata/labels/hami.io~1vgpu-node'
    """
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def set_members(
    holder: Mapping[str, Any], path: tuple[str | int, ...], values: Mapping[str, Any]
) -> list[Operation]:
    """Return what sets members of an object that may be missing at its end.

    Args:
        holder: the object that ``path`` leads to, less its last step.
        path: where the members go; the last step may be absent in ``holder``.
        values: members to set; those that already hold the value cost nothing.

    >>> set_members({}, ("metadata", "annotations"), {"a": "1"})
    [{'op': 'add', 'path': '/metadata/annotations', 'value': {'a': '1'}}]
    >>> set_members({"annotations": {"b": "2"}}, ("metadata", "annotations"), {"a": "1"})
    [{'op': 'add', 'path': '/metadata/annotations/a', 'value': '1'}]
    """
    present = holder.get(str(path[-1]))
    if not isinstance(present, Mapping):
        return [{"op": "add", "path": pointer(*path), "value": dict(values)}] if values else []
    return [
        {
            "op": "replace" if name in present else "add",
            "path": pointer(*path, name),
            "value": value,
        }
        for name, value in values.items()
        if present.get(name) != value
    ]


def append(
    holder: Mapping[str, Any], path: tuple[str | int, ...], elements: list[Any]
) -> list[Operation]:
    """Return what adds elements to the end of a list that may be missing.

    >>> append({}, ("spec", "tolerations"), [1])
    [{'op': 'add', 'path': '/spec/tolerations', 'value': [1]}]
    >>> append({"tolerations": [0]}, ("spec", "tolerations"), [1])
    [{'op': 'add', 'path': '/spec/tolerations/-', 'value': 1}]
    """
    if not elements:
        return []
    if not isinstance(holder.get(str(path[-1])), list):
        return [{"op": "add", "path": pointer(*path), "value": elements}]
    return [{"op": "add", "path": pointer(*path, "-"), "value": element} for element in elements]


def applied(document: Mapping[str, Any], operations: Iterable[Operation]) -> Any:
    """Return a document with operations done, as this module builds them; the original stays.

    Copies only what lies on the operations' paths.

    >>> applied({"a": {"b/c": 1}}, [{"op": "remove", "path": pointer("a", "b/c")}])
    {'a': {}}
    >>> applied({"l": [0]}, [{"op": "add", "path": "/l/-", "value": 1}])
    {'l': [0, 1]}
    """
    result: Any = document
    for operation in operations:
        steps = [
            step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
        ]
        result = _changed(result, steps, operation)
    return result


def _changed(holder: Any, steps: list[str], operation: Operation) -> Any:
    """Return a copy of ``holder`` in which the end of the path is changed."""
    step, rest = steps[0], steps[1:]
    if isinstance(holder, list):
        elements = list(holder)
        if rest:
            elements[int(step)] = _changed(elements[int(step)], rest, operation)
        else:
            elements.append(operation["value"])
        return elements
    members = dict(holder)
    if rest:
        members[step] = _changed(members[step], rest, operation)
    elif operation["op"] == "remove":
        del members[step]
    else:
        members[step] = operation["value"]
    return members
