"""Several preemptions at once, on few cards, in a namespace with a quota, with pods that are stuck.

The cards are A10s of 24,576 MiB; pods of 12,000 MiB share one by two.
"""

import dataclasses

import pytest

from support import clusters
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
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import effects, nominated, pod_events
from vgpu_operator.flows.preemption import attempts, course
from vgpu_operator.flows.preemption.attempts import Outcome
from vgpu_operator.model import quota, records

HALF = 12000
GO, HOLD = course.Standing.GO, course.Standing.HOLD


def deleted(
    books: flow_books.Books, record: records.PodRecord, *, leaves_after_s: float | None = None
) -> None:
    """Let a pod be seen that is being deleted."""
    pod_events.pod_seen(
        books,
        dataclasses.replace(
            record,
            deleting=True,
            leaves_by=None if leaves_after_s is None else later(leaves_after_s),
            resource_version="30",
        ),
    )


def seen(books: flow_books.Books, attempt: attempts.Attempt) -> records.PodRecord:
    """Return the pod of an attempt."""
    record = books.ledger.record(attempt.pod.uid)
    assert record is not None
    return record


def bound_to(books: flow_books.Books, record: records.PodRecord, node: str = "node-a") -> None:
    """Let a pod be seen bound to half of that node's card."""
    pod_events.pod_seen(
        books,
        dataclasses.replace(
            bound(record, node, card=f"GPU-{node}", memory_mib=HALF, **RUNNING),
            resource_version="50",
        ),
    )


def two_on_one_card(
    books: flow_books.Books,
) -> tuple[list[records.PodRecord], list[attempts.Attempt]]:
    """Have two pods evict the two that share a card."""
    victims = [run(books, name, memory_mib=HALF) for name in ("low-1", "low-2")]
    asked = [ask(books, name, memory_mib=HALF) for name in ("high-1", "high-2")]
    return victims, [begin(books, one) for one in asked]


def test_two_that_are_refused_together_evict_one_each_from_the_card_that_they_share() -> None:
    books = open_books()

    victims, (first, second) = two_on_one_card(books)

    assert [names(first.victims), names(second.victims)] == [["low-1"], ["low-2"]]
    assert nominated.review_changed(books) == ()
    assert course.settle(books, NOW) == ()
    assert course.standing(books, first, victims[0].key, NOW) is GO
    assert course.standing(books, second, victims[1].key, NOW) is GO


def test_a_second_one_on_the_card_does_not_end_the_first_whose_victim_is_leaving() -> None:
    books = open_books()
    low = run(books, "low-1", memory_mib=HALF)
    run(books, "low-2", memory_mib=HALF, priority=LOW + 1)
    first = begin(books, ask(books, "high-1", memory_mib=HALF))
    deleted(books, low)

    second = begin(books, ask(books, "high-2", memory_mib=HALF))

    assert names(second.victims) == ["low-2"]
    assert nominated.review_changed(books) == ()
    assert course.settle(books, NOW + SECOND) == ()
    assert books.ledger.nomination(first.pod.uid) is not None


def test_the_first_is_bound_though_the_victim_of_the_second_is_still_there() -> None:
    books = open_books()
    victims, (first, second) = two_on_one_card(books)

    pod_events.pod_gone(books, victims[0].key)

    assert not filtered(books, seen(books, first))
    assert filtered(books, seen(books, second))
    bound_to(books, seen(books, first))
    (ended,) = course.settle(books, NOW)
    assert ended.outcome is Outcome.BOUND
    assert nominated.review_changed(books) == ()
    assert course.standing(books, second, victims[1].key, NOW) is GO


def test_two_never_wait_for_each_others_victims() -> None:
    """Either one's leaving would do for both by now: exactly one of them goes."""
    books = open_books()
    victims = [run(books, f"low-{number}", memory_mib=8000) for number in (1, 2, 3)]
    first = begin(books, ask(books, "high-1", memory_mib=8000))
    second = begin(books, ask(books, "high-2", memory_mib=8000))
    assert [names(first.victims), names(second.victims)] == [["low-1"], ["low-2"]]

    pod_events.pod_gone(books, victims[2].key)

    assert not filtered(books, seen(books, first))
    assert filtered(books, seen(books, second))
    stands = {
        course.standing(books, one, victim.key, NOW)
        for one, victim in ((first, victims[0]), (second, victims[1]))
    }
    assert stands == {HOLD}  # ``first`` is being bound to what has come free ...
    bound_to(books, seen(books, first))
    course.settle(books, NOW)
    assert course.standing(books, second, victims[1].key, NOW) is GO  # ... and leaves one to go


def test_who_has_been_evicted_for_one_is_not_evicted_for_another() -> None:
    books = open_books()
    low = run(books, "low-1")
    attempt = begin(books, ask(books))
    higher = begin(books, ask(books, "higher", priority=HIGH + 1))
    assert attempt.victims == higher.victims == (low.key,)

    attempt.evicted.add(low.key.uid)

    assert converse(course.evict(books, higher, low.key, NOW), []) == ""


# Pods that do not go.


