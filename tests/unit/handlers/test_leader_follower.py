"""Following the Lease: who is told what, when, and what a failing API server changes."""

import pytest

from support.fake_kube import FakeKube
from support.turned_clock import TurnedClock
from vgpu_operator.handlers import leader
from vgpu_operator.kube import errors

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/hami-scheduler"


class Follower:
    def __init__(self, *, lease: bool = True) -> None:
        self.kube = FakeKube()
        self.clock = TurnedClock()
        self.told: list[bool] = []
        self.follower = leader.LeaderFollower(
            self.kube,
            self.clock,
            lease=("kube-system", "hami-scheduler") if lease else None,
            hostname="x-1",
            on_change=self.told.append,
        )

    def renew(self, holder: str | None = "x-1_ab12", *, at: str = "1") -> None:
        spec = {"holderIdentity": holder, "renewTime": at, "leaseDurationSeconds": 15}
        self.kube.put(LEASE, {"spec": spec})

    async def after(self, seconds: float) -> None:
        self.clock.turn(seconds)
        await self.follower.refresh()


async def test_a_term_begins_with_our_side_cars_lease_and_is_told_once() -> None:
    world = Follower()
    world.renew("x-10_cd34")
    await world.after(0)
    world.renew("x-1_ab12", at="2")

    await world.after(2)
    await world.after(2)

    assert world.told == [False, True]
    assert world.follower.holder == "x-1_ab12"


async def test_a_term_ends_when_the_lease_passes_on() -> None:
    world = Follower()
    world.renew()
    await world.after(0)

    world.renew("x-2_ef56", at="2")
    await world.after(2)

    assert world.told == [True, False]


async def test_a_term_ends_by_our_own_clock_when_nobody_answers() -> None:
    world = Follower()
    world.renew()
    await world.after(0)
    for _ in range(8):
        world.kube.fail_next("GET", "leases", errors.Unreachable("no answer"))

    await world.after(14)
    assert (world.told, world.follower.reachable) == ([True], False)
    await world.after(1)

    assert world.told == [True, False]


@pytest.mark.parametrize("state", ["gone", "no holder", "no spec"])
async def test_case_164_a_lease_that_says_nothing_makes_nobody_lead(state: str) -> None:
    world = Follower()
    world.renew()
    await world.after(0)

    if state == "gone":
        world.kube.remove(LEASE)
    elif state == "no holder":
        world.renew(None)
    else:
        world.kube.put(LEASE, {})
    await world.after(2)

    assert world.told == [True, False]
    assert world.follower.reachable


async def test_a_server_that_refuses_us_is_reachable_all_the_same() -> None:
    world = Follower()
    world.kube.fail_next("GET", "leases", errors.Denied("403", status=403))

    await world.after(0)

    assert (world.told, world.follower.reachable) == ([False], True)


async def test_without_a_lease_to_follow_this_process_leads_and_still_watches_the_server() -> None:
    world = Follower(lease=False)
    await world.after(0)
    assert (world.told, world.follower.reachable) == ([True], True)

    world.kube.fail_next("GET", "/version", errors.Unreachable("no answer"))
    await world.after(3600)

    assert (world.told, world.follower.reachable) == ([True], False)


async def test_a_clock_that_is_set_back_keeps_no_term_alive() -> None:
    world = Follower()
    world.renew()
    await world.after(0)
    for _ in range(8):
        world.kube.fail_next("GET", "leases", errors.Unreachable("no answer"))

    await world.after(10)
    world.clock.set_back(3600)
    await world.after(5)

    assert world.told == [True, False]


async def test_a_process_that_was_frozen_past_its_lease_may_not_lead_before_it_reads() -> None:
    world = Follower()
    world.renew()
    await world.after(0)
    assert world.follower.may_lead()

    world.clock.turn(15)

    assert not world.follower.may_lead()
    assert world.told == [True]


async def test_a_term_that_lapsed_ends_even_if_the_next_answer_shows_it_renewed() -> None:
    world = Follower()
    world.renew()
    await world.after(0)

    world.renew(at="2")
    await world.after(15)

    assert world.told == [True, False, True]


async def test_another_kube_scheduler_of_the_same_host_begins_another_term() -> None:
    world = Follower()
    world.renew("x-1_ab12")
    await world.after(0)

    world.renew("x-1_cd34", at="2")
    await world.after(2)

    assert world.told == [True, False, True]
    await world.after(2)
    assert world.told == [True, False, True]


async def test_how_long_our_own_lease_was_not_seen_renewed_is_known() -> None:
    world = Follower()
    world.renew()
    await world.after(0)
    world.kube.fail_next("GET", "leases", errors.Unreachable("no answer"))
    await world.after(16)

    assert not world.follower.may_lead()
    assert world.follower.unseen_s == 16

    world.renew("x-2_ef56", at="2")
    await world.after(2)
    assert world.follower.unseen_s is None


async def test_an_api_server_that_answers_in_four_seconds_costs_no_term() -> None:
    assert leader.READ_LIMIT_S > 4
    assert leader.POLL_S + leader.READ_LIMIT_S < 15  # kube-scheduler's usual leaseDuration
