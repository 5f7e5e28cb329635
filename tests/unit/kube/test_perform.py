"""Effects become requests, answers become outcomes that flows know."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from support.fake_kube import FakeKube
from support.operator_books import LOCK, open_books
from support.turned_clock import TurnedClock
from vgpu_operator.flows import effects, reading
from vgpu_operator.kube import errors, events, perform
from vgpu_operator.model import request

POD = request.PodKey(namespace="team-a", name="p1", uid="u1")
POD_PATH = "/api/v1/namespaces/team-a/pods/p1"
NODE_PATH = "/api/v1/nodes/node-a"
EVENT = effects.PostEvent(
    type=effects.EventType.WARNING, reason="FilteringFailed", message="no", pod=POD
)
WRITES = [
    effects.PatchNode(node="node-a", annotations={"a": "1"}),
    effects.PatchPod(pod=POD, annotations={"a": "1"}),
    effects.BindPod(pod=POD, node="node-a", resource_version="2", annotations={}, labels={}),
    effects.DeletePod(pod=POD),
    effects.EvictPod(pod=POD),
    effects.NominateNode(pod=POD, node="node-a", mark="m"),
]


class Shell:
    """A performer on a fake API server with node-a and pod p1."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.kube.put(NODE_PATH, {"metadata": {"annotations": {LOCK: "old"}}})
        self.kube.put(POD_PATH, {"metadata": {"uid": "u1"}, "spec": {"containers": []}})
        self.books = open_books()
        self.failed: list[tuple[effects.Effect, effects.EffectFailed]] = []
        self.lost: list[effects.PostEvent] = []
        self.told: list[effects.Reaction] = []
        self.sink = events.EventSink(
            self.kube,
            TurnedClock(),
            leads=lambda: self.books.leader,
            may_write=lambda: True,
            on_failure=lambda event, _: self.lost.append(event),
            on_drop=self.lost.append,
            message=lambda event, now: event.message,
        )
        self.performer = perform.Performer(
            self.kube,
            self.sink,
            decode_pod=lambda raw: reading.decode_pod(self.books, raw),
            may_write=lambda: self.books.leader,
            wait=self._wait,
            tell=self.told.append,
            on_failure=lambda effect, fault: self.failed.append((effect, fault)),
        )

    async def _wait(self, effect: effects.AwaitChange) -> str:
        return f"waited at {effect.node}"

    def version(self, path: str) -> str:
        return str(self.kube.objects[path]["metadata"]["resourceVersion"])


async def test_a_node_patch_is_conditioned_and_answers_the_new_version() -> None:
    shell = Shell()
    effect = effects.PatchNode(
        node="node-a",
        annotations={LOCK: None, "b": "2"},
        resource_version=shell.version(NODE_PATH),
    )

    answer = await shell.performer.perform(effect)

    assert answer == shell.version(NODE_PATH)
    assert shell.kube.objects[NODE_PATH]["metadata"]["annotations"] == {"b": "2"}
    with pytest.raises(effects.Conflict, match="409"):
        await shell.performer.perform(effect)


async def test_a_pod_patch_is_conditioned_on_the_uid() -> None:
    shell = Shell()
    await shell.performer.perform(effects.PatchPod(pod=POD, labels={"a": "1"}))
    other = request.PodKey(namespace="team-a", name="p1", uid="u2")

    with pytest.raises(effects.Conflict):
        await shell.performer.perform(effects.PatchPod(pod=other, annotations={"a": "1"}))

    assert shell.kube.objects[POD_PATH]["metadata"]["labels"] == {"a": "1"}
    assert "annotations" not in shell.kube.objects[POD_PATH]["metadata"]


async def test_a_binding_carries_uid_version_annotations_and_labels_in_one_request() -> None:
    shell = Shell()
    version = shell.version(POD_PATH)

    await shell.performer.perform(
        effects.BindPod(
            pod=POD,
            node="node-a",
            resource_version=version,
            annotations={"hami.io/vgpu-node": "node-a"},
            labels={"hami.io/vgpu-node": "node-a"},
        )
    )

    (sent,) = shell.kube.sent("POST")
    assert sent.path == f"{POD_PATH}/binding"
    assert sent.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p1",
            "namespace": "team-a",
            "uid": "u1",
            "resourceVersion": version,
            "annotations": {"hami.io/vgpu-node": "node-a"},
            "labels": {"hami.io/vgpu-node": "node-a"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-a"},
    }
    assert shell.kube.objects[POD_PATH]["spec"]["nodeName"] == "node-a"


async def test_a_read_of_a_pod_that_is_not_there_is_an_answer_and_no_failure() -> None:
    shell = Shell()

    found = await shell.performer.perform(effects.ReadPod(namespace="team-a", name="p1"))
    missing = await shell.performer.perform(effects.ReadPod(namespace="team-a", name="p2"))

    assert found.key == POD
    assert missing is None


async def test_a_nodes_pods_are_listed_consistently_by_field() -> None:
    shell = Shell()
    shell.kube.put(
        "/api/v1/namespaces/team-a/pods/p2",
        {"metadata": {"uid": "u2"}, "spec": {"nodeName": "node-a", "containers": []}},
    )

    found = await shell.performer.perform(effects.ListNodePods(node="node-a"))

    assert [record.key.name for record in found] == ["p2"]


