"""How each kind of plugin ends a pod's admission: by entry, by mark, or by the kubelet alone."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from support.agent_world import PHASE, World, pod_path, world

Json = dict[str, Any]
MLU_LOCK = "cambricon.com/dsmlu.lock"
MLU = {"cambricon.com/vmlu": "1"}
NVIDIA = {"nvidia.com/gpu": "1"}
DCU = {"hygon.com/dcunum": "1"}
SLICES = {"enflame.com/drs-gcu": "3"}


def bound(name: str, notes: Mapping[str, str], *limits: Mapping[str, str]) -> Json:
    """Return a pod bound to sim-1 with a container for each of the limits."""
    protocol = {"hami.io/vgpu-node": "sim-1", "hami.io/bind-time": "1768471200"}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {**protocol, PHASE: "allocating", **notes},
        },
        "spec": {
            "nodeName": "sim-1",
            "containers": [
                {"name": f"c{place}", "image": "none", "resources": {"limits": dict(limit)}}
                for place, limit in enumerate(limits)
            ],
        },
        "status": {"phase": "Pending"},
    }


def writes(w: World) -> list[tuple[str, Any]]:
    """Return what the node side has written, status apart."""
    return [
        (r.path.rsplit("/", 1)[1], r.body["metadata"]["annotations"])
        for r in w.kube.requests
        if r.verb == "PATCH" and not r.path.endswith("/status")
    ]


def lock(w: World, key: str, text: str) -> None:
    notes = {**w.node_notes(), key: text}
    w.kube.put("/api/v1/nodes/sim-1", {**w.node(), "metadata": {"annotations": notes}})


async def test_cambricons_plugin_marks_the_pod_and_removes_its_own_lock_only() -> None:
    async with world({"name": "sim-1", "cards": 2, "vendor": "MLU"}) as w:
        lock(w, MLU_LOCK, "2026-01-15T10:00:00Z")
        lock(w, "hami.io/mutex.lock", "2026-01-15T10:00:00Z,default,other")
        notes = {
            "CAMBRICON_DSMLU_ASSIGNED": "false",
            "hami.io/cambricon-mlu-devices-to-allocate": "sim-1-cambricon-mlu-1,MLU,5120,10:;",
        }
        w.kube.put(pod_path("p1"), bound("p1", notes, MLU, MLU))
        await w.until_phase("p1", "Running")

        assert writes(w) == [
            ("p1", {"CAMBRICON_DSMLU_ASSIGNED": "true"}),
            ("sim-1", {MLU_LOCK: None}),
        ]
        assert w.notes("p1")[PHASE] == "allocating"
        assert "hami.io/mutex.lock" in w.node_notes()


@pytest.mark.parametrize(
    ("vendor", "limits"),
    [
        ("GCU", {"enflame.com/gcu": "1"}),
        ("Mthreads", {"mthreads.com/vgpu": "1"}),
        ("Metax-GPU", {"metax-tech.com/gpu": "1"}),
        ("kunlun", {"kunlunxin.com/xpu": "1"}),
    ],
)
async def test_without_lock_and_mark_the_kubelets_admission_is_all(
    vendor: str, limits: Mapping[str, str]
) -> None:
    async with world({"name": "sim-1", "cards": 2, "vendor": vendor}) as w:
        w.kube.put(pod_path("p1"), bound("p1", {}, limits))
        await w.until_phase("p1", "Running")

        assert writes(w) == []


async def test_enflames_plugin_fills_one_entry_a_container_and_then_marks_the_pod() -> None:
    async with world({"name": "sim-1", "cards": 1, "vendor": "Enflame"}) as w:
        entries = {
            name: {"allocated": False, "request": 3, "profileID": "1", "profileName": "3g.20gb"}
            for name in ("c0", "c1")
        }
        notes = {
            "enflame.com/gcu-assigned": "false",
            "assigned-containers": json.dumps(entries, separators=(",", ":")),
        }
        w.kube.put(pod_path("p1"), bound("p1", notes, SLICES, SLICES))
        await w.until_phase("p1", "Running")

        (_, first), (_, second) = writes(w)
        done = [
            [name for name, entry in json.loads(text).items() if entry["allocated"]]
            for text in (first["assigned-containers"], second["assigned-containers"])
        ]
        assert done == [["c0"], ["c0", "c1"]]
        assert "enflame.com/gcu-assigned" not in first
        assert second["enflame.com/gcu-assigned"] == "true"


async def test_two_vendors_of_a_container_are_called_one_after_the_other() -> None:
    cards = [{"vendor": "NVIDIA"}, {"vendor": "DCU"}]
    async with world({"name": "sim-1", "cards": cards}) as w:
        w.lock("2026-01-15T10:00:00Z,default,p1")
        gpu, dcu = "hami.io/vgpu-devices-to-allocate", "hami.io/dcu-devices-to-allocate"
        notes = {gpu: "GPU-sim-1-0,NVIDIA,1,1:;", dcu: "DCU-sim-1-0,DCU,2,2:;"}
        w.kube.put(pod_path("p1"), bound("p1", notes, NVIDIA | DCU))
        await w.until_phase("p1", "Running")

        # Each knows its own key only: the first frees the lock for both.
        assert writes(w) == [
            ("p1", {gpu: ";;"}),
            ("p1", {PHASE: "success"}),
            ("sim-1", {"hami.io/mutex.lock": None}),
            ("p1", {dcu: ";;"}),
            ("p1", {PHASE: "success"}),
        ]


@pytest.mark.parametrize(
    ("vendor", "limits", "notes"),
    [
        ("GCU", {"enflame.com/gcu": "1"}, {}),
        ("MLU", MLU, {"CAMBRICON_DSMLU_ASSIGNED": "false"}),
    ],
)
async def test_a_vanished_or_failing_plugin_has_the_kubelet_reject_and_writes_nothing(
    vendor: str, limits: Mapping[str, str], notes: Mapping[str, str]
) -> None:
    async with world({"name": "sim-1", "cards": 1, "vendor": vendor}) as w:
        w.sim.node("sim-1").set_failure(fail=True)
        w.kube.put(pod_path("p1"), bound("p1", notes, limits))
        await w.until_phase("p1", "Failed")
        assert writes(w) == []

        await w.sim.node("sim-1").vanish()
        w.kube.put(pod_path("p2"), bound("p2", notes, limits))
        await w.until_phase("p2", "Failed")

        (resource,) = limits
        assert f"cannot allocate unhealthy devices {resource}" in w.pod("p2")["status"]["message"]


async def test_a_pod_that_was_marked_before_the_agent_started_just_runs() -> None:
    async with world({"name": "sim-1", "cards": 1, "vendor": "MLU"}) as w:
        w.kube.put(pod_path("p1"), bound("p1", {"CAMBRICON_DSMLU_ASSIGNED": "true"}, MLU))
        await w.until_phase("p1", "Running")

        assert writes(w) == []


async def test_cores_alone_have_the_neuron_plugin_called() -> None:
    async with world({"name": "sim-1", "cards": 1, "vendor": "AWSNeuron"}) as w:
        limits = {"aws.amazon.com/neuroncore": "1"}
        w.kube.put(pod_path("p1"), bound("p1", {"NEURON_ALLOCATED": "false"}, limits))
        await w.until_phase("p1", "Running")

        assert writes(w) == [("p1", {"NEURON_ALLOCATED": "true"})]
