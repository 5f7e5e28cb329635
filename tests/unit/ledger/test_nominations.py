"""Cards that are kept for one pod while others leave them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from support import clusters
from vgpu_operator.ledger import audit, ledger
from vgpu_operator.model import allocation, request
from vgpu_operator.scheduling import choose, fit

VENDOR = clusters.VENDOR
NOW = datetime(2026, 1, 15, 10, 0, tzinfo=UTC)
SOON = NOW + timedelta(seconds=1)
WHOLE = clusters.wish(clusters.asks(memory_mib=24576))
NEXT = clusters.wish(clusters.asks(memory_mib=24576), uid="u2", name="p2")
ON_A0 = clusters.promise("node-a", [clusters.share("GPU-a0", 24576)])
ON_B0 = clusters.promise("node-b", [clusters.share("GPU-b0", 24576)])


@pytest.fixture
def books() -> ledger.Ledger:
    return clusters.build_ledger(
        clusters.Cluster(
            nodes={
                "node-a": clusters.node(clusters.card("GPU-a0")),
                "node-b": clusters.node(clusters.card("GPU-b0")),
            }
        )
    )


def fitting(
    books: ledger.Ledger,
    priority: int | None,
    *,
    wish: request.PodRequest = NEXT,
    with_claims: bool = True,
) -> tuple[str, ...]:
    view = books.snapshot(
        with_claims=with_claims, without_claim_of=wish.pod.uid, for_priority=priority
    )
    return fit.place(view, ["node-a", "node-b"], wish, fit.Defaults()).fitting


@pytest.mark.parametrize("with_claims", [True, False])
@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        (-5, ("node-b",)),
        (9, ("node-b",)),
        (10, ("node-b",)),
        (11, ("node-a", "node-b")),
        (None, ("node-a", "node-b")),
    ],
)
def test_lower_and_equal_priorities_do_not_get_what_is_kept_and_higher_ones_do(
    books: ledger.Ledger, priority: int | None, expected: tuple[str, ...], with_claims: bool
) -> None:
    assert books.nominate(WHOLE, 10, ON_A0, SOON)

    assert fitting(books, priority, with_claims=with_claims) == expected


def test_a_pod_is_not_kept_off_by_what_is_kept_for_itself(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    books.nominate(NEXT, 10, ON_B0, SOON)

    assert fitting(books, 10, wish=WHOLE) == ("node-a",)
    assert fitting(books, 10, wish=NEXT) == ("node-b",)
    assert fitting(books, 11, wish=NEXT) == ("node-a", "node-b")


def test_a_view_of_one_node_counts_what_is_kept_there_and_leaves_the_common_view(
    books: ledger.Ledger,
) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    books.nominate(NEXT, 10, ON_B0, SOON)
    common = books.snapshot(for_priority=10)

    found = {}
    for node in ("node-a", "node-b"):
        view = books.snapshot(without_claim_of=WHOLE.pod.uid, for_priority=10, kept_on=node)
        found[node] = fit.place(view, [node], WHOLE, fit.Defaults()).fitting

    assert found == {"node-a": ("node-a",), "node-b": ()}
    assert books.snapshot(for_priority=10) is common


def test_the_choice_at_bind_counts_what_is_kept(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)

    def chosen(priority: int) -> bool:
        view = books.snapshot(with_claims=False, without_claim_of="u2", for_priority=priority)
        found = choose.choose(view, "node-a", NEXT, fit.Defaults())
        return isinstance(found, allocation.Allocation)

    assert (chosen(10), chosen(11)) == (False, True)


def test_kept_and_held_together_may_be_more_than_a_card_has(books: ledger.Ledger) -> None:
    books.observe(clusters.holder("u9", "node-a", "GPU-a0", 24576, 100))
    books.nominate(WHOLE, 10, ON_A0, SOON)
    view = books.snapshot(for_priority=10)

    seen, row = view.vendor(VENDOR), view.row("node-a")

    assert seen is not None
    assert row is not None
    assert seen.used_memory_mib[row, 0] == view.sums.used_memory_mib[row] == 2 * 24576
    assert (seen.used_slots[row, 0], seen.used_cores[row, 0]) == (2, 100)
    assert fitting(books, 0) == ("node-b",)
    assert books.usage("node-a", VENDOR)[0].used_memory_mib == 24576
    tiny = clusters.wish(clusters.asks(memory_mib=1), uid="u3")
    placed = fit.place(view, ["node-a", "node-b"], tiny, fit.Defaults())
    assert placed.fitting == ("node-b",)
    assert placed.scores(100).tolist() == [0]


def test_who_leaves_is_named_beside_the_one_who_comes(books: ledger.Ledger) -> None:
    books.observe(clusters.holder("u9", "node-a", "GPU-a0", 24576))
    books.nominate(WHOLE, 10, ON_A0, SOON)

    def names(**how: object) -> list[str]:
        view = books.snapshot(**how)  # type: ignore[arg-type]
        return sorted(one.pod.uid for one in view.tenants("node-a", VENDOR).get("GPU-a0", ()))

    assert names(for_priority=10) == ["u1", "u9"]
    assert names(for_priority=10, with_claims=False) == ["u1", "u9"]
    assert names(for_priority=10, without_claim_of="u1") == ["u9"]
    assert names(for_priority=11) == names() == ["u9"]
    assert [holder.pod.uid for holder in books.holders("node-a")] == ["u9"]


def test_no_array_is_copied_where_nothing_is_kept_from_the_pod(books: ledger.Ledger) -> None:
    """Decision 0004: views, not copies."""

    def shares_memory(priority: int) -> bool:
        seen = books.snapshot(for_priority=priority).vendor(VENDOR)
        assert seen is not None
        return seen.used_slots.base is not None and any(
            seen.used_slots.base is array or seen.used_slots.base is array.base
            for array in [books._nodes.cells[VENDOR].taken_slots]
        )

    assert shares_memory(0)
    books.nominate(WHOLE, 10, ON_A0, SOON)
    assert not shares_memory(10)
    assert shares_memory(11)
    books.end_nomination("u1")
    assert shares_memory(10)


def test_arrays_with_what_is_kept_cannot_be_written(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    view = books.snapshot(for_priority=0)
    seen = view.vendor(VENDOR)

    assert seen is not None
    with pytest.raises(ValueError, match="read-only"):
        seen.used_slots[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        view.sums.used_slots[0] = 1


def test_a_pod_with_a_claim_and_kept_cards_counts_once(books: ledger.Ledger) -> None:
    half = clusters.wish(clusters.asks(memory_mib=12288))
    on_a0 = clusters.promise("node-a", [clusters.share("GPU-a0", 12288, 30)])
    other_half = clusters.wish(clusters.asks(memory_mib=12288), uid="u2", name="p2")
    books.nominate(half, 10, on_a0, SOON)
    books.claim(half, on_a0, SOON)

    def used(**how: object) -> tuple[int, int, int, int]:
        view = books.snapshot(**how)  # type: ignore[arg-type]
        seen, row = view.vendor(VENDOR), view.row("node-a")
        assert seen is not None
        assert row is not None
        return (
            int(seen.used_memory_mib[row, 0]),
            int(seen.used_cores[row, 0]),
            int(view.sums.used_slots[row]),
            len(view.tenants("node-a", VENDOR).get("GPU-a0", ())),
        )

    once, never = (12288, 30, 1, 1), (0, 0, 0, 0)
    assert used(for_priority=10) == once
    assert used(for_priority=11) == once
    assert used(for_priority=10, with_claims=False) == once
    assert used(for_priority=11, with_claims=False) == never
    assert used(for_priority=10, without_claim_of="u1") == never
    assert "node-a" in fitting(books, 0, wish=other_half)


def test_a_claim_elsewhere_counts_beside_what_is_kept(books: ledger.Ledger) -> None:
    """The pod may yet be bound to either node."""
    books.nominate(WHOLE, 10, ON_A0, SOON)
    books.claim(WHOLE, ON_B0, SOON)

    assert fitting(books, 10) == ()
    assert fitting(books, 10, wish=WHOLE) == ("node-a", "node-b")


def test_it_ends_by_time_and_says_which(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    books.nominate(NEXT, 10, ON_B0, SOON + timedelta(seconds=1))

    assert books.expire_nominations(NOW) == ()
    assert [one.pod.uid for one in books.expire_nominations(SOON)] == ["u1"]
    assert [one.pod.uid for one in books.nominations()] == ["u2"]
    assert books.expire_nominations(SOON) == ()


def test_asked_to_end_it_says_what_was_kept(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)

    ended = books.end_nomination("u1")

    assert ended is not None
    assert (ended.pod, ended.node, ended.priority, ended.until) == (
        WHOLE.pod,
        "node-a",
        10,
        SOON,
    )
    assert books.end_nomination("u1") is None
    assert (books.nominations(), books.nomination("u1")) == ((), None)


ENDS: dict[str, Callable[[ledger.Ledger], object]] = {
    "assumed": lambda books: books.assume(WHOLE, ON_B0),
    "bound by somebody else": lambda books: books.observe(clusters.pod(WHOLE, ON_B0)),
    "bound without a promise": lambda books: books.observe(clusters.pod(WHOLE, node_name="node-b")),
    "ended": lambda books: books.observe(clusters.pod(WHOLE, phase="Failed")),
    "deleted": lambda books: books.observe(clusters.pod(WHOLE, phase="Pending", deleting=True)),
    "gone": lambda books: books.forget("u1"),
    "node gone": lambda books: books.forget_node("node-a"),
}


@pytest.mark.parametrize("how", ENDS)
def test_it_ends_with_the_pods_wait(books: ledger.Ledger, how: str) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)

    ENDS[how](books)

    assert books.nomination("u1") is None


@pytest.mark.parametrize("how", ["assumed", "bound without a promise", "deleted", "gone"])
def test_a_pod_that_waits_no_longer_gets_nothing_kept(books: ledger.Ledger, how: str) -> None:
    ENDS[how](books)

    assert not books.nominate(WHOLE, 10, ON_A0, SOON)
    assert books.nominations() == ()


def test_a_waiting_pod_that_changes_keeps_its_cards(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)

    books.observe(clusters.pod(WHOLE, phase="Pending", version="7"))

    assert books.nomination("u1") is not None


def test_its_end_sets_something_free(books: ledger.Ledger) -> None:
    start = books.generation
    books.nominate(WHOLE, 10, ON_A0, SOON)
    kept = books.generation
    assert kept > start
    assert books.freed_since(start) == frozenset()

    books.end_nomination("u1")

    assert books.freed_since(kept) == {"node-a"}
    assert books.newest_freed == books.generation


def test_a_bind_that_takes_the_kept_cards_sets_nothing_free(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    kept = books.generation

    books.assume(WHOLE, ON_A0)

    assert books.freed_since(kept) == frozenset()


def test_a_bind_to_other_cards_sets_the_kept_ones_free(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    kept = books.generation

    books.assume(WHOLE, ON_B0)

    assert books.freed_since(kept) == {"node-a"}
    assert fitting(books, 0) == ("node-a",)


def test_a_longer_one_on_the_same_cards_alters_no_answer(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    generation = books.generation

    books.nominate(WHOLE, 10, ON_A0, SOON + timedelta(seconds=5))

    assert books.expire_nominations(SOON) == ()
    assert books.generation == generation


def test_one_of_another_priority_alters_answers(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    before = books.generation

    books.nominate(WHOLE, 5, ON_A0, SOON)

    assert fitting(books, 7) == ("node-a", "node-b")
    assert books.freed_since(before) == {"node-a"}


def test_it_moves_when_the_pod_is_nominated_elsewhere(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)

    books.nominate(WHOLE, 10, ON_B0, SOON)

    assert fitting(books, 10) == ("node-a",)
    assert books.nominations("node-a") == ()
    assert [one.pod.uid for one in books.nominations("node-b")] == ["u1"]


def test_kept_cards_that_leave_count_again_when_they_return(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)

    books.drop_devices("node-a", VENDOR)
    assert fitting(books, 10) == ("node-b",)
    books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0")])

    assert fitting(books, 10) == ("node-b",)


def test_pods_from_which_as_much_is_kept_are_answered_alike(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    books.nominate(NEXT, 20, ON_B0, SOON)

    assert [books.kept_from(priority) for priority in (0, 10, 11, 20, 21)] == [2, 2, 1, 1, 0]


def test_an_audit_does_not_look_at_what_is_kept(books: ledger.Ledger) -> None:
    holder = clusters.holder("u9", "node-a", "GPU-a0", 24576)
    books.observe(holder)
    books.nominate(WHOLE, 10, ON_A0, SOON)

    assert audit.audit(books, [holder]).clean
    assert books.quota_standing("team-a").used[VENDOR].memory_mib == 24576


def test_a_snapshot_of_another_priority_is_another_one(books: ledger.Ledger) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)

    assert books.snapshot(for_priority=10) is books.snapshot(for_priority=10)
    assert books.snapshot(for_priority=10) is not books.snapshot(for_priority=11)
    assert books.snapshot(for_priority=11) is books.snapshot()


HALF = clusters.wish(clusters.asks(memory_mib=12288))
NEXT_HALF = clusters.wish(clusters.asks(memory_mib=12288), uid="u2", name="p2")
HALF_A0 = clusters.promise("node-a", [clusters.share("GPU-a0", 12288)])
HALF_B0 = clusters.promise("node-b", [clusters.share("GPU-b0", 12288)])


def test_of_equals_the_first_one_does_not_see_the_later_one_on_its_card(
    books: ledger.Ledger,
) -> None:
    """The card is kept for both; one holder has left it, the other one has not."""
    books.observe(clusters.holder("u9", "node-a", "GPU-a0", 12288, 0))
    books.nominate(HALF, 10, HALF_A0, SOON)
    books.nominate(NEXT_HALF, 10, HALF_A0, SOON)

    assert fitting(books, 10, wish=HALF) == ("node-a", "node-b")
    assert fitting(books, 10, wish=NEXT_HALF) == ("node-b",)
    third = clusters.wish(clusters.asks(memory_mib=1), uid="u3")
    assert fitting(books, 10, wish=third) == ("node-b",)
    assert [one.pod.uid for one in books.nominations_ahead(10, "u2")] == ["u1"]
    assert books.nominations_ahead(10, "u1") == ()


def test_a_later_one_keeps_other_cards_from_the_first_and_a_higher_one_all(
    books: ledger.Ledger,
) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    books.nominate(NEXT, 10, ON_B0, SOON)
    assert fitting(books, 10, wish=WHOLE) == ("node-a",)

    books.nominate(NEXT, 11, ON_A0, SOON)

    assert fitting(books, 10, wish=WHOLE) == ("node-b",)


def test_it_keeps_its_turn_when_it_moves_to_another_card(books: ledger.Ledger) -> None:
    books.nominate(HALF, 10, HALF_B0, SOON)
    books.nominate(NEXT_HALF, 10, HALF_A0, SOON)

    books.nominate(HALF, 10, HALF_A0, SOON)

    assert [one.pod.uid for one in books.nominations("node-a")] == ["u1", "u2"]
    assert books.nominations_ahead(10, "u1") == ()


def test_a_binding_that_fails_leaves_no_moment_in_which_others_get_the_cards(
    books: ledger.Ledger,
) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    books.nominate(NEXT, 10, ON_B0, SOON)
    books.assume(WHOLE, ON_A0)
    assert books.nomination("u1") is None

    books.unassume("u1")

    assert books.nomination("u1") is not None
    assert fitting(books, 10, wish=clusters.wish(clusters.asks(memory_mib=1), uid="u3")) == ()
    assert [one.pod.uid for one in books.nominations()] == ["u1", "u2"]


OVERS: dict[str, Callable[[ledger.Ledger], object]] = {
    "its time is over": lambda books: books.expire_nominations(SOON),
    "it was ended": lambda books: books.end_nomination("u1"),
    "the node is gone": lambda books: books.forget_node("node-a"),
    "the pod is being deleted": lambda books: books.observe(
        clusters.pod(WHOLE, phase="Pending", deleting=True)
    ),
}


@pytest.mark.parametrize("why", OVERS)
def test_what_ended_during_a_binding_is_not_kept_after_it(books: ledger.Ledger, why: str) -> None:
    books.nominate(WHOLE, 10, ON_A0, SOON)
    books.assume(WHOLE, ON_B0)

    OVERS[why](books)
    books.unassume("u1")

    assert books.nominations() == ()
