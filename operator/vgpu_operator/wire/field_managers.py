"""Who wrote which field of an object last, as the API server keeps it.

``metadata.managedFields`` has one entry for each program, way of writing and
subresource: the fields that are its own, and when it last changed the value of
one of them, by the API server's clock. The program's name is what it calls
itself (``fieldManager``, else its User-Agent): it is no proof of who it is.
What came in with a Binding has no entry at all.

Source: ``sigs.k8s.io/structured-merge-diff`` and Kubernetes 1.36
(``apimachinery/pkg/util/managedfields``).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from vgpu_operator.wire import clock_text, shape

KUBELET: Final = "kubelet"
"""What the kubelet calls itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One program and the annotations that it wrote last.

    Attributes:
        manager: what the program calls itself.
        time: when it last changed any field of its entry, in whole seconds; None
            when unreadable.
        annotations: those of the wanted ones that are its own.
    """

    manager: str
    time: datetime | None
    annotations: frozenset[str]


def writers(raw: Mapping[str, Any], wanted: Collection[str]) -> tuple[Writer, ...]:
    """Return who wrote the wanted annotations of an object, in the server's order.

    >>> entry = {"manager": "kubectl", "time": "2026-01-15T10:00:00Z",
    ...          "fieldsV1": {"f:metadata": {"f:annotations": {"f:a/b": {}, ".": {}}}}}
    >>> writers({"metadata": {"managedFields": [entry]}}, {"a/b"})[0].annotations
    frozenset({'a/b'})
    """
    found = []
    for entry in _entries(raw):
        metadata = shape.mapping(shape.mapping(entry.get("fieldsV1")).get("f:metadata"))
        fields = shape.mapping(metadata.get("f:annotations"))
        own = frozenset(key[2:] for key in fields if key[2:] in wanted)
        if own:
            found.append(
                Writer(
                    manager=shape.text(entry.get("manager")),
                    time=clock_text.decode_time(shape.text(entry.get("time"))),
                    annotations=own,
                )
            )
    return tuple(found)


def heartbeat_written(raw: Mapping[str, Any]) -> datetime | None:
    """Return when a Node's kubelet last reported, by the API server's clock.

    The kubelet writes the times of its conditions whenever it writes the status at all;
    another program that does may not.
    """
    for entry in _entries(raw):
        if entry.get("manager") != KUBELET:
            continue
        status = shape.mapping(shape.mapping(entry.get("fieldsV1")).get("f:status"))
        ready = shape.mapping(shape.mapping(status.get("f:conditions")).get('k:{"type":"Ready"}'))
        if "f:lastHeartbeatTime" in ready:
            return clock_text.decode_time(shape.text(entry.get("time")))
    return None


def _entries(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return shape.mappings(shape.mapping(raw.get("metadata")).get("managedFields"))
