"""Nobody who can reach the webhook keeps the API server out of it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from vgpu_operator.kube import door, rates
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry
from vgpu_operator.webhook import certificates, room, routes, server

CA_PEM, CERT_PEM, KEY_PEM = certificates.self_signed(["localhost", "127.0.0.1"])
TRUST = ssl.create_default_context(cadata=CA_PEM.decode())
SETTINGS = settings.Settings()
HEAD = b"POST /webhook HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
GOOD_BODY = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":'
    b'{"uid":"u1","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","object":{}}}'
)
WAIT_S = 20.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Webhook:
    """A running webhook, and everybody who is connected to it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.outcomes: list[str] = []
        self.rooms: list[room.Room] = []
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def reading(self) -> int:
        """How many bodies are being read."""
        return len(self.rooms[0])

    async def until(self, *, reading: int) -> None:
        """Wait until so many bodies are being read."""
        async with asyncio.timeout(WAIT_S):
            while self.reading != reading:  # noqa: ASYNC110  # the room tells nobody
                await asyncio.sleep(0.005)

    async def connect(self, host: str = "127.0.0.1", *, tls: bool = True) -> Streams:
        options: dict[str, Any] = {"ssl": TRUST, "server_hostname": "localhost"} if tls else {}
        streams = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(host, 0), **options
        )
        self._writers.append(streams[1])
        return streams

    async def call(self, host: str = "127.0.0.1", path: str = "/webhook") -> int:
        """Ask as the API server does, from that address; return the status."""
        connector = aiohttp.TCPConnector(ssl=TRUST, local_addr=(host, 0))
        limit = aiohttp.ClientTimeout(total=WAIT_S)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=limit) as session,
            session.post(f"https://127.0.0.1:{self.port}{path}", data=GOOD_BODY) as answer,
        ):
            await answer.read()
            return answer.status

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def webhook(
    *,
    connections: door.Limits = server.CONNECTIONS,
    rate: rates.Rate = server.RATE,
    **limits: Any,
) -> AsyncIterator[Webhook]:
    outcomes: list[str] = []
    state = routes.WebhookState(
        settings=SETTINGS, vendors=registry.build(SETTINGS), observe=outcomes.append, **limits
    )
    rooms: list[room.Room] = []

    class Watched(room.Room):
        def __init__(self, most: int) -> None:
            super().__init__(most)
            rooms.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "Room", Watched)
        running = await server.start(
            state,
            "127.0.0.1",
            0,
            certificates.context_from_pem(CERT_PEM, KEY_PEM),
            connections=connections,
            rate=rate,
        )
    here = Webhook(running.port)
    here.outcomes, here.rooms = outcomes, rooms
    try:
        yield here
    finally:
        here.hang_up()
        await running.stop()


async def test_more_silent_connections_than_there_is_room_for_keep_nobody_out() -> None:
    async with webhook() as here:
        for _ in range(300):
            await here.connect(tls=False)

        assert await here.call() == 200
        assert await here.call("127.0.0.2") == 200


async def test_calls_whose_bodies_do_not_come_leave_room_for_another_client() -> None:
    async with webhook(timeout_s=2 * WAIT_S, most_calls=4) as here:
        slow = [await here.connect("127.0.0.2") for _ in range(3)]
        slow.append(await here.connect("127.0.0.3"))
        for _, writer in slow:
            writer.write(HEAD)
        await here.until(reading=4)

        assert await here.call() == 200

        async with asyncio.timeout(WAIT_S):
            line = await anext(_first_lines([reader for reader, _ in slow]))
        assert line.startswith(b"HTTP/1.1 503 ")
        assert here.reading == 3  # two of the greedy client, and that of the other
    assert here.outcomes.count("busy") == 1


async def test_a_burst_of_one_api_server_waits_for_its_turns() -> None:
    async with webhook(most_calls=3) as here:
        burst = [await here.connect() for _ in range(20)]
        half = len(GOOD_BODY) // 2
        head = HEAD.replace(b" 9", f" {len(GOOD_BODY)}".encode())
        for _, writer in burst:
            writer.write(head + GOOD_BODY[:half])
        await here.until(reading=3)
        for _, writer in burst:
            writer.write(GOOD_BODY[half:])

        async with asyncio.timeout(WAIT_S):
            lines = [await reader.readline() for reader, _ in burst]

    assert lines == [b"HTTP/1.1 200 OK\r\n"] * 20


async def _first_lines(readers: list[asyncio.StreamReader]) -> AsyncIterator[bytes]:
    for done in asyncio.as_completed([reader.readline() for reader in readers]):
        yield await done


async def test_a_body_that_comes_too_slowly_makes_room_again() -> None:
    async with webhook(timeout_s=0.1, most_calls=1) as here:
        reader, writer = await here.connect()
        writer.write(HEAD)
        async with asyncio.timeout(WAIT_S):
            line = await reader.readline()

        assert line.startswith(b"HTTP/1.1 408 ")
        assert await here.call() == 200


async def test_a_client_that_asks_too_often_is_turned_away_before_its_body_is_read() -> None:
    async with webhook(rate=rates.Rate(per_s=0.001, burst=2)) as here:
        statuses = [await here.call() for _ in range(4)]
        other = await here.call("127.0.0.2")
        health = await here.call(path="/healthz")

    assert statuses == [200, 200, 429, 429]
    assert other == 200
    assert health == 405  # known and not counted: it takes GET only
    assert here.outcomes == ["allowed"] * 3


async def test_every_limit_of_the_webhook_is_set() -> None:
    limits = server.CONNECTIONS

    assert limits.most is not None
    assert limits.most_each is not None
    assert limits.most_each < limits.most
    assert limits.idle_s is not None
    assert limits.request_s is not None
    assert limits.head_s <= 10
    state = routes.WebhookState(settings=SETTINGS, vendors=())
    assert state.most_calls < limits.most_each  # one greedy client alone fills the room first
    assert state.timeout_s < limits.request_s


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_no_version_of_tls_before_1_2_is_spoken(version: ssl.TLSVersion) -> None:
    old = ssl.create_default_context(cadata=CA_PEM.decode())
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version = version
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.maximum_version = version
    async with webhook() as here:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(
                "127.0.0.1", here.port, ssl=old, server_hostname="localhost"
            )


async def test_plain_http_is_not_answered() -> None:
    async with webhook() as here:
        reader, writer = await here.connect(tls=False)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(WAIT_S):
                answer = await reader.read()

    assert b"HTTP" not in answer
