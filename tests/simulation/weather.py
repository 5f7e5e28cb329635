"""What goes wrong between a party and the API server, and how often.

Every request of every party has a name (``op-a PATCH /api/v1/nodes/n1 #3``);
the dice of that name decide its fate. A fault can be left out by its name,
which is how a story is made short.
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass

from simulation.chance import Chance


class Fate(enum.StrEnum):
    """What becomes of one request.

    ``LOST`` never arrives, ``UNANSWERED`` is done and nobody hears of it,
    ``LATE`` is given up and done some time afterwards, ``BROKEN`` is refused
    with 500 and not done, ``DONE_BUT_BROKEN`` is done and answered with 500,
    ``TOO_MANY`` is refused with 429, ``SLOW`` is done after a while.
    """

    FINE = "fine"
    LOST = "never arrives"
    UNANSWERED = "is done, its answer is lost"
    LATE = "is given up by its sender and done later"
    BROKEN = "500, not done"
    DONE_BUT_BROKEN = "500, although done"
    TOO_MANY = "429"
    SLOW = "slow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often what happens, and how far watches are behind.

    Attributes:
        bad: part of the requests that meet a fate other than fine.
        lag_s: how long watch events take at the most, besides rare long lags.
        long_lag: part of the events that take up to ``longest_lag_s``.
        longest_lag_s: and so long.
        cuts: part of the watch events after which the stream breaks.
        repeats: part of the watch events that are delivered twice.
        skew_s: how far the parties' clocks are apart at the most.
    """

    bad: float = 0.0
    lag_s: float = 0.02
    long_lag: float = 0.0
    longest_lag_s: float = 0.0
    cuts: float = 0.0
    repeats: float = 0.0
    skew_s: float = 0.0


DELICATE = ("/binding ", "/eviction ")
"""Names of the requests that meet trouble three times as often: most depends on them."""

CALM = Rates()
USUAL = Rates(
    bad=0.02, lag_s=0.05, long_lag=0.02, longest_lag_s=1.0, cuts=0.01, repeats=0.02, skew_s=1.0
)
ROUGH = Rates(
    bad=0.10, lag_s=0.3, long_lag=0.08, longest_lag_s=4.0, cuts=0.04, repeats=0.06, skew_s=4.0
)
STORM = Rates(
    bad=0.25, lag_s=1.0, long_lag=0.15, longest_lag_s=12.0, cuts=0.08, repeats=0.1, skew_s=30.0
)

_BAD = (
    Fate.LOST,
    Fate.UNANSWERED,
    Fate.UNANSWERED,
    Fate.LATE,
    Fate.BROKEN,
    Fate.DONE_BUT_BROKEN,
    Fate.TOO_MANY,
    Fate.SLOW,
    Fate.SLOW,
)


class Weather:
    """The faults of one history.

    Attributes:
        fired: by name, every fault that has happened, as a sentence.
        is_over: from now on nothing goes wrong any more.
        outages: how many reasons there are just now why nobody reaches the server.
    """

    def __init__(self, chance: Chance, rates: Rates, without: Collection[str] = ()) -> None:
        self.chance = chance
        self.rates = rates
        self.fired: dict[str, str] = {}
        self.is_over = False
        self.outages = 0
        self._without = frozenset(without)

    def fate(self, name: str) -> Fate:
        """Return what becomes of the request of that name."""
        if self.outages:
            return Fate.LOST
        bad = self.rates.bad * (3 if any(part in name for part in DELICATE) else 1)
        if self.is_over or not self.chance.happens(bad, "bad", name):
            return Fate.FINE
        found = self.chance.one_of(_BAD, "fate", name)
        return found if self._fires(name, found.value) else Fate.FINE

    def lag_s(self, name: str) -> float:
        """Return how long a watch event takes."""
        rates = self.rates
        lag = self.chance.between(0.001, rates.lag_s, "lag", name)
        if not self.is_over and self.chance.happens(rates.long_lag, "long lag", name):
            long = self.chance.between(rates.lag_s, rates.longest_lag_s, "how long", name)
            if self._fires(f"lag of {name}", f"comes {long:.1f} s late"):
                return long
        return lag

    def cuts(self, name: str) -> bool:
        """Whether the stream breaks after that event."""
        happens = not self.is_over and self.chance.happens(self.rates.cuts, "cut", name)
        return happens and self._fires(f"cut after {name}", "the watch breaks")

    def repeats(self, name: str) -> bool:
        """Whether that event is delivered twice."""
        happens = not self.is_over and self.chance.happens(self.rates.repeats, "twice", name)
        return happens and self._fires(f"repeat of {name}", "is delivered twice")

    def _fires(self, name: str, what: str) -> bool:
        if name in self._without:
            return False
        self.fired[name] = what
        return True
