"""Pods that cards are kept for, and the pods that these are kept from."""

import dataclasses
import datetime
from typing import Any

import pytest

from support import clusters, explained
from support.dialogue import Dialogue
from support.operator_books import (
    NOW,
    ONE_CARD,
    TWO_CARDS,
    bind_args,
    bound,
    later,
    open_books,
    pending,
    put_node,
    register_text,
    used_mib,
)
from vgpu_operator.cli import cluster_books
from vgpu_operator.flows import (
    bind,
    books,
    closest,
    effects,
    nominated,
    pod_events,
    promises,
    reconcile,
    register,
    simulate,
    smaller,
    wake,
    what_if,
)
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.preemption import attempts
from vgpu_operator.ledger import audit, nominations
from vgpu_operator.model import allocation, reason, records, settings
from vgpu_operator.scheduling import fit
from vgpu_operator.vendors import registry

WHOLE = clusters.asks(memory_mib=24576)
UNTIL = later(30)


def important(name: str = "boss", priority: int = 10, **fields: object) -> records.PodRecord:
    """Return a pending pod that asks for all memory of a card."""
    return pending(name, WHOLE, priority=priority, **fields)


def holder(name: str = "p9", *, priority: int = 0, **fields: object) -> records.PodRecord:
    """Return a running pod that holds all memory of GPU-a0."""
    record = pending(name, WHOLE, priority=priority)
    phase = records.BindPhase.SUCCESS
    return bound(record, memory_mib=24576, phase=phase, admitted=True, **fields)


def keep(
    held: books.Books,
    pod: records.PodRecord,
    *,
    node: str = "node-a",
    card: str = "GPU-a0",
    memory_mib: int = 24576,
    until: datetime.datetime = UNTIL,
) -> None:
    """Keep memory of a card for a waiting pod."""
    pod_events.pod_seen(held, pod)
    promised = clusters.promise(node, [clusters.share(card, memory_mib)])
    assert held.ledger.nominate(pod.request, pod.priority, promised, until)


def full(*victims: records.PodRecord) -> books.Books:
    """Return books with a full node-a and an empty node-b that is cordoned for now."""
    held = open_books()
    put_node(held, "node-a")
    for record in victims or (holder(),):
        pod_events.pod_seen(held, record)
    return held


def two_nodes() -> books.Books:
    held = open_books()
    put_node(held, "node-a")
    put_node(held, "node-b", register=ONE_CARD.replace("a0", "b0"))
    return held


def ask(
    held: books.Books, pod: records.PodRecord, *nodes: str, seconds: float = 0
) -> flow_filter.FilterResult:
    return flow_filter.filter_nodes(held, pod, nodes or tuple(held.nodes), later(seconds))


def fits(held: books.Books, pod: records.PodRecord, *nodes: str) -> tuple[str, ...]:
    return ask(held, pod, *nodes).fitting


@pytest.mark.parametrize(("priority", "expected"), [(9, ()), (10, ()), (11, ("node-a",))])
def test_the_filter_keeps_the_cards_from_lower_and_equal_priorities(
    priority: int, expected: tuple[str, ...]
) -> None:
    held = open_books()
    put_node(held)
    keep(held, important())

    result = ask(held, important("other", priority))

    assert result.fitting == expected
    if not expected:
        assert str(result.rejections["node-a"]) == "1/1 CardInsufficientMemory"
        assert result.rejections["node-a"].resolvable


def test_the_pod_itself_fits_on_what_is_kept_for_it() -> None:
    held = two_nodes()
    keep(held, important())

    assert set(fits(held, important())) == {"node-a", "node-b"}
    assert fits(held, important("other")) == ("node-b",)


def test_pods_that_ask_alike_are_answered_by_their_priority() -> None:
    """The kept answers of one priority are not those of another."""
    held = two_nodes()
    keep(held, important("boss", 10))
    keep(held, important("chief", 20), node="node-b", card="GPU-b0")

    def answers() -> list[tuple[str, ...]]:
        asked = [important(f"p{level}", level) for level in (0, 10, 11, 20, 21)]
        found = []
        for pod in asked:
            found.append(fits(held, pod))
            held.ledger.drop_claim(pod.key.uid)
        return found

    expected = [(), (), ("node-a",), ("node-a",), ("node-a", "node-b")]
    assert answers() == expected
    assert answers() == expected
    assert answers()[::-1] == expected[::-1]


