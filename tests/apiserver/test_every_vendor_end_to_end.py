"""One pod for every vendor, and pods of several vendors, on the real control plane (issue 4).

Everything is read from the API server. What must stand there at the end is
written out by hand from what HAMi's back ends write and the vendors' plugins
leave; the operator and the simulated nodes run for all tests of this file.
"""

import asyncio
import contextlib
import dataclasses
import datetime
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from support import api_audit, recorded_asks
from support.world import World, world
from vgpu_operator.cli import doctor_reader
from vgpu_operator.flows.doctor import catalogue
from vgpu_operator.kube import paths
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry

pytestmark = pytest.mark.apiserver

Json = dict[str, Any]

NODE_LOCK = "hami.io/mutex.lock"
MLU_LOCK = "cambricon.com/dsmlu.lock"
PHASE = "hami.io/bind-phase"
GPU_LEFT = "hami.io/vgpu-devices-to-allocate"
DCU_LEFT = "hami.io/dcu-devices-to-allocate"
HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One vendor's pod, and what is left of it.

    Attributes:
        limits: what its one container ``main`` asks for.
        name: the vendor's part of its keys ``hami.io/<name>-devices-…``.
        devices: what it is promised; ``{n}`` is the node's name.
        cards: how many the node has.
        own: the vendor's own annotations; a list or an object stands for JSON.
        emptied: whether the plugin takes its entry and writes ``success``.
        asked: whether there is a to-allocate key at all.
        allocated_key: where it does not follow from ``name``.
    """

    limits: Mapping[str, str]
    name: str
    devices: str
    cards: int = 2
    own: Mapping[str, Any] = field(default_factory=dict)
    emptied: bool = True
    asked: bool = True
    allocated_key: str = ""


def ascend(word: str, memory: str, granted: int, template: str = "") -> Case:
    """Return a part of a chip, or a whole one where no template is named."""
    limits = {f"huawei.com/{word}": "1"}
    if memory:
        limits[f"huawei.com/{word}-memory"] = memory
    chosen = {"UUID": f"{word}-{{n}}-1", "memory": granted}
    if template:
        chosen["temp"] = template
    return Case(
        limits=limits,
        name=word,
        devices=f"{word}-{{n}}-1,{word},{granted},0:;",
        own={f"huawei.com/{word}": [chosen]},
    )


def iluvatar(word: str) -> Case:
    """Return 16 units of 256 MiB and half the cores of a card."""
    return Case(
        limits={
            f"iluvatar.ai/{word}-vgpu": "1",
            f"iluvatar.ai/{word}.vMem": "16",
            f"iluvatar.ai/{word}.vCore": "50",
        },
        name=word,
        devices=f"{word}-{{n}}-1,{word},4096,50:;",
    )


CASES: Mapping[str, Case] = {
    "NVIDIA": Case(
        limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        name="vgpu",
        devices="GPU-{n}-1,NVIDIA,3000,30:;",
    ),
    "MLU": Case(
        limits={
            "cambricon.com/vmlu": "1",
            "cambricon.com/mlu.smlu.vmemory": "20",
            "cambricon.com/mlu.smlu.vcore": "10",
        },
        name="cambricon-mlu",
        devices="{n}-cambricon-mlu-1,MLU,5120,10:;",
        own={"CAMBRICON_DSMLU_ASSIGNED": "true", "CAMBRICON_DSMLU_PROFILE": "1_10_20"},
        emptied=False,
    ),
    "DCU": Case(
        limits={"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000", "hygon.com/dcucores": "60"},
        name="dcu",
        devices="DCU-{n}-1,DCU,2000,60:;",
    ),
    "GCU": Case(
        limits={"enflame.com/gcu": "1"},
        name="enflame-gcu",
        devices="{n}-GCU-1,GCU,100,100:;",
        emptied=False,
    ),
    "Enflame": Case(
        limits={"enflame.com/drs-gcu": "3"},
        name="enflame-vgpu",
        devices="{n}-enflame-drs-0,Enflame,20480,50:;",
        cards=1,
        own={
            "enflame.com/gcu-assigned": "true",
            "enflame.com/gcu-assigned-index": "0",
            "enflame.com/gcu-assigned-id": "0",
            "enflame.com/gcu-assigned-minor": "0",
            "enflame.com/gcu-request-size": "3",
            "assigned-containers": {
                "main": {
                    "allocated": True,
                    "request": 3,
                    "profileID": "1",
                    "profileName": "3g.20gb",
                    "instanceID": "0",
                }
            },
        },
        emptied=False,
        asked=False,
    ),
    "Mthreads": Case(
        limits={
            "mthreads.com/vgpu": "1",
            "mthreads.com/sgpu-memory": "32",
            "mthreads.com/sgpu-core": "8",
        },
        name="mthreads-vgpu",
        devices="{n}-mthreads-1,Mthreads,16384,8:;",
        own={"mthreads.com/gpu-index": "1", "mthreads.com/predicate-node": "{n}"},
        emptied=False,
        asked=False,
    ),
    "Metax-GPU": Case(
        limits={"metax-tech.com/gpu": "1"},
        name="metax-gpu",
        devices="{n}-metax-1,Metax-GPU,65536,100:;",
        emptied=False,
    ),
    "Metax-SGPU": Case(
        limits={
            "metax-tech.com/sgpu": "1",
            "metax-tech.com/vcore": "60",
            "metax-tech.com/vmemory": "16",
        },
        name="metax-sgpu",
        devices="MX-{n}-1,Metax-SGPU,16384,60:;",
        own={
            "metax-tech.com/sgpu-qos-policy": "best-effort",
            "metax-tech.com/gpu-devices-allocated": [
                [{"uuid": "MX-{n}-1", "compute": 60, "vRam": 16384}]
            ],
        },
    ),
    "kunlun": Case(
        limits={"kunlunxin.com/xpu": "2"},
        name="",
        devices="{n}-kunlun-0,kunlun,98304,100:{n}-kunlun-1,kunlun,98304,100:;",
        cards=8,
        own={"BAIDU_COM_DEVICE_IDX": "0,1"},
        emptied=False,
        asked=False,
        allocated_key="hami.io/kunlun-allocated",
    ),
    "XPU": Case(
        limits={"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "30000"},
        name="xpu",
        devices="XPU-{n}-0,XPU,49152,50:;",
        cards=1,
    ),
    "AWSNeuron": Case(
        limits={"aws.amazon.com/neuroncore": "1"},
        name="aws-neuron",
        devices="{n}-AWSNeuron-0,AWSNeuron,0,1:;",
        cards=1,
        own={
            "AWS_NEURON_IDS": "0",
            "NEURON_RESOURCE_TYPE": "aws.amazon.com/neuroncore",
            "NEURON_ALLOCATED": "true",
            "aws.amazon.com/predicate-node": "{n}",
        },
        emptied=False,
        asked=False,
    ),
    "AMD": Case(
        limits={"amd.com/gpu": "1", "amd.com/gpumem": "16384", "amd.com/gpucores": "25"},
        name="amd",
        # A quarter of 304 compute units.
        devices="AMD-{n}-1,AMD Instinct MI300X VF,16384,76:;",
    ),
    "Vastai": Case(
        limits={"vastaitech.com/va": "1"}, name="Vastai", devices="VA-{n}-1,Vastai,0,0:;"
    ),
    "Biren": Case(limits={"birentech.com/gpu": "1"}, name="Biren", devices="BR-{n}-1,Biren,0,0:;"),
    "Ascend910A": ascend("Ascend910A", "2000", 2184, "vir02"),
    "Ascend910B2": ascend("Ascend910B2", "8192", 8192, "vir03_1c_8g"),
    "Ascend910B3": ascend("Ascend910B3", "", 65536),
    "Ascend910B4-1": ascend("Ascend910B4-1", "16000", 16384, "vir05_1c_16g"),
    "Ascend910B4": ascend("Ascend910B4", "16384", 16384, "vir10_3c_16g"),
    "Ascend310P": ascend("Ascend310P", "2000", 3072, "vir01"),
    # Its cards come in pairs: one that is asked for becomes two.
    "Ascend910C": Case(
        limits={"huawei.com/Ascend910C": "1"},
        name="Ascend910C",
        devices="Ascend910C-{n}-1,Ascend910C,65536,0:Ascend910C-{n}-0,Ascend910C,65536,0:;",
        own={
            "huawei.com/Ascend910C": [
                {"UUID": "Ascend910C-{n}-1", "memory": 65536},
                {"UUID": "Ascend910C-{n}-0", "memory": 65536},
            ]
        },
    ),
    **{word: iluvatar(word) for word in ("MR-V100", "MR-V50", "BI-V150", "BI-V100")},
}

MIXED_NODES = {
    "mixed-dcu": [{"vendor": "NVIDIA"}, {"vendor": "DCU"}],
    "mixed-mlu": [{"vendor": "NVIDIA"}, {"vendor": "MLU"}],
    "mixed-gcu": [{"vendor": "NVIDIA"}, {"vendor": "GCU"}, {"vendor": "GCU"}],
}
MIG_CARD = {
    "type": "NVIDIA A100-SXM4-40GB",
    "memory": 40960,
    "mode": "mig",
    "migProfiles": [
        {
            "name": "2g.10gb",
            "memory": 10240,
            "cores": 28,
            "slices": 2,
            "placements": [[0, 2], [2, 2], [4, 2]],
        }
    ],
}
PLUGIN_DELAY_S = 0.1
"""How long each Allocate call of a mixed node takes: enough for others to come between."""


def node_of(keyword: str) -> str:
    return f"sim-{keyword.lower()}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def here() -> AsyncIterator[World]:
    """Run a cluster with a node for every vendor and some for several."""
    configured = recorded_asks.EVERY_VENDOR
    nodes = [
        {"name": node_of(keyword), "cards": case.cards, "vendor": keyword}
        for keyword, case in CASES.items()
    ]
    nodes.append({"name": "mig", "cards": [MIG_CARD]})
    nodes += [
        {"name": name, "cards": cards, "delay": PLUGIN_DELAY_S}
        for name, cards in MIXED_NODES.items()
    ]
    async with world(configured=configured) as made, made.simulate(*nodes, round_interval=5.0):
        yield made


def pod_of(name: str, node: str, *containers: Mapping[str, str]) -> Json:
    """Return a pod for that node with a container for each of the limits."""
    names = ("main", *(f"more-{place}" for place in range(1, len(containers))))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {HOST: node},
            "containers": [
                {"name": of, "image": "none", "resources": {"limits": dict(limits)}}
                for of, limits in zip(names, containers, strict=True)
            ],
        },
    }


async def until_running(here: World, *names: str) -> list[Json]:
    """Wait until the kubelet runs all these pods; say so at once when it refuses one."""

    async def all_run() -> list[Json] | None:
        pods = [await here.pod(name) for name in names]
        for pod in pods:
            assert pod["status"]["phase"] != "Failed", pod["status"].get("message")
        return pods if all(pod["status"]["phase"] == "Running" for pod in pods) else None

    pods: list[Json] = await here.until(f"{', '.join(names)} run", all_run)
    return pods


async def until_unlocked(here: World, node: str) -> None:
    async def free() -> bool:
        notes = api_audit.annotations(await here.node(node))
        return not notes.keys() & {NODE_LOCK, MLU_LOCK}

    await here.until(f"{node} is not locked", free)


def read(expected: Any, node: str) -> Any:
    """Return an expected text with the node's name in it; JSON from a list or an object."""
    text = expected if isinstance(expected, str) else json.dumps(expected)
    text = text.replace("{n}", node)
    return text if isinstance(expected, str) else json.loads(text)


