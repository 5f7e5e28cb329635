"""An Event of anybody's, in either of its two forms (``v1`` and ``events.k8s.io``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vgpu_operator.wire import clock_text, shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEvent:
    """An Event; ``last_seen`` is None when unreadable."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    last_seen: datetime | None


def decode_event(raw: Mapping[str, Any]) -> ClusterEvent:
    """Read an Event as ``/api/v1/events`` serves it; what is missing reads as empty."""
    about = shape.mapping(raw.get("involvedObject"))
    series = shape.mapping(raw.get("series"))
    metadata = shape.mapping(raw.get("metadata"))
    times = (
        series.get("lastObservedTime"),
        raw.get("lastTimestamp"),
        raw.get("eventTime"),
        metadata.get("creationTimestamp"),
    )
    read = (clock_text.decode_time(shape.text(time)) for time in times)
    return ClusterEvent(
        kind=shape.text(about.get("kind")),
        namespace=shape.text(about.get("namespace")),
        name=shape.text(about.get("name")),
        reason=shape.text(raw.get("reason")),
        message=shape.text(raw.get("message")),
        last_seen=next((time for time in read if time is not None), None),
    )
