"""Listening sockets: addresses as people write them, one sentence when one is taken."""

import ipaddress
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import http_exceptions, web

from vgpu_operator.kube import door
from vgpu_operator.model import errors

HEAD_LIMIT_S = 10.0
"""How long the head of a request may take, where nothing else is said."""

IDLE_LIMIT_S = 120.0
"""How long a connection may be idle then; Go's clients close theirs after 90 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens; port 0 means a free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine (in a cluster: this pod) can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str, *, option: str) -> Address:
    """Read ``host:port``, ``[v6]:port`` or ``:port`` (all interfaces).

    >>> parse_address("127.0.0.1:8080", option="--x")
    Address(host='127.0.0.1', port=8080)
    >>> parse_address(":9395", option="--x").host
    '0.0.0.0'

    Raises:
        SettingsError: it is no such text.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "0.0.0.0"  # noqa: S104  # asked for
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise errors.SettingsError(f"{option} {text!r} is no address; write host:port")
    return Address(host=host, port=int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A server that listens."""

    runner: web.AppRunner
    door: door.Door
    address: Address

    async def close(self) -> None:
        """Stop listening; requests under way get a moment to end."""
        await self.door.close()
        await self.runner.cleanup()


async def listen(
    app: web.Application,
    address: Address,
    *,
    what: str,
    tls: ssl.SSLContext | None = None,
    shutdown_s: float = 3.0,
    cancel_on_hang_up: bool = True,
    limits: door.Limits | None = None,
) -> Listener:
    """Start a server.

    Args:
        app: what it serves.
        address: where it listens.
        what: names it in the sentence about a port that is taken.
        tls: a context; None = plain HTTP.
        shutdown_s: how long requests under way get when it closes.
        cancel_on_hang_up: cancel a handler whose client hangs up, so that nobody
            works or waits for an answer that nobody reads.
        limits: of connections; by default as many as come, within ``HEAD_LIMIT_S``
            and ``IDLE_LIMIT_S``.

    Raises:
        SettingsError: the port is taken or may not be used; one sentence.
    """
    app.middlewares.insert(0, _tell_the_door)
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=cancel_on_hang_up,
        shutdown_timeout=shutdown_s,
    )
    try:
        sockets = await door.bind(address.host, address.port)
    except OSError as fault:
        raise errors.SettingsError(
            f"{what} cannot listen on {address}: {fault.strerror or fault};"
            " choose another address or stop what uses it"
        ) from fault
    await runner.setup()
    assert runner.server is not None  # noqa: S101  # setup has made it
    entrance = door.Door(
        runner.server,
        limits or door.Limits(head_s=HEAD_LIMIT_S, idle_s=IDLE_LIMIT_S),
        what=what,
        tls=tls,
    )
    host, port = sockets[0].getsockname()[:2]
    entrance.serve(sockets)
    return Listener(runner=runner, door=entrance, address=Address(host=host, port=port))


@web.middleware
async def _tell_the_door(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    with door.request_under_way(request) as connection:
        try:
            response = await handler(request)
        except web.HTTPException as answer:
            _end_if_last(connection, answer)
            raise
        _end_if_last(connection, response)
        return response


def _end_if_last(connection: door.Connection | None, response: web.StreamResponse) -> None:
    """Have the client come on another connection next time, where the door drains."""
    if connection is not None and connection.is_last_request:
        response.force_close()


def is_worth_a_line(entry: logging.LogRecord) -> bool:
    """Whether an entry of aiohttp's server log is about us, as a logging filter.

    It writes a whole trace for bytes that are no HTTP: whoever reaches a port
    could fill the log.
    """
    fault = entry.exc_info[1] if entry.exc_info else None
    return not isinstance(fault, http_exceptions.HttpProcessingError)