@pytest.mark.parametrize("keyword", list(CASES))
async def test_must_hold_4_a_pod_of_every_vendor_reaches_its_end_state(
    here: World, keyword: str
) -> None:
    case, node, name = CASES[keyword], node_of(keyword), f"one-{keyword.lower()}"

    await here.create(pod_of(name, node, case.limits))
    (pod,) = await until_running(here, name)
    await until_unlocked(here, node)

    notes = api_audit.annotations(pod)
    devices = read(case.devices, node)
    left = notes.get(f"hami.io/{case.name}-devices-to-allocate")
    assert pod["spec"]["nodeName"] == node
    assert notes["hami.io/vgpu-node"] == node
    assert notes[case.allocated_key or f"hami.io/{case.name}-devices-allocated"] == devices
    assert notes[PHASE] == ("success" if case.emptied else "allocating")
    if case.emptied:
        assert left is not None
        assert left.strip(";") == ""
    else:
        assert left == (devices if case.asked else None)
    for key, expected in case.own.items():
        wanted = read(expected, node)
        found = notes[key] if isinstance(wanted, str) else json.loads(notes[key])
        if key == "assigned-containers":
            assert found["main"].pop("instanceUUID")
        assert found == wanted


def test_must_hold_4_no_vendor_is_left_out() -> None:
    everything = settings.build(recorded_asks.EVERY_VENDOR)

    assert list(CASES) == [vendor.spec.keyword for vendor in registry.build(everything)]


