"""Who is evicted for a pod of higher priority. Right sets by hand; cards of 100 MiB."""

import dataclasses
import datetime
from collections.abc import Callable, Sequence

import pytest

from support import clusters
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows.preemption import plan
from vgpu_operator.model import allocation, budgets, quota, records, request
from vgpu_operator.model import settings as model_settings
from vgpu_operator.vendors import registry, roster

NOW = datetime.datetime(2026, 1, 15, 10, tzinfo=datetime.UTC)
PRIORITY = 100


def node(*cards: str, **fields: object) -> clusters.Node:
    """Return a node with cards of 100 MiB."""
    return clusters.node(
        *(
            clusters.card(one, index=index, memory_mib=100, **fields)
            for index, one in enumerate(cards)
        )
    )


def held(
    name: str,
    on: str,
    *cards: str,
    memory_mib: int = 100,
    cores: int = 0,
    priority: int = 0,
    namespace: str = "team-a",
    hours: int | None = None,
    **fields: object,
) -> records.PodRecord:
    """Return a running pod that holds a share of each of the cards, started so long ago."""
    asked = clusters.asks(len(cards), memory_mib=memory_mib, cores_percent=cores)
    wish = clusters.wish(asked, uid=f"uid-{name}", name=name)
    wish = dataclasses.replace(
        wish, pod=request.PodKey(namespace=namespace, name=name, uid=f"uid-{name}")
    )
    shares = [clusters.share(card, memory_mib, cores) for card in cards]
    return dataclasses.replace(
        clusters.pod(wish, clusters.promise(on, shares)),
        priority=priority,
        started=None if hours is None else NOW - datetime.timedelta(hours=hours),
        **fields,
    )


def books_of(
    nodes: dict[str, clusters.Node], pods: Sequence[records.PodRecord]
) -> flow_books.Books:
    """Return the books of that cluster, with the real vendors."""
    vendors = registry.build(model_settings.Settings())
    ledger = clusters.build_ledger(
        clusters.Cluster(nodes=nodes, pods=list(pods)), rules=vendors.by_keyword
    )
    return flow_books.Books(
        settings=model_settings.Settings(), vendors=roster.of(vendors), ledger=ledger
    )


def planned(
    nodes: dict[str, clusters.Node],
    pods: Sequence[records.PodRecord],
    *asked: request.DeviceRequest,
    wish: request.PodRequest | None = None,
    all_budgets: Sequence[budgets.Budget] = (),
    may_go: Callable[[records.PodRecord], bool] = lambda _record: True,
    books: flow_books.Books | None = None,
    offered: Sequence[str] | None = None,
    min_gap: int = 1,
) -> plan.Answer:
    """Plan for a pod that asks for all memory of a card unless told otherwise."""
    return plan.plan(
        books or books_of(nodes, pods),
        wish or clusters.wish(*(asked or (clusters.asks(memory_mib=100),)), uid="new", name="new"),
        priority=PRIORITY,
        nodes=tuple(nodes) if offered is None else offered,
        budgets=all_budgets,
        may_go=may_go,
        now=NOW,
        min_gap=min_gap,
    )


def names(answer: plan.Answer) -> list[str]:
    assert isinstance(answer, plan.Plan), answer
    return sorted(victim.key.name for victim in answer.victims)


def budget(name: str, *, allowed: int = 0, role: str = "a") -> budgets.Budget:
    """Return a budget over the pods of a role."""
    wanted = budgets.Requirement(
        key="role", operator=budgets.Operator.IN, values=frozenset((role,))
    )
    return budgets.Budget(namespace="team-a", name=name, selector=(wanted,), allowed=allowed)


# Who may go.


@pytest.mark.parametrize(("priority", "goes"), [(99, True), (100, False), (101, False)])
def test_only_a_pod_of_lower_priority_goes(priority, goes):
    answer = planned({"n1": node("a")}, [held("p", "n1", "a", priority=priority)])

    assert isinstance(answer, plan.Plan) is goes


def test_a_pod_within_the_gap_stays():
    pods = [held("near", "n1", "a", priority=91), held("far", "n2", "b", priority=90)]

    answer = planned({"n1": node("a"), "n2": node("b")}, pods, min_gap=10)

    assert names(answer) == ["far"]


