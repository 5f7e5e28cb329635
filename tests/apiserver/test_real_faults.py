"""Two whole replicas, a burst under way, and one fault on the real components (issue 6).

One cluster serves all tests here, so what one fault leaves behind breaks the next.
``make faults`` runs every fault and 50 fail-overs.
"""

import dataclasses
import os
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support import failover, fault_run, faults, reliability_report, rolling_restart
from support.replicas import LEASE_S, Replicas, replicas

pytestmark = pytest.mark.apiserver

STRIKE_AT = 6
"""Pods that are bound when the fault strikes: some are served, some wait for a lock."""

ALL = os.environ.get("VGPU_FAULTS") == "all"
FAILOVERS = int(os.environ.get("VGPU_FAILOVERS", "2"))

BUSY_S = 3.0
"""What a busy test machine may add to a promise of time, or to the 5 s of an end."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def here() -> AsyncIterator[Replicas]:
    async with replicas(fault_run.SIMULATION) as made:
        yield made


@pytest.mark.parametrize(
    "fault",
    [fault for fault in faults.FAULTS if ALL or fault.brief],
    ids=lambda fault: fault.name,
)
async def test_no_card_is_promised_twice_and_no_pod_is_left_when(
    here: Replicas, fault: faults.Fault
) -> None:
    await here.whole()
    leader, follower = await here.leader(), await here.follower()
    here.restarts.clear()
    async with fault_run.Burst(here, f"f{faults.FAULTS.index(fault)}") as burst:
        await burst.until_bound(STRIKE_AT)
        assert burst.bound_now < fault_run.ROOM, "the burst was over before the fault struck"

        struck = time.monotonic()
        await fault.strike(here, leader, follower)
        await fault.lasts(here, leader, follower)
        here.release()
        over = time.monotonic()

        settled = await burst.until_settled()
        first = burst.bound_after(struck)
        reliability_report.note(
            "real faults",
            fault.name,
            lasted_s=round(over - struck, 1),
            next_bind_s=None if first is None else round(first, 1),
            settled_s=round(settled - over, 1),
            restarts=dict(here.restarts),
        )
        await here.whole()
        await burst.until_ledger_equals()
        problems = await burst.problems(
            lines_may_lack=fault.may_fail_pods, may_fail_pods=fault.may_fail_pods
        )
        assert problems == []
    await here.delete_pods()


async def test_a_new_leader_binds_soon_after_the_lease_and_no_card_is_promised_twice(
    here: Replicas,
) -> None:
    """Must hold 2."""
    runs: list[failover.Failover] = []
    for number in range(FAILOVERS):
        runs.append(await failover.run(here, f"r{number}"))
        figures = failover.figures(runs)
        reliability_report.note("fail-over", f"Lease of {LEASE_S} s", **figures)
        assert runs[-1].problems == []
        assert runs[-1].first_bind_s <= failover.PROMISED_S + BUSY_S


async def test_a_rolling_restart_of_both_replicas_loses_no_pod(here: Replicas) -> None:
    run = await rolling_restart.run(here, "rolling")

    reliability_report.note("rolling restart", "both replicas", **dataclasses.asdict(run))
    assert run.problems == []
    assert run.running == 2 * rolling_restart.HALF
    assert max(run.ends_s) < 5.0 + BUSY_S
