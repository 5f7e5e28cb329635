"""Preemptions on a fake API server: what is sent, in which order, and what stops it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import structlog.testing

from support import waiting
from support.desk import Shell
from vgpu_operator.flows import effects
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.preemption import course
from vgpu_operator.flows.preemption import look as looks
from vgpu_operator.flows.preemption.attempts import Outcome
from vgpu_operator.kube import errors, preemptor
from vgpu_operator.model import records
from vgpu_operator.wire import keys

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
LOW = "/api/v1/namespaces/team-a/pods/low"
HIGH = "/api/v1/namespaces/team-a/pods/high"
MIB = 24000


class Desk(Shell):
    """One node whose card a low pod holds, and a high one that was refused."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(preemption=settings)
        self.leads = True
        self.preemptor = preemptor.Preemptor(
            self.books,
            self.kube,
            self.clock,
            performer=self.performer,
            react=self.intake.react,
            may_write=lambda: self.leads,
        )
        self.put_node()
        self.put_pod("low", mem=MIB, priority=100)
        self.run_pod(LOW)
        self.put_pod("high", mem=MIB, priority=1000)

    def run_pod(self, path: str) -> None:
        """Have a pod run with the whole card, and show it."""
        whole = self.kube.objects[path]
        notes = {
            "hami.io/vgpu-node": "node-a",
            "hami.io/bind-phase": "success",
            "hami.io/vgpu-devices-allocated": f"GPU-a0,NVIDIA,{MIB},0:;",
        }
        bound = {
            "metadata": {**whole["metadata"], "annotations": notes},
            "spec": {**whole["spec"], "nodeName": "node-a"},
            "status": {"phase": "Running", "startTime": "2026-01-15T09:00:00Z"},
        }
        self.kube.put(path, whole | bound)
        self.show(path)

    def record(self, name: str) -> records.PodRecord:
        found = self.books.ledger.record(f"uid-of-{name}")
        assert found is not None
        return found

    def ask(self, name: str = "high") -> bool:
        """Have kube-scheduler ask for a pod; return whether it is refused."""
        record = self.record(name)
        refused = flow_filter.filter_nodes(
            self.books, record, ("node-a",), self.clock.now()
        ).refused
        if refused:
            self.preemptor.refused(record)
        self.clock.turn(0.2)
        return refused

    def follow(self) -> None:
        """Let the watch show everything as it is now, what is gone too."""
        for path, name in ((LOW, "low"), (HIGH, "high")):
            record = self.books.ledger.record(f"uid-of-{name}")
            if path in self.kube.objects:
                self.show(path)
            elif record is not None:
                gone = {"metadata": {"uid": record.key.uid, "namespace": "team-a", "name": name}}
                gone["metadata"]["resourceVersion"] = "999999"
                self.intake.pod_event("DELETED", {**gone, "spec": {}})

    @property
    def sent(self) -> list[tuple[str, str]]:
        """What was asked of the API server about pods and budgets, in order."""
        parts = ("/status", "/eviction", BUDGETS)
        return [
            (r.verb, part.strip("/").rsplit("/", 1)[-1])
            for r in self.kube.requests
            for part in parts
            if r.path.endswith(part)
        ]


@contextlib.asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[Desk]:
    desk = Desk(**settings)
    task = asyncio.create_task(desk.preemptor.run())
    try:
        yield desk
    finally:
        task.cancel()
        await asyncio.wait((task,))
        await desk.preemptor.close()


async def until(holds: Callable[[], object]) -> None:
    """Return once it is so: what is waited for happens on the event loop."""

    async def condition() -> object:
        return holds()

    await waiting.until("it holds", condition, limit_s=10, every_s=0.005)


async def test_nothing_is_evicted_before_the_nomination_stands_on_the_pod() -> None:
    async with running() as desk:
        desk.ask()
        await until(lambda: ("POST", "eviction") in desk.sent)

        assert desk.sent == [
            ("GET", "poddisruptionbudgets"),
            ("PATCH", "status"),
            ("POST", "eviction"),
        ]
        assert desk.kube.objects[HIGH]["status"]["nominatedNodeName"] == "node-a"
        assert "deletionTimestamp" in desk.kube.objects[LOW]["metadata"]


