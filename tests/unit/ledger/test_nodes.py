"""Cards come, change, leave and come back."""

from support import clusters
from vgpu_operator.ledger import ledger
from vgpu_operator.model import device, settings
from vgpu_operator.scheduling import fit

VENDOR = clusters.VENDOR
A0, A1 = clusters.card("GPU-a0", index=0), clusters.card("GPU-a1", index=1)
HALF = clusters.asks(percent=50)


def books_with(*cards: device.Device) -> ledger.Ledger:
    return clusters.build_ledger(clusters.Cluster(nodes={"node-a": clusters.node(*cards)}))


def used(books: ledger.Ledger) -> dict[str, int]:
    return {one.device.id: one.used_memory_mib for one in books.usage("node-a", VENDOR)}


def fits(books: ledger.Ledger) -> bool:
    wish = clusters.wish(clusters.asks(memory_mib=1), uid="probe")
    return bool(fit.place(books.snapshot(), ["node-a"], wish, fit.Defaults()).fitting)


def test_a_list_in_another_order_is_no_news() -> None:
    books = books_with(A0, A1)
    generation = books.generation

    books.set_devices("node-a", VENDOR, [A1, A0])

    assert books.generation == generation
    assert books.devices("node-a", VENDOR) == (A0, A1)


def test_pods_keep_their_usage_when_a_card_is_added() -> None:
    books = books_with(A0)
    books.observe(clusters.holder("u1", "node-a", "GPU-a0", 20000))

    books.set_devices("node-a", VENDOR, [A0, A1])

    assert used(books) == {"GPU-a0": 20000, "GPU-a1": 0}


def test_a_promise_on_an_absent_card_charges_again_when_the_card_returns() -> None:
    books = books_with(A0, A1)
    books.observe(clusters.holder("u1", "node-a", "GPU-a1", 3000))

    books.set_devices("node-a", VENDOR, [A0])
    assert used(books) == {"GPU-a0": 0}
    assert len(books.holders("node-a")) == 1
    books.set_devices("node-a", VENDOR, [A0, A1])

    assert used(books) == {"GPU-a0": 0, "GPU-a1": 3000}


def test_a_percentage_is_charged_anew_when_the_card_changes_its_memory() -> None:
    books = books_with(clusters.card("GPU-a0", memory_mib=1000))
    wish = clusters.wish(HALF)
    books.observe(clusters.pod(wish, clusters.promise("node-a", [clusters.share("GPU-a0", 700)])))
    assert used(books) == {"GPU-a0": 500}

    books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0", memory_mib=1200)])

    assert used(books) == {"GPU-a0": 600}


def test_what_a_percentage_costs_is_as_promised_while_the_node_is_gone() -> None:
    books = books_with(clusters.card("GPU-a0", memory_mib=1000))
    wish = clusters.wish(HALF)
    record = clusters.pod(wish, clusters.promise("node-a", [clusters.share("GPU-a0", 700)]))
    books.observe(record)
    assert books.surplus("u1")

    books.forget_node("node-a")

    assert books.holding("u1") == books.would_hold(record)
    assert not books.surplus("u1")


def test_a_new_node_of_an_old_name_starts_with_its_own_cards_only() -> None:
    books = books_with(A0, A1)
    books.set_cordoned("node-a", frozenset({"GPU-a0"}))

    books.forget_node("node-a")
    assert books.node_names == ()
    assert books.devices("node-a", VENDOR) == ()
    books.set_devices("node-a", VENDOR, [clusters.card("GPU-a0", memory_mib=100)])

    assert used(books) == {"GPU-a0": 0}
    assert not fits(books), "allocatable was not reported for the new node yet"
    books.set_allocatable("node-a", VENDOR, 10)
    assert fits(books), "the cordon went with the old node"


def test_pods_of_a_node_that_comes_back_are_charged_again() -> None:
    books = books_with(A0)
    books.observe(clusters.holder("u1", "node-a", "GPU-a0", 3000))

    books.forget_node("node-a")
    books.set_devices("node-a", VENDOR, [A0])

    assert used(books) == {"GPU-a0": 3000}


