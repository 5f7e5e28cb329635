import asyncio
import gc

import pytest

from vgpu_operator.cli import collector


async def seen() -> bool:
    await asyncio.sleep(0)
    return gc.isenabled()


async def failing() -> None:
    raise ValueError("no")


def test_a_command_runs_without_looking_for_garbage_and_what_follows_does_not():
    assert collector.run(seen()) is False
    assert gc.isenabled()


def test_a_command_that_lasts_keeps_the_collector():
    assert collector.run(seen(), lasts=True) is True


def test_the_collector_is_back_after_a_command_that_fails():
    with pytest.raises(ValueError, match="no"):
        collector.run(failing())
    assert gc.isenabled()
