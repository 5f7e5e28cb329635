"""Raw Kubernetes JSON of the node side: what is read from it, what is written.

Pure functions; nothing here talks to anybody.
"""

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from vgpu_operator.agent import manners as vendor_manners
from vgpu_operator.agent import plugins as vendor_plugins
from vgpu_operator.agent import seen, spec
from vgpu_operator.flows import allocate_by_mark
from vgpu_operator.model import records
from vgpu_operator.wire import clock_text, pod_devices, shape

Json: TypeAlias = dict[str, Any]

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
"""Put on every new Node by admission; the node lifecycle controller, which does
not run where nodes are objects only, would remove it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCall:
    """One Allocate call that the kubelet owes a container."""

    container: str
    plugin: vendor_plugins.Plugin
    device_count: int


def annotations(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """Return an object's annotations."""
    return shape.annotations(raw)


def uid(raw: Mapping[str, Any]) -> str:
    """Return an object's UID."""
    return shape.text(shape.mapping(raw.get("metadata")).get("uid"))


def full_name(pod: Mapping[str, Any]) -> str:
    """Return ``namespace/name``."""
    metadata = shape.mapping(pod.get("metadata"))
    return f"{shape.text(metadata.get('namespace'))}/{shape.text(metadata.get('name'))}"


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node that a Pod is bound to; empty while unbound."""
    return shape.text(shape.mapping(pod.get("spec")).get("nodeName"))


def is_newer(raw: Mapping[str, Any], known: Mapping[str, Any] | None) -> bool:
    """Whether ``raw`` is a later version of the same object than ``known``, or another object.

    Versions are decimal numbers that grow (guaranteed since Kubernetes 1.35,
    true before).
    """
    if known is None or uid(raw) != uid(known):
        return True
    return int(raw["metadata"]["resourceVersion"]) > int(known["metadata"]["resourceVersion"])


def is_deleting(pod: Mapping[str, Any]) -> bool:
    """Whether the Pod waits for its kubelet to let it go."""
    return "deletionTimestamp" in shape.mapping(pod.get("metadata"))


def grace_s(pod: Mapping[str, Any]) -> float:
    """Return how long the containers of a deleted Pod get to end."""
    given = shape.mapping(pod.get("metadata")).get("deletionGracePeriodSeconds")
    return float(given) if isinstance(given, int) else 0.0


def is_new(pod: Mapping[str, Any]) -> bool:
    """Whether no kubelet has taken the Pod in yet."""
    status = shape.mapping(pod.get("status"))
    return status.get("phase", "Pending") == "Pending" and not status.get("startTime")


def owed_calls(
    pod: Mapping[str, Any], plugins: Mapping[str, vendor_plugins.Plugin]
) -> tuple[ContainerCall, ...]:
    """Return the Allocate calls that the kubelet still owes a Pod, in its order.

    A real kubelet keeps a table of the calls that returned. What the
    to-allocate annotation lacks of the allocated one says the same, so a restarted agent goes on
    where the last one stopped. A Pod whose entries are all taken while its
    phase is still ``allocating`` (its agent died in between) gets its last
    call again, as from a kubelet that never saw it return.
    """
    calls = tuple(_all_calls(pod, plugins))
    owed: set[int] = set()
    for plugin in plugins.values():
        of_plugin = [place for place, call in enumerate(calls) if call.plugin is plugin]
        if of_plugin:
            owed.update(_UNSERVED[plugin.manners.serving](annotations(pod), plugin, of_plugin))
    return tuple(calls[place] for place in sorted(owed))


def _unserved_by_entry(
    notes: Mapping[str, str], plugin: vendor_plugins.Plugin, places: list[int]
) -> Sequence[int]:
    """Return those of one plugin's calls, by place, that were not served yet."""
    left = notes.get(plugin.spec.to_allocate_key or "")
    if left is None:
        return places
    finished = notes.get(plugin.dialect.bind_phase) == records.BindPhase.SUCCESS
    promised = notes.get(plugin.spec.allocated_key or "")
    if promised is None:
        return () if finished and pod_devices.is_served(left) else places
    served = max(0, _entries(promised) - _entries(left))
    if served < len(places):
        return places[served:]
    return () if finished else places[-1:]


def _unserved_by_mark(
    notes: Mapping[str, str], plugin: vendor_plugins.Plugin, places: list[int]
) -> Sequence[int]:
    """Return the calls of a plugin that marks the Pod: one, or one for each entry not filled."""
    manners = plugin.manners
    if notes.get(manners.mark) == allocate_by_mark.SERVED:
        return ()
    if manners.entries is None:
        return places[:1]
    return places[_filled(notes.get(manners.entries, "")) :]


def _filled(text: str) -> int:
    """Return how many entries of a text by container are filled.

    >>> _filled('{"a": {"allocated": true}, "b": {"allocated": false}}'), _filled("garbage")
    (1, 0)
    """
    try:
        entries = json.loads(text)
    except ValueError:
        return 0
    found = (shape.mapping(entry) for entry in shape.mapping(entries).values())
    return sum(1 for entry in found if entry.get("allocated") is True)


