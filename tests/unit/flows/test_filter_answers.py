"""The filter: who fits where, what is claimed, what is said and how often."""

import dataclasses
from typing import Any

import pytest

from support import clusters
from support.operator_books import (
    NOW,
    ONE_CARD,
    TWO_CARDS,
    bound,
    later,
    open_books,
    pending,
    plain,
    put_node,
    used_mib,
)
from support.resource_quotas import MEMORY, limit
from vgpu_operator.flows import books, effects, pod_events, reconcile
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import records, request

WHOLE = clusters.asks(percent=100)


def two_nodes(**values: object) -> books.Books:
    held = open_books(**values)
    put_node(held, "node-a")
    put_node(held, "node-b", register=ONE_CARD.replace("a0", "b0"))
    return held


def ask(
    held: books.Books, pod: records.PodRecord, *nodes: str, seconds: float = 0
) -> flow_filter.FilterResult:
    return flow_filter.filter_nodes(held, pod, nodes or ("node-a", "node-b"), later(seconds))


def test_every_node_that_fits_is_named_and_nothing_is_written() -> None:
    held = two_nodes()

    result = ask(held, pending())

    assert result == flow_filter.FilterResult(fitting=("node-a", "node-b"))
    assert used_mib(held) == {"GPU-a0": 0}


def test_a_pod_without_devices_fits_everywhere_known_or_not() -> None:
    held = two_nodes()

    result = ask(held, plain(), "node-a", "node-x")

    assert result.fitting == ("node-a", "node-x")
    assert (held.refused, held.ledger.records()) == ({}, ())


def test_case_112_a_node_that_is_not_known_has_a_reason_and_the_others_go_on() -> None:
    result = ask(two_nodes(), pending(), "node-x", "node-b")

    assert result.fitting == ("node-b",)
    assert str(result.rejections["node-x"]) == (
        "node unregistered: the node is not known to the operator"
    )


def test_every_rejected_node_has_a_reason() -> None:
    held = two_nodes()
    put_node(held, "node-b", version="11", register=ONE_CARD, allocatable=0)
    held.ledger.observe(bound(pending("p9", WHOLE), memory_mib=24576))

    result = ask(held, pending("p1", WHOLE), "node-a", "node-b", "node-x")

    assert set(result.rejections) == {"node-a", "node-b", "node-x"}
    assert all(rejection.text for rejection in result.rejections.values())
    assert [result.rejections[n].resolvable for n in ("node-a", "node-b", "node-x")] == [
        True,
        False,
        False,
    ]


def test_a_pod_that_fits_holds_a_claim_that_the_next_pod_sees() -> None:
    held = two_nodes()
    first = ask(held, pending("p1", WHOLE))
    second = ask(held, pending("p2", WHOLE))
    third = ask(held, pending("p3", WHOLE))

    assert first.fitting == ("node-a", "node-b")
    assert len(second.fitting) == 1
    assert third.fitting == ()


@pytest.mark.parametrize(
    ("fields", "lifetime_s"),
    [({}, 1), ({"has_volumes": True}, 30), ({"group": "gang"}, 30)],
    ids=["ordinary", "with volumes", "in a group"],
)
def test_a_claim_ends_by_itself(fields: dict[str, object], lifetime_s: int) -> None:
    held = open_books()
    put_node(held)
    ask(held, pending("p1", WHOLE, **fields), "node-a")

    before = ask(held, pending("p2", WHOLE), "node-a", seconds=lifetime_s - 0.1)
    after = ask(held, pending("p3", WHOLE), "node-a", seconds=lifetime_s)

    assert (before.fitting, after.fitting) == ((), ("node-a",))


def test_a_pod_that_is_filtered_again_does_not_meet_its_own_claim() -> None:
    held = open_books()
    put_node(held)

    answers = [ask(held, pending("p1", WHOLE), "node-a").fitting for _ in range(3)]

    assert answers == [("node-a",)] * 3


def test_claims_guide_filters_only_and_never_a_bind() -> None:
    held = open_books()
    put_node(held)
    ask(held, pending("p1", WHOLE), "node-a")

    view = held.ledger.snapshot(with_claims=False)

    assert used_mib(held) == {"GPU-a0": 0}
    assert flow_filter.fit.place(
        view, ["node-a"], pending("p2", WHOLE).request, held.defaults
    ).fitting == ("node-a",)


def test_no_claims_when_their_lifetime_is_zero() -> None:
    held = open_books(claims={"lifetimeS": 0})
    put_node(held)
    ask(held, pending("p1", WHOLE), "node-a")

    assert ask(held, pending("p2", WHOLE), "node-a").fitting == ("node-a",)


