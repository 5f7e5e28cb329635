"""A clock that tests turn by hand."""

import datetime

from support.operator_books import NOW


class TurnedClock:
    """Stands at ten o'clock until ``turn`` is called."""

    def __init__(self) -> None:
        self._now = NOW
        self._passed_s = 1000.0

    def now(self) -> datetime.datetime:
        return self._now

    def monotonic_s(self) -> float:
        return self._passed_s

    def turn(self, seconds: float) -> None:
        """Let that much time pass."""
        self._now += datetime.timedelta(seconds=seconds)
        self._passed_s += seconds

    def set_back(self, seconds: float) -> None:
        """Have somebody set the time of day back; no time passes."""
        self._now -= datetime.timedelta(seconds=seconds)
