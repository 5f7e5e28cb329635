"""The event loop that ``vgpu run`` works in."""

import asyncio

from vgpu_operator.cli import run


def test_the_operator_runs_in_asyncios_own_loop() -> None:
    """uvloop and aiohttp together mix up file descriptors when connections fail."""
    loops: list[str] = []

    async def work() -> None:
        loops.append(type(asyncio.get_running_loop()).__module__)

    run._run_in_loop(work())

    assert loops == ["asyncio.unix_events"]
