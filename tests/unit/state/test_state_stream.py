"""The stream of changes: what is new, once, in order, to whoever reads it fast enough."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from support import operator_books, state_world
from support.waiting import settled, until
from vgpu_operator.flows import pod_events, shown_nodes
from vgpu_operator.flows.books import Books
from vgpu_operator.state import rows, stream

BOOT = "0a1b2c3d"


def stream_of(books: Books) -> stream.Stream:
    return stream.Stream(
        books, rows.Rows(books), boot=BOOT, status=lambda: {"leader": books.leader}
    )


def some_nodes(number: int = 3) -> Books:
    books = operator_books.open_books()
    state_world.fill(books, nodes=number, cards=2)
    return books


def read(message: bytes) -> tuple[str, Any, str]:
    """Return a message's event, its value and its id."""
    fields = dict(line.split(": ", 1) for line in message.decode().strip().split("\n"))
    return fields["event"], json.loads(fields["data"]), fields.get("id", "")


async def taken(listener: stream.Listener) -> list[tuple[str, Any, str]]:
    """Return what waits for a listener."""
    found = []
    while not listener._queue.empty():
        found.append(read(listener._queue.get_nowait()))
    return found


@contextlib.asynccontextmanager
async def listening(told: stream.Stream, seen: str = "") -> AsyncIterator[stream.Listener]:
    async with told.listening(seen) as listener:
        assert listener is not None
        yield listener


async def test_who_has_the_map_hears_only_what_changed_since() -> None:
    books = some_nodes()
    seen = f"{BOOT}-{books.ledger.revision}"
    state_world.hold(books, "newcomer", 1, 0, 4000)

    async with listening(stream_of(books), seen) as listener:
        messages = {event: (value, id_) for event, value, id_ in await taken(listener)}

    value, id_ = messages["nodes"]
    assert [name for name, _ in value["nodes"]] == ["gpu-node-2"]
    assert id_ == f"{BOOT}-{books.ledger.revision}"
    assert messages["status"][0] == {"leader": True}
    assert messages["pending"][0] == {"total": 0, "pods": []}


@pytest.mark.parametrize("seen", ["", "x", "ffffffff-1", f"{BOOT}-999999", f"{BOOT}-x", "-1"])
async def test_who_has_nothing_or_something_else_is_told_to_read_the_map(seen: str) -> None:
    async with listening(stream_of(some_nodes()), seen) as listener:
        events = [event for event, _, _ in await taken(listener)]

    assert events == ["status", "reset", "pending"]


async def test_many_changes_between_two_looks_are_one_message() -> None:
    books = some_nodes()
    told = stream_of(books)
    async with listening(told, f"{BOOT}-{books.ledger.revision}") as listener:
        await told.look()
        await taken(listener)
        pods = [state_world.hold(books, f"p{turn}", turn % 3, 0, 100) for turn in range(30)]
        await told.look()
        first = await taken(listener)
        for pod in pods:
            pod_events.pod_gone(books, pod.key)
        operator_books.register.node_gone(books, "gpu-node-1")
        await told.look()
        second = await taken(listener)
        await told.look()
        third = await taken(listener)

    assert [event for event, _, _ in first] == ["nodes"]
    assert len(first[0][1]["nodes"]) == 3
    assert second[0][1]["gone"] == ["gpu-node-1"]
    assert len(second[0][1]["nodes"]) == 2
    assert third == []


async def test_a_pod_that_waits_and_one_that_waits_no_more_are_told() -> None:
    books = some_nodes()
    told = stream_of(books)
    async with listening(told) as listener:
        await told.look()
        await taken(listener)
        pod = state_world.wait_for_cards(books, "too-large", memory_mib=90000)
        await told.look()
        came = await taken(listener)
        pod_events.pod_gone(books, pod.key)
        await told.look()
        went = await taken(listener)

    ((_, value, _),) = [one for one in came if one[0] == "pending"]
    assert value["total"] == 1
    assert value["pods"][0]["reasons"][0]["word"] == "CardInsufficientMemory"
    assert ("pending", {"total": 0, "pods": []}, "") in went