def full() -> books.Books:
    held = open_books()
    put_node(held)
    held.ledger.observe(bound(pending("p9", WHOLE), memory_mib=24576))
    return held


def test_a_refusal_is_told_once_with_hamis_words_and_counts() -> None:
    held = full()

    first = ask(held, pending(), "node-a")
    second = ask(held, pending(), "node-a")

    (event,) = first.events
    assert (event.type, event.reason) == (effects.EventType.WARNING, "FilteringFailed")
    assert event.message == "1 nodes CardInsufficientMemory (node-a)"
    assert second.events == ()
    assert (first.again, second.again) == (False, True)


def test_a_refusal_for_the_same_reasons_from_a_later_state_is_not_told_again() -> None:
    held = full()
    ask(held, pending(), "node-a")
    put_node(held, version="11", cordoned=["other"])
    held.ledger.observe(bound(pending("p8"), memory_mib=0, version="31"))

    result = ask(held, pending(), "node-a")

    assert result.refused
    assert result.events == ()


def test_a_refusal_for_another_reason_is_told() -> None:
    held = full()
    ask(held, pending(), "node-a")
    put_node(held, version="11", cordoned=["GPU-a0"])

    result = ask(held, pending(), "node-a")

    assert [event.reason for event in result.events] == ["FilteringFailed"]


def test_a_repeat_for_unchanged_state_is_answered_from_the_last_answer() -> None:
    held = full()
    first = ask(held, pending(), "node-a")

    second = ask(held, pending(), "node-a")

    assert second.rejections is first.rejections


@pytest.mark.parametrize("change", ["state", "request", "nodes"])
def test_the_last_answer_counts_only_while_nothing_changed(change: str) -> None:
    held = full()
    pod = pending()
    ask(held, pod, "node-a")
    nodes = ("node-a",)
    if change == "state":
        held.ledger.forget("uid-of-p9")
    elif change == "request":
        pod = plain()
    else:
        put_node(held, "node-b", register=ONE_CARD.replace("a0", "b0"))
        nodes = ("node-a", "node-b")

    assert ask(held, pod, *nodes).fitting != ()


def test_a_pod_that_fits_at_last_is_no_longer_among_the_refused() -> None:
    held = full()
    ask(held, pending(), "node-a")
    held.ledger.forget("uid-of-p9")

    ask(held, pending(), "node-a")

    assert held.refused == {}


def test_case_12_a_pod_that_asks_for_the_impossible_fits_nowhere_and_is_told_why() -> None:
    never = request.ContainerRequest(
        name="main",
        kind=request.ContainerKind.APP,
        impossible="container main: nvidia.com/gpumem: 16Gi is more than a card can have",
    )
    held = two_nodes()

    result = ask(held, pending("p1", never))

    assert result.fitting == ()
    assert not any(rejection.resolvable for rejection in result.rejections.values())
    assert "16Gi is more than a card can have" in result.events[0].message


def test_many_nodes_are_named_by_their_first_twenty() -> None:
    held = open_books()
    names = [f"node-{n:02}" for n in range(21)]
    for name in names:
        put_node(held, name, register=None)

    (event,) = ask(held, pending(), *names).events

    assert "(node-00, node-01, node-02, " in event.message
    assert event.message.endswith(", node-19, …)")


def test_success_events_only_when_asked_for() -> None:
    held = two_nodes(events={"success": True})

    (event,) = ask(held, pending()).events

    assert (event.type, event.reason) == (effects.EventType.NORMAL, "FilteringSucceed")
    assert event.message == "find fit node(node-a), 0 nodes not fit, 2 nodes fit"
    assert ask(two_nodes(), pending()).events == ()


def reserved() -> tuple[books.Books, records.PodRecord]:
    """Return books in which a whole-card pod holds node-a's reservation."""
    held = open_books()
    put_node(held)
    pod = pending("p1", WHOLE)
    held.ledger.observe(pod)
    held.ledger.assume(pod.request, clusters.promise("node-a", [clusters.share("GPU-a0", 24576)]))
    return held, pod


def test_a_reservation_in_doubt_ends_when_its_pod_is_filtered_again() -> None:
    held, pod = reserved()

    assert ask(held, pod, "node-a").fitting == ("node-a",)
    assert not held.ledger.assumed(pod.key.uid)