async def test_a_pod_is_deleted_only_while_it_has_that_uid() -> None:
    shell = Shell()
    other = request.PodKey(namespace="team-a", name="p1", uid="u2")

    with pytest.raises(effects.Conflict):
        await shell.performer.perform(effects.DeletePod(pod=other))
    await shell.performer.perform(effects.DeletePod(pod=POD))

    assert POD_PATH not in shell.kube.objects


async def test_a_pod_that_no_kubelet_has_seen_is_deleted_without_grace_in_that_version_only() -> (
    None
):
    shell = Shell()
    whole = shell.kube.objects[POD_PATH]
    shell.kube.put(POD_PATH, {**whole, "spec": {**whole["spec"], "nodeName": "node-a"}})
    seen = shell.version(POD_PATH)
    shell.kube.put(POD_PATH, {**shell.kube.objects[POD_PATH], "status": {"startTime": "now"}})

    with pytest.raises(effects.Conflict):
        await shell.performer.perform(effects.DeletePod(pod=POD, grace_s=0, resource_version=seen))
    await shell.performer.perform(
        effects.DeletePod(pod=POD, grace_s=0, resource_version=shell.version(POD_PATH))
    )

    assert POD_PATH not in shell.kube.objects


async def test_news_go_to_those_who_wait_for_them() -> None:
    shell = Shell()
    news = effects.Reaction(nodes=frozenset({"node-a"}))

    await shell.performer.perform(effects.Tell(news=news))

    assert shell.told == [news]
    assert shell.kube.requests == []


async def test_a_wait_is_handed_to_the_waiting_room() -> None:
    answer = await Shell().performer.perform(effects.AwaitChange(node="node-a", pod=POD))

    assert answer == "waited at node-a"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (errors.Conflict("409", status=409), effects.Conflict),
        (errors.NotFound("404", status=404), effects.Missing),
        (errors.Unreachable("reset"), effects.Doubtful),
        (errors.ServerFault("500", status=500), effects.Doubtful),
        (errors.Denied("403", status=403), effects.Denied),
        (errors.Invalid("422", status=422), effects.Denied),
        (errors.Expired("410", status=410), effects.Denied),
        (errors.ApiError("418", status=418), effects.Denied),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.parametrize("effect", WRITES, ids=lambda effect: type(effect).__name__)
async def test_every_failure_is_an_outcome_that_flows_know(
    effect: effects.Effect, fault: errors.ApiError, kind: type[effects.EffectFailed]
) -> None:
    shell = Shell()
    for verb in ("PATCH", "POST", "DELETE"):
        shell.kube.fail_next(verb, "/api/v1/", fault)

    with pytest.raises(effects.EffectFailed) as caught:
        await shell.performer.perform(effect)

    assert type(caught.value) is kind
    assert caught.value.__cause__ is fault


FOR_NOW = [
    errors.TooMany("429", status=429, retry_after_s=2.0),
    errors.Unauthorized("401", status=401),
    errors.NamespaceEnding("403", status=403),
]
"""Load passes, a token is read anew, and with a namespace its pods go."""


@pytest.mark.parametrize("fault", FOR_NOW, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize(
    "effect",
    [effect for effect in WRITES if isinstance(effect, effects.EvictPod | effects.NominateNode)],
    ids=lambda effect: type(effect).__name__,
)
async def test_what_preemption_is_refused_for_now_is_left_to_it_to_try_again(
    effect: effects.Effect, fault: errors.ApiError
) -> None:
    shell = Shell()
    for verb in ("PATCH", "POST"):
        shell.kube.fail_next(verb, "/api/v1/", fault)

    with pytest.raises(effects.NotYet) as caught:
        await shell.performer.perform(effect)

    assert caught.value.retry_after_s == fault.retry_after_s


async def test_a_bind_that_is_not_authorized_is_refused_for_good() -> None:
    shell = Shell()
    shell.kube.fail_next("POST", "/api/v1/", errors.Unauthorized("401", status=401))
    (bind,) = (effect for effect in WRITES if isinstance(effect, effects.BindPod))

    with pytest.raises(effects.Denied):
        await shell.performer.perform(bind)


@pytest.mark.parametrize("effect", [*WRITES, EVENT], ids=lambda effect: type(effect).__name__)
async def test_case_165_a_process_that_does_not_lead_sends_nothing(effect: effects.Write) -> None:
    shell = Shell()
    shell.books.leader = False

    await shell.performer.run_all([effect])

    assert shell.kube.requests == []
    assert all(isinstance(fault, effects.NotLeading) for _, fault in shell.failed)


async def test_a_follower_may_read() -> None:
    shell = Shell()
    shell.books.leader = False

    assert await shell.performer.perform(effects.ReadPod(namespace="team-a", name="p1"))


async def test_an_eviction_names_the_uid_and_leaves_grace_to_the_pod() -> None:
    shell = Shell()
    other = request.PodKey(namespace="team-a", name="p1", uid="u2")

    with pytest.raises(effects.Conflict):
        await shell.performer.perform(effects.EvictPod(pod=other))
    assert POD_PATH in shell.kube.objects
    await shell.performer.perform(effects.EvictPod(pod=POD))

    sent = shell.kube.sent("POST")[-1]
    assert sent.path == f"{POD_PATH}/eviction"
    assert sent.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p1", "namespace": "team-a"},
        "deleteOptions": {"preconditions": {"uid": "u1"}},
    }
    assert POD_PATH not in shell.kube.objects


