"""What becomes of locks and allocations is counted once, by the leader."""

import dataclasses

import pytest

from support.operator_books import (
    NOW,
    bound,
    later,
    lock_of,
    node,
    open_books,
    pending,
    plain,
    put_node,
)
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import outcomes, pod_events, register, tallies
from vgpu_operator.model import records

SUCCESS = records.BindPhase.SUCCESS


def show(books: flow_books.Books, record: records.PodRecord, after_s: float) -> None:
    outcomes.note(books, pod_events.pod_seen(books, record), later(after_s))


def counted(books: flow_books.Books) -> dict[str, tuple[int, float]]:
    """Return by outcome how often there was one, and the seconds of all."""
    return {
        outcome: (sum(tally.counts), tally.sum_s)
        for outcome, tally in books.tallies.allocations.items()
        if sum(tally.counts)
    }


def with_one_allocating(**kinds: bool) -> flow_books.Books:
    books = open_books()
    put_node(books)
    books.leader = kinds.get("leader", True)
    show(books, pending(), 0)
    show(books, bound(pending()), 1)
    return books


def test_a_served_pod_is_a_success_with_the_time_since_it_was_seen_bound() -> None:
    books = with_one_allocating()

    show(books, bound(pending(), phase=SUCCESS, version="21"), 3.5)
    show(books, bound(pending(), phase=SUCCESS, version="22"), 9)

    assert counted(books) == {"success": (1, 2.5)}
    assert not books.tallies.allocating


def test_a_pod_that_its_plugin_gives_up_has_failed() -> None:
    books = with_one_allocating()

    show(books, bound(pending(), phase=records.BindPhase.FAILED, version="21"), 2)

    assert counted(books) == {"failed": (1, 1.0)}


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_pod_that_ends_or_goes_first_is_gone(is_deleted: bool) -> None:
    books = with_one_allocating()

    if is_deleted:
        outcomes.note(books, pod_events.pod_gone(books, pending().key), later(5))
    else:
        ended = dataclasses.replace(bound(pending(), version="21"), phase="Failed")
        show(books, ended, 5)

    assert counted(books) == {"gone": (1, 4.0)}


def test_a_follower_counts_nothing_and_a_leader_after_it_only_what_ends_in_its_term() -> None:
    books = with_one_allocating(leader=False)
    show(books, bound(pending("p2")), 1)
    show(books, bound(pending("p2"), phase=SUCCESS, version="21"), 2)
    assert counted(books) == {}

    books.leader = True
    show(books, bound(pending(), phase=SUCCESS, version="21"), 3)

    assert counted(books) == {"success": (1, 2.0)}


def test_pods_that_were_served_before_we_looked_are_no_news() -> None:
    books = open_books()
    put_node(books)

    show(books, bound(pending(), phase=SUCCESS), 0)

    assert counted(books) == {}


def test_a_lock_is_held_until_it_passes_on_or_is_removed() -> None:
    books = open_books()

    def see(version: str, lock: str | None, after_s: float) -> None:
        now = later(after_s)
        seen = node(version=version, lock=lock)
        outcomes.note(books, register.node_seen(books, seen, now), now)

    see("10", lock_of("p1"), 0)
    see("11", lock_of("p1"), 1)
    see("12", lock_of("p2", at="2026-01-15T10:00:02Z"), 2)
    see("13", None, 5)

    held = books.tallies.lock_held
    assert (sum(held.counts), held.sum_s) == (2, 2.0 + 3.0)
    assert not books.tallies.locks


def test_a_clock_that_is_set_back_makes_no_negative_time() -> None:
    tally = tallies.Tally()

    tally.note(-5.0)

    assert (tally.counts[0], tally.sum_s) == (1, 0.0)


def test_a_pod_that_never_passed_the_webhook_is_counted_as_long_as_it_is_there() -> None:
    books = open_books()
    passed_by = pending(scheduler="default-scheduler")

    show(books, passed_by, 0)
    show(books, plain("p2", scheduler="default-scheduler"), 0)
    assert books.tallies.bypassed == {"uid-of-p1"}

    outcomes.note(books, pod_events.pod_gone(books, passed_by.key), NOW)
    assert not books.tallies.bypassed
