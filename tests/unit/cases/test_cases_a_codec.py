"""Reported cases 1 to 18: register texts, pod annotations, the lock's text, quantities.

Cases 1, 3, 4, 14 and 16 are also tested where their code is (``flows``).
"""

import pytest

from support import case_cluster
from support.case_cluster import ALLOCATED, TO_ALLOCATE, CaseCluster, allocated, asks, node, pod
from vgpu_operator.model import errors
from vgpu_operator.vendors import base
from vgpu_operator.wire import node_lock, node_register, pod_devices


def shown(text: str, containers: int) -> list[list[str]]:
    """Return the card ids of a pod's text, container by container; nothing may be unreadable."""
    read = pod_devices.decode_pod_devices(text, key=ALLOCATED, containers=containers)
    assert read.faults == ()
    return [[share.device_id for share in entry] for entry in read.shares]


def plain(name: str) -> case_cluster.Json:
    return {"name": name, "image": "busybox"}


def test_case_1_five_containers_of_which_one_has_a_card_give_five_segments() -> None:
    cluster = CaseCluster(node(*case_cluster.REG1))
    others = [plain(f"c{number}") for number in (0, 2, 3, 4)]

    placed = cluster.place(pod("p1", others[0], asks(1, 1000, name="c1"), *others[1:]))

    assert allocated(placed) == ";GPU-a0,NVIDIA,1000,0:;;;;"
    assert shown(";,,0,0:;GPU-a0,NVIDIA,1000,0:;", 3) == [[], [], ["GPU-a0"]]


def test_case_3_the_empty_slot_in_the_middle_stays_through_writing_and_reading() -> None:
    cluster = CaseCluster(node(*case_cluster.REG1))

    placed = cluster.place(
        pod("p1", asks(1, 1000, name="c0"), plain("c1"), asks(1, 2000, name="c2"))
    )

    text = allocated(placed)
    assert text == "GPU-a0,NVIDIA,1000,0:;;GPU-a0,NVIDIA,2000,0:;"
    assert shown(text, 3) == [["GPU-a0"], [], ["GPU-a0"]]


def test_case_4_the_slots_of_init_containers_come_first() -> None:
    cluster = CaseCluster(node(*case_cluster.REG1))
    apps = [asks(1, 2000, name=name) for name in ("one", "two")]

    placed = cluster.place(pod("p1", *apps, init=(plain("init"),)))

    assert allocated(placed) == ";GPU-a0,NVIDIA,2000,0:;GPU-a0,NVIDIA,2000,0:;"


def test_case_6_a_bad_number_in_a_register_text_costs_its_card_and_no_other() -> None:
    broken = "GPU-a0,10,24x,100,NVIDIA-A10,0,true:"
    good = "GPU-a1,10,24576,100,NVIDIA-A10,0,true:"

    cluster = CaseCluster(node(text=broken + good), node(text=broken, name="node-b"))

    assert [one.id for one in cluster.cards()] == ["GPU-a1"]
    assert cluster.cards(name="node-b") == ()
    with pytest.raises(errors.DecodeError, match="24x"):
        node_register.decode_register(broken, key=case_cluster.REGISTER)


def test_case_6_a_bad_number_in_a_pods_text_closes_the_node_for_that_vendor() -> None:
    old = case_cluster.running("old", asks(1, 1000), promised="GPU-a0,NVIDIA,abc,0:;")
    cluster = CaseCluster(node(*case_cluster.REG1), pods=(old,))

    placed = cluster.place(pod("p1", asks(1, 100)))

    assert "what a pod there holds of NVIDIA cannot be read" in cluster.reason(placed)


def test_case_8_json_and_both_colon_forms_of_the_register_text_are_read() -> None:
    nine = "GPU-a0,10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3,0,true,1,hami-core:"
    seven = "GPU-a0,10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3,0,true:"
    as_json = case_cluster.card(devmem=81559, type="NVIDIA-NVIDIA H100 80GB HBM3", index=1)

    read = [
        CaseCluster(one).cards()[0] for one in (node(text=nine), node(as_json), node(text=seven))
    ]

    assert [(one.index, one.mode) for one in read] == [
        (1, "hami-core"),
        (1, "hami-core"),
        (0, "hami-core"),
    ]
    assert {one.type for one in read} == {"NVIDIA-NVIDIA H100 80GB HBM3"}
    assert {one.memory_mib for one in read} == {81559}


def test_case_9_six_fields_are_an_error_under_a_hami_key_and_nothing_under_volcanos() -> None:
    six = "GPU-a0,10,32768,NVIDIA-Tesla V100,true,hami-core:"

    ours = CaseCluster(node(text=six))
    volcanos = CaseCluster(node(notes={"volcano.sh/node-vgpu-register": six}))

    with pytest.raises(errors.DecodeError):
        node_register.decode_register(six, key=case_cluster.REGISTER)
    assert (ours.cards(), volcanos.cards()) == ((), ())
    assert ours.books.registrations["node-a", "NVIDIA"].reported_fault
    assert volcanos.books.registrations == {}