async def test_an_eviction_that_a_budget_forbids_is_told_at_once_with_the_servers_time() -> None:
    shell = Shell()
    shell.kube.fail_next("POST", "/eviction", too_many(7.0))

    with pytest.raises(effects.NotYet) as caught:
        await shell.performer.perform(effects.EvictPod(pod=POD))

    assert caught.value.retry_after_s == 7.0
    assert len(shell.kube.sent("POST", "/eviction")) == 1


async def test_node_and_mark_of_a_nomination_come_and_go_in_one_request_each() -> None:
    shell = Shell()

    await shell.performer.perform(effects.NominateNode(pod=POD, node="node-a", mark="m"))
    stands = shell.kube.objects[POD_PATH]
    assert stands["status"]["nominatedNodeName"] == "node-a"
    assert stands["metadata"]["annotations"] == {"vgpu-operator.io/nomination": "m"}
    await shell.performer.perform(effects.NominateNode(pod=POD, node=None))

    stands = shell.kube.objects[POD_PATH]
    assert "nominatedNodeName" not in stands["status"]
    assert stands["metadata"]["annotations"] == {}
    assert {sent.path for sent in shell.kube.sent("PATCH")} == {f"{POD_PATH}/status"}
    assert len(shell.kube.sent("PATCH")) == 2


class Pauses:
    """Stands in for ``asyncio.sleep``: no time passes, what was asked is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[float] = []
        self.meanwhile = lambda: None
        self._sleep = asyncio.sleep
        monkeypatch.setattr(asyncio, "sleep", self._pause)

    async def _pause(self, seconds: float) -> None:
        if seconds:
            self.asked.append(seconds)
            self.meanwhile()
        await self._sleep(0)


def too_many(seconds: float | None) -> errors.TooMany:
    return errors.TooMany("429 slow down", status=429, retry_after_s=seconds)


async def test_a_server_that_asks_to_slow_down_is_asked_again_when_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell, pauses = Shell(), Pauses(monkeypatch)
    shell.kube.fail_next("PATCH", "nodes", too_many(2))
    shell.kube.fail_next("PATCH", "nodes", too_many(600))

    await shell.performer.perform(WRITES[0])

    assert pauses.asked == [2, 5.0]
    assert len(shell.kube.sent("PATCH")) == 3


async def test_a_server_that_never_stops_asking_to_slow_down_ends_in_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell, pauses = Shell(), Pauses(monkeypatch)
    for _ in range(3):
        shell.kube.fail_next("PATCH", "nodes", too_many(None))

    with pytest.raises(effects.Denied, match="429 slow down"):
        await shell.performer.perform(WRITES[0])

    assert pauses.asked == [1.0, 1.0]


async def test_a_term_that_ends_while_the_server_makes_us_wait_ends_the_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell, pauses = Shell(), Pauses(monkeypatch)
    pauses.meanwhile = lambda: setattr(shell.books, "leader", False)  # type: ignore[assignment]
    shell.kube.fail_next("PATCH", "nodes", too_many(2))

    with pytest.raises(effects.NotLeading):
        await shell.performer.perform(WRITES[0])

    assert len(shell.kube.sent("PATCH")) == 1


async def test_a_flow_is_sent_answers_and_thrown_failures_until_it_returns() -> None:
    shell = Shell()
    heard: list[Any] = []

    def flow() -> Generator[effects.Effect, Any, str]:
        heard.append((yield effects.ReadPod(namespace="team-a", name="p2")))
        try:
            yield effects.DeletePod(pod=request.PodKey(namespace="a", name="b", uid="c"))
        except effects.Missing as fault:
            heard.append(type(fault))
        return "done"

    assert await shell.performer.run(flow()) == "done"
    assert heard == [None, effects.Missing]


async def test_a_failure_that_the_flow_does_not_catch_comes_out() -> None:
    def flow() -> Generator[effects.Effect, Any, None]:
        yield effects.DeletePod(pod=request.PodKey(namespace="a", name="b", uid="c"))

    with pytest.raises(effects.Missing):
        await Shell().performer.run(flow())


async def test_of_effects_that_nobody_waits_for_one_failure_stops_none() -> None:
    shell = Shell()
    missing = effects.PatchNode(node="gone", annotations={"a": "1"})

    await shell.performer.run_all([missing, WRITES[0], EVENT])

    assert [(effect, type(fault)) for effect, fault in shell.failed] == [(missing, effects.Missing)]
    assert shell.kube.objects[NODE_PATH]["metadata"]["annotations"]["a"] == "1"
