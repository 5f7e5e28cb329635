"""Nodes and pods in the forerunner's dialect, and in both."""

from typing import Any

import pytest

from support.pods import container, pod
from vgpu_operator.model import allocation, records, settings
from vgpu_operator.vendors import records as readers
from vgpu_operator.vendors import registry

VENDORS = registry.build(settings.Settings())
BY_KEYWORD = {vendor.spec.keyword: vendor for vendor in VENDORS}

TWO_V100 = (
    "GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
    "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
)
V100 = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
WALK_THROUGH = f"{V100},NVIDIA,3000,0:{V100},NVIDIA,5000,0:"
OTHER = "GPU-x,1,1000,100,NVIDIA A10,0,true:"


def node_of(**annotations: str) -> records.NodeRecord:
    raw = {"metadata": {"name": "node67-4v100", "annotations": annotations}}
    return readers.node_record(raw, VENDORS)


def pod_of(*containers: dict[str, Any], node: str = "node67-4v100", **annotations: str) -> Any:
    raw = pod(*containers, annotations=annotations, nodeName=node)
    return readers.pod_record(raw, VENDORS, aliases={})


def forerunner(**texts: str) -> dict[str, str]:
    return {
        f"4pd.io/{name.replace('_', '-')}": text
        for name, text in ({"vgpu_node": "node67-4v100"} | texts).items()
    }


def share(memory_mib: int, device_id: str = V100, word: str = "NVIDIA") -> allocation.DeviceShare:
    return allocation.DeviceShare(
        device_id=device_id, vendor_word=word, memory_mib=memory_mib, cores_percent=0
    )


# --- nodes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("register", "handshake"),
    [
        ("4pd.io/node-nvidia-register", "4pd.io/node-handshake"),
        ("HAMi.sh/node-register-nvidia", "HAMi.sh/node-handshake-nvidia"),
        ("HAMi.sh/node-nvidia-register", "HAMi.sh/node-handshake-nvidia"),
    ],
)
def test_a_nodes_dialect_is_seen_from_the_key_that_it_registers_with(
    register: str, handshake: str
) -> None:
    node = node_of(**{register: TWO_V100, handshake: "Reported_2024.01.12 10:19:56"})

    assert node.older == {"NVIDIA": records.OlderKeys(register=register, handshake=handshake)}
    assert node.registers == {"NVIDIA": TWO_V100}
    assert node.handshakes == {"NVIDIA": "Reported_2024.01.12 10:19:56"}
    cards = readers.decode_register(node, BY_KEYWORD["NVIDIA"], TWO_V100).devices
    assert [(card.id[:12], card.slots, card.memory_mib) for card in cards] == [
        ("GPU-00552014", 10, 32768),
        ("GPU-0fc3eda5", 10, 32768),
    ]


def test_where_a_node_registers_in_both_dialects_todays_wins_and_counts_once() -> None:
    node = node_of(
        **{
            "4pd.io/node-nvidia-register": OTHER,
            "4pd.io/node-handshake": "Reported_2024.01.12 10:19:56",
            "hami.io/node-nvidia-register": TWO_V100,
        }
    )

    assert node.older == {}
    assert node.registers == {"NVIDIA": TWO_V100}
    assert node.handshakes == {}


def test_a_fault_in_an_older_register_text_names_the_key_that_it_stands_under() -> None:
    node = node_of(**{"4pd.io/node-nvidia-register": f"{OTHER}broken:"})

    read = readers.decode_register(node, BY_KEYWORD["NVIDIA"], node.registers["NVIDIA"])

    assert [card.id for card in read.devices] == ["GPU-x"]
    assert "4pd.io/node-nvidia-register, segment 1" in str(read.faults[0])


def test_every_vendor_of_the_forerunner_registers_by_annotation() -> None:
    node = node_of(
        **{
            "4pd.io/node-dcu-register": "DCU-0,30,16384,60,DCU-Z100,0,true:",
            "4pd.io/node-mlu-register": "MLU-0,10,23308,0,MLU-MLU370-X4,0,true:",
        }
    )

    found = {
        keyword: readers.decode_register(node, BY_KEYWORD[keyword], text).devices[0].memory_mib
        for keyword, text in node.registers.items()
    }
    assert found == {"DCU": 16384, "MLU": 23308}


OLD_MLU = "MLU-0,10,23308,0,MLU-MLU370-X4,0,true:"
CORES, MEMORY = "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory"


@pytest.mark.parametrize(
    ("offered", "register", "older", "count"),
    [
        ({}, OLD_MLU, True, None),
        ({"cambricon.com/vmlu": "10"}, OLD_MLU, True, 10),
        ({CORES: "0", MEMORY: "0", "cambricon.com/vmlu": "10"}, OLD_MLU, True, 10),
        ({CORES: "100", MEMORY: "80"}, f"{CORES}=100,{MEMORY}=80", False, 100),
        ({CORES: "broken"}, f"{CORES}=broken", False, None),
    ],
    ids=[
        "annotation only",
        "counted",
        "plugin of today gone",
        "plugin of today runs",
        "unreadable",
    ],
)
def test_mlus_capacity_is_its_register_of_today_unless_it_is_zero(
    offered: dict[str, str], register: str, older: bool, count: int | None
) -> None:
    raw = {
        "metadata": {"name": "node-a", "annotations": {"4pd.io/node-mlu-register": OLD_MLU}},
        "status": {"capacity": offered, "allocatable": offered},
    }

    node = readers.node_record(raw, VENDORS)

    assert node.registers == {"MLU": register}
    assert ("MLU" in node.older) is older
    assert node.allocatable.get("MLU") == count


