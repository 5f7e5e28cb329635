"""Long work in short steps, so that binds and answers get their turn in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

STEP_S = 0.002
"""How long one thing may go on before others get their turn again."""

Item = TypeVar("Item")


class Steps:
    """One long piece of work; its doer calls ``rest`` wherever it may be interrupted."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._begun = self._clock()

    async def rest(self) -> None:
        """Let others run if a step's time has passed since they last did."""
        if self._clock() - self._begun >= STEP_S:
            await asyncio.sleep(0)
            self._begun = self._clock()


async def through(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items; let others run whenever that has taken a step's time."""
    steps = Steps()
    for item in items:
        await steps.rest()
        yield item
