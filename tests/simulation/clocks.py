"""Each party's own clock: the virtual time, shifted as its machine's clock is wrong."""

import datetime

from simulation.loop import VirtualLoop

BEGIN = datetime.datetime(2026, 3, 1, 8, 0, 0, tzinfo=datetime.UTC)


class SimulatedClock:
    """One machine's clock; ``offset_s`` may be changed at any time, as by somebody's hand."""

    def __init__(self, loop: VirtualLoop, offset_s: float = 0.0) -> None:
        self.offset_s = offset_s
        self._loop = loop

    def now(self) -> datetime.datetime:
        return BEGIN + datetime.timedelta(seconds=self._loop.time() + self.offset_s)

    def monotonic_s(self) -> float:
        return self._loop.time()


def text(moment: datetime.datetime) -> str:
    """Return a time as Kubernetes writes it.

    >>> text(BEGIN)
    '2026-03-01T08:00:00Z'
    """
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
