"""HAMi's series under today's and earlier names, HAMi-WebUI's, quotas, MIG, and AMD's units."""

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import parser

from support import clusters
from support.operator_books import bound, open_books, pending, put_node, register_text
from vgpu_operator.flows import books, quotas, shown_nodes
from vgpu_operator.metrics import card_families, cards_page, kept, older_families
from vgpu_operator.model import quota, records, request
from vgpu_operator.vendors import mig

CARD = {"zone": "vGPU", "node": "node-a", "device_uuid": "GPU-a0", "device_index": "0"}
CARD_TYPE = "NVIDIA-NVIDIA A10"
OLDER_CARD = {"zone": "vGPU", "nodeid": "node-a", "deviceuuid": "GPU-a0", "deviceidx": "0"}

Samples = dict[str, list[tuple[Mapping[str, str], float]]]


def samples(held: books.Books) -> Samples:
    """Return the page's samples by name."""

    async def read() -> bytes:
        return b"".join([piece async for piece in cards_page.pieces(held)])

    found: Samples = {}
    for family in parser.text_string_to_metric_families(asyncio.run(read()).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def one_pod(**values: Any) -> books.Books:
    """Return a card of 24,576 MiB of which a pod holds 6,144 MiB and 30 cores."""
    held = open_books(**values)
    put_node(held)
    shares = ((clusters.share("GPU-a0", 6144, 30),),)
    pod = pending("p1", clusters.asks(memory_mib=6144, cores_percent=30))
    held.ledger.observe(bound(pod, promised={"NVIDIA": shares}))
    return held


LEGACY = {"metrics": {"legacyNames": True}}
WEB_UI = {"metrics": {"webUiNames": True}}

MIB_6144 = 6442450944
MIB_24576 = 25769803776


def test_the_overview_has_its_totals_as_labels_in_mib() -> None:
    found = samples(one_pod())

    totals = {"device_type": CARD_TYPE, "device_cores": "100", "device_memory_limit": "24576"}
    assert found["hami_node_gpu_overview"] == [(CARD | totals, MIB_6144)]


def test_no_other_name_is_there_unless_it_is_asked_for() -> None:
    found = samples(one_pod())

    assert not [name for name in found if not name.startswith(("hami_", "vgpu_"))]
    assert not [name for name in found if name.startswith(("hami_vgpu_count", "hami_pool"))]


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("GPUDeviceMemoryLimit", {"devicetype": CARD_TYPE}, MIB_24576),
        ("GPUDeviceCoreLimit", {"devicetype": CARD_TYPE}, 100),
        (
            "GPUDeviceMemoryAllocated",
            {"devicetype": CARD_TYPE, "devicecores": "100"},
            MIB_6144,
        ),
        ("GPUDeviceCoreAllocated", {"devicetype": CARD_TYPE}, 30),
        ("GPUDeviceSharedNum", {"devicetype": CARD_TYPE}, 1),
        (
            "nodeGPUOverview",
            {"devicetype": CARD_TYPE, "devicecores": "100", "devicememorylimit": "24576"},
            MIB_6144,
        ),
        ("nodeGPUMemoryPercentage", {}, 0.25),
    ],
)
def test_a_card_has_its_earlier_names_and_labels_too(
    name: str, labels: Mapping[str, str], value: float
) -> None:
    found = samples(one_pod(**LEGACY))

    assert found[name] == [({**OLDER_CARD, **labels}, value)]
    assert "hami_gpu_memory_limit_bytes" in found


def test_a_share_has_its_earlier_names_and_labels_too() -> None:
    found = samples(one_pod(**LEGACY))

    labels = {
        "zone": "vGPU",
        "podnamespace": "team-a",
        "nodename": "node-a",
        "podname": "p1",
        "containeridx": "0",
        "deviceuuid": "GPU-a0",
    }
    assert found["vGPUMemoryAllocated"] == [(labels, MIB_6144)]
    assert found["vGPUCoreAllocated"] == [(labels, 30)]


WEB_CARD = {"node": "node-a", "provider": "NVIDIA", "devicetype": CARD_TYPE, "deviceuuid": "GPU-a0"}
WEB_CARD |= {"device_type": CARD_TYPE, "device_uuid": "GPU-a0"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hami_vgpu_count", 10),
        ("hami_vmemory_size", 24576),
        ("hami_memory_size", 24576),
        ("hami_vcore_size", 100),
        ("hami_core_size", 100),
        ("hami_vcore_scaling", 1),
        ("hami_vmemory_scaling", 1),
    ],
)
def test_a_card_has_the_names_of_the_web_ui(name: str, value: float) -> None:
    found = samples(one_pod(**WEB_UI))

    assert found[name] == [(WEB_CARD | {"driver_version": "", "device_no": "0"}, value)]


