"""The sentence about what came closest: true when it is sent, short, and discreet."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from support import clusters
from support.operator_books import (
    NOW,
    ONE_CARD,
    TWO_CARDS,
    bound,
    later,
    open_books,
    pending,
    put_node,
    register_text,
)
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import closest, effects, pod_events, reasons
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import quota, request
from vgpu_operator.scheduling import near_miss


def holds(
    books: flow_books.Books, name: str, memory_mib: int, *, namespace: str = "team-a"
) -> None:
    """Let a pod hold that much of GPU-a0 of node-a."""
    record = pending(name, clusters.asks(memory_mib=memory_mib))
    key = dataclasses.replace(record.key, namespace=namespace)
    wish = dataclasses.replace(record.request, pod=key)
    record = dataclasses.replace(record, key=key, request=wish)
    pod_events.pod_seen(books, bound(record, memory_mib=memory_mib))


def refused(
    books: flow_books.Books, *wanted: request.DeviceRequest | request.ContainerRequest
) -> tuple[effects.PostEvent, ...]:
    """Return the events of a pod that fits nowhere, as the filter makes them."""
    result = flow_filter.filter_nodes(books, pending("p1", *wanted), tuple(books.nodes), NOW)
    assert result.fitting == ()
    return result.events


def said(books: flow_books.Books, *wanted: request.DeviceRequest) -> str:
    return closest.Closest(books).message(refused(books, *wanted)[0], NOW)


def test_the_first_event_of_a_refusal_says_what_was_asked_what_is_free_and_who_holds_it() -> None:
    books = open_books()
    put_node(books, "node-a")
    holds(books, "train", 20000)

    assert said(books, clusters.asks(memory_mib=6000)) == (
        "1 nodes CardInsufficientMemory (node-a); closest is node-a: card GPU-a0: 6000 MiB"
        " asked, 4576 of 24576 MiB free (held by train 20000 MiB)"
    )


def test_further_events_of_the_refusal_say_their_reason_only() -> None:
    books = open_books()
    put_node(books, "node-a")
    put_node(books, "node-b", register=ONE_CARD.replace("a0", "b0"), cordoned=("GPU-b0",))
    holds(books, "train", 20000)

    first, second = refused(books, clusters.asks(memory_mib=6000))

    assert "closest is node-a" in closest.Closest(books).message(first, NOW)
    assert closest.Closest(books).message(second, NOW) == second.message


def test_pods_of_other_namespaces_are_counted_and_not_named() -> None:
    books = open_books()
    put_node(books, "node-a")
    holds(books, "train", 2000)
    holds(books, "secret-project", 15000, namespace="team-b")
    holds(books, "takeover", 5000, namespace="team-b")

    text = said(books, clusters.asks(memory_mib=6000))

    assert text.endswith("(held by train 2000 MiB, 2 of other namespaces 20000 MiB)")
    assert "secret" not in text


def test_only_the_largest_holders_are_named() -> None:
    books = open_books()
    put_node(books, "node-a")
    for number in range(1, 6):
        holds(books, f"h{number}", number * 1000)

    assert said(books, clusters.asks(memory_mib=20000)).endswith(
        "(held by h5 5000 MiB, h4 4000 MiB, h3 3000 MiB, 2 more of this namespace)"
    )


def test_of_several_cards_the_next_one_is_told() -> None:
    books = open_books()
    put_node(books, "node-a", register=TWO_CARDS)
    holds(books, "train", 20000)

    assert "closest is node-a, where 1 of 2 cards would do; the next: card GPU-a0: 6000" in (
        said(books, clusters.asks(2, memory_mib=6000))
    )


def test_too_few_cards_are_counted() -> None:
    books = open_books()
    put_node(books, "node-a", register=TWO_CARDS)

    assert said(books, clusters.asks(3)).endswith(
        "; closest is node-a: it has 2 NVIDIA cards, 3 are asked for"
    )


def test_the_container_is_named_where_there_are_several() -> None:
    books = open_books()
    put_node(books, "node-a")
    first = clusters.container(clusters.asks(memory_mib=20000), name="serve")
    second = clusters.container(clusters.asks(memory_mib=6000), name="encode")

    (event,) = refused(books, first, second)

    assert "closest is node-a for container encode: card GPU-a0: 6000 MiB asked, 4576 of" in (
        closest.Closest(books).message(event, NOW)
    )


def test_what_is_true_when_it_is_sent_is_said() -> None:
    books = open_books()
    put_node(books, "node-a")
    holds(books, "train", 20000)
    (event,) = refused(books, clusters.asks(memory_mib=6000))

    holds(books, "more", 1000)
    assert "3576 of 24576 MiB free" in closest.Closest(books).message(event, NOW)

    for name in ("train", "more"):
        pod_events.pod_gone(books, pending(name).key)
    assert closest.Closest(books).message(event, NOW) == event.message, "it would fit now"


def test_a_pod_that_is_gone_has_nothing_close_to_it() -> None:
    books = open_books()
    put_node(books, "node-a")
    holds(books, "train", 20000)
    (event,) = refused(books, clusters.asks(memory_mib=6000))
    pod_events.pod_gone(books, pending("p1").key)

    assert closest.Closest(books).message(event, NOW) == event.message


def test_the_longest_message_is_one_that_the_api_server_takes() -> None:
    books = open_books()
    longest = "GPU-" + "x" * 250
    for number in range(40):
        name = f"node-{number:02}-" + "n" * 240
        put_node(books, name, register=register_text((f"{longest}{number:02}", 24576)))
    for number in range(4):
        name = f"{number}" + "p" * 252
        record = pending(name, clusters.asks(memory_mib=1000))
        pod_events.pod_seen(
            books, bound(record, "node-00-" + "n" * 240, card=f"{longest}00", memory_mib=1000)
        )

    text = said(books, clusters.asks(memory_mib=24577))

    assert len(text) <= reasons.LONGEST_MESSAGE < 1024
    assert "…; closest is node-0" in text


def test_a_detail_that_changes_makes_no_other_event() -> None:
    """What was told is known by its sentence: the sink looks no further."""
    key = request.PodKey(namespace="team-a", name="p1", uid="u1")
    one = reasons.on_pod(key, "FilteringFailed", "1 nodes CardNotHealth (node-a)")

    assert dataclasses.replace(one, closest=True) == one
    assert hash(dataclasses.replace(one, closest=True)) == hash(one)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the pods for which nodes are really looked at, as they come."""
    looked: list[str] = []

    def find(view: Any, nodes: Any, wish: request.PodRequest, *told: Any, **more: Any) -> Any:
        looked.append(wish.pod.name)
        return near_miss.find(view, nodes, wish, *told, **more)

    monkeypatch.setattr(closest, "near_miss", SimpleNamespace(find=find))
    return looked


