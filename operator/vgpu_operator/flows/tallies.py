"""What is counted while the books change: durations by size, and what they began with.

A tally is a histogram as Prometheus has it, kept as plain numbers: whoever scrapes
reads it, and where nobody does it does not grow.
"""

import bisect
import datetime
from dataclasses import dataclass, field
from typing import Final

from vgpu_operator.flows.preemption.attempts import Outcome

SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper ends of the buckets: a plugin takes milliseconds, an expiry 300 s."""

OUTCOMES: Final = ("success", "failed", "gone")
"""How an allocation ends: served, reported as failed, or the pod ended or went first."""


@dataclass(slots=True)
class Tally:
    """How often a duration fell into each bucket.

    >>> tally = Tally()
    >>> tally.note(0.02); tally.note(1000.0)
    >>> tally.counts[:3], tally.counts[-1], tally.sum_s
    ([0, 1, 0], 1, 1000.02)

    Attributes:
        counts: by bucket of ``SECONDS``, then one for everything longer; not cumulated.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    sum_s: float = 0.0

    def note(self, seconds: float) -> None:
        """Count one duration; a clock that was set back makes it zero."""
        seconds = max(0.0, seconds)
        self.counts[bisect.bisect_left(SECONDS, seconds)] += 1
        self.sum_s += seconds


@dataclass(frozen=True, slots=True)
class Standing:
    """A lock as it was last seen: its text, and since when it stands."""

    text: str
    since: datetime.datetime


@dataclass(slots=True)
class Tallies:
    """What this process has counted while it led, and what is still under way.

    Attributes:
        lock_held: how long locks stood on their nodes.
        allocations: by outcome, from when a pod was seen bound until its plugins were
            done with it.
        allocating: UIDs of pods whose plugins are not done, since when.
        locks: by node and key the locks that stand.
        bypassed: UIDs of pods that ask for devices and never passed the webhook.
        preemptions: how attempts to preempt have ended, by outcome.
        preemption_victims: pods whose eviction the API server has accepted.
        preempted: from a pod's refusal until it was bound where pods had left for it.
    """

    lock_held: Tally = field(default_factory=Tally)
    allocations: dict[str, Tally] = field(
        default_factory=lambda: {outcome: Tally() for outcome in OUTCOMES}
    )
    allocating: dict[str, datetime.datetime] = field(default_factory=dict)
    locks: dict[str, dict[str, Standing]] = field(default_factory=dict)
    bypassed: set[str] = field(default_factory=set)
    preemptions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    preemption_victims: int = 0
    preempted: Tally = field(default_factory=Tally)
