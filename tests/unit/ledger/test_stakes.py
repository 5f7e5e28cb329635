"""What each pod holds of each card adds up to what the cards say is used."""

import dataclasses
import datetime
import random

import numpy as np

from support import clusters
from vgpu_operator.ledger import ledger, stakes
from vgpu_operator.model import records

NOW = datetime.datetime(2026, 1, 15, 10, tzinfo=datetime.UTC)
EVENTS = ("cards", "forget-node", "pod", "pod", "pod", "pod", "assume", "end", "gone")
NAMES = ("node-a", "node-b", "node-c")


def assert_adds_up(books: ledger.Ledger) -> None:
    view = books.snapshot(with_claims=False).vendor(clusters.VENDOR)
    assert view is not None
    entries = books.stakes.entries[clusters.VENDOR]
    for amounts, used in (
        (entries.slots, view.used_slots),
        (entries.memory_mib, view.used_memory_mib),
        (entries.cores, view.used_cores),
    ):
        total = np.zeros_like(used)
        np.add.at(total, (entries.row, entries.column), amounts)
        assert total.tolist() == used.tolist()
    for name in NAMES:
        uids = sorted(books.stakes.uid(number) for number in books.stakes.on(name))
        assert uids == sorted({holder.pod.uid for holder in books.holders(name)})


def test_after_any_history_the_stakes_are_the_summands_of_the_columns() -> None:
    chance = random.Random(3)  # noqa: S311 - a fixed seed, not a secret
    books = clusters.build_ledger(clusters.Cluster(nodes={}))
    for step in range(600):
        name = chance.choice(NAMES)
        uid = f"u{step if chance.random() < 0.6 else chance.randrange(step + 1)}"
        version = str(step + 1)
        match chance.choice(EVENTS):
            case "cards":
                cards = [clusters.card(f"{name}-{n}", index=n) for n in range(chance.randint(0, 3))]
                chance.shuffle(cards)
                books.set_devices(name, clusters.VENDOR, cards)
            case "forget-node":
                books.forget_node(name)
            case "pod":
                card = f"{name}-{chance.randrange(3)}"
                record = clusters.holder(uid, name, card, chance.randrange(1, 500))
                books.observe(dataclasses.replace(record, resource_version=version))
            case "assume":
                key = f"a{step}"
                wish = clusters.wish(clusters.asks(memory_mib=7), uid=key, name=key)
                share = clusters.share(f"{name}-0", 7)
                books.assume(wish, clusters.promise(name, [share]))
                if chance.random() < 0.5:
                    books.unassume(key)
            case "end":
                known = books.record(uid)
                if known is not None:
                    books.observe(
                        dataclasses.replace(known, phase="Succeeded", resource_version=version)
                    )
            case "gone":
                books.forget(uid)
        if step % 20 == 0:
            assert_adds_up(books)
    assert_adds_up(books)
    assert books.stakes.entries[clusters.VENDOR].slots.sum() > 0


def test_it_is_known_how_a_pod_stands() -> None:
    books = clusters.build_ledger(
        clusters.Cluster(nodes={"node-a": clusters.node(clusters.card("a"))})
    )
    record = dataclasses.replace(clusters.holder("u1", "node-a", "a", 100), priority=7, started=NOW)
    books.observe(record)
    (number,) = books.stakes.on("node-a")
    held = books.stakes

    assert (held.priority[number], held.stays[number], held.going[number]) == (7, True, False)
    assert held.started[number] == NOW.timestamp() * 1e6

    books.observe(dataclasses.replace(record, deleting=True, resource_version="2"))
    assert (held.stays[number], held.going[number]) == (False, True)


def test_a_pod_whose_binding_is_under_way_neither_stays_nor_goes() -> None:
    books = clusters.build_ledger(
        clusters.Cluster(nodes={"node-a": clusters.node(clusters.card("a"))})
    )
    wish = clusters.wish(clusters.asks(memory_mib=7), uid="u1")
    books.assume(wish, clusters.promise("node-a", [clusters.share("a", 7)]))
    (number,) = books.stakes.on("node-a")

    assert not books.stakes.stays[number]
    assert not books.stakes.going[number]
    assert books.stakes.started[number] == stakes.NOT_STARTED


def test_the_lowest_priority_is_that_of_pods_that_nobody_has_deleted() -> None:
    books = clusters.build_ledger(
        clusters.Cluster(nodes={"node-a": clusters.node(clusters.card("a"))})
    )
    assert books.stakes.lowest_priority() is None
    low, high = (
        dataclasses.replace(clusters.holder(uid, "node-a", "a", 100), priority=priority)
        for uid, priority in (("u1", 7), ("u2", 9))
    )
    books.observe(low)
    books.observe(high)
    assert books.stakes.lowest_priority() == 7

    books.observe(dataclasses.replace(low, deleting=True, resource_version="2"))
    assert books.stakes.lowest_priority() == 9
    books.forget("u2")
    assert books.stakes.lowest_priority() is None

    wish = clusters.wish(clusters.asks(memory_mib=7), uid="u3")
    books.observe(clusters.pod(wish, phase="Pending"))
    assert books.stakes.lowest_priority() is None
    books.assume(wish, clusters.promise("node-a", [clusters.share("a", 7)]))
    assert books.stakes.lowest_priority() == 0


def test_a_pod_that_begins_to_leave_is_a_change_though_it_frees_nothing_yet() -> None:
    books = clusters.build_ledger(
        clusters.Cluster(nodes={"node-a": clusters.node(clusters.card("a"))})
    )
    record = clusters.holder("u1", "node-a", "a", 100)
    books.observe(record)
    before = books.stakes.changes, books.generation

    books.observe(dataclasses.replace(record, deleting=True, resource_version="2"))

    assert books.stakes.changes > before[0]
    assert books.generation == before[1]


def test_pods_are_asked_about_once_for_all_of_their_kind() -> None:
    """A pod that leaves a kind counts in it no more, and the last of a kind takes it along."""
    books = clusters.build_ledger(
        clusters.Cluster(nodes={"node-a": clusters.node(clusters.card("a"))})
    )
    labels = {"app": "web"}
    fields = {"labels": labels, "phase": "Running"}
    pods = [
        dataclasses.replace(clusters.holder(uid, "node-a", "a", 1), **fields)
        for uid in ("u1", "u2", "u3")
    ]
    for record in pods:
        books.observe(record)

    def holding(**wanted: object) -> tuple[list[str], int]:
        asked = []

        def holds(record: records.PodRecord) -> bool:
            asked.append(record)
            return all(getattr(record, name) == value for name, value in wanted.items())

        found = books.stakes.of_kinds(holds)
        return [books.stakes.uid(number) for number in found.nonzero()[0]], len(asked)

    assert holding(priority_class="") == (["u1", "u2", "u3"], 1)

    books.observe(dataclasses.replace(pods[1], priority_class="batch", resource_version="2"))
    books.observe(dataclasses.replace(pods[2], phase="Pending", resource_version="2"))
    assert holding(priority_class="batch") == (["u2"], 3)
    assert holding(phase="Pending") == (["u3"], 3)

    books.forget("u1")
    books.observe(dataclasses.replace(pods[1], resource_version="3"))
    books.observe(dataclasses.replace(pods[2], resource_version="3"))
    assert holding(priority_class="", phase="Running") == (["u2", "u3"], 1)
