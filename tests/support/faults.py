"""What goes wrong in the middle of a burst: one row a fault, and how long it lasts."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from support.replicas import LEASE_S, Replicas, Side

BRIEF_S = 3.0
"""Longer than the operator's and kube-scheduler's polls, shorter than a Lease."""

LONG_S = LEASE_S + 1.0
"""Past the Lease's expiry, and past the lock's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        name: a clause that says what happens.
        strike: makes it happen.
        lasts: returns when it may end; what was struck is then released.
        brief: whether an ordinary test run includes it; ``make faults`` includes all.
        may_fail_pods: whether a pod may end as ``Failed``: a plugin that was killed in the
            middle of Allocate cannot serve the same entry twice, the real one neither.
    """

    name: str
    strike: Callable[[Replicas, Side, Side], Awaitable[None]]
    lasts: Callable[[Replicas, Side, Side], Awaitable[None]]
    brief: bool = False
    may_fail_pods: bool = False


async def _not_at_all(here: Replicas, leader: Side, follower: Side) -> None:
    """Let it end at once: the keeper starts what was killed again."""


def _for_seconds(
    length_s: float,
) -> Callable[[Replicas, Side, Side], Awaitable[None]]:
    async def lasts(here: Replicas, leader: Side, follower: Side) -> None:
        end = time.monotonic() + length_s

        async def over() -> bool:
            return time.monotonic() >= end

        await here.until("the fault has lasted", over)

    return lasts


async def _until_the_other_leads(here: Replicas, leader: Side, follower: Side) -> None:
    async def leads() -> bool:
        return await here.holder() == follower.name and "vgpu_leader 1.0" in await follower.page()

    await here.until("the other replica leads", leads, every_s=0.2)


async def _until_the_other_has_bound(here: Replicas, leader: Side, follower: Side) -> None:
    """Wait until the other replica leads and binds: two leaders, once the fault ends."""
    await _until_the_other_leads(here, leader, follower)

    async def has_bound() -> bool:
        return 'outcome="bound",verb="bind"' in (page := await follower.page()) or (
            'verb="bind",outcome="bound"' in page
        )

    await here.until("the other replica has bound a pod", has_bound, every_s=0.2)


async def _kill_leading_operator(here: Replicas, leader: Side, follower: Side) -> None:
    here.kill(leader.operator.component)


async def _kill_following_replica(here: Replicas, leader: Side, follower: Side) -> None:
    here.kill(*follower.parts)


async def _kill_leading_scheduler(here: Replicas, leader: Side, follower: Side) -> None:
    here.kill(leader.scheduler)


async def _kill_leading_replica(here: Replicas, leader: Side, follower: Side) -> None:
    here.kill(*leader.parts, hold=True)


async def _freeze_leading_operator(here: Replicas, leader: Side, follower: Side) -> None:
    leader.operator.component.pause()


async def _freeze_leading_scheduler(here: Replicas, leader: Side, follower: Side) -> None:
    leader.scheduler.pause()


async def _freeze_leading_replica(here: Replicas, leader: Side, follower: Side) -> None:
    for part in leader.parts:
        part.pause()


async def _freeze_following_replica(here: Replicas, leader: Side, follower: Side) -> None:
    for part in follower.parts:
        part.pause()


async def _kill_api_server(here: Replicas, leader: Side, follower: Side) -> None:
    here.kill(here.plane.components["kube-apiserver"])


async def _freeze_api_server(here: Replicas, leader: Side, follower: Side) -> None:
    here.plane.components["kube-apiserver"].pause()


async def _kill_etcd(here: Replicas, leader: Side, follower: Side) -> None:
    here.kill(here.plane.components["etcd"])


async def _freeze_etcd(here: Replicas, leader: Side, follower: Side) -> None:
    here.plane.components["etcd"].pause()


async def _kill_agents(here: Replicas, leader: Side, follower: Side) -> None:
    here.kill(here.agents)


async def _freeze_agents(here: Replicas, leader: Side, follower: Side) -> None:
    here.agents.pause()


async def _slow_down_api(here: Replicas, leader: Side, follower: Side) -> None:
    for side in here.sides:
        side.relay.delay_s = 0.15


async def _refuse_connections(here: Replicas, leader: Side, follower: Side) -> None:
    for side in here.sides:
        side.relay.refusing = True
        side.relay.cut()


async def _cut_watches(here: Replicas, leader: Side, follower: Side) -> None:
    for _ in range(10):
        for side in here.sides:
            side.relay.cut()
        await asyncio.sleep(0.1)


async def _cut_leader_off(here: Replicas, leader: Side, follower: Side) -> None:
    leader.relay.open.clear()


async def _kill_everything(here: Replicas, leader: Side, follower: Side) -> None:
    here.kill(*here.everything, hold=True)


FAULTS = (
    Fault(
        name="the leading operator is killed",
        brief=True,
        strike=_kill_leading_operator,
        lasts=_not_at_all,
    ),
    Fault(
        name="the leading scheduler is killed", strike=_kill_leading_scheduler, lasts=_not_at_all
    ),
    Fault(
        name="the leading replica is killed",
        strike=_kill_leading_replica,
        lasts=_until_the_other_leads,
    ),
    Fault(
        name="the following replica is killed",
        brief=True,
        strike=_kill_following_replica,
        lasts=_not_at_all,
    ),
    Fault(
        name="the leading operator is frozen past Lease and lock",
        strike=_freeze_leading_operator,
        lasts=_for_seconds(LONG_S),
    ),
    Fault(
        name="the leading scheduler is frozen past its Lease",
        strike=_freeze_leading_scheduler,
        lasts=_until_the_other_leads,
    ),
    Fault(
        name="the leading replica is frozen until the other binds",
        brief=True,
        strike=_freeze_leading_replica,
        lasts=_until_the_other_has_bound,
    ),
    Fault(
        name="the leading replica is cut off until the other binds",
        brief=True,
        strike=_cut_leader_off,
        lasts=_until_the_other_has_bound,
    ),
    Fault(
        name="the following replica is frozen",
        strike=_freeze_following_replica,
        lasts=_for_seconds(BRIEF_S),
    ),
    Fault(name="the API server is killed", brief=True, strike=_kill_api_server, lasts=_not_at_all),
    Fault(name="the API server is frozen", strike=_freeze_api_server, lasts=_for_seconds(BRIEF_S)),
    Fault(name="the API server is slow", strike=_slow_down_api, lasts=_for_seconds(BRIEF_S)),
    Fault(
        name="the API server refuses connections",
        brief=True,
        strike=_refuse_connections,
        lasts=_for_seconds(BRIEF_S),
    ),
    Fault(name="all watches are cut ten times", brief=True, strike=_cut_watches, lasts=_not_at_all),
    Fault(name="etcd is killed", brief=True, strike=_kill_etcd, lasts=_not_at_all),
    Fault(name="etcd is frozen", strike=_freeze_etcd, lasts=_for_seconds(BRIEF_S)),
    Fault(
        name="the agents are killed",
        brief=True,
        strike=_kill_agents,
        lasts=_not_at_all,
        may_fail_pods=True,
    ),
    Fault(
        name="the agents are frozen past the lock",
        strike=_freeze_agents,
        lasts=_for_seconds(LONG_S),
    ),
    Fault(
        name="everything is killed at once",
        brief=True,
        strike=_kill_everything,
        lasts=_not_at_all,
        may_fail_pods=True,
    ),
)
