"""Cases from real use, area D: score and policy."""

from collections.abc import Mapping
from typing import Any

import pytest

from support import case_cluster
from support.case_cluster import REG1, REG2, CaseCluster, asks, card, node, pod, taken
from vgpu_operator.flows import simulate

Json = dict[str, Any]

BINPACK = {"hami.io/gpu-scheduler-policy": "binpack"}
SPREAD = {"hami.io/gpu-scheduler-policy": "spread"}


def held(name: str, card_id: str, mib: int = 1000) -> Json:
    """Return a running pod that holds so much of a card."""
    return case_cluster.running(name, asks(1, mib), promised=f"{card_id},NVIDIA,{mib},0:;")


def small(name: str = "p1", notes: Mapping[str, str] | None = None) -> Json:
    """Return a pending pod that asks for 1000 MiB of one card."""
    return pod(name, asks(1, 1000), notes=notes)


# --- 67: NUMA is a tie-break -----------------------------------------------------------

TWO_NUMA_NODES = node(
    card("GPU-00", index=0, devmem=10000, numa=0),
    card("GPU-01", index=1, devmem=10000, numa=0),
    card("GPU-10", index=2, devmem=10000, numa=1),
    card("GPU-11", index=3, devmem=10000, numa=1),
)


def half_used(used_mib: Mapping[str, int]) -> CaseCluster:
    pods = (held(f"on-{card_id}", card_id, mib) for card_id, mib in used_mib.items())
    return CaseCluster(TWO_NUMA_NODES, pods=tuple(pods))


@pytest.mark.parametrize(
    ("policy", "mib", "expected"),
    [
        (SPREAD, 500, "GPU-11"),
        (BINPACK, 500, "GPU-00"),
        (BINPACK, 2000, "GPU-01"),
    ],
    ids=["spread", "binpack", "binpack where the fullest is too full"],
)
def test_case_67_the_score_decides_and_not_the_numa_node(
    policy: Mapping[str, str], mib: int, expected: str
) -> None:
    one = half_used({"GPU-00": 9000, "GPU-01": 7000, "GPU-10": 3000, "GPU-11": 1000})

    assert taken(one.place(pod("p1", asks(1, mib), notes=policy))) == [[expected]]


@pytest.mark.parametrize(
    ("policy", "apart"),
    [(SPREAD, {"GPU-01", "GPU-11"}), (BINPACK, {"GPU-00", "GPU-10"})],
    ids=["spread", "binpack"],
)
def test_case_67_with_numa_bind_the_numa_node_comes_first(
    policy: Mapping[str, str], apart: set[str]
) -> None:
    one = half_used({"GPU-00": 9000, "GPU-01": 1000, "GPU-10": 7000, "GPU-11": 3000})
    bound_notes = {**policy, "nvidia.com/numa-bind": "true"}

    (free,) = taken(one.place(pod("p1", asks(2, 500), notes=policy)))
    (bound,) = taken(one.place(pod("p2", asks(2, 500), notes=bound_notes)))

    assert set(free) == apart
    assert {card_id[:-1] for card_id in bound} in ({"GPU-0"}, {"GPU-1"})


# --- 69: the request is no part of the node score --------------------------------------


def test_case_69_spread_puts_two_pods_on_a_small_and_a_large_node() -> None:
    three = (card(f"GPU-b{n}", index=n) for n in range(3))
    one = CaseCluster(
        node(*REG1),
        node(*three, name="node-b"),
        defaultSchedulerPolicy={"nodeSchedulerPolicy": "spread"},
    )

    placed = [one.place(small(name)) for name in ("p1", "p2")]

    assert placed[0].scores == {"node-a": 0.0, "node-b": 0.0}
    assert {each.node for each in placed} == {"node-a", "node-b"}


# --- 71: no NaN ------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", ["devcore", "devmem", "count"])
def test_case_71_a_card_without_capacity_harms_no_other_node(lacking: str) -> None:
    one = CaseCluster(node(card(**{lacking: 0})), node(card("GPU-b0"), name="node-b"))

    placed = one.place(pod("p1", asks(1, 1000, 10)))

    assert placed.node == "node-b"
    assert placed.scores == {"node-b": 0.0}
    assert set(placed.rejections) == {"node-a"}


def test_case_71_a_card_without_capacity_harms_no_other_card_of_its_node() -> None:
    one = CaseCluster(node(card(), card("GPU-a1", index=1, devcore=0)))

    placed = one.place(pod("p1", asks(1, 1000, 10)))

    assert taken(placed) == [["GPU-a0"]]
    assert placed.scores == {"node-a": 0.0}


# --- 74: not always card 0 -------------------------------------------------------------


def test_case_74_by_default_the_second_small_pod_gets_another_card() -> None:
    one = CaseCluster(node(*REG2))

    found = [taken(one.place(small(name)))[0] for name in ("p1", "p2")]

    assert sorted(found) == [["GPU-a0"], ["GPU-a1"]]


