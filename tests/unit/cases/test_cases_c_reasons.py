"""Reported cases 55 to 66: reasons, MIG, links between cards, and whole cards."""

import json

import pytest

from support import case_cluster
from support.case_cluster import REG1, REG2, CaseCluster, allocated, asks, card, node, pod, taken
from vgpu_operator.flows import effects
from vgpu_operator.flows import filter as flow_filter

MIG_KEY = "hami.io/vgpu-mig-allocations"


def test_case_55_one_event_for_each_reason_with_the_nodes_sorted() -> None:
    nodes = [
        node(card(f"GPU-t{number}", type="NVIDIA-NVIDIA T4"), name=f"type-{number}")
        for number in (4, 2, 0, 3, 1)
    ] + [node(card(f"GPU-m{number}", devmem=1000), name=f"memory-{number}") for number in (2, 0, 1)]
    cluster = CaseCluster(*nodes)
    record = cluster.record(
        pod("p1", asks(1, 2000), notes={"nvidia.com/use-gputype": case_cluster.A10})
    )
    names = [one["metadata"]["name"] for one in nodes]

    answer = flow_filter.filter_nodes(cluster.books, record, names, case_cluster.NOW)

    assert [(one.type, one.reason) for one in answer.events] == [
        (effects.EventType.WARNING, "FilteringFailed")
    ] * 2
    types, memory = (one.message for one in answer.events)
    assert types == "5 nodes CardTypeMismatch (type-0, type-1, type-2, type-3, type-4)"
    assert memory == "3 nodes CardInsufficientMemory (memory-0, memory-1, memory-2)"
    assert str(answer.rejections["type-0"]) == "1/1 CardTypeMismatch"
    assert str(answer.rejections["memory-0"]) == "1/1 CardInsufficientMemory"


def test_case_55_the_list_of_nodes_is_cut_where_it_grows_long() -> None:
    names = [f"node-{number:04}" for number in range(5000)]
    cluster = CaseCluster(*(node(name=name) for name in names))
    record = cluster.record(pod("p1", asks(1, 2000)))

    (event,) = flow_filter.filter_nodes(cluster.books, record, names, case_cluster.NOW).events

    assert event.message.startswith("5000 nodes node unregistered")
    assert "node-0000, node-0001" in event.message
    assert len(event.message) <= 1000


def mig_card(**fields: object) -> case_cluster.Json:
    """Return a card that is cut in 1g.5gb (seven of them) or 2g.10gb."""
    profiles = [
        {
            "name": "1g.5gb",
            "memoryMB": 5120,
            "core": 14,
            "sliceCount": 1,
            "placements": [{"start": start, "size": 1} for start in range(7)],
        },
        {
            "name": "2g.10gb",
            "memoryMB": 9856,
            "core": 28,
            "sliceCount": 2,
            "placements": [{"start": start, "size": 2} for start in (0, 2, 4)],
        },
    ]
    return card(mode="mig", count=7, devmem=40960, migProfiles=profiles, **fields)


@pytest.mark.parametrize(("memory", "charged"), [(5120, 5120), (5119, 5120), (5121, 9856)])
def test_case_57_a_request_of_exactly_a_profiles_memory_fits_it(memory: int, charged: int) -> None:
    cluster = CaseCluster(node(mig_card()))

    placed = cluster.place(pod("p1", asks(1, memory)))

    assert placed.node == "node-a"
    assert [used[1] for used in cluster.used().values()] == [charged]


@pytest.mark.parametrize("scores", [None, "[]", "{{"])
def test_case_60_without_link_scores_some_set_of_cards_is_taken(scores: str | None) -> None:
    notes = {} if scores is None else {"hami.io/node-nvidia-score": scores}
    cluster = CaseCluster(node(*REG2, notes=notes))

    placed = cluster.place(
        pod("p1", asks(2, 100), notes={"hami.io/gpu-scheduler-policy": "topology-aware"})
    )

    assert sorted(taken(placed)[0]) == ["GPU-a0", "GPU-a1"]


