"""Where binds wait, and what ends a wait."""

import asyncio

import pytest

from support.operator_books import LOCK, later, open_books
from support.turned_clock import TurnedClock
from support.waiting import settled
from vgpu_operator.flows import effects
from vgpu_operator.flows.turns import Waiter
from vgpu_operator.kube import waiting
from vgpu_operator.model import request


class Room:
    def __init__(self) -> None:
        self.books = open_books()
        self.clock = TurnedClock()
        self.waits = waiting.Waiting(self.books, self.clock)

    def enter(self, uid: str, *, node: str = "node-a", limit_s: float = 60) -> asyncio.Task[object]:
        """Have a bind begin, queue and wait."""
        self.waits.begin(uid, limit_s=limit_s)
        self.books.turns.join(node, Waiter(uid=uid, keys=(LOCK,)))
        pod = request.PodKey(namespace="team-a", name=uid, uid=uid)
        return asyncio.create_task(self.waits.change(effects.AwaitChange(node=node, pod=pod)))


async def test_news_about_the_node_wakes_the_first_in_the_queue_and_tells_the_time() -> None:
    room = Room()
    first, second = room.enter("1"), room.enter("2")
    await settled(5)
    room.clock.turn(7)

    room.waits.notify(["node-a"])
    await settled(5)

    assert first.result() == later(7)
    assert not second.done()
    second.cancel()


async def test_news_about_another_node_wakes_nobody() -> None:
    room = Room()
    wait = room.enter("1")
    await settled(5)

    room.waits.notify(["node-b"], ["2"])
    await settled(5)

    assert not wait.done()
    wait.cancel()


async def test_news_about_the_pod_wakes_it_wherever_it_stands_in_the_queue() -> None:
    room = Room()
    first, second = room.enter("1"), room.enter("2")
    await settled(5)

    room.waits.notify([], ["2"])
    await settled(5)

    assert (first.done(), second.done()) == (False, True)
    first.cancel()


async def test_a_wait_whose_time_is_over_is_given_up() -> None:
    room = Room()

    with pytest.raises(effects.GivenUp, match="the lock of node-a did not become free in time"):
        await room.enter("1", limit_s=0)


async def test_a_wait_that_is_given_up_says_why() -> None:
    room = Room()
    wait = room.enter("1")
    await settled(5)

    room.waits.give_up("1", "the caller hung up")

    with pytest.raises(effects.GivenUp, match="the caller hung up"):
        await wait


async def test_a_bind_that_does_not_wait_just_now_is_given_up_when_it_next_does() -> None:
    room = Room()
    room.waits.begin("1", limit_s=60)
    room.waits.give_up("1", "the caller hung up")

    with pytest.raises(effects.GivenUp, match="the caller hung up"):
        await room.waits.change(
            effects.AwaitChange(node="node-a", pod=request.PodKey(namespace="a", name="p", uid="1"))
        )


async def test_a_new_bind_of_the_pod_is_not_ended_by_the_end_of_an_earlier_one() -> None:
    room = Room()
    room.waits.begin("1", limit_s=60)
    room.waits.give_up("1", "the caller hung up")
    room.waits.end("1")

    wait = room.enter("1")
    await settled(5)

    assert not wait.done()
    wait.cancel()


async def test_the_end_of_a_term_gives_up_every_wait() -> None:
    room = Room()
    waits = [room.enter("1"), room.enter("2", node="node-b")]
    await settled(5)

    room.waits.give_up_all("this replica no longer leads")

    for wait in waits:
        with pytest.raises(effects.GivenUp, match="no longer leads"):
            await wait


async def test_a_wait_with_an_end_of_its_own_ends_without_a_fault() -> None:
    room = Room()
    room.waits.begin("1", limit_s=60)
    pod = request.PodKey(namespace="team-a", name="1", uid="1")

    brief = effects.AwaitChange(node="node-a", pod=pod, at_most_s=0.001)

    assert await asyncio.wait_for(room.waits.change(brief), timeout=10) == later(0)


async def test_the_binds_own_limit_ends_a_longer_brief_wait_with_its_fault() -> None:
    room = Room()
    room.waits.begin("1", limit_s=0)
    pod = request.PodKey(namespace="team-a", name="1", uid="1")

    with pytest.raises(effects.GivenUp, match="did not become free in time"):
        await room.waits.change(effects.AwaitChange(node="node-a", pod=pod, at_most_s=5.0))