def test_a_share_and_a_pool_have_the_names_of_the_web_ui() -> None:
    found = samples(one_pod(**WEB_UI))

    pod = {"pod_name": "p1", "container_name": "main", "namespace_name": "team-a"}
    labels = WEB_CARD | pod | {"container_pod_uuid": "main:uid-of-p1"}
    assert found["hami_container_vgpu_allocated"] == [(labels, 1)]
    assert found["hami_container_vmemory_allocated"] == [(labels, 6144)]
    assert found["hami_container_vcore_allocated"] == [(labels, 30)]
    assert found["hami_pool_vgpu_count"] == [({"pool": "nvidia"}, 10)]
    assert found["hami_pool_vmemory_size"] == [({"pool": "nvidia"}, 24576)]
    assert found["hami_pool_vcore_size"] == [({"pool": "nvidia"}, 100)]


def limited(held: books.Books, **limits: int) -> None:
    record = records.QuotaRecord(
        namespace="team-a",
        name="cards",
        uid="quota-1",
        resource_version="1",
        limits={"NVIDIA": quota.Allowance(**limits)},
    )
    quotas.quota_seen(held, record)


def test_a_quota_is_told_in_the_units_of_its_resource_and_a_missing_limit_is_0() -> None:
    held = one_pod(**LEGACY)
    limited(held, memory_mib=20000)

    found = samples(held)

    of = {"zone": "vGPU", "namespace": "team-a"}
    memory, cores = {"quota_name": "nvidia.com/gpumem"}, {"quota_name": "nvidia.com/gpucores"}
    assert found["hami_resource_quota_used"] == [
        (of | memory | {"limit": "20000"}, 6144),
        (of | cores | {"limit": "0"}, 30),
    ]
    assert found["hami_resource_quota_limit"] == [(of | memory, 20000)]
    older = {"zone": "vGPU", "quotanamespace": "team-a", "quotaName": "nvidia.com/gpumem"}
    assert found["QuotaUsed"][0] == (older | {"limit": "20000"}, 6144)


def test_a_limit_of_0_is_a_limit() -> None:
    held = open_books()
    limited(held, cores=0)

    labels = {"zone": "vGPU", "namespace": "team-a", "quota_name": "nvidia.com/gpucores"}
    assert samples(held)["hami_resource_quota_limit"] == [(labels, 0)]


def test_two_instances_of_one_card_in_a_container_are_one_series() -> None:
    held = open_books()
    put_node(held)
    shares = ((clusters.share("GPU-a0", 4864, 14), clusters.share("GPU-a0", 4864, 14)),)
    pod = pending("p1", clusters.asks(2, memory_mib=4864, cores_percent=14))
    held.ledger.observe(bound(pod, promised={"NVIDIA": shares}))

    found = samples(held)

    ((_, memory),) = found["hami_vgpu_memory_allocated_bytes"]
    assert memory == 2 * 4864 * 1024 * 1024


def test_case_143_an_init_container_that_has_ended_shows_no_memory_and_no_cores() -> None:
    held = open_books()
    put_node(held)
    init = clusters.container(
        clusters.asks(memory_mib=8000), kind=request.ContainerKind.INIT, name="init"
    )
    pod = pending("p1", init, clusters.asks(memory_mib=2000))
    shares = ((clusters.share("GPU-a0", 8000),), (clusters.share("GPU-a0", 2000),))
    held.ledger.observe(bound(pod, promised={"NVIDIA": shares}, init_done=True))

    found = samples(held)

    by_name = {
        labels["container"]: value for labels, value in found["hami_vgpu_memory_allocated_bytes"]
    }
    assert by_name == {"init": 0, "main": 2000 * 1024 * 1024}
    ((_, used),) = found["hami_gpu_memory_allocated_bytes"]
    assert used == 2000 * 1024 * 1024


MADE = (
    '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a0","profile":"1g.5gb",'
    '"placement":{"start":6,"size":1}%s}]'
)
IDENTITY = ',"migUUID":"MIG-1","gpuInstanceID":13,"computeInstanceID":0'


