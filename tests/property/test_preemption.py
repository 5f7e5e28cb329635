"""Who has to leave: the fast search and the plain loops must say the same of any cluster."""

import dataclasses
import datetime
from collections.abc import Sequence
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from support import clusters, slow_preemption, toy_vendors
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import leaving
from vgpu_operator.flows.preemption import plan
from vgpu_operator.model import allocation, budgets, policy, quota, records, request
from vgpu_operator.model import settings as model_settings
from vgpu_operator.scheduling import preempt, victims
from vgpu_operator.vendors import roster

NOW = datetime.datetime(2026, 1, 15, 10, tzinfo=datetime.UTC)
HIGHEST = 10
"""The highest priority of pods that may go."""

VENDORS = ("NVIDIA", "MLU")
KINDS = tuple(request.ContainerKind)
CARD_POLICIES = st.lists(st.sampled_from(list(policy.CardPolicy)), min_size=1, max_size=2)
often = st.sampled_from([True] * 9 + [False])


@st.composite
def nodes(draw: st.DrawFn, name: str) -> clusters.Node:
    """Return a node of few cards, most of which could serve."""
    cards = {
        vendor: tuple(
            clusters.card(
                f"{vendor}-{name}-{number}",
                index=number,
                slots=draw(st.sampled_from([1, 2, 3, 4])),
                memory_mib=draw(st.sampled_from([100, 100, 200])),
                cores_percent=draw(st.sampled_from([100, 100, 200])),
                card_type=vendor,
                numa=draw(st.integers(0, 1)),
                healthy=draw(often),
            )
            for number in range(draw(st.integers(1, 3)) if vendor == "NVIDIA" else 1)
        )
        for vendor in VENDORS
    }
    return clusters.Node(
        cards=cards,
        allocatable=dict.fromkeys(VENDORS, 8),
        cordoned=frozenset() if draw(often) else frozenset((f"NVIDIA-{name}-0",)),
    )


@st.composite
def holders(draw: st.DrawFn, number: int, name: str, node: clusters.Node) -> records.PodRecord:
    """Return a pod that holds shares of one card or of several."""
    vendor = draw(st.sampled_from(["NVIDIA"] * 6 + ["MLU"]))
    ids = [card.id for card in node.cards[vendor]]
    chosen = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True))
    memory_mib = draw(st.sampled_from([10, 40, 60, 100]))
    cores = draw(st.sampled_from([0, 30, 60, 100]))
    asked = clusters.asks(len(chosen), vendor=vendor, memory_mib=memory_mib, cores_percent=cores)
    wanted = clusters.wish(clusters.container(asked), uid=f"u-{number}", name=f"held-{number}")
    key = dataclasses.replace(wanted.pod, namespace=draw(st.sampled_from(["team-a", "team-b"])))
    shares = tuple(clusters.share(card, memory_mib, cores) for card in chosen)
    record = clusters.pod(
        dataclasses.replace(wanted, pod=key),
        allocation.Allocation(node=name, shares={vendor: (shares,)}),
        phase=draw(st.sampled_from(["Running"] * 8 + ["Pending", "Succeeded"])),
        deleting=draw(st.sampled_from([False] * 12 + [True])),
        faults=draw(st.sampled_from([()] * 40 + [(vendor,)])),
    )
    started = draw(st.sampled_from([None, 1, 2, 3]))
    return dataclasses.replace(
        record,
        priority=draw(st.sampled_from([0, 0, 0, 0, 5, 5, 10, -3, 11])),
        labels={"role": draw(st.sampled_from(["a", "b"]))},
        started=None if started is None else NOW - datetime.timedelta(hours=started),
    )


@st.composite
def asking(draw: st.DrawFn) -> request.PodRequest:
    """Return the pod that is to fit."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
    kinds.sort(key=lambda kind: kind is request.ContainerKind.APP)
    wanted = tuple(
        clusters.container(
            clusters.asks(
                draw(st.sampled_from([1, 1, 1, 2, 2, 3])),
                vendor=draw(st.sampled_from(["NVIDIA"] * 6 + ["MLU"])),
                memory_mib=draw(st.sampled_from([0, 30, 60, 60, 100])),
                percent=draw(st.sampled_from([None, 50, 100])),
                cores_percent=draw(st.sampled_from([0, 0, 30, 60, 100])),
            ),
            kind=kind,
        )
        for kind in kinds
    )
    rules = request.CardSelection(numa_bind=draw(st.sampled_from([False, False, True])))
    return clusters.wish(
        *wanted,
        uid="asks",
        name="asks",
        selection=rules,
        card_policies=tuple(draw(CARD_POLICIES)),
    )


@st.composite
def all_budgets(draw: st.DrawFn) -> tuple[budgets.Budget, ...]:
    """Return budgets of either namespace; some pods are covered by two."""
    return tuple(
        budgets.Budget(
            namespace=draw(st.sampled_from(["team-a", "team-b"])),
            name=f"budget-{number}",
            selector=draw(
                st.sampled_from([(), None])
                | st.builds(
                    lambda role: (
                        budgets.Requirement(
                            key="role",
                            operator=budgets.Operator.IN,
                            values=frozenset((role,)),
                        ),
                    ),
                    st.sampled_from(["a", "b"]),
                )
            ),
            allowed=draw(st.sampled_from([0, 1, 1, 2])),
            disrupted=frozenset(draw(st.lists(st.just("held-0"), max_size=1))),
        )
        for number in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2])))
    )


@st.composite
def cases(draw: st.DrawFn) -> slow_preemption.Case:
    """Return a question, the cards of the nodes mostly full."""
    names = ("node-a", "node-b")[: draw(st.integers(1, 2))]
    cluster = clusters.Cluster(nodes={name: draw(nodes(name)) for name in names}, vendors=VENDORS)
    number = 0
    for name, node in cluster.nodes.items():
        for _ in range(draw(st.integers(1, 6))):
            cluster.pods.append(draw(holders(number, name, node)))
            number += 1
    amounts = st.sampled_from([None, None, 60, 120, 200])
    limits = {"NVIDIA": quota.Allowance(memory_mib=draw(amounts), cores=draw(amounts))}
    wish = draw(asking())
    return slow_preemption.Case(
        cluster=cluster,
        wish=wish,
        policies=wish.card_policies,
        highest=HIGHEST,
        budgets=draw(all_budgets()),
        limits=limits if draw(st.sampled_from([False, False, True])) else {},
    )


def books_of(
    case: slow_preemption.Case, by_hand: Sequence[toy_vendors.ByHand] = ()
) -> flow_books.Books:
    """Return the operator's books of a case."""
    books = flow_books.Books(
        settings=model_settings.Settings(),
        vendors=roster.of(by_hand),
        ledger=clusters.build_ledger(case.cluster),
    )
    books.ledger.set_limits(case.wish.pod.namespace, case.limits)
    return books


