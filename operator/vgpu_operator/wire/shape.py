"""Kubernetes JSON of unknown shape, read without trusting it.

The API server guarantees the shape of what it serves; a webhook body, a file
or a test does not. These readers answer "nothing" for a value of another type,
so that the code behind them has no type checks.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def mapping(value: object) -> Mapping[str, Any]:
    """Return ``value`` when it is a mapping, else an empty one.

    >>> mapping(None), mapping({"a": 1})
    (mappingproxy({}), {'a': 1})
    """
    if type(value) is dict:  # much cheaper than asking the abstract class
        return value
    return value if isinstance(value, Mapping) else _NOTHING


def mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return the elements of a list, an empty mapping for each that is none.

    Positions are kept: they are part of a JSON patch's path.

    >>> mappings([{"name": "main"}, None])
    ({'name': 'main'}, mappingproxy({}))
    """
    return tuple(mapping(element) for element in value) if isinstance(value, list) else ()


def text(value: object) -> str:
    """Return ``value`` when it is text, else the empty text.

    >>> text("a"), text(7), text(None)
    ('a', '', '')
    """
    return value if isinstance(value, str) else ""


def annotations(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object's annotations.

    >>> annotations({"metadata": {"annotations": {"a": "1"}}}), annotations({"metadata": None})
    ({'a': '1'}, mappingproxy({}))
    """
    return mapping(mapping(raw.get("metadata")).get("annotations"))


def containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield ``(field of the spec, position, container)``, init containers first.

    >>> [(f, i) for f, i, _ in containers({"spec": {"containers": [{}, {}]}})]
    [('containers', 0), ('containers', 1)]
    """
    spec = mapping(pod.get("spec"))
    for name in ("initContainers", "containers"):
        for position, container in enumerate(mappings(spec.get(name))):
            yield name, position, container