def test_a_pod_that_outstays_its_grace_period_keeps_nobody_from_another_node() -> None:
    books = open_books("node-a", "node-b")
    stuck = run(books, "stuck")
    run(books, "low-b", "node-b")
    deleted(books, stuck, leaves_after_s=-31)

    attempt = begin(books, ask(books))

    assert (attempt.node, names(attempt.victims)) == ("node-b", ["low-b"])


@pytest.mark.parametrize(
    ("leaves_after_s", "expected"),
    [
        pytest.param(-29, "node-a", id="late, and its node kills it any moment"),
        pytest.param(30, "node-a", id="soon"),
        pytest.param(301, "node-b", id="after the time limit"),
    ],
)
def test_a_pod_is_waited_for_that_goes_within_the_time_limit(
    leaves_after_s: float, expected: str
) -> None:
    books = open_books("node-a", "node-b")
    going = run(books, "going")
    run(books, "low-b", "node-b")
    deleted(books, going, leaves_after_s=leaves_after_s)

    assert begin(books, ask(books)).node == expected


def test_an_attempt_whose_victim_is_stuck_ends_and_the_next_one_goes_elsewhere() -> None:
    books = open_books("node-a", "node-b")
    low = run(books, "low-a")
    run(books, "low-b", "node-b", priority=LOW + 1)
    high = ask(books)
    assert begin(books, high).node == "node-a"
    deleted(books, low, leaves_after_s=30)
    assert course.settle(books, later(60)) == ()

    (ended,) = course.settle(books, later(61))

    assert ended.outcome is Outcome.OVERTAKEN
    complaint = ended.wanted[-1]
    assert isinstance(complaint, effects.PostEvent)
    assert "has not left" in complaint.message
    assert begin(books, high, now=later(67)).node == "node-b"


def test_what_was_waited_for_in_vain_is_not_waited_for_again() -> None:
    """It does not say how long its grace period is."""
    books = open_books("node-a", "node-b")
    deleted(books, run(books, "stuck"))
    run(books, "low-b", "node-b")
    high = ask(books)
    waits = begin(books, high)
    assert (waits.node, waits.victims, names(waits.awaited)) == ("node-a", (), ["stuck"])

    (ended,) = course.settle(books, later(300))
    assert ended.outcome is Outcome.TIMED_OUT

    assert begin(books, high, now=later(306)).node == "node-b"


# A namespace's quota.


def in_other_namespace(books: flow_books.Books, name: str, node: str) -> records.PodRecord:
    """Let a low pod of another namespace be seen on that node's card."""
    record = run(books, name, node)
    pod_events.pod_gone(books, record.key)
    key = dataclasses.replace(record.key, namespace="team-b", uid=f"{name}-of-team-b")
    moved = dataclasses.replace(
        record, key=key, request=dataclasses.replace(record.request, pod=key)
    )
    pod_events.pod_seen(books, moved)
    return moved


def test_nobody_leaves_for_a_pod_whose_quota_another_one_will_use_up() -> None:
    books = open_books("node-a", "node-b")
    for node in ("node-a", "node-b"):
        in_other_namespace(books, f"low-{node}", node)
    books.ledger.set_limits("team-a", {clusters.VENDOR: quota.Allowance(memory_mib=30000)})
    first, second = ask(books, "high-1"), ask(books, "high-2")
    begin(books, first)

    assert look(books, second).attempt is None
    books.ledger.set_limits("team-a", {clusters.VENDOR: quota.Allowance(memory_mib=48000)})
    filtered(books, second, now=later(6))
    assert look(books, second, now=later(7)).attempt is not None


def test_an_attempt_ends_when_the_quota_has_gone_to_somebody_else() -> None:
    books = open_books("node-a", "node-b")
    low = in_other_namespace(books, "low", "node-a")
    books.ledger.set_limits("team-a", {clusters.VENDOR: quota.Allowance(memory_mib=30000)})
    high = ask(books, nodes=("node-a",))
    attempt = begin(books, high)
    assert course.standing(books, attempt, low.key, NOW) is GO
    assert course.settle(books, NOW) == ()

    run(books, "quick", "node-b", memory_mib=7000)

    assert course.standing(books, attempt, low.key, NOW) is HOLD
    (ended,) = course.settle(books, NOW)
    assert ended.outcome is Outcome.OVERTAKEN


def test_a_quota_that_a_victim_gives_back_counts() -> None:
    books = open_books()
    run(books, "low")
    books.ledger.set_limits("team-a", {clusters.VENDOR: quota.Allowance(memory_mib=24000)})
    begin(books, ask(books))

    assert course.settle(books, NOW) == ()


# A bind that fails.


def test_nobody_gets_the_cards_between_a_bind_that_fails_and_the_next_one() -> None:
    books = open_books()
    low = run(books, "low")
    high = ask(books)
    attempt = begin(books, high)
    pod_events.pod_gone(books, low.key)
    books.ledger.assume(
        high.request, clusters.promise("node-a", (clusters.share("GPU-node-a", 24000),))
    )

    books.ledger.unassume(high.key.uid)

    assert filtered(books, pending("low-again", clusters.asks(memory_mib=1000), priority=LOW))
    assert course.settle(books, NOW) == ()
    assert books.preemption.attempts == {high.key.uid: attempt}
    assert not filtered(books, high)
