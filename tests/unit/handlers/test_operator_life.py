"""An operator that starts, stops, or follows again: what it tries, refuses, forgets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from support import clusters, turned_clock
from support.fake_kube import FakeKube
from support.operator_books import NOW, pending, put_node
from support.waiting import settled
from vgpu_operator import app
from vgpu_operator.flows import effects, reasons
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.kube import errors, events, listen, paths
from vgpu_operator.model import request, settings

LOCAL = listen.Address(host="127.0.0.1", port=0)


async def test_a_bind_that_comes_while_the_operator_stops_is_refused() -> None:
    """It would be cut off between the lock and the Binding."""
    options = app.Options(
        settings=settings.Settings(), extender_bind=LOCAL, metrics_bind=LOCAL, lease=None
    )
    operator = app.Operator(options, FakeKube())
    operator.books.leader = True
    operator._term_synced.set()
    assert await operator.may_serve() == ""

    operator.stop()

    assert "stops" in await operator.may_serve()


async def test_a_leader_that_follows_again_forgets_whom_it_refused() -> None:
    options = app.Options(
        settings=settings.Settings(), extender_bind=LOCAL, metrics_bind=LOCAL, lease=None
    )
    operator = app.Operator(options, FakeKube())
    operator.books.refused["uid"] = object()  # type: ignore[assignment]  # never looked at

    operator._leadership_changed(False)

    assert operator.books.refused == {}


async def test_an_api_server_that_is_away_at_the_start_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "RETRY_PAUSE_S", 0)
    options = app.Options(
        settings=settings.Settings(), extender_bind=LOCAL, metrics_bind=LOCAL, lease=None
    )
    kube = FakeKube()
    for _ in range(2):
        kube.fail_next("GET", "/version", errors.Unreachable("no answer"))

    await app.Operator(options, kube)._until_reachable()

    assert len(kube.sent("GET", "/version")) == 3


async def test_a_term_that_begins_during_the_first_list_needs_a_second_one() -> None:
    """The leader before us may have bound between our list and the end of his term."""
    options = app.Options(
        settings=settings.Settings(), extender_bind=LOCAL, metrics_bind=LOCAL, lease=("a", "b")
    )
    kube = FakeKube()
    operator = app.Operator(options, kube)
    operator._leadership_changed(False)
    syncing = asyncio.create_task(operator._sync())
    for _ in range(2):
        await asyncio.sleep(0)
    assert kube.sent("GET", "/api/v1/nodes")

    operator._leadership_changed(True)
    while len(kube.sent("GET", "/api/v1/pods")) < 2:
        assert not operator._term_synced.is_set()
        await asyncio.sleep(0)
    await syncing

    assert operator._term_synced.is_set()
    assert len(kube.sent("GET", "/api/v1/pods")) == 2


async def test_a_new_leader_tells_what_he_saw_while_he_followed() -> None:
    options = app.Options(
        settings=settings.Settings(), extender_bind=LOCAL, metrics_bind=LOCAL, lease=None
    )
    kube = FakeKube()
    notes = {"hami.io/node-nvidia-register": "{{"}
    kube.put("/api/v1/nodes/node-a", {"metadata": {"annotations": notes}})
    operator = app.Operator(options, kube)
    operator._leadership_changed(False)
    await operator._begin_term()
    assert len(operator.sink) == 0

    operator._leadership_changed(True)
    await settled()

    assert len(operator.sink) == 1
    assert (await operator.sink._next()).reason == "RegisterUnreadable"


async def test_a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_goes_on() -> None:
    """SIGSTOP and SIGCONT: what a flow had in mind is not sent, nothing is read before."""
    options = app.Options(
        settings=settings.Settings(),
        extender_bind=LOCAL,
        metrics_bind=LOCAL,
        lease=("kube-system", "hami"),
        hostname="x-1",
    )
    kube, clock = FakeKube(), turned_clock.TurnedClock()
    spec = {"holderIdentity": "x-1_ab", "renewTime": "1", "leaseDurationSeconds": 15}
    kube.put(paths.lease("kube-system", "hami"), {"spec": spec})
    kube.put("/api/v1/nodes/n", {"metadata": {"name": "n"}})
    operator = app.Operator(options, kube, clock)
    await operator.leader.refresh()
    patch = effects.PatchNode(node="n", annotations={"a": "b"}, resource_version="")
    await operator.performer.perform(patch)
    assert len(kube.sent("PATCH", "/api/v1/nodes/n")) == 1

    clock.turn(15)

    with pytest.raises(effects.NotLeading):
        await operator.performer.perform(patch)
    assert len(kube.sent("PATCH", "/api/v1/nodes/n")) == 1
    operator.stop()


async def test_a_leader_that_cannot_see_its_lease_renewed_says_so_and_keeps_no_certificate() -> (
    None
):
    options = app.Options(
        settings=settings.Settings(),
        extender_bind=LOCAL,
        metrics_bind=LOCAL,
        webhook_bind=LOCAL,
        webhook_secret=("ns", "tls"),
        webhook_configuration="hook",
        lease=("kube-system", "hami"),
        hostname="x-1",
    )
    kube, clock = FakeKube(), turned_clock.TurnedClock()
    spec = {"holderIdentity": "x-1_ab", "renewTime": "1", "leaseDurationSeconds": 15}
    kube.put(paths.lease("kube-system", "hami"), {"spec": spec})
    operator = app.Operator(options, kube, clock)
    await operator.leader.refresh()
    assert operator.keeper is not None
    assert operator.keeper._leads()

    clock.turn(16)
    assert not operator.keeper._leads()
    why = await operator.may_serve()

    assert "our Lease has not been seen renewed for 16 s; the API server is slow" in why
    operator.stop()


def a_follower() -> app.Operator:
    """Return an operator that has begun and does not lead."""
    options = app.Options(
        settings=settings.Settings(), extender_bind=LOCAL, metrics_bind=LOCAL, lease=("a", "b")
    )
    operator = app.Operator(options, FakeKube())
    operator._leadership_changed(False)
    return operator


def exported(operator: app.Operator, name: str) -> float | None:
    return operator.instruments.registry.get_sample_value(name)


async def test_to_begin_as_a_follower_is_no_change_of_leadership() -> None:
    operator = a_follower()
    assert exported(operator, "vgpu_leadership_changes_total") == 0

    operator._leadership_changed(True)
    operator._leadership_changed(False)

    assert exported(operator, "vgpu_leadership_changes_total") == 2


async def test_who_leads_no_longer_exports_nothing_that_only_a_leader_looks_after() -> None:
    operator = a_follower()
    operator._leadership_changed(True)
    pod = request.PodKey(namespace="team-a", name="p1", uid="u1")
    operator.books.stuck_locks["node-a", "hami.io/mutex.lock"] = pod
    operator.books.stuck["u1"] = "slow"
    operator.books.allocating["u1"] = None
    texts = operator._card_texts
    names = ("vgpu_node_locks_stuck", "vgpu_allocations_stuck")
    assert [exported(operator, name) for name in names] == [1, 1]

    operator._leadership_changed(False)

    assert [exported(operator, name) for name in names] == [0, 0]
    assert operator._card_texts is not texts, "tens of MB that only a leader needs"


async def test_a_refusal_of_which_an_event_is_dropped_is_told_again() -> None:
    operator = a_follower()
    operator._leadership_changed(True)
    books, sink = operator.books, operator.sink
    put_node(books)
    pod = pending("p1", clusters.asks(memory_mib=30_000))
    for number in range(events.MOST_ABOUT_ONE):
        sink.post(reasons.on_pod(pod.key, reasons.FILTERING_FAILED, f"{number} nodes"))

    (event,) = flow_filter.filter_nodes(books, pod, ["node-a"], NOW).events
    sink.post(event)

    assert exported(operator, "vgpu_events_dropped_total") is None
    dropped = operator.instruments.registry.get_sample_value(
        "vgpu_events_dropped_total", {"reason": "FilteringFailed"}
    )
    assert dropped == 1
    assert flow_filter.filter_nodes(books, pod, ["node-a"], NOW).events == (event,)


class Draining:
    """A webhook whose callers leave when they like."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def drain(self) -> None:
        self.done.append("drains")

    async def drained(self) -> None:
        await asyncio.sleep(0)
        self.done.append("drained")


async def test_the_webhooks_callers_leave_before_the_listeners_have_their_short_time_to_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator, done = a_follower(), list[str]()

    @contextlib.asynccontextmanager
    async def servers() -> AsyncIterator[None]:
        yield
        done.append("closed")

    monkeypatch.setattr(operator, "_servers", servers)
    monkeypatch.setattr(operator, "_webhook", Draining(done))
    operator.stop()

    await operator.run()

    assert done == ["drains", "drained", "closed"]
