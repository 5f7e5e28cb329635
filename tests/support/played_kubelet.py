"""A kubelet that does one thing: it shows logs to the API server that asks for them."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web

from vgpu_operator.webhook import certificates


@dataclass(slots=True, kw_only=True)
class PlayedKubelet:
    """Where it listens, and what it shows.

    Attributes:
        port: on 127.0.0.1; a Node names it in ``status.daemonEndpoints``.
        logs: by namespace and name of the pod.
        asked: queries that came, as (namespace, pod, query).
    """

    port: int = 0
    logs: dict[tuple[str, str], str] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def show(self, request: web.Request) -> web.Response:
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        self.asked.append((namespace, pod, request.query_string))
        return web.Response(text=self.logs.get((namespace, pod), ""))


@contextlib.asynccontextmanager
async def kubelet() -> AsyncIterator[PlayedKubelet]:
    """Listen until the end of the block."""
    played = PlayedKubelet()
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", played.show)
    _, certificate, key = certificates.self_signed(["127.0.0.1"])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        context = certificates.context_from_pem(certificate, key)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        played.port = runner.addresses[0][1]
        yield played
    finally:
        await runner.cleanup()
