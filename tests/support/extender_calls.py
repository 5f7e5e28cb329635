"""The extender over real HTTP on loopback, asked as kube-scheduler asks it."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from support.desk import Shell
from vgpu_operator.extender import routes, server
from vgpu_operator.kube import listen


@dataclass(slots=True)
class Client:
    """A kube-scheduler that is played by hand."""

    shell: Shell
    session: aiohttp.ClientSession
    url: str

    async def ask(
        self, path: str, body: Any = None, *, verb: str = "POST", status: int = 200, **headers: str
    ) -> Any:
        """Send a body (bytes as they are) and return the JSON of the answer."""
        data = io.BytesIO(body if isinstance(body, bytes) else orjson.dumps(body))
        async with self.session.request(
            verb, self.url + path, data=data, headers=headers
        ) as answer:
            content = await answer.read()
            assert answer.status == status, content
            assert answer.content_type == "application/json"
            return orjson.loads(content)


@contextlib.asynccontextmanager
async def extender(
    *, body_limit: int = server.BODY_LIMIT_BYTES, **values: object
) -> AsyncIterator[Client]:
    """Run the extender on an operator's shell; keywords are settings as in the file."""
    shell = Shell(**values)
    app = routes.application(shell.desk(), body_limit=body_limit)
    listener = await listen.listen(
        app, listen.Address(host="127.0.0.1", port=0), what="the extender", shutdown_s=0.1
    )
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(shell, session, f"http://{listener.address}")
    finally:
        await listener.close()


def pod(name: str = "p1", *, mem: int = 1000, uid: str = "", **limits: str) -> dict[str, Any]:
    """Return a pod of namespace ``team-a`` that asks for so much of one card."""
    asks = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mem), **limits}
    return {
        "metadata": {"name": name, "namespace": "team-a", "uid": uid or f"uid-of-{name}"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": asks}}]},
    }


def bind_body(name: str = "p1", node: str = "node-a", *, uid: str = "") -> dict[str, str]:
    """Return the body of a bind."""
    return {
        "PodNamespace": "team-a",
        "PodName": name,
        "PodUID": uid or f"uid-of-{name}",
        "Node": node,
    }


async def until(holds: Callable[[], bool]) -> None:
    """Return once it holds; fail after two seconds."""
    async with asyncio.timeout(2):
        while not holds():  # noqa: ASYNC110  # what is waited for sets no event
            await asyncio.sleep(0)
