"""NVIDIA cards, as NVML tells of them.

One thread asks NVML everything (``nvml_watch``): its calls may block for seconds
where a card is ill. The event loop only sees values that the thread has sent it.
"""

import asyncio
from collections.abc import AsyncIterator

from vgpu_operator.kube import clock
from vgpu_operator.model import device
from vgpu_operator.node_agent import (
    backend,
    enforcement,
    limits,
    nvml_cards,
    nvml_library,
    nvml_watch,
)


class NvmlBackend:
    """The NVIDIA cards of this node.

    Args:
        options: how cards are registered and watched.
        enforced: HAMi's enforcement library on this node.
        time: where the thread gets the time from.
    """

    vendor = "NVIDIA"

    def __init__(
        self,
        options: nvml_cards.Options,
        *,
        enforced: enforcement.Enforcement,
        time: clock.Clock | None = None,
    ) -> None:
        self._options = options
        self._enforced = enforced
        self._time = time or clock.SystemClock()
        self._watcher: nvml_watch.Watcher | None = None
        self._first = asyncio.Event()
        self._changed = asyncio.Event()
        self._news = nvml_watch.News()
        self._handed_on: tuple[device.Device, ...] = ()

    async def cards(self) -> tuple[device.Device, ...]:
        """Return all cards in index order.

        Raises:
            nvml_library.NvmlError: NVML has told of no card yet, and cannot now; asked
                again, it may: it is tried all the time.
        """
        self._start()
        await self._first.wait()
        if self._news.fault and not self._news.cards:
            raise nvml_library.NvmlError(self._news.fault)
        self._handed_on = self._news.cards
        return self._handed_on

    async def changes(self) -> AsyncIterator[tuple[device.Device, ...]]:
        """Yield all cards whenever anything of them differs from what was told last."""
        self._start()
        while True:
            while self._news.cards == self._handed_on:
                await self._changed.wait()
            self._handed_on = self._news.cards
            yield self._handed_on

    def grant(self, holder: backend.Holder, slices: tuple[backend.Slice, ...]) -> backend.Grant:
        """Return the container's environment, and its mounts where limits can be enforced.

        Raises:
            OSError: the folder for the container's cache could not be made.
        """
        found = self._enforced.installed()
        return backend.Grant(
            envs=limits.environment(
                holder,
                slices,
                folder=found.container_folder if found else limits.FOLDER,
                oversubscribed=self._options.memory_scaling > 1,
            ),
            mounts=self._enforced.mounts(holder, found) if found else (),
        )

    async def close(self) -> None:
        """End the thread, and NVML with it."""
        if self._watcher is not None:
            await asyncio.to_thread(self._watcher.stop)

    def _start(self) -> None:
        if self._watcher is not None:
            return
        loop = asyncio.get_running_loop()
        self._watcher = nvml_watch.Watcher(
            self._options,
            self._time,
            lambda news: loop.call_soon_threadsafe(self._take, news),
        )
        self._watcher.start()

    def _take(self, news: nvml_watch.News) -> None:
        self._news = news
        self._first.set()
        self._changed.set()
        self._changed = asyncio.Event()
