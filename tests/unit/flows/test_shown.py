"""What is told of nodes, cards, holders and waiting pods: values worked out by hand."""

import dataclasses

from support import clusters, operator_books
from support.operator_books import NOW, bound, open_books, pending, put_node, register_text
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows import pod_events, shown_nodes, shown_pods
from vgpu_operator.model import records

TWO = register_text(("GPU-a0", 24576), ("GPU-a1", 24576))


def two_cards() -> flow_books.Books:
    """One node with two cards; a pod holds 4000 MiB and 30 percent of the first."""
    books = open_books()
    put_node(books, register=TWO, cordoned=["GPU-a1"])
    pod = bound(pending("p1"), memory_mib=4000, phase=records.BindPhase.SUCCESS)
    share = clusters.share("GPU-a0", 4000, 30)
    wish = clusters.asks(memory_mib=4000, cores_percent=30)
    request = dataclasses.replace(pod.request, containers=(clusters.container(wish),))
    promised = {operator_books.NVIDIA: ((share,),)}
    pod_events.pod_seen(books, dataclasses.replace(pod, promised=promised, request=request))
    return books


def test_a_card_is_told_with_what_it_has_and_what_pods_hold() -> None:
    rows = shown_nodes.card_rows(two_cards(), "node-a")

    assert rows is not None
    assert [dict(zip(shown_nodes.CARD_FIELDS, row, strict=True)) for row in rows] == [
        {
            "id": card,
            "vendor": "NVIDIA",
            "type": "NVIDIA-NVIDIA A10",
            "index": index,
            "state": state,
            "slots": 10,
            "usedSlots": slots,
            "memoryMiB": 24576,
            "usedMemoryMiB": memory,
            "cores": 100,
            "usedCores": cores,
        }
        for card, index, state, slots, memory, cores in (
            ("GPU-a0", 0, "", 1, 4000, 30),
            ("GPU-a1", 1, "cordoned", 0, 0, 0),
        )
    ]


def test_a_node_is_told_with_its_sums() -> None:
    assert shown_nodes.summary(two_cards(), "node-a") == {
        "name": "node-a",
        "cards": 2,
        "usableCards": 1,
        "pods": 1,
        "slots": {"used": 1, "total": 20},
        "memoryMiB": {"used": 4000, "total": 49152},
        "cores": {"used": 30, "total": 200},
    }


def test_who_holds_a_card_is_told_with_container_amounts_and_since_when() -> None:
    told = shown_nodes.details(two_cards(), "node-a")

    assert told is not None
    assert told["pods"] == [
        {
            "namespace": "team-a",
            "name": "p1",
            "uid": "uid-of-p1",
            "node": "node-a",
            "phase": "allocated",
            "since": "2026-01-15T10:00:00Z",
            "shares": [
                {
                    "container": "main",
                    "vendor": "NVIDIA",
                    "card": "GPU-a0",
                    "memoryMiB": 4000,
                    "cores": 30,
                }
            ],
        }
    ]


def test_a_node_without_a_plugin_says_so_and_its_cards_take_no_pod() -> None:
    books = open_books()
    put_node(books, allocatable=None)

    told = shown_nodes.details(books, "node-a")

    assert told is not None
    assert [card["state"] for card in told["cards"]] == ["closed"]
    (registration,) = told["registrations"]
    assert registration["problem"] == "the kubelet offers none: no device plugin is running"
    assert registration["handshake"] == {"state": "requesting", "time": "2026-01-15T09:59:50Z"}


def test_a_node_on_which_nothing_ever_registered_is_not_on_the_map() -> None:
    books = open_books()
    put_node(books, register=None, handshake=None, allocatable=None)

    assert shown_nodes.card_rows(books, "node-a") is None
    assert shown_nodes.card_rows(books, "node-x") is None
    assert shown_nodes.details(books, "node-x") is None


def test_a_node_whose_first_register_text_nobody_can_read_is_on_the_map_at_once() -> None:
    books = open_books()
    put_node(books, register=None, allocatable=None)
    before = books.ledger.revision

    put_node(books, register="no register text", allocatable=None)

    assert books.ledger.seen_since(before) == ("node-a",)
    assert shown_nodes.card_rows(books, "node-a") == []


def test_a_time_that_is_no_time_is_left_out() -> None:
    books = open_books()
    put_node(books)
    pod_events.pod_seen(books, bound(pending(), bind_time_s=10**18))

    (pod,) = shown_pods.on_node(books, "node-a")

    assert pod["since"] is None


def refused(*nodes: tuple[str, int]) -> dict[str, object]:
    """Return what is told of a pod that asks for 30,000 MiB where nodes have so much a card."""
    books = open_books()
    for name, memory_mib in nodes:
        cards = ((f"{name}-{card}", memory_mib) for card in range(2))
        put_node(books, name, register=register_text(*cards))
    pod = pending("p1", clusters.asks(count=2, memory_mib=30000), created=NOW)
    pod_events.pod_seen(books, pod)
    flow_filter.filter_nodes(books, pod, tuple(books.nodes), NOW)
    told = shown_pods.waiting(books, pod.key.uid)
    assert told is not None
    return told


def test_why_a_pod_waits_is_counted_by_reason() -> None:
    told = refused(("node-a", 24576), ("node-b", 24576))

    assert told["state"] == "refused"
    assert told["created"] == "2026-01-15T10:00:00Z"
    assert told["nodes"] == 2
    # Two nodes, two cards each, all too small.
    assert told["reasons"] == [{"word": "CardInsufficientMemory", "nodes": 2, "cards": 4}]
    assert told["asks"] == [
        {
            "container": "main",
            "vendor": "NVIDIA",
            "cards": 2,
            "memoryMiB": 30000,
            "memoryPercent": None,
            "cores": 0,
        }
    ]
    assert told["nearest"] == {
        "node": "node-a",
        "nodes": 2,
        "text": "2/2 CardInsufficientMemory",
    }


def test_a_pod_that_nobody_has_asked_about_yet_says_so() -> None:
    books = open_books()
    put_node(books)
    pod = pending()
    pod_events.pod_seen(books, pod)

    told = shown_pods.waiting(books, pod.key.uid)

    assert told is not None
    assert (told["state"], told["reasons"], told["nearest"]) == ("waiting", [], None)


def test_a_pod_that_has_a_node_waits_no_longer() -> None:
    books = open_books()
    put_node(books)
    pod_events.pod_seen(books, bound(pending()))

    assert shown_pods.waiting(books, "uid-of-p1") is None
    assert shown_pods.waiting(books, "nobody") is None