def _all_of_them(
    notes: Mapping[str, str],  # noqa: ARG001
    plugin: vendor_plugins.Plugin,  # noqa: ARG001
    places: list[int],
) -> Sequence[int]:
    return places


_UNSERVED = {
    vendor_manners.Serving.ENTRY: _unserved_by_entry,
    vendor_manners.Serving.MARK: _unserved_by_mark,
    vendor_manners.Serving.NOTHING: _all_of_them,
}


def _entries(text: str) -> int:
    """Return how many containers of a devices text have something in them, readable or not."""
    return sum(1 for segment in text.split(";") if not pod_devices.is_served(segment))


def _all_calls(
    pod: Mapping[str, Any], plugins: Mapping[str, vendor_plugins.Plugin]
) -> Iterator[ContainerCall]:
    """Yield a call per container and vendor that it asks for, init containers first."""
    for _, _, container in shape.containers(pod):
        for plugin in plugins.values():
            amounts = (seen.asked(container, name) for name in plugin.claims)
            asked = next((amount for amount in amounts if amount > 0), 0)
            if asked:
                yield ContainerCall(
                    container=shape.text(container.get("name")), plugin=plugin, device_count=asked
                )


def new_node(
    name: str,
    entry: spec.Node,
    *,
    notes: Mapping[str, str],
    labels: Mapping[str, str],
    counts: Mapping[str, tuple[int, int]],
    now: datetime.datetime,
) -> Json:
    """Return a Node to create.

    Args:
        name: its name.
        entry: what the simulation file says of it.
        notes: its annotations.
        labels: labels that its plugins write; those of the file win.
        counts: capacity and allocatable by resource name.
        now: the time.
    """
    host = {"cpu": entry.cpu, "memory": entry.host_memory, "pods": str(entry.pods)}
    time = clock_text.encode_rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **labels,
                **entry.labels,
            },
            "annotations": dict(notes),
        },
        "status": {
            "capacity": host | {r: str(total) for r, (total, _) in counts.items()},
            "allocatable": host | {r: str(free) for r, (_, free) in counts.items()},
            "conditions": [_ready(time, since=time)],
        },
    }


def _ready(time: str, *, since: str) -> Json:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "SimulatedNode",
        "message": "an object only, played by vgpu agent",
        "lastHeartbeatTime": time,
        "lastTransitionTime": since,
    }


def heartbeat_patch(node: Json, now: datetime.datetime) -> Json:
    """Return the merge patch by which a node, as just seen, says that it is ready still."""
    time = clock_text.encode_rfc3339(now)
    conditions = shape.mappings(shape.mapping(node.get("status")).get("conditions"))
    others = [condition for condition in conditions if condition.get("type") != "Ready"]
    known = next((one for one in conditions if one.get("type") == "Ready"), {})
    since = shape.text(known.get("lastTransitionTime")) if known.get("status") == "True" else ""
    # A merge patch replaces a list whole.
    return {"status": {"conditions": [*others, _ready(time, since=since or time)]}}


def counts_patch(counts: Mapping[str, tuple[int, int]]) -> Json:
    """Return the merge patch that sets capacity and allocatable of the cards' resources."""
    return {
        "status": {
            "capacity": {r: str(total) for r, (total, _) in counts.items()},
            "allocatable": {r: str(free) for r, (_, free) in counts.items()},
        }
    }


def running_patch(pod: Mapping[str, Any], now: datetime.datetime) -> Json:
    """Return the status patch of a Pod whose containers all run, init containers done."""
    time = clock_text.encode_rfc3339(now)
    ours = [
        {"type": kind, "status": "True", "lastTransitionTime": time}
        for kind in ("Initialized", "Ready", "ContainersReady")
    ]
    kept = [
        condition
        for condition in shape.mappings(shape.mapping(pod.get("status")).get("conditions"))
        if condition.get("type") not in {condition["type"] for condition in ours}
    ]
    status: Json = {
        "phase": "Running",
        "startTime": time,
        "conditions": [*kept, *ours],
        "containerStatuses": [],
    }
    for field, _, container in shape.containers(pod):
        runs = field == "containers" or container.get("restartPolicy") == "Always"
        list_name = "containerStatuses" if field == "containers" else "initContainerStatuses"
        status.setdefault(list_name, []).append(_container_status(container, runs=runs, time=time))
    return {"metadata": {"uid": uid(pod)}, "status": status}


def _container_status(container: Mapping[str, Any], *, runs: bool, time: str) -> Json:
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time}
    return {
        "name": container["name"],
        "image": shape.text(container.get("image")),
        "imageID": "",
        "ready": True,
        "started": runs,
        "restartCount": 0,
        "state": {"running": {"startedAt": time}} if runs else {"terminated": ended},
    }


def rejected_patch(pod: Mapping[str, Any], now: datetime.datetime, *, why: str) -> Json:
    """Return the status patch of a Pod that the kubelet does not admit."""
    return {
        "metadata": {"uid": uid(pod)},
        "status": {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": f"Pod was rejected: Allocate failed due to {why}, which is unexpected",
            "startTime": clock_text.encode_rfc3339(now),
        },
    }