def test_a_pod_that_may_not_go_stays_and_its_node_with_it():
    pods = [held("exempt", "n1", "a"), held("other", "n2", "b", priority=50)]

    answer = planned(
        {"n1": node("a"), "n2": node("b")},
        pods,
        may_go=lambda record: record.key.name != "exempt",
    )

    assert names(answer) == ["other"]


def test_nobody_goes_from_a_node_that_was_not_offered():
    pods = [held("cheap", "n1", "a"), held("dear", "n2", "b", priority=50)]

    answer = planned({"n1": node("a"), "n2": node("b")}, pods, offered=("n2",))

    assert names(answer) == ["dear"]


@pytest.mark.parametrize(
    "useless",
    [
        node("a", healthy=False),
        dataclasses.replace(node("a"), cordoned=frozenset("a")),
        node("a", card_type="NVIDIA-NVIDIA T4"),
        clusters.node(clusters.card("a", memory_mib=50)),
        dataclasses.replace(node("a"), allocatable={"NVIDIA": 0}),
    ],
)
def test_nobody_goes_where_it_would_not_help(useless):
    a10 = request.CardSelection(use_types=("A10",))
    wish = clusters.wish(clusters.asks(memory_mib=100), uid="new", selection=a10)

    answer = planned({"n1": useless}, [held("p", "n1", "a", memory_mib=50)], wish=wish)

    assert isinstance(answer, plan.NoPlan)
    assert "below 100" in answer.sentence


# How many go.


def test_one_pod_goes_where_the_least_important_ones_would_have_been_two():
    pods = [
        held("small-1", "n1", "a", memory_mib=20),
        held("small-2", "n1", "a", memory_mib=20),
        held("large", "n1", "a", memory_mib=60, priority=10),
    ]

    answer = planned({"n1": node("a")}, pods, clusters.asks(memory_mib=50))

    assert names(answer) == ["large"]
    assert answer.exact


def test_a_pod_over_two_cards_goes_before_one_on_each():
    """Two cards are asked: the pod that holds a share of both is enough."""
    pods = [
        held("wide", "n1", "a", "b", memory_mib=60),
        held("left", "n1", "a", memory_mib=40),
        held("right", "n1", "b", memory_mib=40),
    ]

    answer = planned({"n1": node("a", "b")}, pods, clusters.asks(2, memory_mib=60))

    assert names(answer) == ["wide"]


def test_every_pod_of_a_card_goes_for_one_that_takes_the_card_alone():
    pods = [
        *(held(f"crowd-{n}", "n1", "a", memory_mib=10) for n in range(3)),
        *(held(f"pair-{n}", "n1", "b", memory_mib=10) for n in range(2)),
    ]

    answer = planned({"n1": node("a", "b")}, pods, clusters.asks(memory_mib=10, cores_percent=100))

    assert names(answer) == ["pair-0", "pair-1"]


def test_for_cores_alone_the_holder_of_the_cores_goes():
    pods = [
        held("memory", "n1", "a", memory_mib=80, cores=10),
        held("cores", "n1", "a", memory_mib=10, cores=80),
    ]

    answer = planned({"n1": node("a")}, pods, clusters.asks(memory_mib=1, cores_percent=50))

    assert names(answer) == ["cores"]


def test_for_a_slot_alone_any_one_pod_goes_and_the_latest_is_taken():
    pods = [held(f"p{hours}", "n1", "a", memory_mib=10, hours=hours) for hours in (3, 1, 2)]

    answer = planned({"n1": node("a", slots=3)}, pods, clusters.asks(memory_mib=10))

    assert names(answer) == ["p1"]


def test_a_pod_of_the_namespace_gives_its_quota_back():
    """A card is free; the quota is used up by the pod on the other one."""
    books = books_of(
        {"n1": node("a", "b")},
        [held("mine", "n1", "a"), held("theirs", "n1", "a", memory_mib=0, namespace="team-b")],
    )
    books.ledger.set_limits("team-a", {"NVIDIA": quota.Allowance(memory_mib=150)})

    answer = planned({"n1": node("a", "b")}, (), books=books)

    assert names(answer) == ["mine"]


