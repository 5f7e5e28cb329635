"""What goes wrong on one simulated node right now; may be changed while it runs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Switches:
    """The switches of one node, and the means to wait for a change of them.

    Attributes:
        delay_s: how long the plugin takes over one Allocate call.
        stop_s: how long the containers of a deleted pod take to end.
        never_answer: the plugin takes calls and never answers.
        fail: the plugin finds the pod and breaks down.
        die_after_first_container: the node falls silent after its next served container.
        vanished: there is no plugin: allocatable is 0, the kubelet rejects.
        paused: neither plugin nor kubelet does anything, as after a kill.
    """

    delay_s: float = 0.0
    stop_s: float = 0.0
    never_answer: bool = False
    fail: bool = False
    die_after_first_container: bool = False
    vanished: bool = False
    paused: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def touch(self) -> None:
        """Have everybody who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once ``holds`` is true; it is asked again after every ``touch``."""
        while not holds():
            await self._changed.wait()