@pytest.mark.parametrize("where", ["binding", "bound"])
def test_a_reservation_stays_while_its_bind_is_under_way_or_not_yet_seen(where: str) -> None:
    held, pod = reserved()
    getattr(held, where).add(pod.key.uid)

    ask(held, pod, "node-a")

    assert held.ledger.assumed(pod.key.uid)


def test_a_followers_decision_does_not_depend_on_the_order_of_the_nodes() -> None:
    held = two_nodes()

    assert set(ask(held, pending(), "node-a", "node-b").fitting) == set(
        ask(held, pending(), "node-b", "node-a").fitting
    )


def test_binpack_prefers_the_fuller_node_and_spread_the_emptier() -> None:
    held = two_nodes()
    held.ledger.observe(bound(pending("p9"), memory_mib=12288))
    pod = pending()
    spread = dataclasses.replace(
        pod,
        request=dataclasses.replace(
            pod.request, node_policy=flow_filter.fit.policy.NodePolicy.SPREAD
        ),
    )

    packed = flow_filter.score_nodes(held, pod, ["node-a", "node-b"])
    wide = flow_filter.score_nodes(held, spread, ["node-a", "node-b"])

    assert packed[0] > packed[1]
    assert wide[0] < wide[1]
    assert all(0 <= score <= 100 for score in packed + wide)


def test_nodes_that_do_not_fit_and_pods_without_devices_score_nothing() -> None:
    held = two_nodes()

    assert flow_filter.score_nodes(held, pending(), ["node-x", "node-a"])[0] == 0
    assert flow_filter.score_nodes(held, plain(), ["node-a", "node-b"]) == [0, 0]


def test_case_69_a_node_is_scored_by_what_is_used_not_by_what_is_asked() -> None:
    held = open_books()
    put_node(held, "node-a")
    put_node(held, "node-b", register=TWO_CARDS)

    assert flow_filter.score_nodes(held, pending(), ["node-a", "node-b"]) == [0, 0]


def test_pods_that_ask_alike_share_one_answer_while_nothing_changes() -> None:
    """Thousands of pods may wait; each answer names thousands of nodes."""
    held = two_nodes()
    for name, card in (("node-a", "GPU-a0"), ("node-b", "GPU-b0")):
        held.ledger.observe(bound(pending(f"on-{name}", WHOLE), name, card=card, memory_mib=24576))

    first = ask(held, pending("p1", WHOLE), "node-a", "node-b")
    second = ask(held, pending("p2", WHOLE), "node-a", "node-b")

    assert second.rejections is first.rejections
    assert held.refused["uid-of-p2"].nodes is held.refused["uid-of-p1"].nodes
    assert [len(result.events) for result in (first, second)] == [1, 1]


def test_a_pod_that_was_deleted_before_its_filter_is_not_noted_as_waiting() -> None:
    """kube-scheduler may ask a moment after our watch has shown the deletion."""
    held = two_nodes()
    pod = pending("p1", clusters.asks(memory_mib=99_999))
    pod_events.pod_seen(held, pod)
    pod_events.pod_gone(held, pod.key)

    result = ask(held, pod)

    assert result.refused
    assert held.refused == {}


def stuck() -> books.Books:
    """Return books in which the expired lock of node-a is stuck on pod p1; node-b is free."""
    held = open_books()
    put_node(held, lock="2026-01-15T09:54:59Z,team-a,p1")
    put_node(held, "node-b", register=TWO_CARDS.replace("GPU-a", "GPU-b"))
    pod_events.pod_seen(held, bound(pending("p1"), admitted=False))
    reconcile.quick_tick(held, NOW)
    return held


def test_a_node_whose_lock_is_stuck_takes_nobody_and_says_why() -> None:
    held = stuck()

    answer = flow_filter.filter_nodes(held, pending("p2"), ["node-a", "node-b"], NOW)

    assert answer.fitting == ("node-b",)
    assert str(answer.rejections["node-a"]) == (
        "the node lock is stuck on pod team-a/p1, which is bound there and no kubelet has seen"
    )
    assert not answer.rejections["node-a"].resolvable


def test_a_pod_without_devices_may_go_to_a_node_whose_lock_is_stuck() -> None:
    answer = flow_filter.filter_nodes(stuck(), plain("p2"), ["node-a"], NOW)

    assert answer.fitting == ("node-a",)