async def test_of_thousands_of_waiting_pods_the_first_are_told_and_how_many_there_are() -> None:
    books = some_nodes(1)
    for number in range(stream.MOST_PENDING + 7):
        pod_events.pod_seen(books, operator_books.pending(f"p{number}"))

    value = await stream_of(books).pending()

    assert value["total"] == stream.MOST_PENDING + 7
    assert [pod["name"] for pod in value["pods"]] == [
        f"p{number}" for number in range(stream.MOST_PENDING)
    ]


async def test_more_changes_than_can_be_told_one_by_one_mean_another_map(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = some_nodes(4)
    monkeypatch.setattr(stream, "MOST_NODES", 3)

    async with listening(stream_of(books), f"{BOOT}-0") as listener:
        events = [event for event, _, _ in await taken(listener)]

    assert "reset" in events


async def test_many_changed_nodes_come_in_parts_and_only_the_last_moves_the_listener_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = some_nodes(5)
    monkeypatch.setattr(stream, "NODES_AT_ONCE", 2)

    async with listening(stream_of(books), f"{BOOT}-0") as listener:
        parts = [one for one in await taken(listener) if one[0] == "nodes"]

    assert [len(value["nodes"]) for _, value, _ in parts] == [2, 2, 1]
    assert [bool(id_) for _, _, id_ in parts] == [False, False, True]


async def test_a_listener_that_does_not_read_is_let_go_and_others_are_not() -> None:
    books = some_nodes()
    told = stream_of(books)
    async with listening(told) as slow, listening(told) as fast:
        for turn in range(stream.MOST_WAITING + 1):
            state_world.hold(books, f"p{turn}", 0, 0, 10)
            await told.look()
            await taken(fast)

        assert (slow.is_slow, slow.ended.is_set()) == (True, True)
        assert (fast.is_slow, fast.ended.is_set()) == (False, False)


async def told_to(listener: stream.Listener) -> dict[str, Any]:
    """Return each node's cards as the messages that wait for a listener leave them."""
    shown: dict[str, Any] = {}
    for event, value, _ in await taken(listener):
        if event == "nodes":
            shown.update(value["nodes"])
    return shown


async def test_a_change_that_comes_while_others_are_told_of_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = some_nodes()
    told = stream_of(books)
    async with listening(told, f"{BOOT}-{books.ledger.revision}") as listener:
        await told.look()
        await taken(listener)
        waiting = told.pending

        async def pending_while_another_reads_the_map(*_: Any) -> dict[str, Any]:
            state_world.hold(books, "newcomer", 1, 0, 4000)
            await told._rows.refresh()
            return await waiting()

        state_world.wait_for_cards(books, "too-large", memory_mib=90000)
        monkeypatch.setattr(told, "pending", pending_while_another_reads_the_map)
        await told.look()
        monkeypatch.setattr(told, "pending", waiting)
        await told.look()

        shown = await told_to(listener)

    assert shown["gpu-node-2"] == shown_nodes.card_rows(books, "gpu-node-2")


async def test_what_changes_while_a_greeting_is_made_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = some_nodes()
    told = stream_of(books)
    async with listening(told, f"{BOOT}-{books.ledger.revision}"):
        await told.look()
        waiting = told.pending

        async def pending_while_others_are_told(*_: Any) -> dict[str, Any]:
            monkeypatch.setattr(told, "pending", waiting)
            state_world.hold(books, "newcomer", 1, 0, 4000)
            await told.look()
            return await waiting()

        monkeypatch.setattr(told, "pending", pending_while_others_are_told)
        async with listening(told, f"{BOOT}-0") as newcomer:
            events = await taken(newcomer)

    assert [event for event, _, _ in events] == ["status", "nodes", "pending", "nodes"]
    ((name, cards),) = events[-1][1]["nodes"]
    assert (name, cards) == ("gpu-node-2", shown_nodes.card_rows(books, "gpu-node-2"))


async def test_what_was_told_long_ago_and_holds_again_is_news_to_who_came_in_between() -> None:
    books = some_nodes()
    told = stream_of(books)
    async with listening(told):
        await told.look()
        books.leader = False
        async with listening(told) as newcomer:
            ((_, greeted, _),) = [one for one in await taken(newcomer) if one[0] == "status"]
            books.leader = True
            await told.look()
            later = [value for event, value, _ in await taken(newcomer) if event == "status"]

    assert greeted == {"leader": False}
    assert later == [{"leader": True}]


async def test_one_address_cannot_keep_all_streams_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "MOST_LISTENERS", 3)
    told = stream_of(some_nodes())
    async with (
        told.listening("", client="10.0.0.1") as first,
        told.listening("", client="10.0.0.1") as second,
        told.listening("", client="10.0.0.1"),
        told.listening("", client="10.0.0.2") as other,
    ):
        assert first is not None
        assert second is not None
        assert other is not None
        assert (first.ended.is_set(), second.ended.is_set()) == (True, False)
        assert len(told._listeners) == 3
        for client in ("10.0.0.1", "10.0.0.2"):  # two of one, one of the other: as it should be
            async with told.listening("", client=client) as refused:
                assert refused is None