def planned(books: flow_books.Books, case: slow_preemption.Case) -> plan.Answer:
    """Return the answer for a pod just above the highest priority that may go."""
    return plan.plan(
        books,
        case.wish,
        priority=HIGHEST + 1,
        nodes=tuple(case.cluster.nodes),
        budgets=case.budgets,
        may_go=lambda _record: True,
        now=NOW,
    )


def cost_of(case: slow_preemption.Case, node: str, chosen: Sequence[plan.Victim]) -> object:
    """Return what a plan costs, in the words of the plain loops."""
    uids = {victim.key.uid for victim in chosen}
    pods = [pod for pod in case.cluster.pods if pod.key.uid in uids]
    return slow_preemption.cost(case, node, pods)


def assert_same(
    case: slow_preemption.Case, answer: plan.Answer, expected: slow_preemption.Expected
) -> None:
    match answer:
        case plan.Waits():
            assert expected.kind == "waits"
            assert slow_preemption.fits(case, answer.node, frozenset())
        case plan.Plan():
            assert expected.kind == "plan"
            assert answer.node == expected.node
            assert cost_of(case, answer.node, answer.victims) == expected.cost
            assert frozenset(one.key.uid for one in answer.victims) in expected.sets
            assert answer.exact
        case plan.Blocked():
            assert expected.kind == "blocked"
            assert answer.budgets
        case plan.NoPlan():
            assert expected.kind == "nothing"


@settings(max_examples=150, deadline=None)
@given(cases())
def test_the_plan_is_the_cheapest_that_plain_loops_over_every_set_find(
    case: slow_preemption.Case,
) -> None:
    answer = planned(books_of(case), case)

    assert_same(case, answer, slow_preemption.expected(case))


@settings(max_examples=60, deadline=None)
@given(cases())
def test_where_the_number_counts_first_it_is_the_smallest_of_all_nodes(
    case: slow_preemption.Case,
) -> None:
    case = dataclasses.replace(case, fewest_first=True, budgets=())
    books = books_of(case)
    question = leaving.Question(
        wish=case.wish,
        nodes=tuple(case.cluster.nodes),
        highest=HIGHEST,
        prefer=preempt.Prefer.FEWEST,
    )

    found = leaving.cheapest(books, books.ledger.snapshot(), question)

    expected = slow_preemption.expected(case)
    if isinstance(found, leaving.Leaving):
        assert (expected.kind, found.node) == ("plan", expected.node)
        assert frozenset(record.key.uid for record in found.pods) in expected.sets
    else:
        assert expected.kind == ("nothing" if found is None else "waits")


@settings(max_examples=60, deadline=None)
@given(cases(), toy_vendors.COMMON_BY_HAND)
def test_vendors_that_judge_each_node_themselves_find_the_same_number(
    case: slow_preemption.Case, by_hand: dict[str, toy_vendors.ByHand]
) -> None:
    case = dataclasses.replace(case, wish=dataclasses.replace(case.wish, selections={}), budgets=())

    answer = planned(books_of(case, tuple(by_hand.values())), case)

    assert_same(case, answer, slow_preemption.expected(case))


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 3))
def test_no_pod_of_a_plan_could_stay_even_where_few_sets_are_tried(
    case: slow_preemption.Case, most: int
) -> None:
    """As where there are too many: all leave, and each comes back that can."""
    books = books_of(case)
    with mock.patch.object(victims, "MOST_TRIES", most):
        answer = planned(books, case)

    if not isinstance(answer, plan.Plan):
        return
    uids = frozenset(victim.key.uid for victim in answer.victims)
    assert slow_preemption.fits(case, answer.node, uids)
    for uid in uids:
        assert not slow_preemption.fits(case, answer.node, uids - {uid})
    chosen = [pod for pod in case.cluster.pods if pod.key.uid in uids]
    assert not slow_preemption.breaks(case.budgets, chosen)
    books.ledger.assume(case.wish, answer.allocation)