def of_pods(books: flow_books.Books, **asked_mib: int) -> list[effects.PostEvent]:
    """Return the first event of each pod that asks for so much and is refused."""
    events = []
    for name, memory_mib in asked_mib.items():
        record = pending(name, clusters.asks(memory_mib=memory_mib))
        events.append(flow_filter.filter_nodes(books, record, tuple(books.nodes), NOW).events[0])
    return events


def test_pods_that_ask_alike_share_what_was_found_until_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = open_books()
    put_node(books, "node-a")
    holds(books, "train", 20000)
    looked, finder = counted(monkeypatch), closest.Closest(books)

    texts = [finder.message(event, NOW) for event in of_pods(books, p1=6000, p2=6000)]
    assert texts[0] == texts[1]
    assert "4576 of 24576 MiB free" in texts[0]
    assert looked == ["p1"]

    holds(books, "more", 1000)
    (event,) = of_pods(books, p3=6000)
    assert "3576 of 24576 MiB free" in finder.message(event, later(1))
    assert looked == ["p1", "p3"]


def test_pods_that_ask_differently_are_looked_at_now_and_then_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look is one step of the thread that schedules, and there may be 20 events a second."""
    books = open_books()
    n_nodes = 400
    for number in range(n_nodes):
        put_node(books, f"node-{number:03}", register=ONE_CARD.replace("a0", f"{number:03}"))
    looked, finder = counted(monkeypatch), closest.Closest(books)
    first, second, third = of_pods(books, p1=30000, p2=30001, p3=30002)
    pause_s = n_nodes * closest.PAUSE_PER_NODE.total_seconds()
    assert pause_s == 0.02

    assert "; closest is" in finder.message(first, NOW)
    assert finder.message(second, later(0.019)) == second.message
    assert "; closest is" in finder.message(third, later(0.02))
    assert "; closest is" in finder.message(first, later(0.021)), "that is known"
    assert "; closest is" in finder.message(second, later(-60)), "the clock was set back"
    assert looked == ["p1", "p3", "p2"]


def test_the_next_card_is_the_nearest_of_those_that_would_not_do() -> None:
    books = open_books()
    cards = register_text(("GPU-a0", 24576), ("GPU-a1", 24576), ("GPU-a2", 24576))
    put_node(books, "node-a", register=cards)
    holds(books, "train", 24000)
    record = pending("half", clusters.asks(memory_mib=20000))
    pod_events.pod_seen(books, bound(record, card="GPU-a1", memory_mib=20000))

    text = said(books, clusters.asks(3, memory_mib=6000))

    assert "where 1 of 3 cards would do; the next: card GPU-a1: 6000 MiB asked, 4576" in text


@pytest.mark.parametrize("why", ["cordoned", "unhealthy"])
def test_who_holds_a_card_is_not_said_where_it_would_not_help_that_they_leave(why: str) -> None:
    books = open_books()
    put_node(books, "node-a")
    holds(books, "train", 2000)
    if why == "cordoned":
        put_node(books, "node-a", cordoned=("GPU-a0",), version="20")
    else:
        put_node(books, "node-a", register=ONE_CARD.replace("true", "false"), version="20")

    text = said(books, clusters.asks(memory_mib=6000))

    assert "closest is node-a: card GPU-a0: " in text
    assert "held by" not in text


def test_a_quota_is_not_blamed_on_who_holds_the_card() -> None:
    books = open_books()
    put_node(books, "node-a")
    holds(books, "train", 2000)
    books.ledger.set_limits("team-a", {"NVIDIA": quota.Allowance(memory_mib=5000)})

    text = said(books, clusters.asks(memory_mib=6000))

    assert text.endswith(
        "; closest is node-a: card GPU-a0: the quota of the namespace does not cover it"
    )