async def test_must_hold_4_a_pod_with_a_part_of_a_mig_card_reaches_success(here: World) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10000"}

    await here.create(pod_of("one-mig", "mig", limits))
    (pod,) = await until_running(here, "one-mig")
    await until_unlocked(here, "mig")

    notes = api_audit.annotations(pod)
    (instance,) = json.loads(notes["hami.io/vgpu-mig-allocations"])
    assert notes[PHASE] == "success"
    assert notes["hami.io/vgpu-devices-allocated"] == "GPU-mig-0,NVIDIA,10240,28:;"
    assert instance.pop("migUUID").startswith("MIG-")
    assert instance == {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": "GPU-mig-0",
        "profile": "2g.10gb",
        "placement": {"start": 0, "size": 2},
        "gpuInstanceID": 1,
        "computeInstanceID": 0,
    }


@contextlib.asynccontextmanager
async def followed(here: World, names: Sequence[str]) -> AsyncIterator[list[Json]]:
    """Note every state of those pods that a watch shows."""
    states: list[Json] = []
    _, version = await here.kube.list(paths.PODS)

    async def follow() -> None:
        async for event in here.kube.watch(paths.PODS, resource_version=version):
            if event["object"]["metadata"].get("name") in names:
                states.append(event["object"])  # noqa: PERF401  # kept while it is cancelled

    watching = asyncio.create_task(follow())
    try:
        yield states
    finally:
        watching.cancel()


