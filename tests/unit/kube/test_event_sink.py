"""Events go out in the background: never twice in a moment, never without bound."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from support.fake_kube import FakeKube
from support.turned_clock import TurnedClock
from support.waiting import settled
from vgpu_operator.flows import effects
from vgpu_operator.kube import errors, events
from vgpu_operator.model import request

POD = request.PodKey(namespace="team-a", name="p1", uid="u1")
WARNING = effects.EventType.WARNING


def told(message: str = "no node fits", pod: request.PodKey = POD) -> effects.PostEvent:
    return effects.PostEvent(type=WARNING, reason="FilteringFailed", message=message, pod=pod)


def of_pod(number: int) -> effects.PostEvent:
    """Return what is told to one of many pods."""
    return told(pod=request.PodKey(namespace="team-a", name=f"p{number}", uid=f"u{number}"))


class Desk:
    def __init__(self) -> None:
        self.kube = FakeKube()
        self.clock = TurnedClock()
        self.lost: list[str] = []
        self.dropped: list[effects.PostEvent] = []
        self.leads = True
        self.may_write = True
        self.detail = ""
        self.sink = events.EventSink(
            self.kube,
            self.clock,
            leads=lambda: self.leads,
            may_write=lambda: self.leads and self.may_write,
            on_failure=lambda event, fault: self.lost.append(str(fault)),
            on_drop=self.dropped.append,
            message=lambda event, now: f"{event.message}{self.detail}",
        )

    @contextlib.asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.sink.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PER_SECOND", 1e9)


async def test_an_event_names_its_pod_and_says_when(no_pauses: None) -> None:
    desk = Desk()
    async with desk.sending():
        desk.sink.post(told())
        await desk.kube.until(lambda: desk.kube.sent("POST"))

    (sent,) = desk.kube.sent("POST")
    assert sent.path == "/api/v1/namespaces/team-a/events"
    assert sent.body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "team-a",
        "name": "p1",
        "uid": "u1",
    }
    assert (sent.body["type"], sent.body["reason"], sent.body["message"]) == (
        "Warning",
        "FilteringFailed",
        "no node fits",
    )
    assert sent.body["lastTimestamp"] == "2026-01-15T10:00:00Z"
    assert sent.body["source"] == {"component": "vgpu-operator"}


async def test_an_event_of_a_node_goes_to_the_default_namespace(no_pauses: None) -> None:
    desk = Desk()
    async with desk.sending():
        desk.sink.post(
            effects.PostEvent(type=WARNING, reason="DevicesExpired", message="x", node="node-a")
        )
        await desk.kube.until(lambda: desk.kube.sent("POST"))

    (sent,) = desk.kube.sent("POST")
    assert sent.path == "/api/v1/namespaces/default/events"
    assert sent.body["involvedObject"]["kind"] == "Node"
    assert sent.body["involvedObject"]["name"] == "node-a"


async def test_the_same_sentence_about_the_same_pod_is_sent_again_only_after_five_minutes(
    no_pauses: None,
) -> None:
    desk = Desk()
    async with desk.sending():
        desk.sink.post(told())
        desk.clock.turn(299)
        desk.sink.post(told())
        desk.sink.post(told("another sentence"))
        desk.clock.turn(1)
        desk.sink.post(told())
        await desk.kube.until(lambda: len(desk.kube.sent("POST")) == 3)

    assert [sent.body["message"] for sent in desk.kube.sent("POST")] == [
        "no node fits",
        "another sentence",
        "no node fits",
    ]


async def test_a_flood_is_dropped_beyond_the_queue_and_counted() -> None:
    desk = Desk()

    for n in range(events.QUEUE_LIMIT + 7):
        desk.sink.post(of_pod(n))

    assert len(desk.dropped) == 7


async def test_of_one_reason_about_one_pod_only_so_many_are_sent_in_five_minutes(
    no_pauses: None,
) -> None:
    desk = Desk()
    other = request.PodKey(namespace="team-a", name="p2", uid="u2")
    for n in range(events.MOST_ABOUT_ONE + 5):
        desk.sink.post(told(f"{n} nodes"))
    desk.sink.post(told("1 nodes", pod=other))
    desk.sink.post(effects.PostEvent(type=WARNING, reason="BindingFailed", message="x", pod=POD))

    assert [event.message for event in desk.dropped] == [
        f"{events.MOST_ABOUT_ONE + n} nodes" for n in range(5)
    ]
    assert len(desk.sink) == events.MOST_ABOUT_ONE + 2, "others are not held up"

    desk.clock.turn(300)
    desk.sink.post(told("nodes at last"))
    assert len(desk.sink) == events.MOST_ABOUT_ONE + 3


async def test_what_came_closest_is_worked_out_when_the_event_is_sent(no_pauses: None) -> None:
    desk = Desk()
    desk.sink.post(told())
    desk.detail = "; closest is node-a"
    async with desk.sending():
        await desk.kube.until(lambda: desk.kube.sent("POST"))
        # A detail that changes makes no new event: the sentence was told.
        desk.detail = "; closest is node-b"
        desk.sink.post(told())
        assert len(desk.sink) == 0

    (sent,) = desk.kube.sent("POST")
    assert sent.body["message"] == "no node fits; closest is node-a"


async def test_a_flood_of_one_reason_keeps_no_other_waiting(no_pauses: None) -> None:
    desk = Desk()
    for n in range(events.QUEUE_LIMIT + 1):
        desk.sink.post(of_pod(n))
    for word in ("NodeLockStuck", "DevicesExpired"):
        desk.sink.post(
            effects.PostEvent(type=WARNING, reason=word, message="look here", node="node-a")
        )

    async with desk.sending():
        await desk.kube.until(lambda: len(desk.kube.sent("POST")) >= 5)

    assert [sent.body["reason"] for sent in desk.kube.sent("POST")[:5]] == [
        "FilteringFailed",
        "NodeLockStuck",
        "DevicesExpired",
        "FilteringFailed",
        "FilteringFailed",
    ]


async def test_a_dropped_event_is_not_taken_for_sent() -> None:
    desk = Desk()
    for n in range(events.QUEUE_LIMIT):
        desk.sink.post(of_pod(n))
    desk.sink.post(told("late"))

    desk.sink.post(told("late"))

    assert len(desk.dropped) == 2


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "REMEMBERED", 3)
    desk = Desk()
    for n in range(4):
        desk.sink.post(told(f"sentence {n}"))

    desk.sink.post(told("sentence 3"))
    desk.sink.post(told("sentence 0"))

    assert len(desk.sink) == 5, "the oldest was forgotten, the newest was not"


async def test_an_event_that_cannot_be_sent_is_told_and_the_next_goes_out(no_pauses: None) -> None:
    desk = Desk()
    desk.kube.fail_next("POST", "events", errors.Denied("403 forbidden", status=403))
    async with desk.sending():
        desk.sink.post(told("first"))
        desk.sink.post(told("second"))
        await desk.kube.until(
            lambda: any(key.startswith("/api/v1/namespaces") for key in desk.kube.objects)
        )

    assert desk.lost == ["403 forbidden"]
    assert [sent.body["message"] for sent in desk.kube.sent("POST")] == ["first", "second"]


async def test_what_is_queued_when_a_term_ends_is_never_sent(no_pauses: None) -> None:
    desk = Desk()
    for n in range(3):
        desk.sink.post(told(f"sentence {n}"))
    desk.leads = False

    async with desk.sending():
        await settled()

    assert desk.kube.requests == []
    assert len(desk.sink) == 0


async def test_who_does_not_lead_queues_nothing() -> None:
    desk = Desk()
    desk.leads = False

    desk.sink.post(told())

    assert len(desk.sink) == 0


async def test_what_is_queued_while_a_lease_lapses_within_a_term_is_sent_afterwards(
    no_pauses: None,
) -> None:
    """Whoever was refused counts as told: nobody would say it again."""
    desk = Desk()
    desk.sink.post(told("first"))
    desk.may_write = False
    async with desk.sending():
        desk.sink.post(told("second"))
        await settled()
        assert desk.kube.requests == []

        desk.may_write = True
        await desk.kube.until(lambda: len(desk.kube.sent("POST")) == 2)

    assert [sent.body["message"] for sent in desk.kube.sent("POST")] == ["first", "second"]


async def test_what_a_term_could_not_say_any_more_is_said_by_the_next(no_pauses: None) -> None:
    desk = Desk()
    desk.sink.post(told())
    desk.leads = False
    async with desk.sending():
        await settled()
        assert len(desk.sink) == 0

        desk.leads = True
        desk.sink.post(told())
        await desk.kube.until(lambda: desk.kube.sent("POST"))

    assert len(desk.kube.sent("POST")) == 1


async def test_an_event_that_could_not_be_sent_is_no_repetition_the_next_time(
    no_pauses: None,
) -> None:
    desk = Desk()
    desk.kube.fail_next("POST", "events", errors.Unreachable("no answer"))
    async with desk.sending():
        desk.sink.post(told())
        await settled()
        assert desk.lost == ["no answer"]

        desk.sink.post(told())
        await desk.kube.until(lambda: len(desk.kube.objects) == 1)

    assert len(desk.kube.sent("POST")) == 2


async def test_an_event_that_is_refused_is_not_sent_again_at_once(no_pauses: None) -> None:
    desk = Desk()
    desk.kube.fail_next("POST", "events", errors.Denied("403 forbidden", status=403))
    async with desk.sending():
        desk.sink.post(told())
        await settled()
        assert desk.lost == ["403 forbidden"]
        for _ in range(10):
            desk.sink.post(told())
        assert len(desk.sink) == 0

        desk.clock.turn(300)
        desk.sink.post(told())
        await desk.kube.until(lambda: len(desk.kube.objects) == 1)

    assert len(desk.kube.sent("POST")) == 2
