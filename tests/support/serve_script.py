"""The words that the node agent's Allocate conversations are written in."""

import json
from collections.abc import Generator, Mapping
from typing import Any

from vgpu_operator.flows import effects, effects_agent, serve
from vgpu_operator.model import device
from vgpu_operator.model import settings as model_settings
from vgpu_operator.vendors import registry
from vgpu_operator.wire import pod_devices

TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
DCU_TO_ALLOCATE = "hami.io/dcu-devices-to-allocate"
DEVICE_IDS = "vgpu-operator.io/device-ids"
PHASE = "hami.io/bind-phase"
NODE_KEY = "hami.io/vgpu-node"
LOCK = "hami.io/mutex.lock"
OWN_LOCK = "2026-01-15T10:00:00Z,default,p1"

GET_NODE = effects_agent.GetNode(name="n1")
GET_POD = effects_agent.GetPod(namespace="default", name="p1")
GET_FRESH = effects_agent.GetPod(namespace="default", name="p1", fresh=True)
LIST_PODS = effects_agent.ListNodePods(node="n1")
PAUSE = effects_agent.Pause(seconds=0.25)

A, B = "GPU-a,NVIDIA,3000,30:;", "GPU-b,NVIDIA,5000,40:;"
"""Entries of one container each."""

PLUGIN = serve.Plugin(
    node="n1",
    spec=registry.build(model_settings.Settings()).by_keyword["NVIDIA"].spec,
    resource="nvidia.com/gpu",
    others=(DCU_TO_ALLOCATE,),
)


def card(name: str, **kinds: Any) -> device.Device:
    usual = {"type": "NVIDIA A10", "slots": 4, "memory_mib": 24576, "cores_percent": 100}
    return device.Device(**{"id": name, "healthy": True, **usual, **kinds})


CARDS = {"GPU-a": card("GPU-a"), "GPU-b": card("GPU-b", index=1)}


def call(*ids: str, **kinds: Any) -> Any:
    """Return the conversation of one Allocate call, with a back end that can make anything."""
    return _answering_preparations(whole_call(*ids, **kinds))


def _answering_preparations(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    try:
        effect = next(steps)
        while True:
            if isinstance(effect, serve.Prepare):
                effect = steps.send(None)
                continue
            try:
                answer = yield effect
            except effects.EffectFailed as fault:
                effect = steps.throw(fault)
            else:
                effect = steps.send(answer)
    except StopIteration as end:
        return end.value


def whole_call(*ids: str, served: Mapping[str, tuple[str, ...]] | None = None, **kinds: Any) -> Any:
    """Return the conversation of one Allocate call, for one device where no ids are said."""
    return serve.serve(
        serve.ServeCall(
            plugin=PLUGIN,
            ids=ids or ("GPU-a-0",),
            served=served or {},
            **{"cards": CARDS, **kinds},
        )
    )


def tidy() -> Generator[Any, Any, str]:
    return serve.tidy(PLUGIN)


def node(lock: str | None = OWN_LOCK, *, version: str = "7") -> effects_agent.NodeSeen:
    notes = {} if lock is None else {LOCK: lock}
    return effects_agent.NodeSeen(name="n1", resource_version=version, annotations=notes)


def pod(text: str | None, *, asks: tuple[int, ...] = (1,), **kinds: Any) -> Any:
    """Return the pod whose lock it is, its containers ``c0``, ``c1`` … asking for so many each.

    Args:
        text: what is left to allocate.
        asks: devices by container.
        kinds: ``noted`` ids by container (``noted_of``: the pod that they were served to),
            ``phase`` of the binding (None: not set),
            ``promised`` node, ``more`` annotations; and fields of ``PodSeen``.
    """
    notes = {NODE_KEY: kinds.pop("promised", "n1"), PHASE: kinds.pop("bind_phase", "allocating")}
    notes |= {TO_ALLOCATE: text, **kinds.pop("more", {})}
    if "noted" in kinds:
        notes[DEVICE_IDS] = note(kinds.pop("noted"), uid=kinds.pop("noted_of", "u1"))
    usual = {
        "namespace": "default",
        "name": "p1",
        "uid": "u1",
        "resource_version": "5",
        "node": "n1",
        "annotations": {key: value for key, value in notes.items() if value is not None},
        "containers": tuple(
            effects_agent.ContainerSeen(name=f"c{place}", asked=asked)
            for place, asked in enumerate(asks)
        ),
    }
    return effects_agent.PodSeen(**{**usual, **kinds})


def note(containers: Any, *, uid: str = "u1") -> str:
    """Return the note of ids by container on the pod of that UID."""
    return compact({"uid": uid, "containers": containers})


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def write(version: str = "5", **changes: Any) -> effects_agent.PatchPod:
    """Return the write of one pod: ``left`` to allocate, ``noted`` ids, bind ``phase``."""
    names = {"left": TO_ALLOCATE, "noted": DEVICE_IDS, "phase": PHASE}
    notes = {
        names[name]: note(value) if name == "noted" else value for name, value in changes.items()
    }
    return effects_agent.PatchPod(
        namespace="default", name="p1", annotations=notes, uid="u1", resource_version=version
    )


def prepare(seen: Any, *, container: str = "c0") -> serve.Prepare:
    """Return the order to make what the pod's next container is given."""
    segment = pod_devices.next_segment(seen.annotations[TO_ALLOCATE])
    assert segment is not None, "nothing is left to allocate"
    return serve.Prepare(pod=seen, container=container, shares=segment.decode())


def unlock(version: str = "7") -> effects_agent.PatchNode:
    return effects_agent.PatchNode(name="n1", resource_version=version, annotations={LOCK: None})