def first_version(states: Sequence[Json], name: str, *, bound: bool, left: Sequence[str]) -> int:
    """Return the version in which a pod first was bound, or had nothing left under some keys."""
    for state in states:
        notes = api_audit.annotations(state)
        if state["metadata"]["name"] != name or not state["spec"].get("nodeName"):
            continue
        if bound or not any(notes.get(key, "").strip(";") for key in left):
            return int(state["metadata"]["resourceVersion"])
    pytest.fail(f"{name} was never {'bound' if bound else 'served'}")


GPU = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
DCU = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000", "hygon.com/dcucores": "10"}
MLU = {
    "cambricon.com/vmlu": "1",
    "cambricon.com/mlu.smlu.vmemory": "4",
    "cambricon.com/mlu.smlu.vcore": "10",
}


async def test_must_hold_4_two_vendors_with_one_lock_serve_a_pod_and_the_next_one(
    here: World,
) -> None:
    # NVIDIA's plugin is done with the first pod, and frees the lock, two calls before Hygon's.
    node, names = "mixed-dcu", ("both", "both-next", "gpu-next")
    async with followed(here, names) as states:
        await here.create(pod_of("both", node, GPU, DCU, DCU))
        await here.create(pod_of("both-next", node, DCU, GPU))
        await here.create(pod_of("gpu-next", node, GPU | {"nvidia.com/gpumem": "3000"}))

        pods = await until_running(here, *names)
        await until_unlocked(here, node)

    gpu, dcu = f"GPU-{node}-0,NVIDIA,1000,0:", f"DCU-{node}-0,DCU,2000,10:"
    expected = {
        "both": (f"{gpu};;;", f";{dcu};{dcu};"),
        "both-next": (f";{gpu};", f"{dcu};;"),
        "gpu-next": (f"GPU-{node}-0,NVIDIA,3000,0:;", None),
    }
    for pod in pods:
        notes, (of_gpu, of_dcu) = api_audit.annotations(pod), expected[pod["metadata"]["name"]]
        assert notes["hami.io/vgpu-devices-allocated"] == of_gpu
        assert notes.get("hami.io/dcu-devices-allocated") == of_dcu
        assert notes[PHASE] == "success"
        assert notes[GPU_LEFT].strip(";") == ""
        assert notes.get(DCU_LEFT, "").strip(";") == ""
    turns = sorted(
        (
            first_version(states, name, bound=True, left=()),
            first_version(states, name, bound=False, left=(GPU_LEFT, DCU_LEFT)),
        )
        for name in names
    )
    for (_, served), (bound, _) in itertools.pairwise(turns):
        assert served < bound, "a pod was bound while another one still waited for a plugin"


