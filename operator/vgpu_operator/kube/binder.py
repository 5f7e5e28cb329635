"""Runs bind flows: one at a time for each pod, a newer one replaces the older."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from vgpu_operator.flows import bind, effects
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import perform, waiting
from vgpu_operator.wire import extender

SPARE_S = 2.0
"""How long before kube-scheduler's own time limit a wait ends."""


class Binder:
    """Runs bind flows.

    Args:
        observe: told after each bind how long each of its phases took, in seconds.
    """

    def __init__(
        self,
        books: Books,
        clock: kube_clock.Clock,
        *,
        performer: perform.Performer,
        waits: waiting.Waiting,
        observe: Callable[[str, float], None] = lambda _phase, _seconds: None,
    ) -> None:
        self._books = books
        self._clock = clock
        self._performer = performer
        self._waits = waits
        self._observe = observe
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
        phases = _Phases(self._books, self._performer)
        try:
            flow = bind.bind(self._books, args, self._clock.now())
            return await perform.drive(flow, phases.perform)
        finally:
            for phase, seconds in phases.told():
                self._observe(phase, seconds)
            self._books.binding.discard(uid)
            self._waits.end(uid)
            if self._running.get(uid) is asyncio.current_task():
                del self._running[uid]
            self._waits.notify((args.node,))


class _Phases:
    """Where one bind's time goes.

    ``queue`` waiting for others in line, ``lock wait`` being next and the lock not free,
    ``lock`` writing it (or removing it again), ``list`` listing the node's pods,
    ``binding`` creating the Binding, ``other`` further requests, ``choose`` the rest:
    our own work.
    """

    def __init__(self, books: Books, performer: perform.Performer) -> None:
        self._books = books
        self._performer = performer
        self._begun = time.perf_counter()
        self._took = {"queue": 0.0, "lock wait": 0.0}

    async def perform(self, effect: effects.Effect) -> Any:
        """Perform one effect of the flow, and note how long it took."""
        phase, begun = self._phase(effect), time.perf_counter()
        try:
            return await self._performer.perform(effect)
        finally:
            self._took[phase] = self._took.get(phase, 0.0) + time.perf_counter() - begun

    def told(self) -> Iterator[tuple[str, float]]:
        """Yield each phase that there was, and its seconds; waits also where there were none."""
        yield from self._took.items()
        spent = sum(self._took.values())
        yield "choose", max(0.0, time.perf_counter() - self._begun - spent)

    def _phase(self, effect: effects.Effect) -> str:
        match effect:
            case effects.AwaitChange():
                is_next = self._books.turns.may_try(effect.node, effect.pod.uid)
                return "lock wait" if is_next else "queue"
            case effects.PatchNode():
                return "lock"
            case effects.ListNodePods():
                return "list"
            case effects.BindPod():
                return "binding"
            case _:
                return "other"