def test_the_row_of_a_forgotten_node_serves_the_next_one_blank() -> None:
    books = books_with(A0, A1)
    books.observe(clusters.holder("u1", "node-a", "GPU-a0", 3000))
    books.forget_node("node-a")

    books.set_devices("node-b", VENDOR, [clusters.card("GPU-b0")])

    (card,) = books.usage("node-b", VENDOR)
    assert (card.device.id, card.used_slots, card.used_memory_mib) == ("GPU-b0", 0, 0)
    assert books.snapshot().n_rows == 1


def test_allocatable_zero_stops_new_pods_at_once_and_keeps_the_cards() -> None:
    books = books_with(A0)

    for count, expected in ((0, False), (10, True), (None, False), (1, True)):
        books.set_allocatable("node-a", VENDOR, count)
        assert fits(books) is expected
        assert books.devices("node-a", VENDOR) == (A0,)


def test_another_allocatable_above_zero_alters_no_answer() -> None:
    books = books_with(A0)
    generation = books.generation

    books.set_allocatable("node-a", VENDOR, 7)

    assert books.generation == generation


def test_a_cordon_holds_for_cards_that_register_later() -> None:
    books = books_with()
    books.set_cordoned("node-a", frozenset({"GPU-a0"}))

    books.set_devices("node-a", VENDOR, [A0])

    assert not fits(books)
    books.set_cordoned("node-a", frozenset())
    assert fits(books)


def test_an_unreadable_promise_keeps_new_pods_off_until_the_pod_ends() -> None:
    books = books_with(A0)
    wish = clusters.wish(clusters.asks(memory_mib=10))
    bad = clusters.pod(wish, clusters.promise("node-a", []), faults=[VENDOR], version="1")

    books.observe(bad)
    assert books.blocked("node-a", VENDOR)
    assert not fits(books)
    books.observe(clusters.pod(wish, clusters.promise("node-a", []), phase="Failed", version="2"))

    assert not books.blocked("node-a", VENDOR)
    assert fits(books)


def test_a_block_outlives_the_node() -> None:
    books = books_with(A0)
    wish = clusters.wish(clusters.asks(memory_mib=10))
    books.observe(clusters.pod(wish, clusters.promise("node-a", []), faults=[VENDOR]))

    books.forget_node("node-a")
    books.set_devices("node-a", VENDOR, [A0])
    books.set_allocatable("node-a", VENDOR, 10)

    assert not fits(books)


def test_of_two_cards_with_one_id_only_the_first_is_offered() -> None:
    books = books_with(A0, clusters.card("GPU-a0", memory_mib=99))

    assert [one.device.memory_mib for one in books.usage("node-a", VENDOR)] == [24576]


def test_nodes_beyond_the_first_capacity_keep_what_is_used() -> None:
    books = ledger.Ledger(vendors=(VENDOR, "MLU"), trust=settings.Trust.REQUESTS)
    for number in range(200):
        name = f"node-{number}"
        cards = [clusters.card(f"GPU-{number}-{c}", index=c) for c in range(1 + number // 50)]
        books.set_devices(name, VENDOR, cards)
        books.observe(clusters.holder(f"u{number}", name, f"GPU-{number}-0", number + 1))

    for number in range(200):
        first = books.usage(f"node-{number}", VENDOR)[0]
        assert (first.used_slots, first.used_memory_mib) == (1, number + 1)


def test_one_id_on_two_nodes_is_charged_where_the_pod_is() -> None:
    books = clusters.build_ledger(
        clusters.Cluster(nodes={name: clusters.node(A0) for name in ("node-a", "node-b")})
    )

    books.observe(clusters.holder("u1", "node-b", "GPU-a0", 3000))

    assert used(books) == {"GPU-a0": 0}
    assert books.usage("node-b", VENDOR)[0].used_memory_mib == 3000
