"""Our own timers: Kopf's would add finalizers to the objects that they are for."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from vgpu_operator.kube import intake
from vgpu_operator.model import settings

log = structlog.get_logger(__name__)

QUICK_S = 1.0
LAG_PROBE_S = 0.1
FIRST_AUDIT_S = 5.0

AUDITS_PART = 0.05
"""Listing every pod of a large cluster takes long, on both sides."""


class Ticker:
    """Runs the handshake tick, the quick tick, the audit and the lag probe."""

    def __init__(
        self,
        work: intake.Intake,
        configuration: settings.Settings,
        *,
        observe_lag: Callable[[float], None],
    ) -> None:
        self._work = work
        self._configuration = configuration
        self._observe_lag = observe_lag
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to tick; what ticked before, because nobody stopped it, ends."""
        self._cancel()
        configured = self._configuration
        self._tasks = [
            asyncio.create_task(work)
            for work in (
                self._first_audit(),
                self._every(configured.handshake.interval_s, self._tick),
                self._every(QUICK_S, self._quick_tick),
                self._every(
                    configured.ledger.audit_interval_s, self._work.audit, part_of_time=AUDITS_PART
                ),
                self._probe_lag(),
            )
        ]

    async def stop(self) -> None:
        """Tick no more."""
        self._cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _tick(self) -> None:
        self._work.tick()

    async def _quick_tick(self) -> None:
        self._work.quick_tick()

    async def _first_audit(self) -> None:
        """Audit once Kopf's watches run: they begin with lists of their own, later than ours."""
        await asyncio.sleep(FIRST_AUDIT_S)
        await self._work.audit_what_kopf_lists()

    async def _every(
        self,
        interval_s: float,
        work: Callable[[], Coroutine[Any, Any, None]],
        *,
        part_of_time: float = 1.0,
    ) -> None:
        """Do it every ``interval_s``; one failure is logged and stops nothing.

        Work that takes more than ``part_of_time`` of its interval is done less often.
        """
        clock = asyncio.get_running_loop().time
        pause_s = interval_s
        while True:
            await asyncio.sleep(pause_s)
            begun = clock()
            try:
                await work()
            except Exception:
                log.exception("tick failed")
            pause_s = max(interval_s, (clock() - begun) / part_of_time)

    async def _probe_lag(self) -> None:
        """Measure how late the event loop is."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_PROBE_S
            await asyncio.sleep(LAG_PROBE_S)
            self._observe_lag(max(0.0, loop.time() - due))