def test_many_whole_cards_take_the_fewest_pods_where_not_all_sets_can_be_tried():
    """Four of eight cards are asked; cards 4 to 7 have two pods each, the others six."""
    cards = [f"c{n}" for n in range(8)]
    pods = [
        held(f"p{n}-{part}", "n1", card, memory_mib=10)
        for n, card in enumerate(cards)
        for part in range(6 if n < 4 else 2)
    ]

    answer = planned({"n1": node(*cards)}, pods, clusters.asks(4, memory_mib=10, cores_percent=100))

    assert names(answer) == [f"p{n}-{part}" for n in range(4, 8) for part in range(2)]
    assert answer.exact


# Which node.


def test_the_lowest_highest_priority_decides_before_the_number():
    pods = [
        held("two-1", "n1", "a", memory_mib=50, priority=5),
        held("two-2", "n1", "a", memory_mib=50, priority=5),
        held("one", "n2", "b", priority=6),
    ]

    assert names(planned({"n1": node("a"), "n2": node("b")}, pods)) == ["two-1", "two-2"]


def test_then_the_sum_of_priorities_decides():
    pods = [
        held("five", "n1", "a", memory_mib=50, priority=5),
        held("four", "n1", "a", memory_mib=50, priority=4),
        held("also-five", "n2", "b", memory_mib=50, priority=5),
        held("three", "n2", "b", memory_mib=50, priority=3),
    ]

    assert names(planned({"n1": node("a"), "n2": node("b")}, pods)) == ["also-five", "three"]


def test_of_equal_priorities_fewer_pods_go_even_if_these_are_negative():
    """A plain sum would prefer two pods of -5 to one: kube-scheduler counts from the lowest."""
    pods = [
        held("two-1", "n1", "a", memory_mib=50, priority=-5),
        held("two-2", "n1", "a", memory_mib=50, priority=-5),
        held("one", "n2", "b", priority=-5),
    ]

    assert names(planned({"n1": node("a"), "n2": node("b")}, pods)) == ["one"]


def test_then_the_latest_start_of_the_most_important_victim_decides():
    """Of n1 the pod of priority 5 is the older one; the start of the other does not count."""
    pods = [
        held("old-5", "n1", "a", memory_mib=50, priority=5, hours=9),
        held("new-3", "n1", "a", memory_mib=50, priority=3, hours=1),
        held("new-5", "n2", "b", memory_mib=50, priority=5, hours=2),
        held("old-3", "n2", "b", memory_mib=50, priority=3, hours=20),
    ]

    assert names(planned({"n1": node("a"), "n2": node("b")}, pods)) == ["new-5", "old-3"]


def test_a_pod_that_no_kubelet_has_seen_counts_as_the_latest():
    pods = [held("seen", "n1", "a", hours=1), held("unseen", "n2", "b")]

    assert names(planned({"n1": node("a"), "n2": node("b")}, pods)) == ["unseen"]


def test_the_first_name_decides_where_all_else_is_equal():
    pods = [held("p2", "n2", "b"), held("p1", "n1", "a")]

    assert names(planned({"n2": node("b"), "n1": node("a")}, pods)) == ["p1"]


# Budgets.


def test_another_pod_goes_than_the_one_that_a_budget_keeps():
    pods = [
        held("kept", "n1", "a", labels={"role": "a"}),
        held("dear", "n2", "b", priority=99),
    ]

    answer = planned({"n1": node("a"), "n2": node("b")}, pods, all_budgets=[budget("web")])

    assert names(answer) == ["dear"]


def test_nothing_is_planned_where_every_set_breaks_a_budget_and_the_budget_is_named():
    pods = [held("kept", "n1", "a", labels={"role": "a"}, priority=7)]

    answer = planned({"n1": node("a")}, pods, all_budgets=[budget("web"), budget("x", role="b")])

    assert isinstance(answer, plan.Blocked)
    assert (answer.node, [str(one) for one in answer.budgets]) == ("n1", ["team-a/web"])
    (victim,) = answer.victims
    assert (victim.key.name, victim.budgets_broken) == ("kept", ("team-a/web",))


