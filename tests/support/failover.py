"""One fail-over under load: the leading replica dies in the middle of a burst (must hold 2)."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support import fault_run
from support.replicas import LEASE_S, Replicas

STRIKE_AT = 6
"""Pods that are bound when the leader dies."""

PROMISED_S = LEASE_S + 2.0
"""From the old leader's death to the new one's first bind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """What one run showed; times in seconds from the old leader's death.

    Attributes:
        elected_s: until the other kube-scheduler held the Lease.
        first_bind_s: until the first pod was seen bound by the new leader.
        settled_s: until all pods ran or knew why not, and no lock was left.
        problems: what the audit found.
    """

    elected_s: float
    first_bind_s: float
    settled_s: float
    problems: list[str]

    @property
    def after_election_s(self) -> float:
        """Seconds from the new leader's election to its first bind."""
        return self.first_bind_s - self.elected_s


async def run(here: Replicas, tag: str) -> Failover:
    """Kill operator and kube-scheduler of the leader, and follow what the other makes of it."""
    await here.whole()
    leader, follower = await here.leader(), await here.follower()
    async with fault_run.Burst(here, tag) as burst:
        await burst.until_bound(STRIKE_AT)
        here.kill(*leader.parts, hold=True)
        killed = time.monotonic()
        # Bindings on their way may still arrive; the Lease keeps the other out far longer.
        quiet: int | None = None

        async def elected() -> bool:
            nonlocal quiet
            if quiet is None and time.monotonic() - killed > LEASE_S / 4:
                quiet = burst.bound_now
            return await here.holder() == follower.name

        await here.until("the other kube-scheduler is elected", elected, every_s=0.02)
        elected_at = time.monotonic()
        assert quiet is not None, "the other was elected while the Lease held still"

        async def has_bound() -> bool:
            return burst.bound_now > quiet

        await here.until("the new leader has bound a pod", has_bound, every_s=0.02)
        first = next(seen for seen, number in burst.bound if number > quiet)
        here.release()
        settled = await burst.until_settled()
        await burst.until_ledger_equals()
        problems = await burst.problems(lines_may_lack=False, may_fail_pods=False)
    await here.delete_pods()
    return Failover(
        elected_s=elected_at - killed,
        first_bind_s=first - killed,
        settled_s=settled - killed,
        problems=problems,
    )


def figures(runs: Sequence[Failover]) -> dict[str, Any]:
    """Return what all runs together showed."""
    return {
        "runs": len(runs),
        "with_problems": sum(1 for run in runs if run.problems),
        "within_promise": sum(1 for run in runs if run.first_bind_s <= PROMISED_S),
        "first_bind_s": _spread([run.first_bind_s for run in runs]),
        "after_election_s": _spread([run.after_election_s for run in runs]),
        "settled_s": _spread([run.settled_s for run in runs]),
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "least": round(min(values), 2),
        "median": round(statistics.median(values), 2),
        "most": round(max(values), 2),
    }
