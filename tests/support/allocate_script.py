"""The words that the Allocate conversations are written in."""

from collections.abc import Generator
from typing import Any

from vgpu_operator.flows import allocate, effects_agent

TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"
LOCK = "hami.io/mutex.lock"
OWN_LOCK = "2026-01-15T10:00:00Z,default,p1"
GET_NODE = effects_agent.GetNode(name="n1")
GET_POD = effects_agent.GetPod(namespace="default", name="p1")
LIST_PODS = effects_agent.ListNodePods(node="n1")


def call(devices: int = 1, *, breakdown: str = "") -> Generator[Any, Any, Any]:
    return allocate.allocate(
        allocate.AllocateCall(
            node="n1",
            device_count=devices,
            to_allocate_key=TO_ALLOCATE,
            lock_key=LOCK,
            instances_key="hami.io/vgpu-mig-allocations",
            breakdown=breakdown,
        )
    )


def node(lock: str | None = OWN_LOCK, *, version: str = "7") -> effects_agent.NodeSeen:
    notes = {} if lock is None else {LOCK: lock}
    return effects_agent.NodeSeen(name="n1", resource_version=version, annotations=notes)


def pod(
    text: str | None, phase: str | None = "allocating", *, name: str = "p1", status: str = "Pending"
) -> effects_agent.PodSeen:
    notes = {"hami.io/bind-time": "1768471200", "hami.io/vgpu-node": "n1"}
    if text is not None:
        notes[TO_ALLOCATE] = text
    if phase is not None:
        notes[PHASE] = phase
    return effects_agent.PodSeen(namespace="default", name=name, phase=status, annotations=notes)


def write(key: str, value: str, *, name: str = "p1") -> effects_agent.PatchPod:
    return effects_agent.PatchPod(namespace="default", name=name, annotations={key: value})


def unlock(version: str = "7") -> effects_agent.PatchNode:
    return effects_agent.PatchNode(name="n1", resource_version=version, annotations={LOCK: None})
