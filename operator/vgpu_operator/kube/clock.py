"""The only place that reads the clocks."""

import datetime
import time
from typing import Protocol

_AGES = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Where shells get the time from; tests turn a fake one by hand."""

    def now(self) -> datetime.datetime:
        """Return the time of day, aware, in UTC: for texts that others read."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds since some moment: for ages that nobody's setting of a clock changes."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime.datetime:
        """Return the time of day, aware, in UTC."""
        return datetime.datetime.now(datetime.UTC)  # noqa: TID251  # the one allowed reader

    def monotonic_s(self) -> float:
        """Return seconds since some moment, those of a suspended machine included."""
        return time.clock_gettime(_AGES)
