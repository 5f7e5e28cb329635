"""What the failure switches put between the agent and the world."""

import dataclasses
import datetime
from collections.abc import Sequence

from vgpu_operator.kube import clock
from vgpu_operator.model import device


class SkewedClock:
    """A clock that is ahead of the real one, or behind it."""

    def __init__(self, real: clock.Clock, *, ahead_s: float) -> None:
        self._real = real
        self._ahead = datetime.timedelta(seconds=ahead_s)

    def now(self) -> datetime.datetime:
        """Return the time of day, so far off."""
        return self._real.now() + self._ahead

    def monotonic_s(self) -> float:
        """Return the real clock's seconds: ages are not off."""
        return self._real.monotonic_s()


def first_unhealthy(cards: Sequence[device.Device]) -> tuple[device.Device, ...]:
    """Return the cards, the first of them not healthy."""
    return tuple(
        dataclasses.replace(card, healthy=False) if place == 0 else card
        for place, card in enumerate(cards)
    )
