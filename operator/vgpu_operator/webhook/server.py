"""The webhook's listener: start, stop, and a certificate that stays current."""

import asyncio
import contextlib
import ssl

import structlog

from vgpu_operator.kube import door, listen, rates
from vgpu_operator.model import errors
from vgpu_operator.webhook import certificates, routes

RELOAD_INTERVAL_S = 10.0
"""How often certificate files are looked at; kubelet itself takes a minute."""

SHUTDOWN_TIMEOUT_S = 2.0

DRAIN_S = 1.0
"""How long API servers get to leave by themselves; at 10 pods a second each of them has
used its connection by then. A call that meets an end that closes is lost to it, and the
pod passes the webhook by."""

CONNECTIONS = door.Limits(most=512, most_each=256, head_s=5.0, idle_s=120.0, request_s=15.0)
"""The API servers are few, but each may open a connection for every pod of a burst.

They keep idle connections for 90 s (Go's default), so that ours is never the end
that closes first.
"""

RATE = rates.Rate(per_s=500.0, burst=2000)
"""More pods a second than any API server takes in; a flood is answered unread."""

_log = structlog.get_logger(__name__)


class RunningServer:
    """A webhook that listens; made by ``start``."""

    def __init__(self, listener: listen.Listener) -> None:
        self._listener = listener
        self._watch: asyncio.Task[None] | None = None
        self._drained: asyncio.Task[None] | None = None
        self.port = listener.address.port

    def watch(self, files: certificates.CertificateFiles) -> None:
        """Read the certificate's files again whenever they change."""
        self._watch = asyncio.create_task(keep_current(files), name="webhook-certificate")

    def drain(self) -> None:
        """Answer every caller once more, and have it come to another replica next."""
        if self._drained is None:
            self._listener.door.drain()
            waiting = self._listener.door.drained(limit_s=DRAIN_S)
            self._drained = asyncio.create_task(waiting, name="webhook-drain")

    async def drained(self) -> None:
        """Wait until callers have left by themselves, at most ``DRAIN_S`` from ``drain``."""
        self.drain()
        if self._drained is not None:
            await self._drained

    async def stop(self) -> None:
        """Let callers leave, finish running calls, then stop listening."""
        self.drain()
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        await self.drained()
        await self._listener.close()


async def start(
    state: routes.WebhookState,
    host: str,
    port: int,
    tls: ssl.SSLContext | certificates.CertificateFiles,
    *,
    connections: door.Limits = CONNECTIONS,
    rate: rates.Rate = RATE,
) -> RunningServer:
    """Listen on ``host`` and ``port``; 0 takes a free port.

    Args:
        state: what the routes need.
        host: address to listen on.
        port: TCP port.
        tls: a context, or certificate files that are followed when they change.
        connections: how many there may be, and how long they may take.
        rate: how often each client may ask; the probe's path is not counted.

    Raises:
        SettingsError: the address cannot be taken.
    """
    listener = await listen.listen(
        routes.build(state, rates.limited(rate, free=(routes.HEALTH_PATH,))),
        listen.Address(host=host, port=port),
        what="the webhook (--webhook-bind)",
        tls=tls.context if isinstance(tls, certificates.CertificateFiles) else tls,
        shutdown_s=SHUTDOWN_TIMEOUT_S,
        # An admission waits for nothing but its body, and that read sees who hangs up.
        cancel_on_hang_up=False,
        limits=connections,
    )
    server = RunningServer(listener)
    if isinstance(tls, certificates.CertificateFiles):
        server.watch(tls)
    return server


async def keep_current(
    files: certificates.CertificateFiles, *, interval_s: float = RELOAD_INTERVAL_S
) -> None:
    """Follow certificate files until cancelled; a bad pair is logged and not used."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            if await asyncio.to_thread(files.reload):
                _log.info("webhook certificate reloaded")
        except errors.SettingsError as fault:
            _log.warning("webhook certificate kept", fault=str(fault))