def test_two_priorities_from_which_the_same_is_kept_share_one_answer() -> None:
    held = open_books()
    put_node(held)
    keep(held, important("boss", 10))

    one = ask(held, important("p1", 3))
    other = ask(held, important("p2", 4))

    assert one.rejections is other.rejections


def test_a_kept_answer_of_others_is_not_the_pods_own() -> None:
    held = open_books()
    put_node(held)
    keep(held, important())

    assert fits(held, important("other")) == ()
    assert fits(held, important()) == ("node-a",)


def test_the_score_of_a_node_counts_what_is_kept_there() -> None:
    held = two_nodes()
    keep(held, important(), memory_mib=12288)
    small = pending("small", clusters.asks(memory_mib=1000))

    scores = flow_filter.score_nodes(held, small, ["node-a", "node-b"])

    assert scores[0] > scores[1] == 0


def bound_by(held: books.Books, pod: records.PodRecord, node: str = "node-a") -> str:
    """Bind a pod, all answers as wished, and return the error."""
    talk = Dialogue(bind.bind(held, bind_args(pod, node), NOW))
    while not talk.ended:
        effect = talk.expects(effects.Effect)
        talk.answers(() if isinstance(effect, effects.ListNodePods) else "11")
    return talk.result.error


def test_a_bind_of_equal_priority_does_not_get_the_cards_and_claims_nothing_any_more() -> None:
    held = open_books()
    put_node(held)
    other = important("other")
    pod_events.pod_seen(held, other)
    ask(held, other)
    keep(held, important())

    error = bound_by(held, other)

    assert error == ("team-a/other no longer fits on node-a: 1/1 CardInsufficientMemory")
    assert held.ledger.holding(other.key.uid) is None
    assert not held.ledger.has_claim(other.key.uid)
    assert held.ledger.nomination("uid-of-boss") is not None


def test_a_bind_that_was_under_way_keeps_its_cards() -> None:
    """They were charged when the plan was made; nobody planned on them."""
    held = open_books()
    put_node(held, register=TWO_CARDS)
    other = important("other")
    pod_events.pod_seen(held, other)
    talk = Dialogue(bind.bind(held, bind_args(other), NOW))
    talk.expects(effects.PatchNode)
    keep(held, important(), card="GPU-a0" if used_mib(held)["GPU-a1"] else "GPU-a1")

    talk.answers("11")
    talk.answers(())
    talk.expects(effects.BindPod)
    talk.answers()

    assert talk.result.error == ""
    assert held.ledger.nomination("uid-of-boss") is not None


def test_a_bind_under_way_that_must_choose_again_finds_no_place() -> None:
    held = open_books()
    put_node(held, register=TWO_CARDS)
    other, boss = important("other"), important()
    pod_events.pod_seen(held, other)
    talk = Dialogue(bind.bind(held, bind_args(other), NOW))
    talk.expects(effects.PatchNode)
    taken = "GPU-a0" if used_mib(held)["GPU-a0"] else "GPU-a1"
    rest = {"GPU-a0": "GPU-a1", "GPU-a1": "GPU-a0"}[taken]
    keep(held, boss, card=rest)
    stranger = bound(pending("stranger", WHOLE), card=taken, memory_mib=24576, version="19")

    talk.answers("11")
    talk.expects(effects.ListNodePods)
    talk.answers((stranger,))
    while not talk.ended:
        talk.answers("12")

    assert "no longer fits on node-a" in talk.result.error
    assert used_mib(held)[taken] == 24576
    assert used_mib(held)[rest] == 0


def test_the_pods_own_bind_takes_the_kept_cards_and_ends_the_keeping() -> None:
    held = open_books()
    put_node(held)
    boss = important()
    keep(held, boss)
    before = held.ledger.generation

    assert bound_by(held, boss) == ""

    assert held.ledger.nominations() == ()
    assert used_mib(held) == {"GPU-a0": 24576}
    assert held.ledger.freed_since(before) == frozenset()


