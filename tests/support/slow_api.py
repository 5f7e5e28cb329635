"""A relay on loopback in front of the API server: slow, silent or refusing as a test wants it.

It passes TLS through as it is, so that the operator logs in with its own
certificate, and every byte of both directions comes as late as the test says.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import yaml

_CHUNK = 65536


class _Ended(Exception):
    """One side has closed the connection."""


class SlowApi:
    """The relay.

    Attributes:
        delay_s: how late each chunk of bytes is passed on.
        open: cleared = nothing is passed on at all, as if the server hung.
        refusing: new connections are reset at once.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._host, self._port = str(parts.hostname), int(parts.port or 443)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.delay_s = 0.0
        self.refusing = False
        self.open = asyncio.Event()
        self.open.set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def kubeconfig(self, original: Path, folder: Path) -> Path:
        """Write a copy of a kubeconfig that goes through the relay."""
        content = yaml.safe_load(original.read_text())
        for cluster in content["clusters"]:
            cluster["cluster"]["server"] = self.url
        path = folder / f"slow-{original.name}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content))
        return path

    def cut(self) -> None:
        """Break every connection, watches among them."""
        for task in tuple(self._tasks):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            if self.refusing:
                return
            there = await asyncio.open_connection(self._host, self._port)
            writers.append(there[1])
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, there[1]))
                both.create_task(self._pass_on(there[0], writer))
        except* (OSError, _Ended, asyncio.CancelledError):
            pass  # cut, or the end of the test: asyncio's own callback stumbles over the latter
        finally:
            for one in writers:
                one.transport.abort()
                with contextlib.suppress(OSError):
                    await one.wait_closed()
            self._tasks.discard(task)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(_CHUNK):
            await asyncio.sleep(self.delay_s)
            await self.open.wait()
            sink.write(chunk)
            await sink.drain()
        raise _Ended  # the other direction ends with this one


@contextlib.asynccontextmanager
async def slow_api(upstream: str) -> AsyncIterator[SlowApi]:
    """Run a relay to an API server's URL."""
    relay = SlowApi(upstream)
    relay._server = await asyncio.start_server(relay._serve, "127.0.0.1", 0)
    try:
        yield relay
    finally:
        relay._server.close()
        running = tuple(relay._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
