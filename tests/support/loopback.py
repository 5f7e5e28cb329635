"""A small HTTP server on loopback that plays an API server by hand-written answers."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import kubernetes_asyncio.client as k8s_client
from aiohttp import web

from vgpu_operator.kube import client

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Served:
    """What a test holds: the client, and what arrived."""

    kube: client.KubeClient
    url: str
    arrived: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@contextlib.asynccontextmanager
async def api_server(answer: Answer, *, token: str | None = None) -> AsyncIterator[Served]:
    """Run the server and a client that talks to it."""
    served: Served

    async def handle(request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        served.arrived.append((request.method, request.path_qs, headers, await request.read()))
        return await answer(request)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    configuration = k8s_client.Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    if token is not None:
        configuration.api_key = {"BearerToken": f"Bearer {token}"}
    try:
        async with client.KubeClient(configuration) as kube:
            served = Served(kube=kube, url=configuration.host)
            yield served
    finally:
        await runner.cleanup()


def always(status: int, body: Any = None, **headers: str) -> Answer:
    """Return an answer that never changes: JSON, or bytes as they are."""

    async def answer(_: web.Request) -> web.StreamResponse:
        if isinstance(body, bytes):
            return web.Response(status=status, body=body, headers=headers)
        return web.json_response(body, status=status, headers=headers)

    return answer
