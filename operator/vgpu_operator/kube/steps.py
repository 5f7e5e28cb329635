"""Long work in short steps, so that binds and answers get their turn in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

STEP_S = 0.002
"""How long one thing may go on before others get their turn again."""

PAUSE_S = 0.002
"""How long what nobody waits for lets others go on, once a step's time has passed.

An answer to kube-scheduler takes several turns of the event loop; with a pause as long as
a step they come after each other, and not each behind a step of its own.
"""

Item = TypeVar("Item")


class Steps:
    """One long piece of work; its doer calls ``rest`` wherever it may be interrupted.

    Args:
        pause_s: how long others go on then, at least one turn each.
    """

    def __init__(self, *, pause_s: float = 0.0) -> None:
        self._pause_s = pause_s
        self._clock = asyncio.get_running_loop().time
        self._begun = self._clock()

    async def rest(self) -> None:
        """Let others run if a step's time has passed since they last did."""
        if self._clock() - self._begun >= STEP_S:
            await asyncio.sleep(self._pause_s)
            self._begun = self._clock()


async def through(items: Iterable[Item], *, pause_s: float = 0.0) -> AsyncIterator[Item]:
    """Yield the items; let others run whenever that has taken a step's time."""
    steps = Steps(pause_s=pause_s)
    for item in items:
        await steps.rest()
        yield item