def test_the_pods_own_bind_may_take_other_cards_and_sets_the_kept_ones_free() -> None:
    held = two_nodes()
    boss = important()
    keep(held, boss)
    before = held.ledger.generation

    assert bound_by(held, boss, "node-b") == ""

    assert held.ledger.nominations() == ()
    assert used_mib(held, "node-b") == {"GPU-b0": 24576}
    assert "node-a" in held.ledger.freed_since(before)


def test_a_pod_of_higher_priority_takes_the_cards_and_the_keeping_is_over_at_once() -> None:
    held = open_books()
    put_node(held)
    keep(held, important("boss", 10))
    chief = important("chief", 20)
    pod_events.pod_seen(held, chief)

    assert isinstance(
        bind.reserve(held, chief.request, "node-a", priority=20), allocation.Allocation
    )

    assert held.ledger.nominations() == ()


def test_a_pod_of_higher_priority_that_leaves_enough_ends_nothing() -> None:
    held = open_books()
    put_node(held, register=TWO_CARDS)
    keep(held, important("boss", 10))
    chief = important("chief", 20)
    pod_events.pod_seen(held, chief)

    bind.reserve(held, chief.request, "node-a", priority=20)

    assert held.ledger.nomination("uid-of-boss") is not None


def test_where_only_other_cards_are_left_those_are_kept() -> None:
    """Else a pod of equal priority could take the last card on which the first one fits."""
    held = open_books()
    put_node(held, register=TWO_CARDS)
    keep(held, important("boss", 10), card="GPU-a0")
    chief = important("chief", 20)
    pod_events.pod_seen(held, chief)
    held.ledger.assume(chief.request, clusters.promise("node-a", [clusters.share("GPU-a0", 24576)]))

    assert nominated.review(held, ["node-a"]) == ()

    kept = held.ledger.nomination("uid-of-boss")
    assert kept is not None
    assert list(kept.holding.charges["NVIDIA"]) == ["GPU-a1"]
    assert kept.until == UNTIL
    assert fits(held, important("other", 10)) == ()


def test_cards_that_can_still_be_had_stay_the_kept_ones() -> None:
    held = open_books()
    put_node(held, register=TWO_CARDS)
    for card in ("GPU-a0", "GPU-a1"):
        keep(held, important("boss", 10), card=card)
        generation = held.ledger.generation

        nominated.review(held, ["node-a"])

        kept = held.ledger.nomination("uid-of-boss")
        assert kept is not None
        assert list(kept.holding.charges["NVIDIA"]) == [card]
        assert held.ledger.generation == generation


def sharing(name: str, memory_mib: int, **fields: object) -> records.PodRecord:
    record = pending(name, clusters.asks(memory_mib=memory_mib), **fields)
    phase = records.BindPhase.SUCCESS
    return bound(record, memory_mib=memory_mib, phase=phase, admitted=True)


@pytest.mark.parametrize(("takes_mib", "still"), [(5000, True), (5001, False)])
def test_what_the_victims_leave_decides_whether_the_keeping_makes_sense(
    takes_mib: int, still: bool
) -> None:
    """Of 24,576 MiB 576 stay and 19,000 are kept, once 10,000 have left: 5,000 are free."""
    held = full(sharing("victim", 10000), sharing("stays", 576, priority=99))
    boss = pending("boss", clusters.asks(memory_mib=19000), priority=10)
    keep(held, boss, memory_mib=19000)
    chief = pending("chief", clusters.asks(memory_mib=takes_mib), priority=20)
    pod_events.pod_seen(held, chief)

    taken = bind.reserve(held, chief.request, "node-a", priority=20)

    assert isinstance(taken, allocation.Allocation)
    assert (held.ledger.nomination("uid-of-boss") is not None) is still


