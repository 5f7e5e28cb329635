"""The timers when they are started: one set of them, whoever forgot to stop the last."""

import asyncio

from support.desk import Shell
from vgpu_operator.handlers import ticker


async def test_timers_that_nobody_stopped_end_when_they_are_started_again() -> None:
    """Kopf is abandoned when it takes too long to end; its clean-up may never have run."""
    shell = Shell()
    timers = ticker.Ticker(shell.intake, shell.books.settings, observe_lag=lambda _: None)
    before = asyncio.all_tasks()
    timers.start()
    first = asyncio.all_tasks() - before

    timers.start()
    for _ in range(5):
        await asyncio.sleep(0)

    assert first
    assert all(task.done() for task in first)
    assert len(asyncio.all_tasks() - before) == len(first)
    await timers.stop()