async def test_once_the_pod_is_bound_the_marks_come_off_and_it_is_counted() -> None:
    async with running() as desk:
        desk.ask()
        await until(lambda: ("POST", "eviction") in desk.sent)
        desk.kube.remove(LOW)
        desk.follow()
        assert not desk.ask()
        desk.run_pod(HIGH)
        await until(lambda: desk.books.tallies.preemptions[Outcome.BOUND])

        await until(lambda: desk.sent.count(("PATCH", "status")) == 2)
        assert "nominatedNodeName" not in desk.kube.objects[HIGH]["status"]
        assert desk.sent.count(("POST", "eviction")) == 1
        assert desk.books.ledger.nominations() == ()


async def test_without_the_budgets_nobody_is_evicted() -> None:
    async with running() as desk:
        desk.kube.fail_next("GET", BUDGETS, errors.Denied("403 no right", status=403))
        desk.ask()
        await until(lambda: ("GET", "poddisruptionbudgets") in desk.sent)
        candidate = desk.books.preemption.candidates["uid-of-high"]
        await until(lambda: candidate.look_at is not None and candidate.look_at > desk.clock.now())

        assert desk.sent == [("GET", "poddisruptionbudgets")]
        assert desk.books.ledger.nominations() == ()


async def test_a_budget_that_allows_none_is_asked_for_as_the_api_server_has_it() -> None:
    async with running() as desk:
        desk.kube.put(
            "/apis/policy/v1/namespaces/team-a/poddisruptionbudgets/web",
            {"spec": {"selector": {}}, "status": {"disruptionsAllowed": 0}},
        )
        desk.ask()
        await until(lambda: desk.books.tallies.preemptions[Outcome.BLOCKED])

        assert desk.sent == [("GET", "poddisruptionbudgets")]


async def test_a_nomination_that_is_refused_for_good_evicts_nobody_and_says_so() -> None:
    async with running() as desk:
        desk.kube.fail_next("PATCH", "/status", errors.Denied("403 no right", status=403))
        desk.ask()
        await until(lambda: desk.books.tallies.preemptions[Outcome.FAILED])

        assert ("POST", "eviction") not in desk.sent
        assert desk.books.ledger.nominations() == ()
        await until(lambda: len(desk.sink))


async def test_nobody_leaves_for_a_pod_that_is_gone_when_its_nomination_is_written() -> None:
    async with running() as desk:
        desk.kube.remove(HIGH)  # the watch has not shown it yet
        desk.ask()
        await until(lambda: ("PATCH", "status") in desk.sent)
        await waiting.settled()
        assert ("POST", "eviction") not in desk.sent

        desk.follow()
        await until(lambda: desk.books.tallies.preemptions[Outcome.GONE])


async def test_an_eviction_that_is_refused_for_good_ends_the_attempt() -> None:
    async with running() as desk:
        desk.kube.fail_next("POST", "/eviction", errors.Denied("403 no right", status=403))
        desk.ask()
        await until(lambda: desk.books.tallies.preemptions[Outcome.FAILED])

        assert desk.books.preemption.attempts == {}
        await until(lambda: "nominatedNodeName" not in desk.kube.objects[HIGH]["status"])


async def test_a_process_whose_lease_has_lapsed_looks_at_nobody() -> None:
    async with running() as desk:
        desk.leads = False
        desk.ask()
        await waiting.settled()
        assert desk.sent == []

        desk.leads = True
        await until(lambda: ("POST", "eviction") in desk.sent)


async def test_one_pod_that_nobody_can_plan_for_costs_no_other_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain_look = looks.look

    def look(books: Any, candidate: Any, budgets: Any, now: Any) -> looks.Look:
        if candidate.record.key.name == "broken":
            raise ZeroDivisionError
        return plain_look(books, candidate, budgets, now)

    monkeypatch.setattr(looks, "look", look)
    with structlog.testing.capture_logs() as logs:
        async with running() as desk:
            desk.put_pod("broken", mem=MIB, priority=2000)
            desk.ask("broken")
            desk.ask()

            await until(lambda: ("POST", "eviction") in desk.sent)
    assert "preemption: look failed" in [line["event"] for line in logs]