@pytest.mark.parametrize(
    "change",
    [
        lambda held: pod_events.pod_gone(held, pending("p1").key),
        lambda held: pod_events.pod_seen(held, bound(pending("p1"), admitted=True, version="21")),
        lambda held: put_node(held, version="11"),
    ],
    ids=["owner gone", "owner admitted", "lock gone"],
)
def test_a_node_whose_lock_is_stuck_no_more_takes_pods_at_once(change: Any) -> None:
    held = stuck()
    assert flow_filter.filter_nodes(held, pending("p2"), ["node-a"], NOW).refused

    change(held)

    assert flow_filter.filter_nodes(held, pending("p2"), ["node-a"], NOW).fitting == ("node-a",)


def test_a_refusal_given_before_a_lock_was_stuck_is_not_given_again() -> None:
    held = open_books()
    put_node(held, lock="2026-01-15T09:55:01Z,team-a,p1", allocatable=0)
    pod_events.pod_seen(held, bound(pending("p1"), admitted=False))
    first = flow_filter.filter_nodes(held, pending("p2"), ["node-a"], NOW)
    assert "node unregistered" in str(first.rejections["node-a"])
    reconcile.quick_tick(held, later(2))

    again = flow_filter.filter_nodes(held, pending("p2"), ["node-a"], later(2))

    assert "is stuck on pod team-a/p1" in str(again.rejections["node-a"])
    assert held.refused["uid-of-p2"].nodes == ("node-a",)


def test_a_pod_that_fits_on_the_last_of_five_thousand_nodes_only_gets_that_one() -> None:
    held = open_books()
    names = [f"node-{number:04d}" for number in range(5_000)]
    for name in names:
        put_node(held, name, register=ONE_CARD.replace("a0", name))
        if name != names[-1]:
            whole = clusters.promise(name, [clusters.share(f"GPU-{name}", 24_576)])
            held.ledger.assume(pending(f"on-{name}", WHOLE).request, whole)

    result = ask(held, pending("p1", WHOLE), *names)

    assert result.fitting == (names[-1],)
    assert len(result.rejections) == 4_999


def test_a_new_pod_that_asks_alike_has_the_answer_whatever_the_order_of_the_nodes() -> None:
    held = two_nodes()
    too_much = clusters.asks(memory_mib=30_000)
    first = ask(held, pending("p1", too_much), "node-a", "node-b")

    same = ask(held, pending("p2", too_much), "node-b", "node-a")

    assert same.rejections is first.rejections
    assert set(held.refused) == {"uid-of-p1", "uid-of-p2"}
    assert set(ask(held, pending("p3", too_much), "node-b").rejections) == {"node-b"}


def test_a_pod_with_a_claim_of_its_own_is_judged_by_itself() -> None:
    """Its claim is what keeps others off, not what keeps it off."""
    held = two_nodes()
    whole = pending("p1", WHOLE)
    assert ask(held, whole, "node-a").fitting == ("node-a",)
    assert ask(held, pending("p2", WHOLE), "node-a").fitting == ()

    assert ask(held, whole, "node-a").fitting == ("node-a",)


def test_a_pod_that_holds_cards_itself_is_not_answered_as_one_that_holds_none() -> None:
    """Its own cards do not count against its quota; a stranger's answer counts them."""
    held = two_nodes()
    limit(held, {MEMORY: 24_576})
    mine = pending("p1", WHOLE)
    held.ledger.assume(mine.request, clusters.promise("node-a", [clusters.share("GPU-a0", 24_576)]))
    held.binding.add(mine.key.uid)
    assert ask(held, pending("p2", WHOLE)).fitting == ()

    assert ask(held, mine).fitting == ("node-b",)


def test_pods_that_differ_in_their_containers_names_only_share_an_answer() -> None:
    held = two_nodes()
    wishes = [
        clusters.container(clusters.asks(memory_mib=30_000), name=name) for name in ("a", "b")
    ]
    first, second = (ask(held, pending(f"p{number}", wish)) for number, wish in enumerate(wishes))

    assert second.rejections is first.rejections


def test_only_the_last_few_answers_are_kept() -> None:
    held = two_nodes()
    for number in range(books.MOST_ANSWERS + 5):
        ask(held, pending(f"p{number}", clusters.asks(memory_mib=30_000 + number)))

    assert len(held.answers._by_question) == books.MOST_ANSWERS


def test_pods_that_are_offered_other_nodes_do_not_take_each_others_answers_away() -> None:
    """Two pools of nodes: kube-scheduler offers a pod those that its own checks have passed."""
    held = two_nodes()
    too_much = clusters.asks(memory_mib=30_000)
    in_one, in_both = (
        ask(held, pending(f"first-{len(nodes)}", too_much), *nodes)
        for nodes in (("node-a",), ("node-a", "node-b"))
    )

    assert ask(held, pending("p1", too_much), "node-a").rejections is in_one.rejections
    assert ask(held, pending("p2", too_much), "node-a", "node-b").rejections is in_both.rejections
    assert held.refused["uid-of-p2"].nodes is held.refused["uid-of-first-2"].nodes