def test_only_those_leave_that_the_attempt_names() -> None:
    held = full(sharing("victim", 10000), sharing("bystander", 10000))
    boss = pending("boss", clusters.asks(memory_mib=14000), priority=10)
    keep(held, boss, memory_mib=14000)
    kept = held.ledger.nomination("uid-of-boss")
    assert kept is not None

    def attempt_on(*names: str) -> None:
        held.preemption.attempts["uid-of-boss"] = attempts.Attempt(
            pod=boss.key,
            priority=10,
            node="node-a",
            victims=tuple(pending(name).key for name in names),
            since=NOW,
            until=UNTIL,
        )

    assert nominated.would_get(held, kept) is not None
    attempt_on("victim")
    assert nominated.would_get(held, kept) is not None
    attempt_on()
    assert nominated.would_get(held, kept) is None
    going = dataclasses.replace(sharing("bystander", 10000), deleting=True, resource_version="21")
    pod_events.pod_seen(held, going)
    assert nominated.would_get(held, kept) is not None


def test_another_schedulers_pod_on_the_cards_ends_the_keeping_and_the_news_names_the_pod() -> None:
    held = open_books()
    put_node(held)
    keep(held, important())

    news = pod_events.pod_seen(held, holder("stranger", priority=10))

    assert held.ledger.nominations() == ()
    assert news.pods == {"uid-of-stranger", "uid-of-boss"}


@pytest.mark.parametrize("what", ["card broken", "card gone", "cordoned", "node gone"])
def test_cards_that_are_no_longer_usable_are_not_kept(what: str) -> None:
    held = full()
    keep(held, important())
    match what:
        case "card broken":
            text = ONE_CARD.replace('"health": true', '"health": false')
            put_node(held, version="11", register=text)
        case "card gone":
            put_node(held, version="11", register=register_text(("GPU-new", 1000)))
        case "cordoned":
            put_node(held, version="11", cordoned=["GPU-a0"])
        case _:
            register.node_gone(held, "node-a")

    reconcile.quick_tick(held, later(1))

    assert held.ledger.nominations() == ()


def test_a_tick_looks_again_only_where_something_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = two_nodes()
    keep(held, important("boss"))
    keep(held, important("chief"), node="node-b", card="GPU-b0")
    looked: list[str] = []

    would_get = nominated.would_get

    def noted(known: books.Books, kept: nominations.Nomination) -> allocation.Allocation | None:
        looked.append(kept.node)
        return would_get(known, kept)

    monkeypatch.setattr(nominated, "would_get", noted)
    nominated.review_changed(held)
    assert sorted(looked) == ["node-a", "node-b"]
    nominated.review_changed(held)
    more = TWO_CARDS.replace("a0", "b0").replace("a1", "b1")
    put_node(held, "node-b", version="12", register=more)
    nominated.review_changed(held)

    assert looked[2:] == ["node-b"]


def test_a_tick_ends_what_was_kept_long_enough() -> None:
    held = open_books()
    put_node(held)
    keep(held, important(), until=later(5))

    reconcile.quick_tick(held, later(4.9))
    assert held.ledger.nominations() != ()
    reconcile.quick_tick(held, later(5))

    assert held.ledger.nominations() == ()


def test_nothing_is_kept_by_a_process_that_leads_no_more() -> None:
    held = open_books()
    put_node(held)
    keep(held, important())

    reconcile.term_ended(held)

    assert held.ledger.nominations() == ()


def woken(held: books.Books) -> list[str]:
    talk = Dialogue(wake.wake(held))
    written = []
    while not talk.ended:
        written.append(talk.expects(effects.PatchNode).node)
        talk.answers("99")
    return written


def test_the_pod_is_woken_when_its_cards_come_free_and_nobody_else_is() -> None:
    held = full()
    boss, other = important(), important("other", 3)
    ask(held, other)
    ask(held, boss)
    keep(held, boss)
    assert woken(held) == []

    pod_events.pod_gone(held, pending("p9").key)

    assert woken(held) == ["node-a"]
    assert fits(held, other) == ()
    assert fits(held, boss) == ("node-a",)


def test_a_lower_pod_alone_is_not_woken_for_cards_that_are_kept() -> None:
    held = full()
    ask(held, important("other", 3))
    keep(held, important())

    pod_events.pod_gone(held, pending("p9").key)

    assert wake.is_due(held)
    assert woken(held) == []


