"""Tentative claims, and where something became available."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from support import clusters
from vgpu_operator.ledger import ledger
from vgpu_operator.model import request
from vgpu_operator.scheduling import fit

VENDOR = clusters.VENDOR
NOW = datetime(2026, 1, 15, 10, 0, tzinfo=UTC)
SOON = NOW + timedelta(seconds=1)
WHOLE = clusters.wish(clusters.asks(memory_mib=24576))
NEXT = clusters.wish(clusters.asks(memory_mib=24576), uid="u2", name="p2")
ON_A0 = clusters.promise("node-a", [clusters.share("GPU-a0", 24576)])


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


def fitting(books: ledger.Ledger, **how: object) -> tuple[str, ...]:
    view = books.snapshot(**how)  # type: ignore[arg-type]
    return fit.place(view, ["node-a", "node-b"], NEXT, fit.Defaults()).fitting


def test_a_claim_guides_filters_and_nothing_else(books: ledger.Ledger) -> None:
    books.claim(WHOLE, ON_A0, SOON)

    assert fitting(books) == ("node-b",)
    assert fitting(books, with_claims=False) == ("node-a", "node-b")
    assert books.usage("node-a", VENDOR)[0].used_memory_mib == 0


def test_a_pods_own_claim_does_not_keep_it_off(books: ledger.Ledger) -> None:
    other = clusters.wish(clusters.asks(memory_mib=24576), uid="u3", name="p3")
    books.claim(WHOLE, ON_A0, SOON)
    books.claim(other, clusters.promise("node-b", [clusters.share("GPU-b0", 24576)]), SOON)

    assert fitting(books, without_claim_of="u1") == ("node-a",)
    assert fitting(books, without_claim_of="u3") == ("node-b",)
    assert fitting(books, without_claim_of="u2") == ()


def test_a_claim_ends_by_itself(books: ledger.Ledger) -> None:
    books.claim(WHOLE, ON_A0, SOON)

    books.expire_claims(NOW)
    assert fitting(books) == ("node-b",)
    books.expire_claims(SOON)

    assert fitting(books) == ("node-a", "node-b")


def test_a_claim_ends_when_the_bind_arrives(books: ledger.Ledger) -> None:
    books.claim(WHOLE, ON_A0, SOON)

    books.assume(WHOLE, ON_A0)
    assert fitting(books) == ("node-b",)
    books.unassume("u1")

    assert fitting(books) == ("node-a", "node-b")


def test_a_claim_ends_with_the_pod(books: ledger.Ledger) -> None:
    books.claim(WHOLE, ON_A0, SOON)

    books.forget("u1")
    books.claim(WHOLE, ON_A0, SOON)

    assert fitting(books) == ("node-a", "node-b")


def test_a_bind_that_takes_other_cards_sets_the_claimed_ones_free(books: ledger.Ledger) -> None:
    cards = [clusters.card("GPU-a0"), clusters.card("GPU-a1", index=1)]
    books.set_devices("node-a", VENDOR, cards)
    books.claim(WHOLE, ON_A0, SOON)
    claimed = books.generation

    books.assume(WHOLE, clusters.promise("node-a", [clusters.share("GPU-a1", 24576)]))

    assert books.freed_since(claimed) == {"node-a"}


def test_a_bind_that_takes_the_claimed_cards_sets_nothing_free(books: ledger.Ledger) -> None:
    books.claim(WHOLE, ON_A0, SOON)
    claimed = books.generation

    books.assume(WHOLE, ON_A0)

    assert books.freed_since(claimed) == frozenset()


def test_the_own_claim_is_left_out_of_slots_memory_cores_and_score(books: ledger.Ledger) -> None:
    wish = clusters.wish(clusters.asks(memory_mib=6144, cores_percent=25))
    books.claim(wish, clusters.promise("node-a", [clusters.share("GPU-a0", 6144, 25)]), SOON)

    def seen(**how: object) -> tuple[list[int], list[int]]:
        view = books.snapshot(**how)  # type: ignore[arg-type]
        cells, row = view.vendor(VENDOR), view.row("node-a")
        assert cells is not None
        assert row is not None
        sums = view.sums
        return (
            [int(a[row, 0]) for a in (cells.used_slots, cells.used_memory_mib, cells.used_cores)],
            [int(a[row]) for a in (sums.used_slots, sums.used_memory_mib, sums.used_cores)],
        )

    assert seen() == ([1, 6144, 25], [1, 6144, 25])
    assert seen(without_claim_of="u1") == ([0, 0, 0], [0, 0, 0])
    assert seen(with_claims=False) == ([0, 0, 0], [0, 0, 0])


def test_a_longer_claim_on_the_same_cards_alters_no_answer(books: ledger.Ledger) -> None:
    books.claim(WHOLE, ON_A0, SOON)
    generation = books.generation

    books.claim(WHOLE, ON_A0, SOON + timedelta(seconds=5))
    books.expire_claims(SOON)

    assert books.generation == generation
    assert fitting(books) == ("node-b",)


def test_claimed_cards_are_counted_again_when_they_return(books: ledger.Ledger) -> None:
    books.claim(WHOLE, ON_A0, SOON)

    books.drop_devices("node-a", VENDOR)
    books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0")])

    assert fitting(books) == ("node-b",)


def test_every_way_to_set_something_free_is_noted(books: ledger.Ledger) -> None:
    bound = clusters.pod(WHOLE, ON_A0, version="5")
    ways: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "forget": (lambda: books.observe(bound), lambda: books.forget("u1")),
        "unassume": (lambda: books.assume(NEXT, ON_A0), lambda: books.unassume("u2")),
        "claim": (lambda: books.claim(NEXT, ON_A0, SOON), lambda: books.drop_claim("u2")),
        "uncordon": (
            lambda: books.set_cordoned("node-a", frozenset({"GPU-a0"})),
            lambda: books.set_cordoned("node-a", frozenset()),
        ),
        "allocatable": (
            lambda: books.set_allocatable("node-a", VENDOR, 0),
            lambda: books.set_allocatable("node-a", VENDOR, 9),
        ),
        "health": (
            lambda: books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0", healthy=False)]),
            lambda: books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0")]),
        ),
        "more memory": (
            lambda: books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0", memory_mib=9)]),
            lambda: books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0")]),
        ),
        "registered": (
            lambda: books.drop_devices("node-a", VENDOR),
            lambda: books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0")]),
        ),
    }
    for way, (take, give) in ways.items():
        start = books.generation
        take()
        taken = books.generation
        assert taken > start, way
        assert books.freed_since(start) == frozenset(), way
        give()
        assert books.freed_since(taken) == {"node-a"}, way
        assert books.freed_since(books.generation) == frozenset(), way


def test_init_containers_that_end_set_memory_free(books: ledger.Ledger) -> None:
    init = clusters.container(clusters.asks(memory_mib=9000), kind=request.ContainerKind.INIT)
    wish = clusters.wish(init, clusters.asks(memory_mib=1000))
    promised = clusters.promise(
        "node-a", [clusters.share("GPU-a0", 9000)], [clusters.share("GPU-a0", 1000)]
    )
    books.observe(clusters.pod(wish, promised, init_done=False, version="1"))
    before = books.generation

    books.observe(clusters.pod(wish, promised, init_done=True, version="2"))

    assert books.freed_since(before) == {"node-a"}
    assert books.usage("node-a", VENDOR)[0].used_memory_mib == 1000


def test_a_forgotten_node_is_no_longer_named(books: ledger.Ledger) -> None:
    start = books.generation
    books.set_cordoned("node-a", frozenset({"GPU-a0"}))
    books.set_cordoned("node-a", frozenset())

    books.forget_node("node-a")

    assert books.freed_since(start) == frozenset()


def test_arrays_of_a_snapshot_cannot_be_written(books: ledger.Ledger) -> None:
    books.claim(WHOLE, ON_A0, SOON)

    for view in (books.snapshot(), books.snapshot(with_claims=False)):
        seen = view.vendor(VENDOR)
        assert seen is not None
        with pytest.raises(ValueError, match="read-only"):
            seen.used_slots[0, 0] = 1
        with pytest.raises(ValueError, match="read-only"):
            view.sums.used_slots[0] = 1


def test_a_text_that_a_vendors_rules_read_and_that_changes_may_set_something_free(
    books: ledger.Ledger,
) -> None:
    """What a pod holds stays the same; what its text says of it does not."""
    wish = clusters.wish(clusters.asks(memory_mib=1000))
    chosen = clusters.promise("node-a", [clusters.share("GPU-a0", 1000)])
    pod = clusters.pod(wish, chosen, version="5")
    books.observe(pod)
    before = books.generation

    changed = dataclasses.replace(wish, notes={"vendor/placements": "[]"})
    books.observe(dataclasses.replace(pod, request=changed, resource_version="6"))

    assert books.generation > before
    assert books.freed_since(before) == {"node-a"}


def test_a_pods_own_claim_is_left_out_however_often_it_was_renewed(books: ledger.Ledger) -> None:
    for _ in range(3):
        books.claim(WHOLE, ON_A0, SOON)
        mine = books.snapshot(without_claim_of="u1")

        assert mine.tenants("node-a", VENDOR) == {}
        assert books.snapshot(without_claim_of="u2").tenants("node-a", VENDOR) != {}
