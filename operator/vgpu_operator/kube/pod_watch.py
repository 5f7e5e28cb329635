"""The watch of all Pods: raw, in order, without a library between.

    take in a list ─► watch from its version ─► stream ends: watch from the last version
          ▲                    │ the version is too old (410)
          └────────────────────┘

A busy cluster changes hundreds of Pods a second, most of them nobody's concern
here; Kopf takes half a millisecond for each before a handler is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import deliver, errors, paths, steps

log = structlog.get_logger(__name__)

PAUSES_S = (0.1, 0.5, 1.0, 2.0)
"""How long to wait before each new start without an event in between; the last for
all further ones. A server that is going down ends streams as soon as they begin."""


class PodWatch:
    """Hands on every change of every Pod, in the API server's order.

    Args:
        client: whom to ask.
        on_event: takes in one event; its type is ``ADDED``, ``MODIFIED`` or ``DELETED``.
        on_progress: told the version up to which everything has been handed on.
        relist: takes in a complete list and returns its version.
    """

    def __init__(
        self,
        client: kube_client.KubeClient,
        *,
        on_event: Callable[[str, kube_client.Json], None],
        on_progress: Callable[[str], None],
        relist: Callable[[], Awaitable[str]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._on_event = on_event
        self._on_progress = on_progress
        self._relist = relist
        self._sleep = sleep
        self._in_vain = 0

    async def run(self, version: str) -> None:
        """Watch from that version of a list on, for ever."""
        while True:
            try:
                if not version:
                    version = await self._relist()
                async for event in self._events(version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._in_vain = 0
            except errors.Expired:
                log.info("the watch of pods begins anew", version=version)
                version = ""
            except errors.ApiError as fault:
                log.warning("the watch of pods failed, trying again", error=str(fault))
            await self._pause()

    async def _pause(self) -> None:
        """Wait before asking again, the longer the more often nothing has come of it."""
        pause_s = PAUSES_S[min(self._in_vain, len(PAUSES_S) - 1)]
        self._in_vain += 1
        await self._sleep(pause_s)

    async def _events(self, version: str) -> Any:
        """Hand on one stream of events, in steps; yield each once it is handed on."""
        step = steps.Steps()
        async for event in self._client.watch(paths.PODS, resource_version=version):
            kind, raw = event.get("type"), event["object"]
            if kind == "BOOKMARK":
                self._on_progress(raw["metadata"]["resourceVersion"])
            elif kind in ("ADDED", "MODIFIED", "DELETED"):
                deliver.deliver(self._on_event, kind, raw)
            yield event
            await step.rest()
