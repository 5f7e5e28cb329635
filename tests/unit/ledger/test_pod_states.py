"""Absent, assumed, confirmed, gone."""

import itertools

import pytest

from support import clusters
from vgpu_operator.ledger import ledger, residents
from vgpu_operator.model import errors, settings

WISH = clusters.wish(clusters.asks(memory_mib=1000, cores_percent=10))
PROMISE = clusters.promise("node-a", [clusters.share("GPU-a0", 1000, 10)])
OTHER = clusters.promise("node-a", [clusters.share("GPU-a1", 1000, 10)])


@pytest.fixture
def books() -> ledger.Ledger:
    return clusters.build_ledger(
        clusters.Cluster(
            nodes={
                "node-a": clusters.node(clusters.card("GPU-a0"), clusters.card("GPU-a1")),
                "node-b": clusters.node(clusters.card("GPU-b0")),
            }
        )
    )


def used(books: ledger.Ledger, node: str = "node-a") -> list[tuple[int, int, int]]:
    return [
        (card.used_slots, card.used_memory_mib, card.used_cores_percent)
        for card in books.usage(node, clusters.VENDOR)
    ]


IDLE = [(0, 0, 0), (0, 0, 0)]
FIRST = [(1, 1000, 10), (0, 0, 0)]
SECOND = [(0, 0, 0), (1, 1000, 10)]


def test_an_assumed_pod_is_charged_at_once(books: ledger.Ledger) -> None:
    books.assume(WISH, PROMISE)

    assert used(books) == FIRST
    assert books.assumed("u1")


def test_taking_an_assumption_back_leaves_no_trace(books: ledger.Ledger) -> None:
    books.assume(WISH, PROMISE)

    books.unassume("u1")
    books.unassume("u1")

    assert used(books) == IDLE
    assert not books.assumed("u1")
    assert books.holders("node-a") == ()


def test_assuming_again_replaces_the_assumption(books: ledger.Ledger) -> None:
    books.assume(WISH, PROMISE)

    books.assume(WISH, OTHER)

    assert used(books) == SECOND


def test_an_unbound_record_keeps_a_living_assumption(books: ledger.Ledger) -> None:
    books.assume(WISH, PROMISE)

    books.observe(clusters.pod(WISH, OTHER, node_name="", phase="Pending"))

    assert used(books) == FIRST


def test_a_bound_pod_with_a_promise_replaces_the_assumption(books: ledger.Ledger) -> None:
    books.assume(WISH, PROMISE)

    books.observe(clusters.pod(WISH, OTHER))

    assert used(books) == SECOND
    assert not books.assumed("u1")


def test_confirming_what_was_assumed_changes_no_answer(books: ledger.Ledger) -> None:
    books.assume(WISH, PROMISE)
    before = books.generation

    assert books.observe(clusters.pod(WISH, PROMISE, init_done=False))

    assert used(books) == FIRST
    assert books.freed_since(before) == frozenset()


def test_a_pod_bound_elsewhere_drops_the_assumption(books: ledger.Ledger) -> None:
    books.assume(WISH, PROMISE)

    books.observe(clusters.pod(WISH, PROMISE, node_name="node-b"))

    assert used(books) == IDLE
    assert used(books, "node-b") == [(0, 0, 0)]


def test_an_unbound_pod_with_old_annotations_is_not_charged(books: ledger.Ledger) -> None:
    books.observe(clusters.pod(WISH, PROMISE, node_name="", phase="Pending"))

    assert used(books) == IDLE


def test_an_ended_pod_is_set_free_and_stays_known(books: ledger.Ledger) -> None:
    books.observe(clusters.pod(WISH, PROMISE, version="1"))

    books.observe(clusters.pod(WISH, PROMISE, version="2", phase="Succeeded"))

    assert used(books) == IDLE
    assert books.record("u1") is not None


def test_the_same_event_twice_changes_nothing(books: ledger.Ledger) -> None:
    record = clusters.pod(WISH, PROMISE)
    assert books.observe(record)
    generation = books.generation

    assert not books.observe(record)

    assert books.generation == generation
    assert used(books) == FIRST


@pytest.mark.parametrize("late", ["9", "08"], ids=["shorter number", "leading zero"])
def test_an_older_version_is_ignored_by_number_not_by_text(books: ledger.Ledger, late: str) -> None:
    books.observe(clusters.pod(WISH, OTHER, version="10"))

    assert not books.observe(clusters.pod(WISH, PROMISE, version=late))

    assert used(books) == SECOND


