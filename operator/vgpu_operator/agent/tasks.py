"""A bag of tasks that end together; the first that fails is remembered."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def look_at_end(task: asyncio.Future[Any]) -> None:
    """Look at how a task ended, for nobody else may: a callback of tasks whose callers give up."""
    if not task.cancelled():
        task.exception()


class Tasks:
    """Starts tasks and stops them.

    Unlike ``asyncio.TaskGroup`` it may be opened in one task and closed in
    another, as test fixtures do.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something until it ends or ``stop`` is called."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None and not self._failed.done():
            self._failed.set_exception(fault)

    async def failure(self) -> None:
        """Wait for a task to fail and raise its exception; wait for ever when none does."""
        await asyncio.shield(self._failed)

    async def stop(self) -> None:
        """Cancel what still runs; raise the exception of the task that failed first."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._failed.done():
            self._failed.result()
        self._failed.cancel()