def test_a_budget_lets_go_as_many_as_it_allows():
    """Two cards are asked. Of n1 both pods are covered, of n2 one: the budget lets one go."""
    pods = [
        held("a-covered", "n1", "a", labels={"role": "a"}),
        held("b-covered", "n1", "b", labels={"role": "a"}),
        held("x-1", "n2", "c", memory_mib=50),
        held("x-2", "n2", "c", memory_mib=50, labels={"role": "a"}),
        held("x-3", "n2", "d"),
    ]
    nodes = {"n1": node("a", "b"), "n2": node("c", "d")}

    answer = planned(
        nodes, pods, clusters.asks(2, memory_mib=100), all_budgets=[budget("web", allowed=1)]
    )

    assert names(answer) == ["x-1", "x-2", "x-3"]


@pytest.mark.parametrize(
    ("fields", "covering"),
    [
        ({"phase": "Pending"}, [budget("web")]),
        ({"ready": False}, [dataclasses.replace(budget("web"), lets_unready_go=True)]),
        ({}, [dataclasses.replace(budget("web"), disrupted=frozenset(("p",)))]),
        ({}, [dataclasses.replace(budget("web"), namespace="team-b")]),
        ({}, [dataclasses.replace(budget("web"), selector=None)]),
    ],
)
def test_a_budget_that_does_not_count_the_pod_keeps_nobody(fields, covering):
    pods = [held("p", "n1", "a", labels={"role": "a"}, **fields)]

    assert names(planned({"n1": node("a")}, pods, all_budgets=covering)) == ["p"]


def test_a_pod_of_two_budgets_stays_whatever_they_allow():
    """The Eviction API answers 500 about such a pod."""
    pods = [held("p", "n1", "a", labels={"role": "a"})]

    answer = planned(
        {"n1": node("a")},
        pods,
        all_budgets=[budget("web", allowed=9), budget("all", allowed=9)],
    )

    assert isinstance(answer, plan.Blocked)
    assert [str(one) for one in answer.budgets] == ["team-a/all", "team-a/web"]


# Who goes anyway.


def test_nobody_is_evicted_where_a_pod_is_on_its_way_out_and_its_cards_are_enough():
    pods = [
        held("ending", "n2", "b", deleting=True, priority=1000),
        held("cheap", "n1", "a"),
    ]

    answer = planned({"n1": node("a"), "n2": node("b")}, pods)

    assert isinstance(answer, plan.Waits)
    assert (answer.node, [key.name for key in answer.pods]) == ("n2", ["ending"])
    assert [share.device_id for share in answer.allocation.shares["NVIDIA"][0]] == ["b"]


def test_a_pod_that_goes_by_itself_is_no_victim_and_its_cards_count_as_free():
    pods = [
        held("ending", "n1", "a", memory_mib=50, deleting=True),
        held("other", "n1", "a", memory_mib=50),
    ]

    assert names(planned({"n1": node("a")}, pods)) == ["other"]


def test_a_pod_that_fits_waits_for_nobody():
    answer = planned({"n1": node("a")}, [])

    assert isinstance(answer, plan.Waits)
    assert answer.pods == ()


def test_a_pod_whose_binding_is_under_way_is_no_victim():
    books = books_of({"n1": node("a")}, [])
    wish = clusters.wish(clusters.asks(memory_mib=100), uid="u2", name="binding")
    books.ledger.assume(wish, clusters.promise("n1", [clusters.share("a", 100)]))

    assert isinstance(planned({"n1": node("a")}, (), books=books), plan.NoPlan)


@pytest.mark.parametrize(("priority", "victims"), [(99, ["p1"]), (100, ["p2"]), (200, ["p2"])])
def test_what_is_held_for_another_pod_counts_unless_that_is_less_important(priority, victims):
    """The cards of p1 are held for a pod that waits for its end as well."""
    nodes = {"n1": node("a"), "n2": node("b")}
    pods = [held("p1", "n1", "a"), held("p2", "n2", "b", priority=50)]
    books = books_of(nodes, pods)
    other = clusters.wish(clusters.asks(memory_mib=100), uid="u2", name="other")
    books.ledger.nominate(
        other, priority, clusters.promise("n1", [clusters.share("a", 100)]), clusters.LATER
    )

    assert names(planned(nodes, pods, books=books)) == victims