def test_a_node_without_mlus_in_either_dialect_has_none_of_the_older_one() -> None:
    raw = {
        "metadata": {"name": "node-a", "annotations": {}},
        "status": {"capacity": {CORES: "0"}, "allocatable": {CORES: "0"}},
    }

    node = readers.node_record(raw, VENDORS)

    assert node.registers == {"MLU": f"{CORES}=0"}
    assert node.older == {}


def test_a_lock_of_the_forerunner_is_seen() -> None:
    assert node_of(**{"4pd.io/mutex.lock": "2024-01-12T10:20:00Z"}).locks == {
        "4pd.io/mutex.lock": "2024-01-12T10:20:00Z"
    }


# --- pods ------------------------------------------------------------------------


def test_the_walk_throughs_pod_holds_what_its_two_containers_were_promised() -> None:
    record = pod_of(
        container("a", gpu=1, mem=3000),
        container("b", gpu=1, mem=5000),
        **forerunner(
            devices_to_allocate=WALK_THROUGH,
            vgpu_ids_new=WALK_THROUGH,
            vgpu_time="1705054796",
            bind_phase="allocating",
            bind_time="1705054797",
        ),
    )

    assert record.promised_node == "node67-4v100"
    assert record.promised == {"NVIDIA": ((share(3000),), (share(5000),))}
    assert record.to_allocate == {"NVIDIA"}
    assert record.bind_phase is records.BindPhase.ALLOCATING
    assert record.bind_time_s == 1705054797
    assert record.faults == {}


@pytest.mark.parametrize("left", ["", ";", ":;"])
def test_a_served_pod_has_nothing_left_to_allocate(left: str) -> None:
    record = pod_of(
        container(gpu=1, mem=3000),
        **forerunner(
            devices_to_allocate=left,
            vgpu_ids_new=f"{V100},NVIDIA,3000,0:",
            bind_phase="success",
        ),
    )

    assert record.to_allocate == frozenset()
    assert record.bind_phase is records.BindPhase.SUCCESS
    assert record.promised == {"NVIDIA": ((share(3000),),)}


def test_one_text_serves_all_vendors_and_each_finds_its_own_by_the_word() -> None:
    dcu = {"name": "b", "resources": {"limits": {"hygon.com/dcunum": "1"}}}
    text = f"{V100},NVIDIA,3000,0:;DCU-0,DCU,500,0:"
    record = pod_of(
        container("a", gpu=1, mem=3000),
        dcu,
        **forerunner(vgpu_ids_new=text, devices_to_allocate=f";{text.partition(';')[2]}"),
    )

    assert record.promised == {
        "NVIDIA": ((share(3000),), ()),
        "DCU": ((), (share(500, "DCU-0", "DCU"),)),
    }
    assert record.to_allocate == {"DCU"}


def test_an_unreadable_entry_and_an_unknown_word_are_faults_of_the_vendors_that_are_asked() -> None:
    broken = pod_of(container(gpu=1), **forerunner(vgpu_ids_new="GPU-a,NVIDIA,lots,0:"))
    unknown = pod_of(container(gpu=1), **forerunner(vgpu_ids_new="GPU-a,TPU,5,0:"))

    assert "4pd.io/vgpu-ids-new" in str(broken.faults["NVIDIA"])
    assert "'TPU' names no vendor" in str(unknown.faults["NVIDIA"])
    assert set(broken.faults) == set(unknown.faults) == {"NVIDIA"}


def test_the_promise_for_the_node_that_the_pod_is_on_beats_a_left_over_one() -> None:
    left_over = {
        "hami.io/vgpu-node": "elsewhere",
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-devices-allocated": "GPU-b,NVIDIA,1,0:;",
        "hami.io/vgpu-devices-to-allocate": "GPU-b,NVIDIA,1,0:;",
    }
    own = forerunner(
        vgpu_ids_new=f"{V100},NVIDIA,3000,0:", bind_phase="failed", devices_to_allocate=""
    )

    record = pod_of(container(gpu=1, mem=3000), **left_over, **own)

    assert record.promised_node == "node67-4v100"
    assert record.promised == {"NVIDIA": ((share(3000),),)}
    assert record.bind_phase is records.BindPhase.FAILED
    assert record.to_allocate == frozenset()


def test_a_pod_in_both_dialects_is_served_when_both_plugins_are_done() -> None:
    both = {
        "hami.io/vgpu-node": "node67-4v100",
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-devices-allocated": f"{V100},NVIDIA,3000,0:;;",
        "hami.io/vgpu-devices-to-allocate": ";;",
    } | forerunner(vgpu_ids_new=";DCU-0,DCU,500,0:", devices_to_allocate=";DCU-0,DCU,500,0:")
    dcu = {"name": "b", "resources": {"limits": {"hygon.com/dcunum": "1"}}}

    def phase_with(text: str) -> Any:
        return pod_of(container(gpu=1), dcu, **both, **{"4pd.io/bind-phase": text})

    assert phase_with("allocating").bind_phase is records.BindPhase.ALLOCATING
    assert phase_with("failed").bind_phase is records.BindPhase.FAILED
    assert phase_with("success").bind_phase is records.BindPhase.SUCCESS
    assert phase_with("allocating").to_allocate == {"DCU"}
    assert set(phase_with("allocating").promised) == {"NVIDIA", "DCU"}


def test_what_a_pod_carries_in_either_dialect_is_known() -> None:
    record = pod_of(
        container(gpu=1), node="", **forerunner(vgpu_ids_new="x"), **{"hami.io/bind-phase": "s"}
    )

    assert record.carried == {"4pd.io/vgpu-node", "4pd.io/vgpu-ids-new", "hami.io/bind-phase"}
