"""Who may come in at a listening socket: how many, for how long, and who goes first.

aiohttp alone waits for ever for the head of a request, so a client that opens
connections and says nothing could use up every file descriptor. Here each
connection is counted from the moment it is accepted, before its TLS handshake.
Where a limit is reached, a connection that has no request under way makes room
for the newcomer, taken from the client that holds most: silent connections can
be many, but never keep anybody out. Where all are busy, a client that holds more
than the newcomer's own loses its oldest: slow requests keep nobody out either.
"""

import asyncio
import collections
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from aiohttp import web

BACKLOG = 128
SHUTDOWN_TLS_S = 2.0
"""How long a peer may take to say goodbye over TLS; Python's own default is 30 s."""

PAUSE_S = 0.1
"""Pause after the machine had no descriptor or memory left for a connection."""

TELL_EVERY_S = 60.0
"""How often the log may say that connections are turned away."""

_SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one listening socket grants.

    Attributes:
        most: connections in all; None = as many as the machine has.
        most_each: connections of one client address; None = no limit of its own.
        head_s: for the TLS handshake, and again from a request's first byte until
            its head is there.
        idle_s: from then, or from the end of a request, until the next one's first
            byte: callers open connections in advance, and ours must not be the end
            that closes first. It bounds the writing of an answer that nobody reads, too.
        request_s: from a request's head until its answer is made; None = no limit.
    """

    most: int | None = None
    most_each: int | None = None
    head_s: float = 10.0
    idle_s: float | None = None
    request_s: float | None = None


class Door:
    """Accepts connections for an aiohttp server within limits."""

    def __init__(
        self, server: web.Server, limits: Limits, *, what: str, tls: ssl.SSLContext | None
    ) -> None:
        self._server = server
        self._limits = limits
        self._what = what
        self._tls = tls
        self._connections: dict[Connection, None] = {}  # in the order of their coming
        self._by_client: collections.Counter[str] = collections.Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: Sequence[socket.socket] = ()
        self._turned_away = 0
        self._told_at = -TELL_EVERY_S
        self._empty = asyncio.Event()
        self.draining = False
        """Whether the next request of each connection is its last."""

    @property
    def open(self) -> int:
        """How many connections there are, those in their TLS handshake included."""
        return len(self._connections)

    def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Accept at these listening sockets until closed."""
        self._sockets = tuple(sockets)
        for one in self._sockets:
            self._spawn(self._accept(one))

    def drain(self) -> None:
        """Answer each connection once more, so that its client goes elsewhere by itself.

        A client may write its next request in the very moment in which this end closes
        an idle connection, and cannot know whether it was read.
        """
        self.draining = True

    async def drained(self, *, limit_s: float) -> None:
        """Wait until no connection is left, at most so long."""
        self._empty.clear()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), timeout=limit_s)

    async def close(self) -> None:
        """Accept no more; handshakes under way end, connections stay."""
        running = tuple(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for one in self._sockets:
            one.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as fault:
                pause_s = 0.0  # else the client was gone before it was accepted
                if fault.errno in _SHORTAGE:
                    self._turn_away(self._waiting(None), "the machine has no descriptor left")
                    pause_s = PAUSE_S
                await asyncio.sleep(pause_s)
                continue
            self._let_in(accepted, str(address[0]))
            del accepted  # else a socket whose welcome is cancelled stays open until the next
            # While others wait, sock_accept returns at once: let everybody else run, too.
            await asyncio.sleep(0)

    def _let_in(self, accepted: socket.socket, client: str) -> None:
        if not self._has_room(client):
            accepted.close()
            return
        connection = Connection(self, self._server(), client, self._limits)
        self._connections[connection] = None
        self._by_client[client] += 1
        connection.welcome = self._spawn(self._welcome(connection, accepted))
        connection.welcome.add_done_callback(lambda _: self._see_off(connection, accepted))

    def _see_off(self, connection: "Connection", accepted: socket.socket) -> None:
        """Close a socket whose welcome was called off before it began."""
        if not connection.is_welcomed:
            accepted.close()
            self.leave(connection)

    async def _welcome(self, connection: "Connection", accepted: socket.socket) -> None:
        """Hand an accepted socket over to HTTP, after its TLS handshake."""
        connection.is_welcomed = True
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_shutdown_timeout=None if self._tls is None else SHUTDOWN_TLS_S,
            )
        except OSError:  # ssl.SSLError and TimeoutError are such: no fault of ours
            pass
        finally:
            if not connection.is_made:
                self.leave(connection)

    def _has_room(self, client: str) -> bool:
        """Whether one more connection may come in; make room for it where that can be done."""
        limits = self._limits
        if limits.most_each is not None and self._by_client[client] >= limits.most_each:
            why = f"{client} has {limits.most_each} connections"
            return self._turn_away(self._waiting(client), why)
        if limits.most is not None and len(self._connections) >= limits.most:
            makes_room = self._waiting(None) or self._greedy(client)
            return self._turn_away(makes_room, f"there are {limits.most} connections")
        return True

    def _waiting(self, client: str | None) -> "Connection | None":
        """Return the connection that makes room: idle, of the greediest client, the oldest."""
        idle = [
            connection
            for connection in self._connections
            if not connection.busy and client in (None, connection.client)
        ]
        return max(idle, key=lambda one: self._by_client[one.client], default=None)

    def _greedy(self, client: str) -> "Connection | None":
        """Return the oldest connection of the greediest client, if it has more than this one."""
        held = self._by_client
        first = max(self._connections, key=lambda one: held[one.client], default=None)
        # More by two: else two clients would take one place from each other for ever.
        return first if first is not None and held[first.client] > held[client] + 1 else None

    def _turn_away(self, connection: "Connection | None", why: str) -> bool:
        """Drop a connection; return whether there was one. Say so now and then."""
        self._turned_away += 1
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            _log.warning(
                "connections turned away", server=self._what, count=self._turned_away, why=why
            )
            self._turned_away = 0
        if connection is None:
            return False
        connection.drop()
        return True

    def leave(self, connection: "Connection") -> None:
        """Count a connection no longer; a second time changes nothing."""
        if connection not in self._connections:
            return
        del self._connections[connection]
        connection.rest()
        self._by_client[connection.client] -= 1
        if not self._by_client[connection.client]:
            del self._by_client[connection.client]
        if not self._connections:
            self._empty.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class Connection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's protocol and watches the time."""

    __slots__ = (
        "_door",
        "_inner",
        "_limits",
        "_timer",
        "_transport",
        "busy",
        "client",
        "is_welcomed",
        "welcome",
    )

    def __init__(self, door: Door, inner: asyncio.Protocol, client: str, limits: Limits) -> None:
        self._door = door
        self._inner = inner
        self._limits = limits
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.client = client
        self.busy = False
        self.is_welcomed = False  # else its socket is nobody's yet
        self.welcome: asyncio.Task[None] | None = None
        self._allow(limits.head_s)

    @property
    def is_made(self) -> bool:
        """Whether the TLS handshake is done, where there is one."""
        return self._transport is not None

    @property
    def is_last_request(self) -> bool:
        """Whether the client is to come on another connection next time."""
        return self._door.draining

    def begin(self) -> None:
        """A request's head is there."""
        self.busy = True
        self._allow(self._limits.request_s)

    def end(self) -> None:
        """Its answer is made."""
        self.busy = False
        self._allow(self._limits.idle_s)

    def drop(self) -> None:
        """End the connection at once."""
        self._door.leave(self)
        if self._transport is not None:
            self._transport.abort()
        elif self.welcome is not None:
            self.welcome.cancel()

    def rest(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _allow(self, seconds: float | None) -> None:
        self.rest()
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.drop)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ours, the TLS handshake done."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # what TCP and TLS give
        self._transport = transport
        self._allow(self._limits.idle_s)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on; the first byte of a request makes the connection busy."""
        if not self.busy:
            self.busy = True
            self._allow(self._limits.head_s)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count no longer, and pass on."""
        self._door.leave(self)
        self._inner.connection_lost(exc)


@contextlib.contextmanager
def request_under_way(request: web.Request) -> Iterator[Connection | None]:
    """Tell the connection that a request has come, and when its answer is made; give it."""
    transport = request.transport
    connection = None if transport is None else transport.get_protocol()
    if not isinstance(connection, Connection):
        yield None
        return
    connection.begin()
    try:
        yield connection
    finally:
        connection.end()


async def bind(host: str, port: int) -> tuple[socket.socket, ...]:
    """Return listening sockets for every address that the host stands for.

    Raises:
        OSError: one of them cannot be had; none is left open.
    """
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            one = socket.create_server(address, family=family, backlog=BACKLOG)
            one.setblocking(False)
            sockets.append(one)
    except OSError as fault:
        for one in sockets:
            one.close()
        # The plain word of the system: Python appends the address, which the caller says anyway.
        raise OSError(fault.errno, os.strerror(fault.errno or 0).lower()) from fault
    return tuple(sockets)