async def test_must_hold_4_a_vendor_with_its_own_lock_serves_a_pod_and_the_next_one(
    here: World,
) -> None:
    node, names = "mixed-mlu", ("own-lock", "own-lock-next", "mlu-next", "gpu-after")
    await here.create(pod_of("own-lock", node, GPU, MLU))
    await here.create(pod_of("own-lock-next", node, MLU | GPU))
    await here.create(pod_of("mlu-next", node, MLU))
    await here.create(pod_of("gpu-after", node, GPU))

    pods = await until_running(here, *names)
    await until_unlocked(here, node)

    gpu, mlu = f"GPU-{node}-0,NVIDIA,1000,0:", f"{node}-cambricon-mlu-0,MLU,1024,10:"
    expected = {
        "own-lock": (f"{gpu};;", f";{mlu};"),
        "own-lock-next": (f"{gpu};", f"{mlu};"),
        "mlu-next": (None, f"{mlu};"),
        "gpu-after": (f"{gpu};", None),
    }
    for pod in pods:
        notes, (of_gpu, of_mlu) = api_audit.annotations(pod), expected[pod["metadata"]["name"]]
        assert notes.get("hami.io/vgpu-devices-allocated") == of_gpu
        assert notes.get("hami.io/cambricon-mlu-devices-allocated") == of_mlu
        assert notes.get(GPU_LEFT, "").strip(";") == ""
        assert notes[PHASE] == ("success" if of_gpu else "allocating")
        assert notes.get("CAMBRICON_DSMLU_ASSIGNED") == ("true" if of_mlu else None)


async def test_must_hold_4_a_vendor_without_lock_delays_nobody_behind_a_mixed_pod(
    here: World,
) -> None:
    node, names = "mixed-gcu", ("half-locked", "half-locked-next")
    card = {"enflame.com/gcu": "1"}
    await here.create(pod_of("half-locked", node, GPU | card))
    await here.create(pod_of("half-locked-next", node, GPU | card))

    pods = await until_running(here, *names)
    await until_unlocked(here, node)

    for pod in pods:
        notes = api_audit.annotations(pod)
        assert notes[PHASE] == "success"
        assert notes[GPU_LEFT].strip(";") == ""
    given = {api_audit.annotations(pod)["hami.io/enflame-gcu-devices-allocated"] for pod in pods}
    assert given == {f"{node}-GCU-{index},GCU,100,100:;" for index in range(2)}


async def test_must_hold_4_nothing_is_left_wrong_at_the_end(here: World) -> None:
    assert [pod for pod in await here.pods() if pod["status"]["phase"] == "Failed"] == []
    assert await here.events("NodeLockStuck") == []
    assert await here.events("RegisterUnreadable") == []
    await here.assert_sound()

    # A look long after everything has been served: nothing is known to be wrong.
    reader = doctor_reader.Reader(here.kube, settings.build(recorded_asks.EVERY_VENDOR))
    cluster, _ = await reader.read()
    later = dataclasses.replace(cluster, now=cluster.now + datetime.timedelta(hours=1))
    report = catalogue.examine(later)
    assert [(one.signature, str(one.place), one.evidence) for one in report.findings] == []
