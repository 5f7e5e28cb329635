"""Runs bind flows: one at a time for each pod, a newer one replaces the older."""

import asyncio
import contextlib

from vgpu_operator.flows import bind, effects
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import perform, waiting
from vgpu_operator.wire import extender

SPARE_S = 2.0
"""How long before kube-scheduler's own time limit a wait ends."""


class Binder:
    """Runs bind flows."""

    def __init__(
        self,
        books: Books,
        clock: kube_clock.Clock,
        *,
        performer: perform.Performer,
        waits: waiting.Waiting,
    ) -> None:
        self._books = books
        self._clock = clock
        self._performer = performer
        self._waits = waits
        self._running: dict[str, asyncio.Task[effects.BindResult]] = {}
        self._closing = False

    async def bind(self, args: extender.BindArgs) -> effects.BindResult:
        """Bind one pod; cancelling this call makes a waiting bind leave the queue."""
        await self._replace(args.uid)
        if self._closing:
            return effects.BindResult(error="the operator stops; kube-scheduler tries again")
        # Before the task runs: whoever ends the bind from now on must find it begun.
        self._waits.begin(args.uid, limit_s=self._books.settings.bind.time_limit_s - SPARE_S)
        self._books.binding.add(args.uid)
        task = asyncio.create_task(self._run(args))
        self._running[args.uid] = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._running.get(args.uid) is task:
                self._waits.give_up(args.uid, "the caller hung up")
            raise

    async def close(self) -> None:
        """End all waits, let what is being written be written, cut off what takes too long."""
        self._closing = True
        self._waits.give_up_all("the operator stops")
        if self._running:
            _, late = await asyncio.wait(tuple(self._running.values()), timeout=SPARE_S)
            for task in late:
                task.cancel()

    async def _replace(self, uid: str) -> None:
        """End an older bind for the same pod and wait until it has ended."""
        while (older := self._running.get(uid)) is not None:
            self._waits.give_up(uid, "a newer bind of the same pod replaced this one")
            with contextlib.suppress(Exception):
                await asyncio.shield(older)
            if self._running.get(uid) is older:
                del self._running[uid]

    async def _run(self, args: extender.BindArgs) -> effects.BindResult:
        uid = args.uid
        try:
            return await self._performer.run(bind.bind(self._books, args, self._clock.now()))
        finally:
            self._books.binding.discard(uid)
            self._waits.end(uid)
            if self._running.get(uid) is asyncio.current_task():
                del self._running[uid]
            self._waits.notify((args.node,))
