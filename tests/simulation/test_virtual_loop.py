"""The event loop without a clock: order, jumps in time, stopped and killed parties."""

import asyncio

import pytest

from simulation.loop import SpinsError, StandsStillError, VirtualLoop


def run(loop: VirtualLoop, work: object) -> object:
    try:
        return loop.run_until_complete(work)  # type: ignore[arg-type]
    finally:
        loop.end()


def test_an_hour_passes_without_waiting() -> None:
    loop = VirtualLoop()
    run(loop, asyncio.sleep(3600))
    assert loop.time() == 3600


def test_what_is_for_the_same_time_happens_in_the_order_it_was_asked_for() -> None:
    loop = VirtualLoop()
    found: list[int] = []

    async def ask() -> None:
        for number in range(20):
            loop.call_later(1.0, found.append, number)
        await asyncio.sleep(2)

    run(loop, ask())
    assert found == list(range(20))


def test_a_stopped_party_takes_no_step_and_then_goes_on_where_it_was() -> None:
    loop = VirtualLoop()
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1.0)
            ticks.append(loop.time())

    async def world() -> None:
        loop.start("p", tick())
        await asyncio.sleep(2.5)
        loop.stop_party("p")
        await asyncio.sleep(5)
        loop.go_on("p")
        await asyncio.sleep(1.5)

    run(loop, world())
    assert ticks == [1.0, 2.0, 7.5, 8.5]


def test_a_killed_party_is_gone_with_all_that_it_has_begun() -> None:
    loop = VirtualLoop()
    found: list[str] = []

    async def child() -> None:
        await asyncio.sleep(1)
        found.append("child")

    async def parent() -> None:
        task = asyncio.create_task(child())
        await task

    async def world() -> None:
        loop.start("p", parent())
        loop.start("q", child())
        await asyncio.sleep(0.5)
        loop.kill("p")
        await asyncio.sleep(1)

    run(loop, world())
    assert found == ["child"]


def test_a_loop_that_never_lets_time_pass_is_noticed() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110  # that is the point
            await asyncio.sleep(0)

    with pytest.raises(SpinsError):
        run(VirtualLoop(), spin())


def test_that_everybody_waits_for_ever_is_noticed() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StandsStillError):
        run(VirtualLoop(), wait())


def test_the_end_of_what_was_begun_for_a_party_is_told_when_it_is_a_fault() -> None:
    loop = VirtualLoop()
    told: list[tuple[str, str]] = []
    loop.on_fault = lambda party, fault: told.append((party, str(fault)))

    async def break_down() -> None:
        raise ValueError("broken")

    async def world() -> None:
        loop.start("p", break_down())
        await asyncio.sleep(1)

    run(loop, world())
    assert told == [("p", "broken")]
