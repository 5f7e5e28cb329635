"""One preemption from the refusal to its end, on values only (issue: priority, must hold 1, 2, 4).

The cards are A10s of 24,576 MiB; a pod of 24,000 MiB is alone on its card.
"""

import dataclasses
import datetime
import json
from typing import Any

import pytest

from support import clusters, operator_books
from support.conversation import converse
from support.operator_books import NOW, bound, later, pending
from support.preemptions import (
    HIGH,
    LOW,
    RUNNING,
    SECOND,
    ask,
    begin,
    filtered,
    look,
    names,
    open_books,
    run,
)
from vgpu_operator.flows import bind, effects, outcomes, pod_events, reconcile
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows.preemption import attempts, candidates, course, take_over, told
from vgpu_operator.flows.preemption import look as looks
from vgpu_operator.flows.preemption.attempts import Outcome
from vgpu_operator.model import budgets, records

WEB = (budgets.Requirement(key="app", operator=budgets.Operator.IN, values=frozenset({"web"})),)


def mark(attempt: attempts.Attempt) -> str:
    """Return what is written on the pod."""
    return json.dumps(
        {
            "node": attempt.node,
            "until": attempt.until.isoformat().replace("+00:00", "Z"),
            "victims": [victim.uid for victim in attempt.victims],
        },
        separators=(",", ":"),
    )


def test_a_refused_pod_of_higher_priority_gets_the_fewest_pods_evicted_and_both_are_told() -> None:
    books = open_books("node-a", "node-b")
    victim = run(books, "low-a")
    run(books, "small-1", "node-b", memory_mib=12000)
    run(books, "small-2", "node-b", memory_mib=12000)
    high = ask(books)

    found = look(books, high)

    attempt = found.attempt
    assert attempt is not None
    assert (attempt.node, names(attempt.victims)) == ("node-a", ["low-a"])
    assert attempt.until == NOW + 300 * SECOND
    assert found.wanted == ()  # nobody is told before it stands on the pod
    nominate = effects.NominateNode(pod=high.key, node="node-a", mark=mark(attempt))
    preempting = effects.PostEvent(
        type=effects.EventType.NORMAL,
        reason="Preempting",
        message="evicting 1 pod (low-a) from node-a to make room; its cards are held for this pod",
        pod=high.key,
    )
    steps = course.write_nomination(books, attempt)
    assert converse(steps, [(nominate, "7"), (preempting, None)]) == ""
    told = effects.PostEvent(
        type=effects.EventType.NORMAL,
        reason="Preempted",
        message=f"Preempted by pod high ({high.key.uid}) on node node-a",
        pod=victim.key,
    )
    steps = course.evict(books, attempt, victim.key, NOW)
    assert converse(steps, [(effects.EvictPod(pod=victim.key), None), (told, None)]) == ""
    assert books.tallies.preemption_victims == 1


def test_cards_are_held_from_the_very_step_in_which_the_plan_is_made() -> None:
    books = open_books()
    low = run(books, "low-a")
    high = ask(books)
    begin(books, high)

    pod_events.pod_gone(books, low.key)

    assert filtered(books, pending("other", clusters.asks(memory_mib=1000), priority=LOW))
    assert filtered(books, pending("equal", clusters.asks(memory_mib=1000), priority=HIGH))
    assert not filtered(books, high)


