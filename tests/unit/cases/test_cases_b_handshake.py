"""Reported cases 19 to 38: registering cards, the handshake, and what a node lacks.

Cases 25, 31, 33 and 37 are tested where their code is (``flows``), the metrics
of case 35 in ``metrics``.
"""

import datetime
import json

import pytest

from support import case_cluster
from support.case_cluster import NOW, REG1, REG2, CaseCluster, asks, card, node, pod, taken
from support.operator_books import later
from vgpu_operator.flows import dry_run

HANDSHAKE = "hami.io/node-handshake"
NONE_LEFT = {"nvidia.com/gpu": "0"}


def stamp(age_s: float, word: str = "Requesting") -> dict[str, str]:
    """Return a handshake annotation of that age."""
    at = NOW - datetime.timedelta(seconds=age_s)
    return {HANDSHAKE: f"{word}_{at:%Y-%m-%d %H:%M:%S}"}


def test_case_19_cards_of_a_dead_plugin_leave_and_those_of_another_vendor_stay() -> None:
    dcu = "DCU-a0,4,16384,100,DCU-Z100,0,true:"
    cluster = CaseCluster(
        node(
            *REG1,
            allocatable={"nvidia.com/gpu": "0", "hygon.com/dcunum": "4"},
            notes=stamp(61) | {"hami.io/node-dcu-register": dcu},
        )
    )

    assert cluster.reason(cluster.place(pod("p1", asks(1, 100)))).startswith("node unregistered")
    assert cluster.cards() == ()
    assert [one.id for one in cluster.cards("DCU")] == ["DCU-a0"]


def test_case_21_an_old_deleted_mark_is_like_no_handshake() -> None:
    cluster = CaseCluster()

    written = cluster.show(node(*REG1, notes=stamp(600, "Deleted")))

    assert written["node-a"] == stamp(0)
    assert cluster.place(pod("p1", asks(1, 100))).node == "node-a"


def test_case_23_fewer_slots_count_at_once_although_the_handshake_stays() -> None:
    cluster = CaseCluster(node(*REG1, notes=stamp(10)))
    for name in ("p1", "p2"):
        assert cluster.place(pod(name, asks(1, 100))).node == "node-a"

    cluster.show(node(card(count=2), notes=stamp(10)))

    third = cluster.place(pod("p3", asks(1, 100)))
    assert cluster.reason(third) == "1/1 CardTimeSlicingExhausted"


def test_case_25_nothing_allocatable_stops_new_pods_until_there_is_again() -> None:
    cluster = CaseCluster(node(*REG1, notes=stamp(10), allocatable=NONE_LEFT))
    assert "allocatable is 0" in cluster.reason(cluster.place(pod("p1", asks(1, 100))))

    cluster.show(node(*REG1, notes=stamp(10)))

    assert cluster.place(pod("p2", asks(1, 100))).node == "node-a"


def test_case_27_a_text_that_cannot_be_read_does_not_keep_a_dead_nodes_cards() -> None:
    cluster = CaseCluster(node(*REG1, notes=stamp(0)))

    cluster.show(node(text="{{", notes=stamp(0), allocatable=NONE_LEFT), now=later(30))
    assert [one.id for one in cluster.cards()] == ["GPU-a0"], "not expired yet"
    cluster.show(node(text="{{", notes=stamp(0), allocatable=NONE_LEFT), now=later(61))

    assert cluster.cards() == ()


@pytest.mark.parametrize("text", ["Requesting", "Requesting_", "Requesting_yesterday", "foo", ""])
def test_case_28_no_handshake_text_is_a_crash(text: str) -> None:
    cluster = CaseCluster()

    written = cluster.show(node(*REG1, notes={HANDSHAKE: text}))

    assert written["node-a"] == ({} if "Requesting" in text else stamp(0))
    assert cluster.place(pod("p1", asks(1, 100))).node == "node-a"


def test_case_29_an_added_card_takes_what_the_first_one_has_no_room_for() -> None:
    cluster = CaseCluster(node(*REG1))
    cluster.place(pod("p1", asks(1, 20000)))

    cluster.show(node(*REG2))

    assert cluster.used() == {"GPU-a0": (1, 20000, 0)}
    assert taken(cluster.place(pod("p2", asks(1, 20000)))) == [["GPU-a1"]]