async def test_a_new_leader_goes_on_with_what_stands_on_the_pods() -> None:
    async with running() as desk:
        desk.ask()
        await until(lambda: ("PATCH", "status") in desk.sent)
        desk.show(HIGH)
        desk.books.preemption.clear()
        desk.books.ledger.end_nomination("uid-of-high")
        desk.books.refused.clear()
        whole = desk.kube.objects[LOW]
        kept = {k: v for k, v in whole["metadata"].items() if k != "deletionTimestamp"}
        desk.kube.put(LOW, {**whole, "metadata": kept})  # killed before it has evicted
        desk.follow()
        before = desk.sent.count(("POST", "eviction"))

        desk.preemptor.begin_term()
        assert desk.books.ledger.nomination("uid-of-high") is not None
        assert desk.sent.count(("POST", "eviction")) == before
        desk.ask()

        await until(lambda: desk.sent.count(("POST", "eviction")) == before + 1)


TOO_MANY = errors.TooMany("429 slow down", status=429)
SERVER_FAULT = errors.ServerFault("500 trouble", status=500)


def marked(desk: Desk) -> bool:
    """Whether anything of a preemption stands on the pod that waits."""
    pod = desk.kube.objects[HIGH]
    has_mark = keys.NOMINATION in pod["metadata"].get("annotations", {})
    return has_mark or "nominatedNodeName" in pod.get("status", {})


async def test_a_lease_that_is_not_seen_renewed_for_a_moment_ends_no_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preemptor, "SETTLE_S", 0.01)
    async with running() as desk:
        leads, perform = True, desk.performer.perform

        async def perform_and_lapse(effect: effects.Effect) -> Any:
            nonlocal leads
            answer = await perform(effect)
            if isinstance(effect, effects.NominateNode):
                leads = False
            return answer

        monkeypatch.setattr(desk.performer, "perform", perform_and_lapse)
        monkeypatch.setattr(desk.performer, "_may_write", lambda: leads)
        desk.ask()
        await until(lambda: not leads)
        await waiting.settled()
        assert ("POST", "eviction") not in desk.sent

        leads = True
        await until(lambda: ("POST", "eviction") in desk.sent)
        assert desk.books.tallies.preemptions[Outcome.FAILED] == 0


async def test_a_server_that_asks_to_slow_down_ends_no_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(course, "HOLD_S", 0.01)
    async with running() as desk:
        for _ in range(4):
            desk.kube.fail_next("PATCH", "/status", TOO_MANY)
        desk.kube.fail_next("PATCH", "/status", errors.Unauthorized("401", status=401))
        desk.ask()
        await until(lambda: ("POST", "eviction") in desk.sent)

        assert desk.books.tallies.preemptions[Outcome.FAILED] == 0
        assert marked(desk)


async def test_a_mark_that_could_not_be_taken_off_at_once_is_taken_off_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(course, "HOLD_S", 0.01)
    async with running() as desk:
        desk.ask()
        await until(lambda: ("POST", "eviction") in desk.sent)
        for fault in (SERVER_FAULT, TOO_MANY, errors.Denied("403 no right", status=403)):
            desk.kube.fail_next("PATCH", "/status", fault)
        desk.clock.turn(301)

        await until(lambda: desk.books.tallies.preemptions[Outcome.TIMED_OUT])
        await until(lambda: not marked(desk))


async def test_a_mark_that_is_being_written_as_its_attempt_ends_comes_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as desk:
        perform, under_way, go_on = desk.performer.perform, asyncio.Event(), asyncio.Event()

        async def slow(effect: effects.Effect) -> Any:
            if isinstance(effect, effects.NominateNode) and effect.node:
                under_way.set()
                await go_on.wait()
            return await perform(effect)

        monkeypatch.setattr(desk.performer, "perform", slow)
        desk.ask()
        await under_way.wait()
        desk.clock.turn(301)
        await until(lambda: desk.books.tallies.preemptions[Outcome.TIMED_OUT])
        await waiting.settled()
        go_on.set()

        await until(lambda: desk.sent.count(("PATCH", "status")) == 2)
        assert not marked(desk)
        assert ("POST", "eviction") not in desk.sent


