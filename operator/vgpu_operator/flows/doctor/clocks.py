"""Clocks that do not agree, found by moments that two of them have noted.

The API server's clock is the one that all are compared with: it writes when a pod was
bound and when a field was written. Whole seconds on both sides, so a few say nothing.
"""

import datetime
import statistics
from collections.abc import Iterator
from typing import Final

from vgpu_operator.flows.doctor import finding as found
from vgpu_operator.flows.doctor.cluster import Cluster, NodeSight
from vgpu_operator.flows.doctor.finding import Sight
from vgpu_operator.wire import handshake

SKEW_S: Final = 10.0
"""Less does no harm: handshakes and locks count in minutes."""

_LATEST: Final = 50


def skew(cluster: Cluster) -> Iterator[Sight]:
    """Find clocks that are off: of the operator, of nodes, and stamps from the future."""
    yield from _operator(cluster)
    for name, sight in cluster.nodes.items():
        evidence = tuple(_of_node(cluster, sight))
        if evidence:
            yield Sight(place=found.node(name), evidence=evidence)


def _operator(cluster: Cluster) -> Iterator[Sight]:
    """Compare when the operator says that it bound pods with when the API server did."""
    both = [
        (one.health.scheduled_at, one.record.bind_time_s, one.name)
        for one in cluster.device_pods()
        if one.health.scheduled_at is not None and one.record.bind_time_s is not None
    ]
    latest = sorted(both, reverse=True)[:_LATEST]
    if not latest:
        return
    off_s = statistics.median(bound_s - at.timestamp() for at, bound_s, _ in latest)
    if abs(off_s) >= SKEW_S:
        at, bound_s, name = latest[0]
        bound = datetime.datetime.fromtimestamp(bound_s, tz=datetime.UTC)
        yield Sight(
            place=found.Place(kind="Scheduler", name=cluster.settings.scheduler_name),
            evidence=(
                f"{_spoken(off_s)} the API server's clock, by {len(latest)} bound pods",
                f"pod {'/'.join(name)}: bind time {bound:%H:%M:%S}, PodScheduled {at:%H:%M:%S} UTC",
            ),
        )


def _of_node(cluster: Cluster, sight: NodeSight) -> Iterator[str]:
    if sight.heartbeat is not None and sight.heartbeat_written is not None:
        off_s = (sight.heartbeat - sight.heartbeat_written).total_seconds()
        if abs(off_s) >= SKEW_S:
            yield (
                f"the node's clock is {_spoken(off_s)} the API server's: heartbeat"
                f" {sight.heartbeat:%H:%M:%S}, written {sight.heartbeat_written:%H:%M:%S} UTC"
            )
    for keyword, text in sight.record.handshakes.items():
        read = handshake.decode_handshake(text)
        age_s = cluster.age_s(read.time)
        if age_s is not None and age_s <= -SKEW_S:
            asked = read.state is handshake.State.REQUESTING
            whose = "the operator's" if asked else "the device plugin's"
            yield (
                f"handshake of {keyword} {text!r} lies {-age_s:.0f} s ahead: {whose} clock is fast,"
                " or it writes local time"
            )


def _spoken(off_s: float) -> str:
    return f"{abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'}"