def test_the_end_of_the_keeping_wakes_whoever_waits() -> None:
    held = open_books()
    put_node(held)
    keep(held, important())
    ask(held, important("other", 3))
    held.woken_generation = held.ledger.generation

    pod_events.pod_gone(held, important().key)

    assert woken(held) == ["node-a"]


def two_cards_each() -> books.Books:
    """Return books of node-a and node-b with two full cards each."""
    held = open_books()
    for node in ("a", "b"):
        put_node(held, f"node-{node}", register=TWO_CARDS.replace("GPU-a", f"GPU-{node}"))
        for card in (0, 1):
            record = pending(f"on-{node}{card}", WHOLE)
            whole = bound(record, f"node-{node}", card=f"GPU-{node}{card}", memory_mib=24576)
            pod_events.pod_seen(held, whole)
    return held


def test_pods_that_cards_are_kept_for_elsewhere_are_looked_at_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look takes milliseconds beside hundreds of nominations, and they all wait."""
    held = two_cards_each()
    for place, card in enumerate(("GPU-a0", "GPU-a1")):
        ask(held, important(f"boss-{place}"))
        keep(held, important(f"boss-{place}"), card=card)
    ask(held, important("other"))
    held.woken_generation = held.ledger.generation
    pod_events.pod_gone(held, pending("on-b0").key)
    new = bound(pending("new", WHOLE), "node-b", card="GPU-b0", memory_mib=24576)
    pod_events.pod_seen(held, new)
    places: list[tuple[str, ...]] = []
    real = fit.place

    def counted(view: Any, nodes: Any, *rest: Any, **words: Any) -> fit.Placement:
        places.append(tuple(nodes))
        return real(view, nodes, *rest, **words)

    monkeypatch.setattr(fit, "place", counted)

    assert woken(held) == []
    assert places == [("node-b",)]


@pytest.mark.parametrize(("freed", "wakes"), [(1, False), (2, True)])
def test_a_pod_is_woken_for_its_own_cards_beside_what_is_kept_there_for_others(
    freed: int, wakes: bool
) -> None:
    """The higher pod has the first card that comes free, whoever asks first."""
    held = two_cards_each()
    keep(held, important("chief", 20), card="GPU-a0")
    keep(held, important("far", 20), node="node-b", card="GPU-b0")
    ask(held, important("boss", 10))
    keep(held, important("boss", 10), card="GPU-a1")
    held.woken_generation = held.ledger.generation

    for card in range(freed):
        pod_events.pod_gone(held, pending(f"on-a{card}").key)

    assert woken(held) == (["node-a"] if wakes else [])


def test_the_sentence_about_what_came_closest_counts_what_is_kept() -> None:
    held = open_books()
    put_node(held)
    keep(held, important(), memory_mib=20000)
    other = pending("other", clusters.asks(memory_mib=6000), priority=3)
    chief = pending("chief", clusters.asks(memory_mib=30000), priority=20)

    def said(pod: records.PodRecord) -> str:
        return closest.Closest(held).message(ask(held, pod).events[0], NOW)

    assert said(other) == (
        "1 nodes CardInsufficientMemory (node-a); closest is node-a: card GPU-a0: 6000 MiB"
        " asked, 4576 of 24576 MiB free (held by boss 20000 MiB)"
    )
    assert said(chief) == (
        "1 nodes CardInsufficientMemory (node-a); closest is node-a: card GPU-a0: 30000 MiB"
        " asked, 24576 of 24576 MiB free"
    )


def test_two_priorities_are_told_of_different_cards_by_one_desk() -> None:
    held = open_books()
    put_node(held)
    keep(held, important(), memory_mib=20000)
    desk = closest.Closest(held)
    asked = clusters.asks(memory_mib=30000)
    other, chief = pending("other", asked, priority=3), pending("chief", asked, priority=20)
    events = [ask(held, pod).events[0] for pod in (other, chief)]

    assert "4576 of 24576 MiB free" in desk.message(events[0], NOW)
    assert "24576 of 24576 MiB free" in desk.message(events[1], later(1))


def test_what_is_written_at_bind_knows_whom_cards_are_kept_for() -> None:
    """A vendor's own rules look at the tenants of a card when they write their annotations."""
    held = open_books()
    put_node(held)
    keep(held, important("boss", 10), memory_mib=1000)

    def tenants(priority: int) -> list[str]:
        pod = pending("other", priority=priority)
        (card,) = promises._cards_before(held, pod, "node-a", "NVIDIA")
        return [tenant.pod.name for tenant in card.tenants]

    assert (tenants(10), tenants(11)) == (["boss"], [])