def test_of_many_lists_of_nodes_the_longest_keep_one_object_for_all() -> None:
    held = open_books()
    put_node(held, "node-0")
    names = [f"node-{number}" for number in range(books.MOST_LISTS + 3)]
    too_much = clusters.asks(memory_mib=30_000)
    ask(held, pending("p1", too_much), *names)
    for name in names:
        ask(held, pending(f"on-{name}", too_much), name)

    held.ledger.observe(bound(pending("p9"), "node-0"))
    ask(held, pending("p2", too_much), *reversed(names))

    assert held.refused["uid-of-p2"].nodes is held.refused["uid-of-p1"].nodes
    assert len(held.answers._lists) == books.MOST_LISTS


def nominated(held: books.Books) -> records.PodRecord:
    """Return a refused pod for which node-a is kept and nominated."""
    pod = pending("boss", WHOLE, priority=10, nominated_node="node-a")
    for name, card in (("node-a", "GPU-a0"), ("node-b", "GPU-b0")):
        memory_mib = 24_576 if name == "node-b" else 20_000
        on_it = bound(pending(f"on-{name}", WHOLE), name, card=card, memory_mib=memory_mib)
        held.ledger.observe(on_it)
    ask(held, pod, "node-a", "node-b")
    kept = clusters.promise("node-a", [clusters.share("GPU-a0", 24_576)])
    assert held.ledger.nominate(pod.request, 10, kept, later(30))
    return pod


def test_a_nominated_pods_questions_leave_the_answers_of_all_others() -> None:
    held = two_nodes()
    boss = nominated(held)
    first = ask(held, pending("p1", WHOLE), "node-a", "node-b")

    ask(held, boss, "node-a")
    ask(held, boss, "node-b", "node-a")

    assert len(held.answers._by_question) == 1
    assert ask(held, pending("p2", WHOLE), "node-a", "node-b").rejections is first.rejections
    assert held.refused[boss.key.uid].nodes is held.refused["uid-of-p1"].nodes


def test_a_nominated_node_that_is_asked_for_alone_is_not_all_that_refused_the_pod() -> None:
    """kube-scheduler asks for it first, then for all nodes; each try would be told anew."""
    held = two_nodes()
    boss = nominated(held)
    before = held.refused[boss.key.uid]
    assert set(before.nodes) == {"node-a", "node-b"}

    for _ in range(3):
        alone = ask(held, boss, "node-a")
        assert set(alone.rejections) == {"node-a"}
        assert alone.again
        noted = held.refused[boss.key.uid]
        assert (noted.nodes, noted.texts) == (before.nodes, before.texts)
        assert (alone.events, ask(held, boss, "node-a", "node-b").events) == ((), ())


def test_a_nominated_node_that_is_all_there_is_left_is_noted_and_told() -> None:
    held = two_nodes()
    boss = nominated(held)
    limit(held, {MEMORY: 1})

    alone, all_that_is_left = (ask(held, boss, "node-a") for _ in range(2))

    assert held.refused[boss.key.uid].nodes == ("node-a",)
    assert [len(result.events) for result in (alone, all_that_is_left)] == [0, 1]
    assert ask(held, boss, "node-a").events == ()


def test_a_reason_that_has_changed_is_not_answered_from_memory() -> None:
    held = open_books()
    put_node(held, "node-a", register="{{")
    before = ask(held, pending("p1"), "node-a").rejections["node-a"].text

    put_node(held, "node-a", register="[]", version="11")
    after = ask(held, pending("p2"), "node-a").rejections["node-a"].text

    assert before != after


def test_a_refusal_of_which_an_event_did_not_go_out_is_told_again() -> None:
    books = open_books()
    put_node(books, "node-a")
    pod = pending("p1", clusters.asks(memory_mib=30000))

    (event,) = flow_filter.filter_nodes(books, pod, ["node-a"], NOW).events
    assert flow_filter.filter_nodes(books, pod, ["node-a"], NOW).events == ()

    flow_filter.not_told(books, event)
    assert flow_filter.filter_nodes(books, pod, ["node-a"], NOW).events == (event,)
    assert flow_filter.filter_nodes(books, pod, ["node-a"], NOW).events == ()
