"""Connections that say nothing, that come in crowds, or that ask too slowly."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from vgpu_operator.kube import door, listen
from vgpu_operator.webhook import certificates

CA_PEM, CERT_PEM, KEY_PEM = certificates.self_signed(["localhost", "127.0.0.1"])
TRUST = ssl.create_default_context(cadata=CA_PEM.decode())
LOCAL = listen.Address(host="127.0.0.1", port=0)

WAIT_S = 10.0
"""Bound of everything that is waited for: far more than it takes."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    """A listening server and its clients."""

    def __init__(self, listener: listen.Listener, release: asyncio.Event) -> None:
        self.listener = listener
        self.release = release
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def port(self) -> int:
        return self.listener.address.port

    @property
    def open(self) -> int:
        return self.listener.door.open

    async def connect(self, **options: Any) -> Streams:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.listener.address.port, **options
        )
        self._writers.append(writer)
        return reader, writer

    async def ask(self, streams: Streams, path: str = "/") -> bytes:
        """Send a request and return the first line of its answer."""
        reader, writer = streams
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(WAIT_S):
            line = await reader.readline()
            while line and (await reader.readline()).strip():
                pass
        return line

    async def is_ended(self, streams: Streams) -> bool:
        """Wait until the server has closed a connection; False when it does not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                try:
                    return not await streams[0].read()
                except ConnectionError:
                    return True
        return False

    async def until(self, *, n_open: int | None = None, busy: int | None = None) -> None:
        """Wait for so many connections, or so many that have a request under way."""
        door = self.listener.door
        for _ in range(int(WAIT_S / 0.005)):
            n_busy = sum(connection.busy for connection in door._connections)
            if n_open in (None, door.open) and busy in (None, n_busy):
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{door.open} connections are open, {n_busy} of them busy")

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def site(*, tls: bool = False, **limits: Any) -> AsyncIterator[Site]:
    release = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async def slow(_: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    app = web.Application()
    app.add_routes([web.get("/", answer), web.get("/slow", slow)])
    listener = await listen.listen(
        app,
        LOCAL,
        what="the test",
        tls=certificates.context_from_pem(CERT_PEM, KEY_PEM) if tls else None,
        shutdown_s=0.1,
        limits=door.Limits(**limits),
    )
    served = Site(listener, release)
    try:
        yield served
    finally:
        served.hang_up()
        await listener.close()


async def test_a_client_that_says_nothing_is_dropped_in_time() -> None:
    async with site(idle_s=0.05) as here:
        silent = await here.connect()

        assert await here.is_ended(silent)
        await here.until(n_open=0)


@pytest.mark.parametrize("tls", [False, True])
async def test_a_connection_opened_in_advance_outlives_the_limit_of_a_head(tls: bool) -> None:
    """Go's clients dial more than they need, and ask again on none that was closed unused."""
    options = {"ssl": TRUST, "server_hostname": "localhost"} if tls else {}
    async with site(tls=tls, head_s=0.2, idle_s=60) as here:
        unused = await here.connect(**options)
        begun = await here.connect(**options)
        begun[1].write(b"G")
        assert await here.is_ended(begun)  # the limit for heads has passed

        assert await here.ask(unused) == b"HTTP/1.1 200 OK\r\n"


async def test_a_request_that_has_begun_makes_no_room_for_another() -> None:
    async with site(most=2, head_s=60) as here:
        begun = await here.connect()
        begun[1].write(b"GET / HTTP/1.1\r\n")
        await here.until(busy=1)
        for _ in range(4):
            await here.connect()

        begun[1].write(b"Host: localhost\r\n\r\n")

        async with asyncio.timeout(WAIT_S):
            assert await begun[0].readline() == b"HTTP/1.1 200 OK\r\n"


async def test_a_client_that_sends_a_head_letter_by_letter_is_dropped_in_time() -> None:
    async with site(head_s=0.2) as here:
        reader, writer = await here.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        # One reader for all letters; should each begin the time anew, this never ends.
        ended = asyncio.ensure_future(reader.read())
        async with asyncio.timeout(WAIT_S):
            while not ended.done():
                writer.write(b"X")
                await asyncio.wait({ended}, timeout=0.02)
        with contextlib.suppress(ConnectionError):
            assert await ended == b"", "it was dropped, not answered"

        await here.until(n_open=0)


async def test_a_client_that_never_begins_its_tls_handshake_is_dropped_in_time() -> None:
    async with site(tls=True, head_s=0.05) as here:
        silent = await here.connect()

        assert await here.is_ended(silent)
        await here.until(n_open=0)


async def test_a_handshake_that_fails_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    async with site(tls=True) as here:
        reader, writer = await here.connect()
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(WAIT_S):
            with contextlib.suppress(ConnectionError):
                await reader.read()
        await here.until(n_open=0)

    assert caplog.records == []


async def test_a_client_that_hangs_up_within_its_handshake_is_counted_no_longer() -> None:
    async with site(tls=True) as here:
        _, writer = await here.connect()
        await here.until(n_open=1)
        writer.transport.abort()

        await here.until(n_open=0)


async def test_an_old_protocol_version_is_refused() -> None:
    old = ssl.create_default_context(cadata=CA_PEM.decode())
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with site(tls=True) as here:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await here.connect(ssl=old, server_hostname="localhost")

        assert await here.ask(await here.connect(ssl=TRUST, server_hostname="localhost"))


async def test_silent_connections_beyond_the_limit_keep_nobody_out() -> None:
    async with site(most=8, head_s=60) as here:
        silent = [await here.connect() for _ in range(64)]

        answer = await here.ask(await here.connect())

        assert answer == b"HTTP/1.1 200 OK\r\n"
        assert here.open <= 8
        assert await here.is_ended(silent[0])


async def test_silent_tls_handshakes_beyond_the_limit_keep_nobody_out() -> None:
    async with site(tls=True, most=8, head_s=60) as here:
        for _ in range(64):
            await here.connect()

        answer = await here.ask(await here.connect(ssl=TRUST, server_hostname="localhost"))

        assert answer == b"HTTP/1.1 200 OK\r\n"
        assert here.open <= 8


async def test_a_crowd_from_one_address_leaves_the_connections_of_another_alone() -> None:
    async with site(most=8, head_s=60) as here:
        other = await here.connect(local_addr=("127.0.0.2", 0))
        assert await here.ask(other) == b"HTTP/1.1 200 OK\r\n"  # idle now, and the oldest
        for _ in range(64):
            await here.connect()

        assert await here.ask(other) == b"HTTP/1.1 200 OK\r\n"


async def test_one_address_has_no_more_connections_than_its_share() -> None:
    async with site(most=8, most_each=4, head_s=60) as here:
        for _ in range(16):
            await here.connect()
        other = [await here.connect(local_addr=("127.0.0.2", 0)) for _ in range(4)]
        await here.until(n_open=8)

        answers = [await here.ask(one) for one in other]

        assert answers == [b"HTTP/1.1 200 OK\r\n"] * 4


async def test_a_request_under_way_never_makes_room() -> None:
    async with site(most=1) as here:
        first = await here.connect()
        asked = asyncio.create_task(here.ask(first, "/slow"))
        await here.until(busy=1)

        second = await here.connect()

        assert await here.is_ended(second)
        here.release.set()
        assert await asked == b"HTTP/1.1 200 OK\r\n"


async def test_requests_under_way_of_greedy_clients_make_room_for_another() -> None:
    async with site(most=4, most_each=3, head_s=60) as here:
        greedy = [await here.connect(local_addr=("127.0.0.2", 0)) for _ in range(3)]
        modest = await here.connect(local_addr=("127.0.0.3", 0))
        for _, writer in (*greedy, modest):
            writer.write(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await here.until(busy=4)

        assert await here.ask(await here.connect()) == b"HTTP/1.1 200 OK\r\n"

        assert await here.is_ended(greedy[0])
        here.release.set()
        async with asyncio.timeout(WAIT_S):
            for reader, _ in (*greedy[1:], modest):
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_a_crowd_at_the_door_is_let_in_one_by_one() -> None:
    async with site() as here:
        crowd = [socket.create_connection(("127.0.0.1", here.port)) for _ in range(20)]
        steps = []
        for _ in range(1000):
            before = here.open
            await asyncio.sleep(0)
            steps.append(here.open - before)
            if here.open == len(crowd):
                break
        for one in crowd:
            one.close()

    assert sum(steps) == 20
    assert max(steps) == 1


async def test_a_request_beyond_its_time_is_ended() -> None:
    async with site(request_s=0.05) as here:
        streams = await here.connect()

        assert await here.ask(streams, "/slow") == b""
        await here.until(n_open=0)


async def test_an_idle_connection_is_closed_after_its_time_and_not_before() -> None:
    async with site(head_s=60, idle_s=0.3) as here:
        streams = await here.connect()
        answers = [await here.ask(streams) for _ in range(3)]

        assert answers == [b"HTTP/1.1 200 OK\r\n"] * 3
        assert await here.is_ended(streams)
        await here.until(n_open=0)


async def test_a_request_may_take_longer_than_its_head() -> None:
    async with site(head_s=0.05) as here:
        streams = await here.connect()
        asked = asyncio.create_task(here.ask(streams, "/slow"))
        async with asyncio.timeout(WAIT_S):
            begun = await here.connect()
            begun[1].write(b"G")
            assert await here.is_ended(begun)  # the limit for heads has passed
        here.release.set()

        assert await asked == b"HTTP/1.1 200 OK\r\n"


async def test_the_log_says_once_that_connections_are_turned_away(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with site(most=2, head_s=60) as here:
        for _ in range(12):
            await here.connect()
        await here.ask(await here.connect())

    told = "".join(capfd.readouterr())
    assert told.count("connections turned away") == 1
    assert "there are 2 connections" in told


async def test_a_door_that_is_closed_lets_nobody_in_and_ends_handshakes() -> None:
    async with site(tls=True, head_s=60) as here:
        await here.connect()
        await here.until(n_open=1)

        await here.listener.door.close()

        await here.until(n_open=0)
        with pytest.raises(ConnectionError):
            await here.connect()


async def test_an_answer_that_is_raised_is_a_draining_doors_last_too() -> None:
    async with site() as here:
        streams = await here.connect()
        assert await here.ask(streams) == b"HTTP/1.1 200 OK\r\n"
        here.listener.door.drain()

        assert await here.ask(streams, "/nowhere") == b"HTTP/1.1 404 Not Found\r\n"
        async with asyncio.timeout(WAIT_S):
            await streams[0].read()  # to the end: the connection is closed