@pytest.mark.parametrize("made", [True, False])
def test_a_mig_instance_is_told_once_its_plugin_has_made_it(made: bool) -> None:
    held = open_books(**LEGACY)
    put_node(held, register=register_text(("GPU-a0", 40960)).replace("hami-core", "mig"))
    pod = pending("p1", clusters.asks(memory_mib=4864))
    notes = {mig.ALLOCATIONS_KEY: MADE % (IDENTITY if made else "")}
    wish = dataclasses.replace(pod.request, notes=notes)
    held.ledger.observe(bound(dataclasses.replace(pod, request=wish), memory_mib=4864))

    found = samples(held)

    instance = {
        **CARD,
        "mig_uuid": "MIG-1",
        "profile": "1g.5gb",
        "gpu_instance_id": "13",
        "compute_instance_id": "0",
        "placement_start": "6",
        "placement_size": "1",
    }
    wanted = [(instance, 1)] if made else None
    assert found.get("hami_node_gpu_mig_instance_info") == wanted
    older = [({**OLDER_CARD, "migname": "1g.5gb-13"}, 1)] if made else None
    assert found.get("nodeGPUMigInstance") == older


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([("GPU-a0", "MIG-1", "1g.5gb"), ("GPU-a0", "MIG-2", "1g.5gb")], ["MIG-1"]),
        ([("GPU-a1", "MIG-1", "1g.5gb"), ("GPU-a0", "MIG-2", "1g.5gb")], ["MIG-2"]),
        ([("GPU-a0", "MIG-1", "x" * 65)], []),
        ([("GPU-a0", "M" * 65, "1g.5gb"), ("GPU-a0", "MIG-2", "1g.5gb")], ["MIG-2"]),
    ],
    ids=["more than it holds", "of another card", "a long profile", "a long UUID"],
)
def test_a_pod_whose_text_names_more_instances_than_it_holds_makes_no_more_series(
    texts: list[tuple[str, str, str]], told: list[str]
) -> None:
    held = open_books()
    two = register_text(("GPU-a0", 40960), ("GPU-a1", 40960)).replace("hami-core", "mig")
    put_node(held, register=two)
    pod = pending("p1", clusters.asks(memory_mib=4864))
    named = [
        {
            "containerIndex": 0,
            "deviceIndex": index,
            "gpuUUID": card,
            "profile": profile,
            "placement": {"start": index, "size": 1},
            "migUUID": uuid,
            "gpuInstanceID": index,
            "computeInstanceID": 0,
        }
        for index, (card, uuid, profile) in enumerate(texts)
    ]
    notes = {mig.ALLOCATIONS_KEY: json.dumps(named)}
    wish = dataclasses.replace(pod.request, notes=notes)
    held.ledger.observe(bound(dataclasses.replace(pod, request=wish), memory_mib=4864))

    found = samples(held).get("hami_node_gpu_mig_instance_info", [])

    assert [labels["mig_uuid"] for labels, _ in found] == told


def test_cards_of_which_the_kubelet_offers_none_are_closed_as_the_state_page_says() -> None:
    held = open_books()
    put_node(held, register=register_text(("GPU-a0", 40960)), allocatable=0)

    assert samples(held)["vgpu_cards"] == [({"vendor": "nvidia", "state": "closed"}, 1)]
    ((_, _, _, _, state, *_),) = shown_nodes.card_rows(held, "node-a") or []
    assert state == "closed"


def test_compute_units_of_amd_are_percent_under_the_new_name_and_raw_under_the_old() -> None:
    held = open_books(**LEGACY)
    card = clusters.card("GPU-amd", memory_mib=65536, cores_percent=304, card_type="MI300X")
    put_node(held, register=None)
    held.registrations["node-a", "AMD"] = books.Registration(handshake_seen_at=clusters.LATER)
    held.ledger.set_devices("node-a", "AMD", [card])
    ask = clusters.asks(vendor="AMD", memory_mib=1000, cores_percent=25)
    share = dataclasses.replace(clusters.share("GPU-amd", 1000, 77), vendor_word="AMD")
    held.ledger.observe(bound(pending("p1", ask), promised={"AMD": ((share,),)}))

    found = samples(held)

    def value(name: str) -> float:
        ((_, number),) = found[name]
        return number

    assert value("hami_gpu_core_limit_ratio") == 100
    assert value("GPUDeviceCoreLimit") == 304
    # The promise of 77 units counts as the 76 that 25 % of 304 are at most.
    assert value("GPUDeviceCoreAllocated") == 76
    assert value("hami_gpu_core_allocated_ratio") == 25


def test_cards_are_counted_by_state() -> None:
    held = open_books()
    cards = register_text(("GPU-a0", 1), ("GPU-a1", 1), ("GPU-a2", 1))
    put_node(held, register=cards, cordoned=["GPU-a1"])

    found = samples(held)["vgpu_cards"]

    assert found == [
        ({"vendor": "nvidia", "state": "cordoned"}, 1),
        ({"vendor": "nvidia", "state": "usable"}, 2),
    ]


def test_every_earlier_name_is_that_of_a_family_there_is() -> None:
    today = {family.name for family in kept.HAMI.all} | {card_families.QUOTA_USED.name}

    for older in (*kept.OLDER.all, older_families.QUOTA_USED):
        named = older.help.removeprefix("Earlier name of ").partition(",")[0].removesuffix(".")
        assert named in today
