"""A rolling restart of both replicas under load, as a Deployment's roll-out does it."""

import asyncio
import time
from dataclasses import dataclass

from support import fault_run
from support.replicas import Replicas, Side
from support.samples import Samples

HALF = fault_run.ROOM // 2
"""Pods for each replica's restart; all of them fit, so all must run in the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestart:
    """What one run showed.

    Attributes:
        lasted_s: from the first SIGTERM until both replicas were ready again.
        ends_s: how long each replica took to end.
        settled_s: after that, until all pods ran and no lock was left.
        failed_binds: binds that an operator refused, and kube-scheduler tried again.
        running: pods that ran in the end, of twice ``HALF``.
    """

    lasted_s: float
    ends_s: list[float]
    settled_s: float
    failed_binds: int
    running: int
    problems: list[str]


async def run(here: Replicas, tag: str) -> RollingRestart:
    """Restart the leader in the middle of a burst, then the other in the middle of a second."""
    await here.whole()
    leader, follower = await here.leader(), await here.follower()
    failed, ends_s, begun = 0.0, [], time.monotonic()
    async with fault_run.Burst(here, tag, pods=HALF) as burst:
        for side in (leader, follower):
            if side is follower:
                burst.add(HALF)
            await burst.until_bound(burst.bound_now + 4)
            assert burst.bound_now < len(burst.names), "no pod is left that could be lost"
            failed += await _failed_binds(side)
            ends_s.append(round(await _restart(here, side), 1))
        over = time.monotonic()
        settled = await burst.until_settled()
        failed += sum([await _failed_binds(side) for side in here.sides])
        await burst.until_ledger_equals()
        problems = await burst.problems(lines_may_lack=False, may_fail_pods=False)
    await here.delete_pods()
    return RollingRestart(
        lasted_s=round(over - begun, 1),
        ends_s=ends_s,
        settled_s=round(settled - over, 1),
        failed_binds=int(failed),
        running=burst.last.running,
        problems=problems,
    )


async def _restart(here: Replicas, side: Side) -> float:
    """End one replica as a kubelet does, start it again, and wait until it is ready.

    Both processes get SIGTERM at once, as the containers of one pod do. Returns
    how long the end took.
    """
    here.held.update(side.parts)
    begun = time.monotonic()
    for part in side.parts:
        part.terminate()
    ended = await asyncio.gather(*(asyncio.to_thread(part.wait, 30.0) for part in side.parts))
    took_s = time.monotonic() - begun
    assert all(ended), f"{side.name} has not ended at all"
    assert side.operator.component.exit_code == 0
    await here.whole()
    return took_s


async def _failed_binds(side: Side) -> float:
    """Return how many binds this operator has refused since it started."""
    page = Samples(await side.page())
    name = "vgpu_extender_request_duration_seconds_count"
    return page.total(name, verb="bind", outcome="failed")
