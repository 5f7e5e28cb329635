"""A cluster on paper for reported cases: the cards and pods that they speak of.

``REG1`` and ``REG2`` are nodes with one and two A10s; ``asks(n, mem, cores)``
is a container with those limits. Pods go through admission, filter, scores
and bind as the operator runs them; a lock is given back at once.
"""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from support import operator_books
from vgpu_operator.flows import admit, promises, simulate
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import allocation, records, settings
from vgpu_operator.scheduling import choose
from vgpu_operator.vendors import records as vendor_records
from vgpu_operator.vendors import registry

Json = dict[str, Any]

NOW = operator_books.NOW
REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
A10 = "NVIDIA-NVIDIA A10"


def card(card_id: str = "GPU-a0", **fields: Any) -> Json:
    """Return an A10's entry of a register text; keywords are the entry's own words."""
    usual = {
        "id": card_id,
        "count": 10,
        "devmem": 24576,
        "devcore": 100,
        "type": A10,
        "mode": "hami-core",
        "health": True,
    }
    return usual | fields


REG1 = (card(),)
REG2 = (card(), card("GPU-a1", index=1, numa=1))


def node(
    *cards: Json,
    name: str = "node-a",
    text: str | None = None,
    allocatable: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
) -> Json:
    """Return a node with these NVIDIA cards, or with that register text."""
    offered = {"nvidia.com/gpu": str(10 * len(cards) or 10)}
    annotations = dict(notes or {})
    if cards or text is not None:
        annotations[REGISTER] = json.dumps(cards) if text is None else text
    return {
        "metadata": {"name": name, "annotations": annotations},
        "status": {
            "allocatable": offered if allocatable is None else dict(allocatable),
            "capacity": dict(capacity or {}),
        },
    }


def asks(
    count: object = 1, memory: object = None, cores: object = None, name: str = "main", **more: Any
) -> Json:
    """Return a container with these NVIDIA limits; None is not set, keywords are its fields."""
    amounts = {
        "nvidia.com/gpu": count,
        "nvidia.com/gpumem": memory,
        "nvidia.com/gpucores": cores,
    }
    limits = {word: str(value) for word, value in amounts.items() if value is not None}
    return limited(limits, name=name) | more


def limited(limits: Mapping[str, object], *, name: str = "main") -> Json:
    """Return a container with these limits."""
    return {"name": name, "image": "busybox", "resources": {"limits": dict(limits)}}


def pod(
    name: str,
    *containers: Json,
    init: tuple[Json, ...] = (),
    notes: Mapping[str, str] | None = None,
    node_name: str = "",
    phase: str = "Pending",
) -> Json:
    """Return a pod of namespace ``team-a``."""
    spec: Json = {"containers": [*containers]}
    if init:
        spec["initContainers"] = [*init]
    if node_name:
        spec["nodeName"] = node_name
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-of-{name}"}
    return {
        "metadata": metadata | {"annotations": dict(notes or {})},
        "spec": spec,
        "status": {"phase": phase},
    }


def running(name: str, *containers: Json, promised: str, node_name: str = "node-a") -> Json:
    """Return a pod that runs with that promise of NVIDIA cards."""
    notes = {"hami.io/vgpu-node": node_name, ALLOCATED: promised}
    return pod(name, *containers, notes=notes, node_name=node_name, phase="Running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Where a pod would go and what would be written on it, or why it fits on no node."""

    refusals: Mapping[str, str] = field(default_factory=dict)
    granted: allocation.Allocation | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


class CaseCluster:
    """Nodes and the pods that were placed on them; keywords are settings as in the file."""

    def __init__(self, *nodes: Json, pods: tuple[Json, ...] = (), **values: Any) -> None:
        self.settings = settings.build(values)
        self.vendors = registry.build(self.settings)
        self._world = simulate.Simulation(self.settings, self.vendors, patient=True)
        self.books = self._world.books
        self._world.see_pods(pods)
        self.show(*nodes)

    def show(self, *nodes: Json, now: datetime.datetime = NOW) -> dict[str, simulate.Written]:
        """Have exactly these nodes from now on; return what registration writes on each."""
        self._names = [one["metadata"]["name"] for one in nodes]
        return self._world.see_nodes(nodes, now)

    def see_pod(self, raw: Json) -> None:
        """Let the watch show a pod as it is now."""
        self._world.see_pods([raw])

    def admit(self, raw: Json) -> admit.Verdict:
        """Return the webhook's answer."""
        return self._world.admit(raw).verdict

    def place(self, raw: Json, *nodes: str) -> simulate.Placed:
        """Let a pod through admission, which must allow it, and place it."""
        admitted = self._world.admit(raw)
        assert admitted.verdict.allowed, admitted.verdict.message
        return self.place_past_admission(admitted.pod, *nodes)

    def place_past_admission(self, raw: Any, *nodes: str) -> simulate.Placed:
        """Place a pod that the webhook never saw."""
        return self._world.place(self._world.record(raw), nodes or self._names, NOW)

    def outlook(self, raw: Any, *nodes: str) -> Outlook:
        """Return what would become of a pod that the webhook never saw; nothing stays."""
        record = self.record(raw)
        names = nodes or self._names
        placement = flow_filter.place(self.books, record.request, names, priority=record.priority)
        if not placement.fitting:
            return Outlook(refusals={name: str(why) for name, why in placement.rejections.items()})
        view = self.books.ledger.snapshot()
        granted = choose.choose(view, placement.fitting[0], record.request, self.books.defaults)
        assert isinstance(granted, allocation.Allocation)
        notes = promises.annotations(self.books, record, granted, NOW)
        return Outlook(granted=granted, annotations=notes)

    def reason(self, placed: simulate.Placed, name: str = "node-a") -> str:
        """Return why a node does not take the pod, which no node takes."""
        assert placed.node is None
        return str(placed.rejections[name])

    def record(self, raw: Json) -> records.PodRecord:
        """Return a pod as the operator reads it."""
        return vendor_records.pod_record(raw, self.vendors, aliases={})

    def cards(self, vendor: str = "NVIDIA", name: str = "node-a") -> tuple[Any, ...]:
        """Return a node's registered cards."""
        return self._world.devices(name).get(vendor, ())

    def used(self, name: str = "node-a") -> dict[str, tuple[int, int, int]]:
        """Return slots, MiB and cores in use of each used card."""
        return {
            one.device.id: (one.used_slots, one.used_memory_mib, one.used_cores_percent)
            for one in self._world.usage(name)
        }


def allocated(placed: simulate.Placed) -> str:
    """Return the promise of NVIDIA cards that the Binding carried."""
    assert placed.bound is not None, placed.rejections
    assert not placed.bound.error
    return placed.bound.annotations[ALLOCATED]


def taken(placed: simulate.Placed) -> list[list[str]]:
    """Return the ids of the NVIDIA cards, container by container."""
    assert placed.granted is not None, dict(placed.rejections)
    return [[share.device_id for share in entry] for entry in placed.granted.shares["NVIDIA"]]