def test_case_74_equal_cards_are_taken_in_the_same_order_every_time() -> None:
    """By index, higher first; a real plugin writes its list in another order each time."""
    cards = [card(f"GPU-a{n}", index=n) for n in range(2)]
    nodes = [node(*cards), node(*cards[::-1])] * 5

    found = [taken(CaseCluster(each).place(small()))[0] for each in nodes]

    assert found == [["GPU-a1"]] * 10


# --- 75: annotations of the pod --------------------------------------------------------


def test_case_75_a_policy_on_the_job_is_not_the_pods() -> None:
    """A Job's own annotations are not copied to its pods: only the template's are.

    The first pod below is what the Job controller makes of a Job that has the
    policy at its top level: an owner reference, and no annotation.
    """
    of_job = small("train-x")
    of_job["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-job"}
    ]

    by_default = _beside_a0(of_job)
    by_template = _beside_a0(small(notes=BINPACK))

    assert by_default.record.request.card_policies == ()
    assert taken(by_default) == [["GPU-a1"]], "spread"
    assert taken(by_template) == [["GPU-a0"]]


def _beside_a0(raw: Json) -> simulate.Placed:
    """Place a pod on a node of two cards of which somebody uses GPU-a0."""
    return CaseCluster(node(*REG2), pods=(held("old", "GPU-a0"),)).place(raw)


# --- 77: weights -----------------------------------------------------------------------

SLOTS_OR_MEMORY = (
    *(held(f"slot-{n}", "GPU-a0", 100) for n in range(4)),
    held("memory", "GPU-a1", 8000),
)
"""GPU-a0: 4 of 10 slots and 400 MiB of 10000, GPU-a1: 1 slot and 8000 MiB."""


@pytest.mark.parametrize(
    ("weights", "emptier"),
    [
        # 4/10 + 400/10000 = 0.44 against 1/10 + 8000/10000 = 0.90
        ({}, "GPU-a0"),
        # 10 x 4/10 + 400/10000 = 4.04 against 10 x 1/10 + 8000/10000 = 1.80
        ({"hami.io/device-scoring-weights": "slot=10,core=1,memory=1"}, "GPU-a1"),
    ],
    ids=["1:1:1 by default", "slots first"],
)
def test_case_77_weights_say_what_makes_a_card_full(
    weights: Mapping[str, str], emptier: str
) -> None:
    two = node(card(devmem=10000), card("GPU-a1", index=1, devmem=10000))
    one = CaseCluster(two, pods=SLOTS_OR_MEMORY)

    assert taken(one.place(small(notes={**SPREAD, **weights}))) == [[emptier]]


def test_case_77_weights_that_do_not_parse_are_an_error_for_that_pod_only() -> None:
    one = CaseCluster(node(*REG2))

    bad = one.place(small("p1", {"hami.io/device-scoring-weights": "slot=much"}))
    good = one.place(small("p2"))

    assert bad.node is None
    assert bad.record.request.impossible == (
        "annotation hami.io/device-scoring-weights: 'slot=much': 'much' is no whole number; "
        "write all three, such as slot=1,core=1,memory=1"
    )
    assert good.node == "node-a"


# --- 78: mutex, chains, unknown words --------------------------------------------------


def with_policy(words: str) -> Json:
    return small(notes={"hami.io/gpu-scheduler-policy": words})


def test_case_78_mutex_takes_an_unused_card() -> None:
    assert taken(_beside_a0(with_policy("mutex"))) == [["GPU-a1"]]


def test_case_78_mutex_fits_nowhere_when_every_card_is_in_use() -> None:
    pods = tuple(held(f"old-{n}", f"GPU-a{n}") for n in range(2))
    one = CaseCluster(node(*REG2), pods=pods)

    placed = one.place(with_policy("mutex"))

    assert one.reason(placed) == "2/2 ExclusiveDeviceAllocateConflict"


@pytest.mark.parametrize("word", ["fastest", "", " ", "binpack numa", ",", "BINPACKED"])
def test_case_78_an_unknown_word_is_the_default(word: str) -> None:
    """The default is spread: the idle card, where binpack would take the used one."""
    assert taken(_beside_a0(with_policy(word))) == [["GPU-a1"]]


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        # GPU-00 and GPU-10 are the fullest, and equally full: then the higher NUMA node
        ("binpack,numa", "GPU-10"),
        # GPU-01 and GPU-11 are the emptiest
        ("spread,numa", "GPU-11"),
        # of NUMA node 1 the fuller, or the emptier
        ("numa,binpack", "GPU-10"),
        ("numa,spread", "GPU-11"),
    ],
)
def test_case_78_a_chain_of_words_compares_one_after_another(chain: str, expected: str) -> None:
    one = half_used({"GPU-00": 1000, "GPU-10": 1000})

    assert taken(one.place(with_policy(chain))) == [[expected]]


def test_case_78_a_mutex_in_a_chain_keeps_the_pod_off_used_cards() -> None:
    assert taken(_beside_a0(with_policy("mutex,binpack"))) == [["GPU-a1"]]