def test_case_30_only_vendors_that_have_registered_are_written_to() -> None:
    cluster = CaseCluster()

    written = [cluster.show(node(*REG1), now=later(15 * cycle)) for cycle in range(10)]

    assert {key for one in written for key in one["node-a"]} == {HANDSHAKE}


@pytest.mark.parametrize("field", ["devmem", "devcore", "count"])
@pytest.mark.parametrize("limits", [asks(1, 100), asks(1)], ids=["MiB", "whole"])
def test_case_35_a_card_of_which_something_is_0_harms_nobody(
    field: str, limits: case_cluster.Json
) -> None:
    none = node(card(**{field: 0}))
    cluster = CaseCluster(none, node(card("GPU-b0"), name="node-b"))
    percent = case_cluster.limited({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"})

    placed = cluster.place(pod("p1", limits))

    assert placed.scores["node-b"] == 0.0
    assert placed.scores.get("node-a", 0.0) == 0.0
    if field == "devmem":
        halves = cluster.place(pod("p2", percent), "node-a")
        assert cluster.reason(halves) == "1/1 CardInsufficientMemory"


UNREGISTERED = {
    "no register annotation": (
        node(name="node-a"),
        "annotation hami.io/node-nvidia-register",
    ),
    "cannot be decoded": (node(text="{{", notes=stamp(10)), "hami.io/node-nvidia-register"),
    "an empty list": (node(text="[]", notes=stamp(10)), "hami.io/node-nvidia-register lists no"),
    "no allocatable": (
        node(*REG1, notes=stamp(10), allocatable=NONE_LEFT),
        "allocatable is 0 or absent",
    ),
    "handshake expired": (
        node(*REG1, notes=stamp(61), allocatable=NONE_LEFT),
        "the handshake has expired",
    ),
}


@pytest.mark.parametrize(("shown", "words"), UNREGISTERED.values(), ids=UNREGISTERED)
def test_case_38_the_reason_says_which_condition_failed(
    shown: case_cluster.Json, words: str
) -> None:
    cluster = CaseCluster(shown)

    reason = cluster.reason(cluster.place(pod("p1", asks(1, 100))))

    assert reason.startswith("node unregistered: ")
    assert words in reason


def test_case_38_the_five_conditions_are_told_apart() -> None:
    """Nodes outside a selector never reach the filter: kube-scheduler leaves them out."""
    reasons = set()
    for shown, _ in UNREGISTERED.values():
        cluster = CaseCluster(shown)
        reasons.add(cluster.reason(cluster.place(pod("p1", asks(1, 100)))))

    assert len(reasons) == len(UNREGISTERED)


def test_case_38_a_refused_pod_is_told_when_the_condition_changes() -> None:
    cluster = CaseCluster(node())
    first = cluster.place(pod("p1", asks(1, 100)))

    cluster.show(node(text="{{"))

    second = cluster.place(pod("p1", asks(1, 100)))
    assert "has no annotation" in cluster.reason(first)
    assert "cannot be read" in cluster.reason(second)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (node(), "has no annotation hami.io/node-nvidia-register"),
        (node(text="{{"), "hami.io/node-nvidia-register cannot be read: "),
        (node(text="[]"), "hami.io/node-nvidia-register lists no card"),
    ],
)
def test_case_38_a_dry_run_says_it_of_the_node_that_it_is_given(
    shown: case_cluster.Json, words: str
) -> None:
    cluster = CaseCluster(node(*REG1))
    record = cluster.record(pod("p1", asks(1, 100)))

    answer = dry_run.filter_objects(cluster.books, record, [shown])

    assert words in str(answer.rejections["node-a"])


def test_case_38_a_vendor_without_a_register_annotation_names_what_the_node_does_not_offer() -> (
    None
):
    cluster = CaseCluster(node(*REG1))
    mlu = case_cluster.limited({"cambricon.com/vmlu": "1"})

    reason = cluster.reason(cluster.place(pod("p1", mlu)))

    assert "cambricon.com/mlu.smlu.vcore" in reason
    assert json.dumps(None) not in reason
