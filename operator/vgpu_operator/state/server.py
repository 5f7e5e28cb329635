"""The state page's listener: read-only, on an address of its own."""

import asyncio
import contextlib
import ssl
from typing import Final

from aiohttp import web

from vgpu_operator.kube import door, listen, rates
from vgpu_operator.model import errors
from vgpu_operator.state import access, guard, routes, stream

CONNECTIONS: Final = door.Limits(
    most=128, most_each=96, head_s=5.0, idle_s=60.0, request_s=stream.LIFETIME_S + 60.0
)
"""A browser keeps up to six; answers other than streams end by themselves before that."""

RATE: Final = rates.Rate(per_s=50.0, burst=200)
"""Behind a forwarded port all callers have one address."""

SHUTDOWN_S: Final = 0.5


class Running:
    """A state page that is served; made by ``start``."""

    def __init__(
        self, listener: listen.Listener, told: stream.Stream, looking: asyncio.Task[None]
    ) -> None:
        self._listener = listener
        self._stream = told
        self._looking = looking
        self.port = listener.address.port

    async def close(self) -> None:
        """End the streams, then stop listening."""
        self._looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._looking
        self._stream.end()
        await self._listener.close()


async def start(
    desk: routes.Desk,
    address: listen.Address,
    *,
    tls: ssl.SSLContext | None = None,
    asks: access.Access | None = None,
) -> Running:
    """Listen.

    Args:
        desk: what is shown.
        address: where.
        tls: the certificate; needed beyond loopback, where tokens travel.
        asks: lets those in whom the API server would let see the same; needed
            beyond loopback.

    Raises:
        SettingsError: the address is taken, or is not loopback and has no certificate.
    """
    if not address.is_loopback and (tls is None or asks is None):
        raise errors.SettingsError(
            f"the state page would show every pod's name to whoever reaches {address}, and send "
            "tokens in the clear; write --state-bind 127.0.0.1:PORT, or give --webhook-bind, "
            "whose certificate it then shows"
        )
    pages = routes.Routes(desk)
    app = web.Application(
        client_max_size=1024,
        middlewares=[
            rates.limited(RATE),
            guard.middleware(is_loopback=address.is_loopback, door=asks),
        ],
    )
    app.on_response_prepare.append(guard.add_headers)
    pages.add_to(app)
    listener = await listen.listen(
        app,
        address,
        what="the state page (--state-bind)",
        tls=None if address.is_loopback else tls,
        shutdown_s=SHUTDOWN_S,
        limits=CONNECTIONS,
    )
    looking = asyncio.create_task(pages.stream.run(), name="state-page")
    return Running(listener, pages.stream, looking)
