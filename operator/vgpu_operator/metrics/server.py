"""``/metrics``, ``/healthz`` and ``/readyz``: plain HTTP, read-only."""

from collections.abc import Callable

import prometheus_client as prom
from aiohttp import web

from vgpu_operator.kube import listen

NOT_READY = 503


def application(
    registry: prom.CollectorRegistry, *, not_ready_because: Callable[[], str]
) -> web.Application:
    """Return the application.

    Ready means "can serve": the ledger is complete. A follower is ready too.
    ``not_ready_because`` returns the sentence that says why not, or nothing.
    """

    async def metrics(_: web.Request) -> web.Response:
        body = prom.generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": prom.CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        problem = not_ready_because()
        if problem:
            return web.Response(status=NOT_READY, text=f"{problem}\n")
        return web.Response(text="ok\n")

    app = web.Application(client_max_size=1024)
    app.add_routes(
        [
            web.get("/metrics", metrics),
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
        ]
    )
    return app


async def start(app: web.Application, address: listen.Address) -> listen.Listener:
    """Listen for Prometheus and the kubelet's probes."""
    return await listen.listen(app, address, what="the metrics server")
