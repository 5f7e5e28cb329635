"""The simulated API server behind ``KubeClient``'s face, without weather: for its own tests."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from simulation import server
from simulation.server import ApiServer, Json
from support import api_objects
from vgpu_operator.kube import client as kube_client


class DirectClient(kube_client.KubeClient):
    """Asks the simulated server at once; nothing is lost and nothing lags."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._changed = asyncio.Event()
        api.on_commit.append(lambda _: self._changed.set())

    async def close(self) -> None:
        return

    async def request(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        limit_s: float | None = None,
    ) -> Json:
        """Answer one request."""
        await asyncio.sleep(0)
        return self._api.handle(verb, path, body, params)

    async def watch(
        self, path: str, *, resource_version: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[Json]:
        """Yield the changes after a version, for ever."""
        selects = api_objects.selector(params or {})
        version = int(resource_version)
        while True:
            for change in self._api.changes_since(version):
                version = change.version
                event = server.event_of(change, selects)
                if api_objects.is_in(change.path, path) and event is not None:
                    yield event
            self._changed.clear()
            await self._changed.wait()