async def test_silence_is_broken_by_a_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SILENCE_S", 0.0)

    assert await stream.Listener().next() == stream.ALIVE


async def test_nothing_is_looked_at_while_nobody_listens() -> None:
    books = some_nodes()
    told = stream_of(books)
    running = asyncio.create_task(told.run())
    try:
        state_world.hold(books, "newcomer", 0, 0, 10)
        await settled()
        assert told._rows._revision == -1
    finally:
        running.cancel()


# Over HTTP.


async def test_no_more_streams_are_opened_than_there_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "MOST_LISTENERS", 2)
    async with (
        state_world.served(some_nodes()) as url,
        aiohttp.ClientSession(url) as session,
        session.get("/api/v1/events") as one,
        session.get("/api/v1/events") as two,
    ):
        assert (one.status, two.status) == (200, 200)
        async with session.get("/api/v1/events") as third:
            assert third.status == 503
            assert "2 streams are open" in await third.text()
            assert third.headers["Retry-After"] == "10"


async def test_a_stream_begins_again_after_the_last_id_that_was_seen() -> None:
    books = some_nodes()
    async with state_world.served(books) as url, aiohttp.ClientSession(url) as session:
        async with session.get("/api/v1/cards") as answer:
            seen = (await answer.json())["revision"]
        state_world.hold(books, "newcomer", 2, 0, 4000)

        async with session.get("/api/v1/events", headers={"Last-Event-ID": seen}) as answer:
            assert answer.content_type == "text/event-stream"
            messages = [read(await answer.content.readuntil(b"\n\n")) for _ in range(3)]

    assert [event for event, _, _ in messages] == ["status", "nodes", "pending"]
    assert [name for name, _ in messages[1][1]["nodes"]] == ["gpu-node-3"]


async def test_a_client_that_never_reads_loses_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "INTERVAL_S", 0.0)
    monkeypatch.setattr(stream, "MOST_WAITING", 4)
    monkeypatch.setattr(stream, "MOST_LISTENERS", 1)
    books = operator_books.open_books()
    state_world.fill_quickly(books, nodes=150)
    async with state_world.served(books) as url, aiohttp.ClientSession(url) as session:
        with await deaf_client(url):
            assert await status_of_a_stream(session) == 503

            async def its_place_is_free() -> bool:
                for node in books.nodes:  # 0.1 MB of news: soon more than sockets hold
                    books.ledger._seen.note(node)
                return await status_of_a_stream(session) == 200

            await until("it is let go", its_place_is_free, limit_s=60, every_s=0.03)


async def status_of_a_stream(session: aiohttp.ClientSession) -> int:
    async with session.get("/api/v1/events") as answer:
        return answer.status


async def deaf_client(url: str) -> socket.socket:
    """Return a connection that has asked for the stream and reads nothing."""
    host, port = url.removeprefix("http://").split(":")
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(deaf, (host, int(port)))
    await loop.sock_sendall(deaf, f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return deaf


async def test_who_hangs_up_while_it_is_greeted_leaves_no_fault_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody_is_there(answer: web.StreamResponse, _: web.BaseRequest) -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(web.StreamResponse, "prepare", nobody_is_there)
    async with state_world.served(some_nodes()) as url, aiohttp.ClientSession(url) as session:
        with contextlib.suppress(aiohttp.ClientError):
            await session.get("/api/v1/events")

    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