def test_case_61_a_card_in_plain_mode_that_a_pod_holds_as_mig_is_withheld() -> None:
    old = case_cluster.running("old", asks(1, 5120, 14), promised="GPU-a0[9-9],NVIDIA,5120,14:;")
    cluster = CaseCluster(node(*REG1), pods=(old,))

    placed = cluster.place(pod("p1", asks(1, 100)))

    assert cluster.reason(placed) == (
        "1/1 CardNotHealth: GPU-a0 takes nobody while it is not known which MIG instances of it"
        " are held by team-a/old"
    )
    assert cluster.used() == {"GPU-a0": (1, 5120, 14)}, "still charged"


def test_case_61_a_card_that_left_mig_mode_is_withheld_until_its_mig_pod_has_ended() -> None:
    """The promise itself looks like any other: only the instances beside it tell."""
    instance = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": "GPU-a0", "profile": "1g.5gb"}
    old = case_cluster.running("old", asks(1, 5120, 14), promised="GPU-a0,NVIDIA,5120,14:;")
    old["metadata"]["annotations"][MIG_KEY] = json.dumps(
        [instance | {"placement": {"start": 0, "size": 1}}]
    )
    cluster = CaseCluster(node(*REG1), pods=(old,))

    assert cluster.reason(cluster.place(pod("p1", asks(1, 100)))).startswith("1/1 CardNotHealth: ")
    cluster.see_pod(old | {"status": {"phase": "Succeeded"}})
    whole = cluster.place(pod("p2", asks(1, 24576, 100)))

    assert taken(whole) == [["GPU-a0"]]


@pytest.mark.parametrize("instances", ["GPU-a0", "9-9", "{", "[]"])
def test_case_61_no_text_about_instances_is_a_crash(instances: str) -> None:
    old = case_cluster.running("old", asks(1, 5120), promised="GPU-a0,NVIDIA,5120,14:;")
    old["metadata"]["annotations"][MIG_KEY] = instances

    for shown in (node(*REG1), node(mig_card())):
        cluster = CaseCluster(shown, pods=(old,))
        cluster.place(pod("p1", asks(1, 100)))
        assert cluster.used()["GPU-a0"][1] >= 5120


def test_case_62_a_profiles_own_resource_is_left_to_others() -> None:
    raw = pod("p1", case_cluster.limited({"nvidia.com/mig-1g.5gb": "1"}))
    cluster = CaseCluster(node(mig_card()))

    verdict = cluster.admit(raw)

    assert (verdict.allowed, verdict.patch) == (True, ())
    assert not cluster.record(raw).request.wants_devices


def test_case_64_all_cores_need_a_card_that_nobody_uses() -> None:
    old = case_cluster.running("old", asks(1, 1000, 0), promised="GPU-a0,NVIDIA,1000,0:;")
    two, one = CaseCluster(node(*REG2), pods=(old,)), CaseCluster(node(*REG1), pods=(old,))
    whole = pod("p1", asks(1, 1000, 100))

    assert taken(two.place(whole)) == [["GPU-a1"]]
    assert one.reason(one.place(whole)) == "1/1 ExclusiveDeviceAllocateConflict"


def test_case_65_no_cores_are_left_on_a_card_that_is_given_away_whole() -> None:
    cluster = CaseCluster(node(*REG1))
    assert cluster.place(pod("p1", asks(1, 1000, 100))).node == "node-a"

    second = cluster.place(pod("p2", asks(1, 1000, 0)))

    assert cluster.reason(second) == "1/1 CardComputeUnitsExhausted"


def test_case_66_with_scaled_cores_100_is_not_the_whole_card() -> None:
    cluster = CaseCluster(node(card(devcore=200)))

    placed = [
        cluster.place(pod(f"p{number}", asks(1, 1, cores)))
        for number, cores in enumerate((100, 100, 1))
    ]

    assert [one.node for one in placed] == ["node-a", "node-a", None]
    assert cluster.reason(placed[-1]) == "1/1 CardInsufficientCore"


def test_the_fixture_is_the_one_of_the_cases() -> None:
    assert json.dumps(REG1, separators=(",", ":")) == (
        '[{"id":"GPU-a0","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA-NVIDIA A10",'
        '"mode":"hami-core","health":true}]'
    )
    assert allocated(CaseCluster(node(*REG1)).place(pod("p1", asks(1, 1000)))) == (
        "GPU-a0,NVIDIA,1000,0:;"
    )