def test_the_plan_says_what_the_pod_gets_and_leaves_the_books_alone():
    nodes = {"n1": node("a", "b")}
    pods = [held("p1", "n1", "a", priority=50), held("p2", "n1", "b")]
    books = books_of(nodes, pods)
    before = books.ledger.generation, books.ledger.usage("n1", "NVIDIA")

    answer = planned(nodes, pods, books=books)

    assert names(answer) == ["p2"]
    assert answer.allocation == allocation.Allocation(
        node="n1",
        shares={
            "NVIDIA": (
                (
                    allocation.DeviceShare(
                        device_id="b", vendor_word="NVIDIA", memory_mib=100, cores_percent=0
                    ),
                ),
            )
        },
    )
    assert (books.ledger.generation, books.ledger.usage("n1", "NVIDIA")) == before


def test_cards_that_come_and_go_take_the_pods_shares_along():
    """After its card was gone and came back in another place, the pod still is who goes."""
    nodes = {"n1": node("a", "b")}
    pods = [held("p1", "n1", "a"), held("p2", "n1", "b", priority=200)]
    books = books_of(nodes, pods)
    books.ledger.set_devices("n1", "NVIDIA", nodes["n1"].cards["NVIDIA"][1:])
    assert isinstance(planned(nodes, pods, books=books), plan.NoPlan)

    books.ledger.set_devices("n1", "NVIDIA", nodes["n1"].cards["NVIDIA"][::-1])

    assert names(planned(nodes, pods, books=books)) == ["p1"]


def test_a_pod_that_has_ended_or_is_gone_is_no_victim():
    nodes = {"n1": node("a"), "n2": node("b")}
    pods = [held("p1", "n1", "a"), held("p2", "n2", "b", priority=50)]
    books = books_of(nodes, pods)
    books.ledger.forget("uid-p1")
    books.ledger.set_cordoned("n1", frozenset("a"))

    assert names(planned(nodes, pods, books=books)) == ["p2"]


def test_more_nodes_than_are_looked_at_together_are_all_compared():
    """The youngest of many equal pods is on the last node but one."""
    numbers = range(3 * 128)
    nodes = {f"n{n:03}": node(f"c{n}") for n in numbers}
    pods = [
        held(f"p{n}", f"n{n:03}", f"c{n}", hours=1 if n == numbers[-2] else 5 + n % 7)
        for n in numbers
    ]

    answer = planned(nodes, pods)

    assert names(answer) == [f"p{numbers[-2]}"]
    assert answer.exact


def test_a_budget_is_matched_once_for_pods_with_the_same_labels(monkeypatch):
    """With thousands of pods and hundreds of budgets it would take seconds otherwise."""
    labels = {"role": "a"}
    pods = [held(f"p{n}", f"n{n}", "c", labels=labels, phase="Running") for n in range(20)]
    asked = []
    real = budgets.Budget.covers
    monkeypatch.setattr(
        budgets.Budget, "covers", lambda *given: asked.append(given) or real(*given)
    )

    answer = planned(
        {f"n{n}": node("c") for n in range(20)},
        pods,
        all_budgets=[
            dataclasses.replace(budget("web"), disrupted=frozenset(("p7",))),
            *(budget(f"other-{n}", role=f"no-{n}") for n in range(10)),
        ],
    )

    assert names(answer) == ["p7"]
    assert len(asked) <= 2 * 11


@pytest.mark.parametrize(
    ("ready", "covering"),
    [
        (True, [dataclasses.replace(budget("web"), lets_unready_go=True)]),
        (False, [budget("web")]),
        (False, [dataclasses.replace(budget(name), lets_unready_go=True) for name in "ab"]),
    ],
)
def test_a_budget_keeps_a_pod_that_is_ready_and_others_where_it_says_so(ready, covering):
    """The Eviction API refuses a pod of two budgets before it looks whether it is ready."""
    pods = [held("p", "n1", "a", labels={"role": "a"}, phase="Running", ready=ready)]

    answer = planned({"n1": node("a")}, pods, all_budgets=covering)

    assert isinstance(answer, plan.Blocked)
