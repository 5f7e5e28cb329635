"""Reported cases 39 to 53: one card for many, and which cards a pod's rules allow."""

import pytest

from support import case_cluster
from support.case_cluster import REG1, REG2, CaseCluster, allocated, asks, card, node, pod, taken

A10, A100 = case_cluster.A10, "NVIDIA-NVIDIA A100"
TWO_TYPES = node(card(type=A10), card("GPU-a1", index=1, type=A100))
TYPE, NOT_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
UUID, NOT_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"


def choosing(name: str = "p1", **texts: str) -> case_cluster.Json:
    """Return a small pod with these rules which cards may serve."""
    words = {"use": TYPE, "nouse": NOT_TYPE, "use_id": UUID, "nouse_id": NOT_UUID}
    return pod(name, asks(1, 100), notes={words[word]: text for word, text in texts.items()})


def test_case_39_a_later_container_sees_what_an_earlier_one_took() -> None:
    small = [one | {"devmem": 10240} for one in REG2]
    raw = pod("p1", asks(1, 10240, name="c0"), asks(1, 1024, name="c1"))

    two = CaseCluster(node(*small)).place(raw)
    one_card = CaseCluster(node(small[0]))

    (first,), (second,) = taken(two)
    assert {first, second} == {"GPU-a0", "GPU-a1"}
    assert one_card.reason(one_card.place(raw)) == "1/1 CardInsufficientMemory"


MLU = case_cluster.limited({"cambricon.com/vmlu": "1"}, name="c1")
OFFERED = {"cambricon.com/mlu.smlu.vcore": "100", "cambricon.com/mlu.smlu.vmemory": "96"}


def test_case_41_a_first_container_without_a_device_is_an_empty_slot() -> None:
    cluster = CaseCluster(node(allocatable=OFFERED, capacity=OFFERED))

    placed = cluster.place(pod("p1", {"name": "c0", "image": "busybox"}, MLU))

    assert placed.bound is not None
    assert placed.bound.annotations["hami.io/cambricon-mlu-devices-allocated"] == (
        ";node-a-cambricon-mlu-0,MLU,24576,100:;"
    )


def test_case_42_a_type_is_a_part_of_the_name_and_nouse_narrows_it() -> None:
    cluster = CaseCluster(TWO_TYPES)

    narrowed = cluster.place(choosing("p1", use="A10", nouse="A100"))

    assert taken(narrowed) == [["GPU-a0"]]
    for card_id in ("GPU-a0", "GPU-a1"):
        either = choosing(f"only-{card_id}", use="A10", use_id=card_id)
        assert taken(cluster.place(either)) == [[card_id]]


def test_case_43_empty_members_of_a_list_mean_nothing() -> None:
    cluster = CaseCluster(TWO_TYPES)
    only_a10 = CaseCluster(node(*REG1))

    assert taken(cluster.place(choosing("p1", nouse="A100, ,"))) == [["GPU-a0"]]
    assert only_a10.reason(only_a10.place(choosing(use=",A100"))) == "1/1 CardTypeMismatch"


@pytest.mark.parametrize("text", ["", " ", "\t"])
@pytest.mark.parametrize("rule", ["use", "nouse", "use_id", "nouse_id"])
def test_case_44_an_empty_rule_is_no_rule(rule: str, text: str) -> None:
    assert CaseCluster(node(*REG1)).place(choosing(**{rule: text})).node == "node-a"


def test_case_44_an_empty_rule_is_no_rule_for_any_vendor() -> None:
    with_rules = [
        vendor
        for vendor in CaseCluster(
            vendors={"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}
        ).vendors
        if vendor.spec.use_id_key
    ]
    assert len(with_rules) > 15

    for vendor in with_rules:
        spec = vendor.spec
        keys = (spec.use_type_key, spec.avoid_type_key, spec.use_id_key, spec.avoid_id_key)
        blank = {key: " " for key in keys if key}
        assert vendor.selection(blank) == vendor.selection({}), spec.id


@pytest.mark.parametrize("blank", ["", " "])
def test_case_45_both_id_lists_hold_and_nouse_wins(blank: str) -> None:
    cluster = CaseCluster(node(*REG2))
    rules = {"use_id": f"GPU-a0,{blank}GPU-a1", "nouse_id": f"{blank}GPU-a0"}

    for name in ("p1", "p2", "p3"):
        assert taken(cluster.place(choosing(name, **rules))) == [["GPU-a1"]]


def percent(value: object, name: str = "main") -> case_cluster.Json:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": str(value)}
    return case_cluster.limited(limits, name=name)


@pytest.mark.parametrize("value", [101, 150, -1, 4294967346])
def test_case_46_a_percentage_beyond_100_is_refused_with_the_containers_name(value: int) -> None:
    cluster = CaseCluster(node(*REG1))

    for raw in (
        pod("p1", percent(value, "worker")),
        pod("p2", asks(1, 100), init=(percent(value, "worker"),)),
    ):
        verdict = cluster.admit(raw)
        assert not verdict.allowed
        assert verdict.message.startswith(
            f"container worker: nvidia.com/gpumem-percentage: '{value}' is "
        )


@pytest.mark.parametrize("value", [101, 150, 4294967346])
def test_case_46_past_the_webhook_it_counts_as_100(value: int) -> None:
    cluster = CaseCluster(node(*REG1))

    placed = cluster.place_past_admission(pod("p1", percent(value)))

    assert allocated(placed) == "GPU-a0,NVIDIA,24576,0:;"


def test_case_48_as_many_different_cards_as_are_asked_for() -> None:
    cluster = CaseCluster(node(*REG1))

    assert cluster.reason(cluster.place(pod("p1", asks(2, 100)))) == "NodeInsufficientDevice"
    assert allocated(cluster.place(pod("p2", asks(1)))) == "GPU-a0,NVIDIA,24576,100:;"


def test_case_50_memory_is_never_promised_twice() -> None:
    """The case counts 23 of 24 pods; 46068 MiB are 23 times 2000 MiB and 68 MiB more."""
    cluster = CaseCluster(node(card(devmem=46068, count=50)))

    placed = [cluster.place(pod(f"p{number}", asks(1, 2000))) for number in range(24)]

    assert [one.node for one in placed] == ["node-a"] * 23 + [None]
    assert cluster.reason(placed[-1]) == "1/1 CardInsufficientMemory"
    assert cluster.used() == {"GPU-a0": (23, 46000, 0)}


def test_case_51_a_card_without_a_free_slot_takes_nobody() -> None:
    cluster = CaseCluster(node(card(count=3)))

    placed = [cluster.place(pod(f"p{number}", asks(1, 100))) for number in range(4)]

    assert [one.node for one in placed] == ["node-a"] * 3 + [None]
    assert cluster.reason(placed[-1]) == "1/1 CardTimeSlicingExhausted"


def test_case_53_a_pod_without_devices_gets_all_nodes_and_leaves_no_trace() -> None:
    cluster = CaseCluster(node(*REG1), node(*REG1, name="node-b"))
    before = cluster.books.ledger.generation

    placed = cluster.place(pod("nginx", {"name": "main", "image": "nginx"}))

    assert list(placed.scores) == ["node-a", "node-b"]
    assert (placed.annotations, placed.bound) == ({}, None)
    assert cluster.books.ledger.generation == before