async def test_a_mark_that_nobody_knows_of_is_taken_off() -> None:
    async with running() as desk:
        whole = desk.kube.objects[HIGH]
        notes = {keys.NOMINATION: '{"node":"node-b","until":"2099-01-15T10:00:00Z"}'}
        desk.kube.put(HIGH, {**whole, "metadata": {**whole["metadata"], "annotations": notes}})
        desk.follow()
        flow_filter.filter_nodes(desk.books, desk.record("high"), ("node-a",), desk.clock.now())
        desk.clock.turn(11)

        await until(lambda: not marked(desk))


async def test_nobody_is_told_of_a_preemption_before_its_mark_stands() -> None:
    async with running() as desk:
        desk.kube.fail_next("PATCH", "/status", errors.Denied("403 no right", status=403))
        desk.ask()
        await until(lambda: desk.books.tallies.preemptions[Outcome.FAILED])
        await until(lambda: len(desk.sink))

        assert len(desk.sink) == 1  # that it has failed, and nothing before
        assert desk.sent.count(("PATCH", "status")) == 1  # nothing to take off


async def test_a_turn_that_fails_ends_nothing_but_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, failed = course.settle, []

    def settle(*args: Any) -> Any:
        if not failed:
            failed.append(True)
            raise ZeroDivisionError
        return plain(*args)

    monkeypatch.setattr(course, "settle", settle)
    monkeypatch.setattr(preemptor, "SETTLE_S", 0.01)
    with structlog.testing.capture_logs() as logs:
        async with running() as desk:
            desk.ask()
            await until(lambda: ("POST", "eviction") in desk.sent)
    assert "preemption: a turn failed" in [line["event"] for line in logs]


async def test_a_step_of_an_attempt_that_fails_ends_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def standing(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(course, "standing", standing)
    with structlog.testing.capture_logs() as logs:
        async with running() as desk:
            desk.ask()
            await until(lambda: desk.books.tallies.preemptions[Outcome.FAILED])
            await until(lambda: not marked(desk))
    assert "preemption: an attempt is given up" in [line["event"] for line in logs]


async def test_a_dry_run_sends_nothing_but_events() -> None:
    async with running(dryRun=True) as desk:
        desk.ask()
        await until(lambda: desk.books.tallies.preemptions[Outcome.PLANNED])

        assert desk.sent == [("GET", "poddisruptionbudgets")]
        await until(lambda: len(desk.sink))


async def test_after_its_close_nothing_more_is_looked_at_or_evicted() -> None:
    async with running() as desk:
        desk.ask()
        await desk.preemptor.close()
        await waiting.settled()
        desk.ask()
        await waiting.settled()

        assert desk.sent == []


async def test_pods_without_a_plan_cost_one_list_of_the_budgets() -> None:
    async with running() as desk:
        for number in range(3):  # no two ask alike
            path = f"/api/v1/namespaces/team-a/pods/large-{number}"
            desk.put_pod(f"large-{number}", mem=10**6 + number, priority=1000)
            desk.show(path)
            desk.ask(f"large-{number}")
        due = desk.books.preemption.candidates.values()
        await until(lambda: due and all(one.look_at is None for one in due))

        assert desk.sent == [("GET", "poddisruptionbudgets")]


async def test_the_budgets_are_listed_anew_after_an_eviction() -> None:
    async with running() as desk:
        desk.put_node("node-b")
        desk.put_pod("other", mem=MIB + 1, priority=1000)
        desk.show("/api/v1/namespaces/team-a/pods/other")
        desk.ask()
        await until(lambda: desk.books.tallies.preemption_victims == 1)
        desk.ask("other")
        await until(lambda: desk.sent.count(("GET", "poddisruptionbudgets")) == 2)
