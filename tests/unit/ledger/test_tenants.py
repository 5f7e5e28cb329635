"""Who holds which card, as vendors' own rules see it."""

import dataclasses

from support import clusters
from vgpu_operator.ledger import ledger
from vgpu_operator.model import fitting

NVIDIA = clusters.VENDOR


def one_node(memory_mib: int = 1000) -> ledger.Ledger:
    card = clusters.card("GPU-a0", memory_mib=memory_mib)
    return clusters.build_ledger(clusters.Cluster(nodes={"node-a": clusters.node(card)}))


def on_the_card(books: ledger.Ledger) -> tuple[fitting.Tenant, ...]:
    return books.snapshot().tenants("node-a", NVIDIA).get("GPU-a0", ())


def test_a_tenants_notes_are_those_that_its_pod_has_now() -> None:
    """A plugin completes its pod's MIG allocations when it serves it."""
    books = one_node()
    record = clusters.holder("u1", "node-a", "GPU-a0", 100)
    books.observe(record)
    assert [dict(one.notes) for one in on_the_card(books)] == [{}]

    served = dataclasses.replace(
        record,
        resource_version="2",
        request=dataclasses.replace(record.request, notes={"instance": "7"}),
    )
    books.observe(served)

    assert [dict(one.notes) for one in on_the_card(books)] == [{"instance": "7"}]


def test_what_a_binding_is_about_to_write_is_seen_before_the_api_shows_it() -> None:
    books = one_node()
    wish = clusters.wish(clusters.asks(memory_mib=100))
    chosen = clusters.promise("node-a", [clusters.share("GPU-a0", 100)])

    books.assume(wish, chosen)
    assert [dict(one.notes) for one in on_the_card(books)] == [{}]

    books.assume(wish, chosen, notes={"instance": "7"})
    assert [dict(one.notes) for one in on_the_card(books)] == [{"instance": "7"}]

    books.unassume("u1")
    assert on_the_card(books) == ()


def test_a_percentage_is_worked_out_anew_when_the_card_changes() -> None:
    books = one_node()
    wish = clusters.wish(clusters.asks(percent=50))
    books.observe(clusters.pod(wish, clusters.promise("node-a", [clusters.share("GPU-a0", 800)])))
    assert [one.share.memory_mib for one in on_the_card(books)] == [500]

    books.set_devices("node-a", NVIDIA, (clusters.card("GPU-a0", memory_mib=600),))

    assert [one.share.memory_mib for one in on_the_card(books)] == [300]


def test_tenants_come_in_the_order_of_their_pods_whoever_was_seen_first() -> None:
    books = one_node()
    for uid in ("u3", "u1", "u2"):
        books.observe(clusters.holder(uid, "node-a", "GPU-a0", 100))

    assert [one.pod.uid for one in on_the_card(books)] == ["u1", "u2", "u3"]


def test_new_notes_of_a_node_may_make_a_refused_pod_fit() -> None:
    books = one_node()
    before = books.generation

    books.set_notes("node-a", {"links": "{}"})

    assert books.freed_since(before) == {"node-a"}
    generation = books.generation
    books.set_notes("node-a", {"links": "{}"})
    assert books.generation == generation
    assert dict(books.snapshot().notes("node-a")) == {"links": "{}"}


def test_a_share_of_an_instance_is_held_of_its_card() -> None:
    books = one_node(memory_mib=10000)

    books.observe(clusters.holder("u1", "node-a", "GPU-a0[0-1]", 5120))

    (one,) = on_the_card(books)
    assert (one.share.device_id, one.share.card_id) == ("GPU-a0[0-1]", "GPU-a0")
    (card,) = books.usage("node-a", NVIDIA)
    assert (card.used_slots, card.used_memory_mib) == (1, 5120)


def test_nodes_whose_pods_texts_must_be_read_are_marked_until_those_pods_are_gone() -> None:
    books = one_node()
    plain = clusters.holder("u1", "node-a", "GPU-a0", 100)
    noted = dataclasses.replace(
        clusters.holder("u2", "node-a", "GPU-a0", 100),
        request=dataclasses.replace(plain.request, notes={"instances": "[]"}),
    )
    noted = dataclasses.replace(noted, key=dataclasses.replace(noted.key, uid="u2"))

    books.observe(plain)
    assert not books.snapshot().noted().any()
    books.observe(noted)
    assert books.snapshot().noted().tolist() == [True]
    books.observe(clusters.holder("u3", "node-a", "GPU-a0[0-1]", 100))
    books.forget("u2")
    assert books.snapshot().noted().tolist() == [True]
    books.forget("u3")

    assert not books.snapshot().noted().any()