@pytest.mark.parametrize("registered", ["NVIDIA-NVIDIA T1000 8GB", "NVIDIA-T1000 8GB"])
def test_case_10_a_type_keeps_its_spaces_and_is_found_by_a_part_of_it(registered: str) -> None:
    cluster = CaseCluster(node(case_cluster.card(type=registered)))

    def choosing(words: str) -> case_cluster.Json:
        return pod(words, asks(1, 100), notes={"nvidia.com/use-gputype": words})

    assert cluster.cards()[0].type == registered
    assert cluster.place(choosing("t1000 8gb")).node == "node-a"
    assert cluster.reason(cluster.place(choosing("T1000-8GB"))) == "1/1 CardTypeMismatch"


def test_case_11_every_device_of_a_container_counts() -> None:
    text = "GPU-a0,NVIDIA,2000,10:GPU-a1,NVIDIA,3000,20:;"
    old = case_cluster.running("old", asks(2, 3000, 20), promised=text)

    cluster = CaseCluster(node(*case_cluster.REG2), pods=(old,))

    assert shown(text, 1) == [["GPU-a0", "GPU-a1"]]
    used = cluster.used()
    assert used == {"GPU-a0": (1, 2000, 10), "GPU-a1": (1, 3000, 20)}
    assert [sum(amounts) for amounts in zip(*used.values(), strict=True)] == [2, 5000, 30]


def test_case_12_memory_with_a_suffix_is_refused_and_fits_nowhere_past_the_webhook() -> None:
    raw = pod("p1", asks(1, "16Gi"))
    cluster = CaseCluster(node(*case_cluster.REG1))

    verdict = cluster.admit(raw)

    assert not verdict.allowed
    assert verdict.message.startswith("container main: nvidia.com/gpumem: '16Gi' is more than ")
    assert "16384" in verdict.message, "what was meant, in MiB"
    assert "16Gi" in cluster.reason(cluster.place_past_admission(raw))


def test_case_14_a_lock_of_two_parts_is_malformed() -> None:
    with pytest.raises(errors.DecodeError, match=r"hami\.io/mutex\.lock"):
        node_lock.decode_lock("2026-02-11T08:00:00Z,team-a", key="hami.io/mutex.lock")


def test_case_16_what_is_still_to_allocate_is_not_counted_a_second_time() -> None:
    text = "GPU-a0,NVIDIA,2000,0:;"
    old = case_cluster.running("old", asks(1, 2000), promised=text)
    old["metadata"]["annotations"] |= {TO_ALLOCATE: text, "hami.io/bind-phase": "success"}

    cluster = CaseCluster(node(*case_cluster.REG1), pods=(old,))

    assert cluster.used() == {"GPU-a0": (1, 2000, 0)}


def test_case_18_each_vendor_has_its_own_pod_keys_with_a_slot_for_every_container() -> None:
    mlu = {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "4"}
    offered = {"cambricon.com/mlu.smlu.vcore": "100", "cambricon.com/mlu.smlu.vmemory": "96"}
    cluster = CaseCluster(
        node(
            *case_cluster.REG1,
            allocatable={"nvidia.com/gpu": "10", **offered},
            capacity=offered,
        )
    )

    placed = cluster.place(
        pod("p1", asks(1, 1000, name="c0"), case_cluster.limited(mlu, name="c1"))
    )

    assert placed.bound is not None
    texts = {
        key: text for key, text in placed.bound.annotations.items() if key.startswith("hami.io/")
    }
    nvidia, cambricon = "GPU-a0,NVIDIA,1000,0:;;", ";node-a-cambricon-mlu-0,MLU,1024,100:;"
    assert (texts[TO_ALLOCATE], texts[ALLOCATED]) == (nvidia, nvidia)
    assert texts["hami.io/cambricon-mlu-devices-to-allocate"] == cambricon
    assert texts["hami.io/cambricon-mlu-devices-allocated"] == cambricon
    assert sum("devices" in key for key in texts) == 4


def test_case_18_the_keys_are_those_of_the_table() -> None:
    specs: dict[str, base.VendorSpec] = {
        vendor.spec.keyword: vendor.spec for vendor in CaseCluster().vendors
    }

    assert specs["NVIDIA"].allocated_key == "hami.io/vgpu-devices-allocated"
    assert specs["NVIDIA"].handshake_key == "hami.io/node-handshake"
    assert {word: specs[word].to_allocate_key for word in ("NVIDIA", "MLU", "DCU")} == {
        "NVIDIA": "hami.io/vgpu-devices-to-allocate",
        "MLU": "hami.io/cambricon-mlu-devices-to-allocate",
        "DCU": "hami.io/dcu-devices-to-allocate",
    }
    # Moore Threads' to-allocate key is reserved, and nobody writes it.
    assert specs["Mthreads"].to_allocate_key is None
    assert specs["Mthreads"].allocated_key == "hami.io/mthreads-vgpu-devices-allocated"
