"""A Service on loopback: every new connection goes to one of the pods that are ready.

    API server ── one address ──┬─ pod a
                                └─ pod b

As kube-proxy does, it chooses when a connection is made and never again: who keeps one
open stays with its pod. A pod that comes or goes is known here a moment later.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

LAG_S = 1.0
"""After a pod is ready, or ends, until connections are made as if it were: EndpointSlice
controller and kube-proxy together take about as long."""

_CHUNK = 65536


class Service:
    """The Service; made by ``service``."""

    def __init__(self) -> None:
        self._pods: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._random = random.Random(1)  # noqa: S311  # it shares out work, no secret
        self._is_cut = False
        self.lost = 0
        """Connections that nobody took."""

    def add(self, port: int) -> None:
        """Send connections to this pod too, once that is known."""
        asyncio.get_running_loop().call_later(LAG_S, self._pods.add, port)

    def remove(self, port: int) -> None:
        """Send no connection to it, once that is known."""
        asyncio.get_running_loop().call_later(LAG_S, self._pods.discard, port)

    async def cut(self) -> None:
        """Let nobody reach any pod from now on; open connections break too."""
        self._is_cut = True
        await self.close()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            known = [] if self._is_cut else sorted(self._pods)
            port = self._random.choice(known) if known else 0
            there = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            self.lost += 1
            writer.transport.abort()
        else:
            both = (_pass_on(reader, there[1]), _pass_on(there[0], writer))
            # Cut at the end of the test: asyncio's own callback stumbles over that.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*both, return_exceptions=True)
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """Break all connections."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A transport ends a turn of the loop after it was closed.
        await asyncio.sleep(0)


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass on what comes; its end too, and no sooner than it comes."""
    try:
        while chunk := await source.read(_CHUNK):
            sink.write(chunk)
            await sink.drain()
    finally:
        sink.close()
        with contextlib.suppress(OSError):
            await sink.wait_closed()


@contextlib.asynccontextmanager
async def service(port: int) -> AsyncIterator[Service]:
    """Run a Service at this port of loopback."""
    made = Service()
    server = await asyncio.start_server(made.accept, "127.0.0.1", port)
    try:
        yield made
    finally:
        server.close()
        await made.close()