@pytest.mark.parametrize(
    "end",
    ["bound elsewhere", "succeeded", "deleted", "gone"],
)
def test_the_pods_end_is_the_end_of_the_keeping(end: str) -> None:
    held = two_nodes()
    boss = important()
    keep(held, boss)
    match end:
        case "bound elsewhere":
            news = bound(boss, "node-b", card="GPU-b0", memory_mib=24576)
            pod_events.pod_seen(held, news)
        case "succeeded":
            pod_events.pod_seen(
                held, dataclasses.replace(boss, phase="Succeeded", resource_version="9")
            )
        case "deleted":
            pod_events.pod_seen(
                held, dataclasses.replace(boss, deleting=True, resource_version="9")
            )
        case _:
            pod_events.pod_gone(held, boss.key)

    assert held.ledger.nominations() == ()
    assert "node-a" in held.ledger.freed_since(0)
    assert fits(held, important("other", 0), "node-a") == ("node-a",)


def test_an_audit_beside_kept_cards_is_clean() -> None:
    held = full()
    keep(held, important())

    listed = [holder(), important()]

    assert audit.audit(held.ledger, listed).clean


def test_a_node_without_its_stamp_is_refused_for_that_and_not_for_what_is_kept() -> None:
    held = open_books()
    put_node(held, allocatable=0)
    keep(held, important())

    rejection = ask(held, important("other", 3)).rejections["node-a"]

    assert isinstance(rejection, reason.NodeRejection)
    assert not rejection.resolvable


def explained_beside_a_kept_card(priority: int) -> what_if.Explanation:
    """Explain a pod of 8,000 MiB where 6,000 of 10,000 are kept for a pod of priority 10."""
    node = explained.node("n1", explained.card("a"))
    asked = explained.pod("new", mem=8000, priority=priority)
    found = cluster_books.Objects(nodes=(node,), pods=(asked,))
    held = cluster_books.opened(found, settings.build({}), NOW, besides="uid-new")
    boss = pending("boss", clusters.asks(memory_mib=6000), priority=10)
    keep(held, boss, node="n1", card="a", memory_mib=6000)
    case = what_if.Case(
        pod=asked, record=cluster_books.pod_record(held, asked), nodes=(node,), pods={}
    )
    return what_if.explain(held, case, NOW)


def test_the_changes_that_would_make_a_pod_fit_leave_what_is_kept() -> None:
    found = explained_beside_a_kept_card(3)

    assert found.takers == ()
    assert found.nodes[0].cards[0].why == "CardInsufficientMemory"
    (change,) = (way for way in found.ways if isinstance(way, smaller.Change))
    assert [amount.most for amount in change.amounts] == [4000]


def test_a_pod_of_higher_priority_is_told_that_it_fits_on_what_is_kept() -> None:
    found = explained_beside_a_kept_card(11)

    assert [node.name for node in found.takers] == ["n1"]
    assert found.nodes[0].cards[0].why == ""


@pytest.mark.parametrize(("priority", "expected"), [(10, None), (11, "n1")])
def test_a_cluster_on_paper_counts_what_is_kept(priority: int, expected: str | None) -> None:
    configured = settings.build({})
    world = simulate.Simulation(configured, registry.build(configured))
    world.see_nodes([explained.node("n1", explained.card("a"))], NOW)
    boss = pending("boss", clusters.asks(memory_mib=6000), priority=10)
    keep(world.books, boss, node="n1", card="a", memory_mib=6000)
    record = world.record(explained.pod("new", mem=8000, priority=priority))

    assert world.place(record, ["n1"], NOW).node == expected