def test_a_version_that_is_no_number_counts_as_news(books: ledger.Ledger) -> None:
    books.observe(clusters.pod(WISH, PROMISE, version="10"))

    assert books.observe(clusters.pod(WISH, OTHER, version="x"))

    assert used(books) == SECOND


def test_a_late_event_does_not_revive_a_pod_that_is_gone(books: ledger.Ledger) -> None:
    books.observe(clusters.pod(WISH, PROMISE, version="1"))
    books.forget("u1")

    assert not books.observe(clusters.pod(WISH, PROMISE, version="2"))

    assert used(books) == IDLE
    assert books.record("u1") is None


def test_a_deletion_that_comes_first_counts(books: ledger.Ledger) -> None:
    books.forget("u1")

    books.observe(clusters.pod(WISH, PROMISE))

    assert used(books) == IDLE


def test_a_pod_that_is_gone_cannot_be_assumed(books: ledger.Ledger) -> None:
    books.forget("u1")

    with pytest.raises(errors.LedgerError, match=r"team-a/p1 \(u1\) is gone"):
        books.assume(WISH, PROMISE)


def test_a_bound_pod_cannot_be_assumed(books: ledger.Ledger) -> None:
    books.observe(clusters.pod(WISH, PROMISE))

    with pytest.raises(errors.LedgerError, match="bound to 'node-a'"):
        books.assume(WISH, OTHER)


def test_every_order_of_the_same_events_ends_the_same() -> None:
    cards = (clusters.card("GPU-a0"), clusters.card("GPU-a1"))
    other = clusters.wish(clusters.asks(memory_mib=500), uid="u2", name="p2")
    held = clusters.promise("node-a", [clusters.share("GPU-a1", 500)])
    ends = set()
    for order in itertools.permutations(range(5)):
        books = ledger.Ledger(vendors=(clusters.VENDOR,), trust=settings.Trust.REQUESTS)
        events = (
            lambda books=books: books.set_devices("node-a", clusters.VENDOR, cards),
            lambda books=books: books.observe(clusters.pod(WISH, OTHER, version="7")),
            lambda books=books: books.observe(clusters.pod(WISH, PROMISE, version="8")),
            lambda books=books: books.observe(clusters.pod(other, held)),
            lambda books=books: books.forget("u2"),
        )
        for number in order:
            events[number]()
        ends.add(tuple(used(books)))

    assert ends == {((1, 1000, 10), (0, 0, 0))}


def test_a_name_leads_to_the_pod_seen_first_last(books: ledger.Ledger) -> None:
    again = clusters.wish(clusters.asks(memory_mib=1), uid="u2", name="p1")
    books.observe(clusters.pod(WISH, PROMISE))
    books.observe(clusters.pod(again, node_name=""))

    newer = books.record_of("team-a", "p1")
    books.forget("u2")
    older = books.record_of("team-a", "p1")
    books.forget("u1")

    assert newer is not None
    assert newer.key.uid == "u2"
    assert older is not None
    assert older.key.uid == "u1"
    assert books.record_of("team-a", "p1") is None
    assert books.records() == ()


def test_holders_are_listed_by_pod_vendor_and_container(books: ledger.Ledger) -> None:
    wish = clusters.wish(clusters.container(), clusters.asks(memory_mib=800), uid="u0", name="p0")
    share = clusters.share("GPU-a1", 800)
    books.assume(WISH, PROMISE)
    books.observe(clusters.pod(wish, clusters.promise("node-a", [], [share])))

    assert books.holders("node-a") == (
        residents.Holder(pod=wish.pod, vendor="NVIDIA", container=1, share=share),
        residents.Holder(
            pod=WISH.pod, vendor="NVIDIA", container=0, share=clusters.share("GPU-a0", 1000, 10)
        ),
    )


def test_what_is_promised_beyond_the_request_is_kept_for_reports(books: ledger.Ledger) -> None:
    books.observe(
        clusters.pod(WISH, clusters.promise("node-a", [clusters.share("GPU-a0", 5000, 10)]))
    )

    (over,) = books.surplus("u1")

    assert (over.device_id, over.slots, over.memory_mib, over.cores_percent) == (
        "GPU-a0",
        0,
        4000,
        0,
    )
    assert used(books) == FIRST