@pytest.mark.parametrize(
    ("asked", "settings"),
    [
        pytest.param({"priority": LOW}, {}, id="equal priority"),
        pytest.param({"priority": LOW - 1}, {}, id="lower priority"),
        pytest.param({"never_preempts": True}, {}, id="preemptionPolicy Never"),
        pytest.param({"priority": LOW + 9}, {"minPriorityGap": 10}, id="gap too small"),
        pytest.param({}, {"exemptNamespaces": ["team-a"]}, id="exempt namespace"),
        pytest.param(
            {"priority_class": "batch"}, {"exemptPriorityClasses": ["batch"]}, id="exempt class"
        ),
        pytest.param({"deleting": True}, {}, id="being deleted"),
        pytest.param({}, {"enabled": False}, id="switched off"),
    ],
)
def test_a_pod_that_may_evict_nobody_is_no_candidate(
    asked: dict[str, Any], settings: dict[str, Any]
) -> None:
    books = open_books(**settings)
    run(books, "low-a")

    ask(books, **asked)

    assert books.preemption.candidates == {}


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        pytest.param(
            {"priority_class": "batch"}, {"exemptPriorityClasses": ["batch"]}, id="exempt class"
        ),
        pytest.param({"priority_class": "system-node-critical"}, {}, id="critical for the node"),
        pytest.param(
            {"priority_class": "system-cluster-critical"}, {}, id="critical for the cluster"
        ),
    ],
)
def test_a_pod_that_takes_no_part_is_not_evicted(
    fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    books = open_books(**settings)
    run(books, "low-a", **fields)
    high = ask(books)

    assert look(books, high) == looks.NOTHING
    assert books.ledger.nominations() == ()


def test_pods_of_an_exempt_namespace_are_not_evicted() -> None:
    books = open_books(exemptNamespaces=["team-b"])
    low = run(books, "low-a")
    moved = dataclasses.replace(low, key=dataclasses.replace(low.key, namespace="team-b"))
    pod_events.pod_gone(books, low.key)
    moved = dataclasses.replace(moved, key=dataclasses.replace(moved.key, uid="other"))
    pod_events.pod_seen(books, moved)
    high = ask(books)

    assert look(books, high) == looks.NOTHING


def test_what_a_filter_expects_to_be_bound_in_a_moment_evicts_nobody() -> None:
    books = open_books("node-a", "node-b")
    run(books, "low-a")
    expected = pending("expected", clusters.asks(memory_mib=24000), priority=HIGH)
    assert not filtered(books, expected)
    high = ask(books)

    assert look(books, high) == looks.NOTHING
    candidate = books.preemption.candidates[high.key.uid]
    assert candidate.look_at == NOW + datetime.timedelta(seconds=0.25)

    # It is bound to neither: node-b is free again, and nobody has left for nothing.
    books.ledger.expire_claims(later(2))
    assert look(books, high, now=later(2)) == looks.NOTHING
    assert not filtered(books, high, now=later(2))


def test_a_claim_that_becomes_a_binding_is_no_reason_to_wait_any_longer() -> None:
    books = open_books("node-a", "node-b")
    run(books, "low-a")
    expected = pending("expected", clusters.asks(memory_mib=24000), priority=HIGH)
    assert not filtered(books, expected)
    high = ask(books)
    assert look(books, high) == looks.NOTHING

    run(books, "expected", "node-b", priority=HIGH)

    assert begin(books, high, now=later(0.3)).node == "node-a"


def test_a_refusal_stands_a_moment_before_anybody_looks() -> None:
    books = open_books()
    run(books, "low-a")
    ask(books)

    assert candidates.next_due(books, NOW) is None
    assert candidates.next_look(books) == NOW + datetime.timedelta(seconds=0.1)
    assert candidates.next_due(books, later(0.1)) is not None


def test_the_highest_priority_is_looked_at_first_and_the_longest_refused_among_equals() -> None:
    books = open_books()
    run(books, "low-a")
    ask(books, "late", now=later(0.05))
    ask(books, "first", now=NOW)
    ask(books, "highest", priority=HIGH + 1, now=later(0.06))
    order = []
    while (candidate := candidates.next_due(books, later(1))) is not None:
        order.append(candidate.record.key.name)
        candidate.look_at = None

    assert order == ["highest", "first", "late"]


def test_a_budget_that_allows_none_evicts_nobody_and_is_named() -> None:
    books = open_books()
    run(books, "low-a", labels={"app": "web"})
    high = ask(books)
    kept = budgets.Budget(namespace="team-a", name="web", selector=(), allowed=0)

    found = look(books, high, kept)

    assert (found.attempt, found.outcome) == (None, Outcome.BLOCKED)
    assert books.ledger.nominations() == ()
    (event,) = found.wanted
    assert isinstance(event, effects.PostEvent)
    assert (event.pod, event.reason) == (high.key, "PreemptionBlocked")
    assert "PodDisruptionBudget web allows no more evictions now" in event.message
    assert books.preemption.candidates[high.key.uid].look_at == later(5)
    # As soon as it allows one, the next look begins.
    allows = dataclasses.replace(kept, allowed=1)
    assert look(books, high, allows, now=later(5)).attempt is not None


def test_victims_on_their_way_count_against_a_budget_that_was_listed_before() -> None:
    books = open_books("node-a", "node-b")
    run(books, "low-a")
    run(books, "low-b", "node-b")
    kept = budgets.Budget(namespace="team-a", name="web", selector=(), allowed=1)
    first, second = ask(books, "high-1"), ask(books, "high-2")

    assert look(books, first, kept).attempt is not None

    assert look(books, second, kept).outcome is Outcome.BLOCKED


def test_an_eviction_that_a_budget_forbids_is_tried_again_when_the_server_says() -> None:
    books = open_books()
    low = run(books, "low-a")
    attempt = begin(books, ask(books))
    evict = effects.EvictPod(pod=low.key)

    steps = course.evict(books, attempt, low.key, NOW)
    told = effects.PostEvent(
        type=effects.EventType.NORMAL,
        reason="Preempted",
        message="Preempted by pod high (uid-of-high) on node node-a",
        pod=low.key,
    )

    assert (
        converse(
            steps,
            [
                (evict, effects.NotYet("budget", retry_after_s=7.0)),
                (effects.Pause(seconds=7.0), later(7)),
                (evict, effects.NotYet("budget")),
                (effects.Pause(seconds=5.0), later(12)),
                (evict, None),
                (told, None),
            ],
        )
        == ""
    )


def test_an_eviction_is_not_tried_beyond_the_time_limit() -> None:
    books = open_books(timeLimitS=10)
    low = run(books, "low-a")
    attempt = begin(books, ask(books))
    attempt.marked = True
    steps = course.evict(books, attempt, low.key, NOW)

    converse(
        steps,
        [
            (effects.EvictPod(pod=low.key), effects.NotYet("budget", retry_after_s=10.0)),
            (effects.Pause(seconds=10.0), later(10)),
        ],
    )
    (ended,) = course.settle(books, later(10))

    assert ended.outcome is Outcome.TIMED_OUT
    assert books.ledger.nominations() == ()
    cleared, complaint = ended.wanted
    assert cleared == effects.NominateNode(pod=attempt.pod, node=None)
    assert isinstance(complaint, effects.PostEvent)
    assert complaint.reason == "PreemptionFailed"


def test_a_victim_that_is_gone_or_replaced_needs_no_eviction() -> None:
    books = open_books()
    low = run(books, "low-a")
    attempt = begin(books, ask(books))
    replaced = course.evict(books, attempt, low.key, NOW)
    converse(replaced, [(effects.EvictPod(pod=low.key), effects.Conflict("another uid"))])

    pod_events.pod_gone(books, low.key)

    assert converse(course.evict(books, attempt, low.key, NOW), []) == ""


def test_nothing_more_is_evicted_once_the_pod_fits_elsewhere() -> None:
    books = open_books("node-a", "node-b")
    low = run(books, "low-a", memory_mib=12000)
    run(books, "low-2", memory_mib=12000)
    other = run(books, "keeps-b", "node-b", priority=HIGH)
    attempt = begin(books, ask(books))
    assert len(attempt.victims) == 2

    pod_events.pod_gone(books, other.key)

    assert course.standing(books, attempt, low.key, NOW) is course.Standing.HOLD
    assert not filtered(books, pending("high", clusters.asks(memory_mib=24000), priority=HIGH))
    assert course.standing(books, attempt, low.key, NOW) is course.Standing.HOLD
    pod_events.pod_seen(
        books, bound(pending("high", priority=HIGH), "node-b", card="GPU-node-b", **RUNNING)
    )
    (ended,) = course.settle(books, NOW)
    assert ended.outcome is Outcome.ELSEWHERE
    assert course.standing(books, attempt, low.key, NOW) is course.Standing.STOP


def test_a_higher_priority_that_takes_the_cards_stops_the_evictions() -> None:
    books = open_books()
    run(books, "low-a", memory_mib=12000)
    low = run(books, "low-2", memory_mib=12000)
    attempt = begin(books, ask(books))
    higher = ask(books, "higher", priority=HIGH + 1)

    taken = begin(books, higher)

    assert taken.node == "node-a"
    assert course.standing(books, attempt, low.key, NOW) is not course.Standing.GO
    reconcile.quick_tick(books, NOW)
    (ended,) = course.settle(books, NOW)
    assert (ended.attempt, ended.outcome) == (attempt, Outcome.OVERTAKEN)
    assert course.standing(books, taken, low.key, NOW) is course.Standing.GO


def test_no_pod_that_was_evicted_for_another_can_evict_for_its_own_sake() -> None:
    books = open_books()
    low = run(books, "low-a")
    begin(books, ask(books))
    pod_events.pod_gone(books, low.key)

    again = ask(books, "low-again", priority=LOW)

    assert again.key.uid not in books.preemption.candidates


def test_a_dry_run_only_tells() -> None:
    books = open_books(dryRun=True)
    run(books, "low-a")
    high = ask(books)

    found = look(books, high)

    assert (found.attempt, found.outcome) == (None, Outcome.PLANNED)
    (event,) = found.wanted
    assert isinstance(event, effects.PostEvent)
    assert (event.reason, event.pod) == ("PreemptionPlanned", high.key)
    assert "would evict 1 pod (low-a) from node-a" in event.message
    assert books.ledger.nominations() == ()
    assert books.tallies.preemptions[Outcome.PLANNED] == 1


def test_pods_of_other_namespaces_are_counted_and_not_named() -> None:
    books = open_books()
    low = run(books, "low-a")
    elsewhere = dataclasses.replace(low.key, namespace="team-b", uid="uid-b")
    pod_events.pod_gone(books, low.key)
    pod_events.pod_seen(books, dataclasses.replace(low, key=elsewhere))
    high = ask(books)

    found = look(books, high)

    assert found.attempt is not None
    event = told.preempting(found.attempt)
    assert "evicting 1 pod (1 of other namespaces) from node-a" in event.message
    steps = course.evict(books, found.attempt, elsewhere, NOW)
    next(steps)
    preempted = steps.send(None)
    assert isinstance(preempted, effects.PostEvent)
    assert preempted.message == f"Preempted by pod {high.key.uid} on node node-a"


def test_what_is_leaving_already_is_waited_for_and_nobody_else_evicted() -> None:
    books = open_books("node-a", "node-b")
    low = run(books, "low-a")
    run(books, "low-b", "node-b")
    pod_events.pod_seen(books, dataclasses.replace(low, deleting=True, resource_version="30"))

    found = look(books, ask(books))

    assert found.attempt is not None
    assert (found.attempt.node, found.attempt.victims) == ("node-a", ())
    assert found.wanted == ()


def test_a_node_that_kube_scheduler_has_nominated_is_left_to_it_for_a_while() -> None:
    books = open_books()
    run(books, "low-a")
    high = ask(books, nominated_node="node-b")

    assert look(books, high) == looks.NOTHING
    assert books.preemption.candidates[high.key.uid].look_at == later(5)

    assert look(books, high, now=later(31)).attempt is not None


def test_bound_on_its_node_an_attempt_ends_and_its_time_is_counted() -> None:
    books = open_books()
    low = run(books, "low-a")
    high = ask(books)
    begin(books, high).marked = True
    pod_events.pod_gone(books, low.key)
    record = bound(high, card="GPU-node-a", memory_mib=24000)

    outcomes.note(books, pod_events.pod_seen(books, record), later(2))
    (ended,) = course.settle(books, later(2.4))

    assert ended.outcome is Outcome.BOUND
    assert ended.wanted == (effects.NominateNode(pod=high.key, node=None),)
    assert books.tallies.preempted.sum_s == 2.0
    assert books.tallies.preemptions[Outcome.BOUND] == 1
    assert books.ledger.nominations() == ()


def test_a_pod_that_is_gone_ends_its_attempt_and_nothing_is_written() -> None:
    books = open_books()
    run(books, "low-a")
    high = ask(books)
    begin(books, high)

    pod_events.pod_gone(books, high.key)
    (ended,) = course.settle(books, NOW)

    assert (ended.outcome, ended.wanted) == (Outcome.GONE, ())
    assert books.ledger.nominations() == ()


def test_a_nomination_that_cannot_be_written_evicts_nobody() -> None:
    books = open_books()
    run(books, "low-a")
    attempt = begin(books, ask(books))
    nominate = effects.NominateNode(pod=attempt.pod, node="node-a", mark=mark(attempt))

    why = converse(
        course.write_nomination(books, attempt), [(nominate, effects.Denied("403 no right"))]
    )

    assert why == "403 no right"
    assert not attempt.written
    ended = course.end(books, attempt, Outcome.FAILED, NOW, why)
    assert "403 no right" in str(ended.wanted[-1])
    assert books.preemption.candidates[attempt.pod.uid].look_at == later(60)


def test_a_doubtful_nomination_is_written_again() -> None:
    books = open_books()
    run(books, "low-a")
    attempt = begin(books, ask(books))
    nominate = effects.NominateNode(pod=attempt.pod, node="node-a", mark=mark(attempt))
    script = [
        (nominate, effects.Doubtful("reset")),
        (effects.Pause(seconds=0.25), NOW),
        (nominate, effects.Doubtful("reset")),
        (effects.Pause(seconds=0.5), NOW),
        (nominate, effects.NotYet("429 slow down", retry_after_s=2.0)),
        (effects.Pause(seconds=2.0), NOW),
        (nominate, effects.Conflict("409 modified")),
        (effects.Pause(seconds=4.0), NOW),
        (nominate, "7"),
        (told.preempting(attempt), None),
    ]

    assert converse(course.write_nomination(books, attempt), script) == ""
    assert attempt.written


def test_what_may_stand_on_the_pod_is_taken_off_and_nothing_else() -> None:
    books = open_books()
    run(books, "low-a")
    attempt = begin(books, ask(books))
    steps = course.write_nomination(books, attempt)
    next(steps)
    steps.throw(effects.NotYet("429 slow down"))

    refused = course.end(books, attempt, Outcome.FAILED, NOW, "403")

    assert not any(isinstance(one, effects.NominateNode) for one in refused.wanted)
    # In flight, or without an answer: then it may stand there.
    again = begin(books, ask(books), now=later(61))
    steps = course.write_nomination(books, again)
    next(steps)
    doubtful = course.end(books, again, Outcome.TIMED_OUT, NOW)
    assert effects.NominateNode(pod=again.pod, node=None) in doubtful.wanted


def test_a_mark_is_taken_off_however_often_that_has_to_be_tried() -> None:
    books = open_books()
    run(books, "low-a")
    high = ask(books)
    off = effects.NominateNode(pod=high.key, node=None)
    script: list[tuple[effects.Effect, Any]] = [
        (off, effects.Denied("403 no right")),
        (effects.Pause(seconds=0.25), NOW),
        (off, effects.Doubtful("reset")),
        (effects.Pause(seconds=0.5), NOW),
        (off, "9"),
    ]

    assert converse(course.unmark(books, high.key), script) is None

    steps = course.unmark(books, high.key)
    next(steps)
    steps.throw(effects.Doubtful("reset"))
    begin(books, high)  # that writes its own
    with pytest.raises(StopIteration):
        steps.send(NOW)
    books.leader = False
    assert converse(course.unmark(books, high.key), []) is None


def test_a_refused_pod_that_carries_a_mark_without_attempt_is_a_stray() -> None:
    books = open_books()
    run(books, "low-a")
    high = ask(books)
    assert course.strays(books) == ()
    pod_events.pod_seen(
        books, dataclasses.replace(high, nomination='{"node":"node-a"}', resource_version="40")
    )

    assert course.strays(books) == (high.key,)

    begin(books, high)
    assert course.strays(books) == ()


def test_one_attempt_that_cannot_be_judged_keeps_no_other_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = open_books("node-a", "node-b")
    run(books, "low-a")
    run(books, "low-b", "node-b")
    broken, plain = begin(books, ask(books, "high-1")), begin(books, ask(books, "high-2"))
    books.ledger.end_nomination(broken.pod.uid)
    fault = ZeroDivisionError("one pod's data")

    def replanned(*_: Any) -> None:
        raise fault

    monkeypatch.setattr(course, "_replanned", replanned)
    pod_events.pod_gone(books, plain.pod)

    ended = {one.attempt.pod: one for one in course.settle(books, NOW)}

    assert ended[plain.pod].outcome is Outcome.GONE
    assert (ended[broken.pod].outcome, ended[broken.pod].fault) == (Outcome.FAILED, fault)
    assert "could not judge how it stands (see its log)" in str(ended[broken.pod].wanted[-1])
    assert books.preemption.attempts == {}


def test_what_the_server_says_of_a_pod_is_not_told_in_another_namespace() -> None:
    books = open_books()
    low = run(books, "secret-job")
    elsewhere = dataclasses.replace(low.key, namespace="team-b", uid="uid-b")
    pod_events.pod_gone(books, low.key)
    pod_events.pod_seen(books, dataclasses.replace(low, key=elsewhere))
    attempt = begin(books, ask(books))
    why = "POST /api/v1/namespaces/team-b/pods/secret-job/eviction: 403 denied by policy x"
    refused = [(effects.EvictPod(pod=elsewhere), effects.Denied(why))]

    found = converse(course.evict(books, attempt, elsewhere, NOW), refused)

    event = told.failed(attempt, Outcome.FAILED, found)
    assert event is not None
    assert "secret-job" not in event.message
    assert "policy x" not in event.message
    assert "refused to evict a pod of another namespace (see the operator's log)" in event.message
    assert told.eviction_refused(attempt, low.key, why) == why  # its own namespace's


def test_a_dry_run_plans_for_each_pod_with_others_and_counts_it_once() -> None:
    books = open_books("node-a", "node-b", dryRun=True)
    run(books, "low-a")
    run(books, "low-b", "node-b")
    first, second, third = (ask(books, name) for name in ("high-1", "high-2", "high-3"))

    planned = [look(books, one).victims for one in (first, second, third)]
    again = look(books, first, now=later(60)).victims

    assert [names(victims) for victims in planned] == [["low-a"], ["low-b"], []]
    assert again == planned[0]
    assert books.tallies.preemptions[Outcome.PLANNED] == 2


def test_a_pod_that_a_budget_keeps_waiting_counts_once() -> None:
    books = open_books()
    run(books, "low-a")
    high = ask(books)
    kept = budgets.Budget(namespace="team-a", name="web", selector=(), allowed=0)

    for second in (0, 5, 15):
        assert look(books, high, kept, now=later(second)).outcome is Outcome.BLOCKED

    assert books.tallies.preemptions[Outcome.BLOCKED] == 1


def test_a_new_leader_evicts_none_but_those_that_were_chosen() -> None:
    books = open_books()
    kept = run(books, "web", memory_mib=12000, labels={"app": "web"})
    other = run(books, "other", priority=LOW + 1, memory_mib=12000)
    high = ask(books, memory_mib=12000)
    budget = budgets.Budget(namespace="team-a", name="web", selector=WEB, allowed=0)
    attempt = look(books, high, budget).attempt
    assert attempt is not None
    assert names(attempt.victims) == ["other"]
    marked = dataclasses.replace(high, nomination=mark(attempt), resource_version="40")

    new = successor(books, kept, other, marked)
    take_over.take_over(new, later(20))

    (taken,) = new.preemption.attempts.values()
    assert names(taken.victims) == ["other"]  # a plan without budgets would take ``web``


def test_a_marked_pod_that_cannot_be_judged_loses_its_mark_and_costs_no_other_its_cards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = open_books("node-a", "node-b")
    lows = run(books, "low-a"), run(books, "low-b", "node-b")
    marked = []
    for name in ("broken", "plain"):
        high = ask(books, name)
        written = mark(begin(books, high))
        marked.append(dataclasses.replace(high, nomination=written, resource_version="40"))
    real = take_over.candidates.may_evict
    fault = ZeroDivisionError("one pod's data")

    def may_evict(books: flow_books.Books, record: records.PodRecord) -> bool:
        if record.key.name == "broken":
            raise fault
        return real(books, record)

    new = successor(books, *lows, *marked)
    monkeypatch.setattr(take_over.candidates, "may_evict", may_evict)
    told_of = []

    reaction = take_over.take_over(
        new, NOW, on_fault=lambda record, fault: told_of.append((record.key.name, fault))
    )

    assert told_of == [("broken", fault)]
    assert reaction.effects[0] == effects.NominateNode(pod=marked[0].key, node=None)
    assert [type(one) for one in reaction.effects[1:]] == [effects.PatchNode]
    assert [one.pod.name for one in new.preemption.attempts.values()] == ["plain"]


def test_a_question_without_plan_is_not_looked_at_again_while_nothing_changes() -> None:
    books = open_books()
    run(books, "low-a", priority_class="system-node-critical")
    first, second = ask(books, "high-1"), ask(books, "high-2")
    assert look(books, first) == looks.NOTHING
    kept = dict(books.preemption.hopeless)

    assert look(books, second) == looks.NOTHING
    assert books.preemption.hopeless == kept
    assert books.preemption.candidates[second.key.uid].look_at is None
    filtered(books, second, now=later(1))
    assert books.preemption.candidates[second.key.uid].look_at == later(5)


# Must hold 4: another leader.


def successor(books: flow_books.Books, *pods: records.PodRecord) -> flow_books.Books:
    """Return the books of a leader that has listed the same nodes and these pods."""
    new = operator_books.open_books()
    operator_books.list_in(new, nodes=list(books.nodes.values()), pods=pods)
    return new


def test_a_new_leader_goes_on_where_pods_are_leaving() -> None:
    books = open_books()
    low = run(books, "low-a")
    high = ask(books)
    attempt = begin(books, high)
    marked = dataclasses.replace(
        high, nomination=mark(attempt), nominated_node="node-a", resource_version="40"
    )
    going = dataclasses.replace(low, deleting=True, resource_version="41")

    new = successor(books, going, marked)
    reaction = take_over.take_over(new, later(20))

    assert [type(one) for one in reaction.effects] == [effects.PatchNode]  # all ask again
    (taken,) = new.preemption.attempts.values()
    assert (taken.node, taken.victims, taken.until) == ("node-a", (), attempt.until)
    pod_events.pod_gone(new, low.key)
    assert filtered(new, pending("thief", clusters.asks(memory_mib=1000), priority=LOW))
    assert not filtered(new, marked)


def test_a_new_leader_evicts_who_has_not_been_evicted_once_its_own_filter_refuses() -> None:
    books = open_books()
    run(books, "small-1", memory_mib=12000)
    run(books, "small-2", memory_mib=12000)
    high = ask(books)
    attempt = begin(books, high)
    marked = dataclasses.replace(high, nomination=mark(attempt), resource_version="40")
    left = run(books, "small-2", memory_mib=12000)

    new = successor(books, left, marked)
    (asking,) = take_over.take_over(new, later(20)).effects
    assert asking == effects.PatchNode(
        node="node-a", annotations={"vgpu-operator.io/wake": str(new.ledger.generation)}
    )

    (taken,) = new.preemption.attempts.values()
    assert names(taken.victims) == ["small-2"]
    assert taken.written
    assert course.standing(new, taken, left.key, later(20)) is course.Standing.HOLD
    filtered(new, marked, now=later(21))
    assert course.standing(new, taken, left.key, later(21)) is course.Standing.GO


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "the time is over"),
        ({"nomination": "no JSON"}, "it is none of ours"),
        ({"priority": LOW}, "its priority is too low by now"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_new_leader_takes_marks_off_that_nothing_comes_of(
    fields: dict[str, Any], why: str
) -> None:
    books = open_books()
    low = run(books, "low-a")
    high = ask(books)
    attempt = begin(books, high)
    marked = dataclasses.replace(
        high, **({"nomination": mark(attempt), "resource_version": "40"} | fields)
    )
    now = attempt.until if why == "the time is over" else NOW

    new = successor(books, low, marked)
    reaction = take_over.take_over(new, now)

    assert reaction.effects == (effects.NominateNode(pod=high.key, node=None),)
    assert new.ledger.nominations() == ()


def test_a_mark_that_a_bound_pod_still_carries_is_taken_off() -> None:
    books = open_books()
    high = ask(books, "was-high")
    carried = dataclasses.replace(bound(high, card="GPU-node-a"), nomination='{"node":"node-a"}')

    new = successor(books, carried)

    assert take_over.take_over(new, NOW).effects == (effects.NominateNode(pod=high.key, node=None),)


def test_a_term_that_ends_holds_nothing_and_writes_nothing() -> None:
    books = open_books()
    low = run(books, "low-a")
    attempt = begin(books, ask(books))

    books.leader = False
    reconcile.term_ended(books)

    assert books.ledger.nominations() == ()
    assert books.preemption.attempts == books.preemption.candidates == {}
    assert course.standing(books, attempt, low.key, NOW) is course.Standing.STOP


def test_cards_are_held_again_after_a_bind_that_failed() -> None:
    books = open_books()
    low = run(books, "low-a")
    high = ask(books)
    attempt = begin(books, high)
    pod_events.pod_gone(books, low.key)
    kept = books.ledger.nomination(high.key.uid)
    assert kept is not None
    chosen = clusters.promise("node-a", (clusters.share("GPU-node-a", 24000),))
    books.ledger.assume(high.request, chosen)
    assert course.settle(books, NOW) == ()
    assert books.ledger.nomination(high.key.uid) is None

    books.ledger.unassume(high.key.uid)
    assert course.settle(books, NOW) == ()

    assert books.ledger.nomination(high.key.uid) is not None
    assert books.preemption.attempts == {high.key.uid: attempt}


def test_who_was_refused_before_anybody_held_cards_is_looked_at_later() -> None:
    """kube-scheduler may have no reason to ask again once the lower pod is seen to be bound."""
    books = open_books()
    low = pending("low-a", clusters.asks(memory_mib=24000), priority=LOW)
    pod_events.pod_seen(books, low)
    assert bind.reserve(books, low.request, "node-a", priority=LOW)
    high = ask(books)
    assert look(books, high).attempt is None
    assert candidates.next_look(books) is None

    run(books, "low-a")
    candidates.review(books, NOW + candidates.REVIEW)

    attempt = begin(books, high, now=NOW + 2 * candidates.REVIEW)
    assert names(attempt.victims) == ["low-a"]


def test_those_who_stand_refused_are_reviewed_now_and_then_only() -> None:
    books = open_books()
    candidates.review(books, NOW)
    run(books, "low-a")
    ask(books)
    books.preemption.candidates.clear()

    candidates.review(books, NOW + candidates.REVIEW - SECOND)
    assert candidates.next_look(books) is None
    candidates.review(books, NOW + candidates.REVIEW)
    assert candidates.next_look(books) is not None


def test_who_is_just_being_bound_counts_among_those_who_may_have_to_go() -> None:
    books = open_books()
    assert ask(books, "early").key.uid not in books.preemption.candidates
    low = pending("low-a", clusters.asks(memory_mib=24000), priority=LOW)
    pod_events.pod_seen(books, low)
    assert bind.reserve(books, low.request, "node-a", priority=LOW)

    high = ask(books, now=later(0.1))

    assert high.key.uid in books.preemption.candidates


def test_a_question_without_plan_is_asked_again_once_its_only_victim_is_bound() -> None:
    """For the ledger that is no change: the cards were counted before."""
    books = open_books()
    low = pending("low-a", clusters.asks(memory_mib=24000), priority=LOW)
    pod_events.pod_seen(books, low)
    assert bind.reserve(books, low.request, "node-a", priority=LOW)
    high = ask(books)
    assert look(books, high).attempt is None
    before = books.ledger.generation

    run(books, "low-a")

    assert books.ledger.generation == before
    assert names(begin(books, high, now=later(2)).victims) == ["low-a"]


def test_a_question_without_plan_is_asked_again_once_nothing_is_held_for_another() -> None:
    books = open_books()
    run(books, "low-a", memory_mib=12000)
    other = pending("other", clusters.asks(memory_mib=12000), priority=HIGH)
    pod_events.pod_seen(books, other)
    chosen = clusters.promise("node-a", (clusters.share("GPU-node-a", 12000),))
    books.ledger.nominate(other.request, HIGH, chosen, later(300))
    high = ask(books)
    assert look(books, high).attempt is None
    assert look(books, high, now=later(2)).attempt is None

    books.ledger.end_nomination(other.key.uid)

    assert names(begin(books, high, now=later(2)).victims) == ["low-a"]


def test_a_question_without_plan_waits_a_second_whatever_changes() -> None:
    books = open_books("node-a", "node-b")
    run(books, "low-a", priority_class="system-node-critical")
    run(books, "small", "node-b", priority_class="system-node-critical", memory_mib=1000)
    first, second = ask(books, "high-1"), ask(books, "high-2", nodes=("node-a",))
    filtered(books, first, nodes=("node-a",))
    assert look(books, first) == looks.NOTHING

    run(books, "new", "node-b", memory_mib=1000)

    assert look(books, second, now=later(0.4)) == looks.NOTHING
    assert books.preemption.candidates[second.key.uid].look_at == later(1)
    assert look(books, second, now=later(1)) == looks.NOTHING
    assert books.preemption.candidates[second.key.uid].look_at is None


def test_whom_a_budget_keeps_waiting_is_asked_for_ever_less_often() -> None:
    books = open_books()
    run(books, "low-a")
    high = ask(books)
    kept = budgets.Budget(namespace="team-a", name="web", selector=(), allowed=0)
    pauses, now = [], NOW
    for _ in range(5):
        assert look(books, high, kept, now=now).outcome is Outcome.BLOCKED
        due = books.preemption.candidates[high.key.uid].look_at
        assert due is not None
        pauses.append((due - now) / SECOND)
        now = due

    assert pauses == [5, 10, 20, 30, 30]


def test_what_budgets_forbid_is_not_planned_again_while_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = open_books()
    run(books, "low-a")
    first, second = ask(books, "high-1"), ask(books, "high-2")
    kept = budgets.Budget(namespace="team-a", name="web", selector=(), allowed=0)
    assert look(books, first, kept).outcome is Outcome.BLOCKED
    planned = []
    real = looks.planned
    monkeypatch.setattr(looks, "planned", lambda *a, **k: planned.append(a) or real(*a, **k))

    assert look(books, second, kept).outcome is Outcome.BLOCKED
    assert not planned
    assert look(books, first, dataclasses.replace(kept, allowed=1)).attempt is not None
    assert planned


def test_who_has_been_due_for_long_is_looked_at_before_any_of_higher_priority() -> None:
    books = open_books()
    run(books, "low-a")
    low = ask(books, "patient", priority=LOW + 1)
    for at in range(10):
        ask(books, f"high-{at}", now=later(at))

    def turn(now: datetime.datetime) -> str:
        found = candidates.next_due(books, now)
        assert found is not None
        return found.record.key.name

    books.preemption.candidates.pop("uid-of-high-0")
    assert turn(later(9.9)) == "high-1"
    assert turn(later(10.1)) == low.key.name


def test_a_pod_that_claims_keep_off_is_looked_at_ever_less_often() -> None:
    books = open_books("node-a")
    run(books, "low-a", memory_mib=500)
    assert not filtered(books, pending("other", clusters.asks(memory_mib=24000), priority=LOW))
    high = ask(books)
    assert high.key.uid in books.refused
    pauses, now = [], NOW
    for _ in range(6):
        assert look(books, high, now=now) == looks.NOTHING
        due = books.preemption.candidates[high.key.uid].look_at
        assert due is not None
        pauses.append((due - now) / SECOND)
        now = due

    assert pauses == [0.25, 0.5, 1, 2, 4, 4]


def test_an_eviction_that_the_list_may_not_know_of_counts_against_its_budget() -> None:
    books = open_books("node-a", "node-b")
    run(books, "low-a")
    run(books, "low-b", "node-b")
    kept = budgets.Budget(namespace="team-a", name="web", selector=(), allowed=1)
    first, second = ask(books, "high-1"), ask(books, "high-2")
    attempt = begin(books, first)
    attempt.evicted.add(attempt.victims[0].uid)

    assert look(books, second, kept).outcome is Outcome.BLOCKED
    newer = dataclasses.replace(kept, allowed=1, disrupted=frozenset(names(attempt.victims)))
    assert look(books, second, newer).attempt is not None


def test_a_victim_of_two_attempts_counts_once_against_a_budget() -> None:
    books = open_books("node-a", "node-b")
    run(books, "low-a")
    run(books, "low-b", "node-b")
    kept = budgets.Budget(namespace="team-a", name="web", selector=(), allowed=2)
    first, second = ask(books, "high-1"), ask(books, "high-2")
    attempt = begin(books, first)
    books.preemption.attempts["other"] = dataclasses.replace(attempt)

    assert look(books, second, kept).attempt is not None


def test_while_nothing_comes_free_nodes_are_not_judged_again_for_each_victim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody leaves for a pod that fits, and that is seen wherever something comes free."""
    books = open_books("node-a", "node-b", "node-c")
    victim = run(books, "low-a")
    equal = run(books, "equal", "node-b", priority=HIGH)
    run(books, "small", "node-c", memory_mib=1000, priority=HIGH)
    high = ask(books)
    attempt = begin(books, high)
    judged: list[tuple[str, ...]] = []
    real = candidates.fits_without_claims
    monkeypatch.setattr(
        candidates, "fits_without_claims", lambda *a: judged.append(a[-1]) or real(*a)
    )

    assert course.standing(books, attempt, victim.key, NOW) is course.Standing.GO
    run(books, "another", "node-c", memory_mib=1000, priority=HIGH)
    assert course.standing(books, attempt, victim.key, NOW) is course.Standing.GO
    pod_events.pod_gone(books, equal.key)
    assert course.standing(books, attempt, victim.key, NOW) is course.Standing.HOLD
    assert judged == [("node-a", "node-b", "node-c"), ("node-b",)]


def test_nobody_leaves_while_a_claim_of_others_is_all_that_keeps_the_pod_off() -> None:
    books = open_books("node-a", "node-b")
    victim = run(books, "low-a")
    equal = run(books, "equal", "node-b", priority=HIGH)
    high = ask(books)
    attempt = begin(books, high)
    pod_events.pod_gone(books, equal.key)
    other = pending("other", clusters.asks(memory_mib=24000), priority=HIGH)
    assert not filtered(books, other)

    assert course.standing(books, attempt, victim.key, NOW) is course.Standing.HOLD
    run(books, "other", "node-b", priority=HIGH)
    assert course.standing(books, attempt, victim.key, NOW) is course.Standing.GO
