"""Sums over the fleet: registrations and handshakes by state, the oldest of what has an age."""

import datetime

from prometheus_client import parser

from support.operator_books import (
    NOW,
    OLD_STAMP,
    lock_of,
    node,
    open_books,
    pending,
    put_node,
)
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows import pod_events, register
from vgpu_operator.metrics import fleet_page

Found = dict[tuple[str, str], float]


async def samples(books: flow_books.Books) -> Found:
    """Return every sample by name and state."""
    text = b"".join([piece async for piece in fleet_page.pieces(books)]).decode()
    return {
        (sample.name, sample.labels.get("state", "")): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_registrations_are_counted_by_what_they_are_worth() -> None:
    books = open_books()
    put_node(books, "ready-1")
    put_node(books, "ready-2")
    put_node(books, "not-offered", allocatable=0)
    put_node(books, "broken", register="{")
    put_node(books, "removed")
    put_node(books, "removed", register=None, version="11")
    put_node(books, "expired", allocatable=0, handshake=OLD_STAMP)

    found = await samples(books)

    name = "vgpu_node_registrations"
    assert {state: count for (family, state), count in found.items() if family == name} == {
        "ready": 2,
        "not allocatable": 1,
        "unreadable": 1,
        "removed": 1,
        "expired": 1,
    }
    handshakes = "vgpu_node_handshakes"
    assert found[handshakes, "requesting"] == 6


async def test_the_oldest_unanswered_stamp_counts_only_where_nothing_is_allocatable() -> None:
    books = open_books()
    put_node(books, "healthy", handshake=OLD_STAMP)
    name = "vgpu_node_handshake_oldest_unanswered_timestamp_seconds"
    assert (name, "") not in await samples(books)

    now = NOW + datetime.timedelta(seconds=7)
    register.node_seen(books, node("dying", allocatable=0), now)

    assert (await samples(books))[name, ""] == now.timestamp()


async def test_a_change_of_a_register_text_has_a_time() -> None:
    books = open_books()
    put_node(books)
    now = NOW + datetime.timedelta(seconds=30)
    register.node_seen(books, node(register="[]", version="11"), now)

    found = await samples(books)

    name = "vgpu_node_registration_last_change_timestamp_seconds"
    assert found[name, ""] == now.timestamp()


async def test_the_oldest_waiting_pod_and_the_oldest_lock_have_times_while_there_are_any() -> None:
    books = open_books()
    names = (
        "vgpu_pods_refused_oldest_created_timestamp_seconds",
        "vgpu_node_locks_oldest_timestamp_seconds",
    )
    assert not [name for name, _ in await samples(books) if name in names]

    put_node(books, register="[]", lock=lock_of("p1"))
    for name, age_s in (("p1", 20), ("p2", 50)):
        created = NOW - datetime.timedelta(seconds=age_s)
        pod = pending(name, created=created)
        pod_events.pod_seen(books, pod)
        flow_filter.filter_nodes(books, pod, ["node-a"], NOW)

    found = await samples(books)
    assert found[names[0], ""] == NOW.timestamp() - 50
    assert found[names[1], ""] == NOW.timestamp()


async def registered(books: flow_books.Books) -> dict[str, float]:
    """Return how many registrations there are, by state."""
    found = (await samples(books)).items()
    return {state: count for (name, state), count in found if name == "vgpu_node_registrations"}


async def test_a_text_that_could_not_be_read_and_is_gone_is_removed() -> None:
    books = open_books()
    put_node(books)
    put_node(books, register="{", version="11")
    assert await registered(books) == {"unreadable": 1}

    put_node(books, register=None, version="12")

    assert await registered(books) == {"removed": 1}


async def test_a_plugin_that_is_gone_for_good_is_counted_by_nobody() -> None:
    """Neither text nor cards: a process that starts now would know nothing of it."""
    books = open_books()
    put_node(books)
    put_node(books, register=None, allocatable=0, handshake=None, version="11")
    books.ledger.drop_devices("node-a", "NVIDIA")
    restarted = open_books()
    put_node(restarted, register=None, allocatable=0, handshake=None, version="11")

    assert await samples(books) == await samples(restarted)
