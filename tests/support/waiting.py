"""Waiting: for what other processes do, and for the event loop's own turns."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any


async def until(
    what: str, condition: Callable[[], Awaitable[Any]], *, limit_s: float, every_s: float
) -> Any:
    """Ask until the answer is truthy, and return it.

    Raises:
        TimeoutError: it was not in time; says what was waited for.
    """
    deadline = time.monotonic() + limit_s
    while True:
        answer = await condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {limit_s:.0f} s still not: {what}")
        await asyncio.sleep(every_s)


async def settled(turns: int = 50) -> None:
    """Let everything that is due on the event loop happen."""
    for _ in range(turns):
        await asyncio.sleep(0)
