"""A clock that tests turn by hand."""

import datetime

from support.operator_books import NOW


class TurnedClock:
    """Stands at ten o'clock until ``turn`` is called."""

    def __init__(self) -> None:
        self._now = NOW

    def now(self) -> datetime.datetime:
        return self._now

    def turn(self, seconds: float) -> None:
        """Let that much time pass."""
        self._now += datetime.timedelta(seconds=seconds)
