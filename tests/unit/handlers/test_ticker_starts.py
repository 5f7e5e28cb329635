"""The timers when they are started: one set of them, whoever forgot to stop the last."""

import asyncio

import pytest

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


async def test_audits_that_take_long_are_made_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a twentieth of the time: listing 50,000 pods is work for everybody."""
    now_s, pauses = 100.0, []
    loop = asyncio.get_running_loop()
    shell = Shell()
    timers = ticker.Ticker(shell.intake, shell.books.settings, observe_lag=lambda _: None)

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise asyncio.CancelledError

    took_s = iter((1.0, 6.0, 0.5))

    async def audit() -> None:
        nonlocal now_s
        now_s += next(took_s)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "time", lambda: now_s)
        patched.setattr(ticker.asyncio, "sleep", pause)
        with pytest.raises(asyncio.CancelledError):
            await timers._every(60.0, audit, part_of_time=0.05)

    # 1 s is a sixtieth of a minute; 6 s are a twentieth of two.
    assert pauses == [60.0, 60.0, 120.0, 60.0]
