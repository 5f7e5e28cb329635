"""The only place that reads the clock."""

import datetime
from typing import Protocol


class Clock(Protocol):
    """Where shells get ``now`` from; tests turn a fake one by hand."""

    def now(self) -> datetime.datetime:
        """Return the time of day, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime.datetime:
        """Return the time of day, aware, in UTC."""
        return datetime.datetime.now(datetime.UTC)  # noqa: TID251  # the one allowed reader
