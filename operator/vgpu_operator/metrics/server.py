"""``/metrics``, ``/healthz`` and ``/readyz``: plain HTTP, read-only."""

import contextlib
from collections.abc import AsyncIterator, Callable

import prometheus_client as prom
from aiohttp import web

from vgpu_operator.kube import door, listen, rates

NOT_READY = 503

CONNECTIONS = door.Limits(most=128, most_each=64, head_s=5.0, idle_s=120.0, request_s=30.0)
"""Prometheus keeps a connection or two, the kubelet opens one for each probe."""

RATE = rates.Rate(per_s=10.0, burst=50)
"""A page of metrics is work: every card of the cluster is on it."""


def application(
    registry: prom.CollectorRegistry,
    *,
    cards: Callable[[], AsyncIterator[bytes]],
    not_ready_because: Callable[[], str],
) -> web.Application:
    """Return the application.

    Ready means "can serve": the ledger is complete. A follower is ready too.

    Args:
        registry: what is small and made in one step.
        cards: yields the rest of the page.
        not_ready_because: returns the sentence that says why not, or nothing.
    """

    async def metrics(request: web.Request) -> web.StreamResponse:
        page = web.StreamResponse(headers={"Content-Type": prom.CONTENT_TYPE_LATEST})
        await page.prepare(request)
        # A reader whose time is over hangs up: no fault of ours. What was made is kept.
        with contextlib.suppress(ConnectionResetError):
            await page.write(prom.generate_latest(registry))
            async for piece in cards():
                await page.write(piece)
            await page.write_eof()
        return page

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        problem = not_ready_because()
        if problem:
            return web.Response(status=NOT_READY, text=f"{problem}\n")
        return web.Response(text="ok\n")

    # The kubelet's probes are cheap, and must not suffer for others at its address.
    limited = rates.limited(RATE, free=("/healthz", "/readyz"))
    app = web.Application(client_max_size=1024, middlewares=[limited])
    app.add_routes(
        [
            # A page in pieces has no body to leave out.
            web.get("/metrics", metrics, allow_head=False),
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
        ]
    )
    return app


async def start(app: web.Application, address: listen.Address) -> listen.Listener:
    """Listen for Prometheus and the kubelet's probes."""
    return await listen.listen(app, address, what="the metrics server", limits=CONNECTIONS)
