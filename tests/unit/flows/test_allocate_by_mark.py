"""Conversations of the plugins that mark a pod, effect by effect."""

import json
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from support.conversation import converse
from vgpu_operator.flows import allocate_by_mark, effects, effects_agent

MARK = "CAMBRICON_DSMLU_ASSIGNED"
LOCK = "cambricon.com/dsmlu.lock"
ENTRIES = "assigned-containers"
LIST_PODS = effects_agent.ListNodePods(node="n1")
GET_NODE = effects_agent.GetNode(name="n1")
MARKED = effects_agent.PatchPod(namespace="default", name="p1", annotations={MARK: "true"})


def call(
    *, entries: str = "", lock: str = LOCK, container: str = "main", breakdown: str = ""
) -> Generator[Any, Any, Any]:
    return allocate_by_mark.allocate_by_mark(
        allocate_by_mark.MarkCall(
            node="n1",
            container=container,
            mark_key=MARK,
            entries_key=entries,
            lock_key=lock,
            breakdown=breakdown,
        )
    )


def pod(
    mark: str | None = "false",
    *,
    name: str = "p1",
    status: str = "Pending",
    node: str = "n1",
    notes: Mapping[str, str] | None = None,
) -> effects_agent.PodSeen:
    texts = {"hami.io/vgpu-node": node, **(notes or {})}
    if mark is not None:
        texts[MARK] = mark
    return effects_agent.PodSeen(namespace="default", name=name, phase=status, annotations=texts)


def node(lock: str | None, version: str = "7") -> effects_agent.NodeSeen:
    notes = {} if lock is None else {LOCK: lock}
    return effects_agent.NodeSeen(name="n1", resource_version=version, annotations=notes)


def unlock(version: str = "7") -> effects_agent.PatchNode:
    return effects_agent.PatchNode(name="n1", resource_version=version, annotations={LOCK: None})


@pytest.mark.parametrize(
    "text", ["2026-01-15T10:00:00Z", "2026-01-15T10:00:00Z,default,p9", "garbage"]
)
def test_a_pod_is_marked_and_the_lock_removed_whatever_it_says(text: str) -> None:
    result = converse(
        call(),
        [
            (LIST_PODS, (pod(),)),
            (MARKED, pod("true")),
            (GET_NODE, node(text)),
            (unlock(), node(None)),
        ],
    )

    assert (result.error, result.pod) == ("", pod("true"))


def test_a_lock_that_is_gone_already_is_left_at_that() -> None:
    assert (
        converse(
            call(), [(LIST_PODS, (pod(),)), (MARKED, pod("true")), (GET_NODE, node(None))]
        ).error
        == ""
    )


def test_a_conflict_over_the_lock_has_the_node_read_again() -> None:
    result = converse(
        call(),
        [
            (LIST_PODS, (pod(),)),
            (MARKED, pod("true")),
            (GET_NODE, node("x")),
            (unlock(), effects.Conflict("409")),
            (GET_NODE, node("x", "8")),
            (unlock("8"), node(None)),
        ],
    )

    assert result.error == ""


def test_a_plugin_without_lock_does_not_look_at_the_node() -> None:
    assert converse(call(lock=""), [(LIST_PODS, (pod(),)), (MARKED, pod("true"))]).error == ""


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("true", name="p0"), id="served already"),
        pytest.param(pod(None, name="p0"), id="of another vendor"),
        pytest.param(pod(name="p0", status="Running"), id="running"),
        pytest.param(pod(name="p0", node="n2"), id="promised elsewhere"),
    ],
)
def test_pods_that_do_not_wait_for_it_are_passed_over(other: effects_agent.PodSeen) -> None:
    result = converse(call(lock=""), [(LIST_PODS, (other, pod())), (MARKED, pod("true"))])

    assert result.pod == pod("true")
    assert converse(call(), [(LIST_PODS, (other,))]).error == f"no pod on node n1 has {MARK} false"


def test_a_breakdown_or_a_refusal_writes_nothing_and_keeps_the_lock() -> None:
    assert converse(call(breakdown="broken"), [(LIST_PODS, (pod(),))]).error == "broken"
    denied = converse(call(), [(LIST_PODS, (pod(),)), (MARKED, effects.Denied("403 no"))])
    assert denied.error == "403 no"


def entries(**allocated: bool) -> dict[str, str]:
    found = {
        name: {"allocated": done, "request": 3, "profileID": "1", "profileName": "3g.20gb"}
        for name, done in allocated.items()
    }
    return {ENTRIES: json.dumps(found)}


def written(steps: Generator[Any, Any, Any], seen: effects_agent.PodSeen) -> Mapping[str, str]:
    """Return what the call writes on the pod."""
    assert next(steps) == LIST_PODS
    effect = steps.send((seen,))
    assert isinstance(effect, effects_agent.PatchPod)
    return effect.annotations


def test_the_first_of_two_entries_is_filled_and_the_pod_not_yet_marked() -> None:
    waiting = pod(notes=entries(main=False, side=False))

    changes = written(call(entries=ENTRIES, lock=""), waiting)

    filled = json.loads(changes[ENTRIES])
    assert MARK not in changes
    assert filled["side"]["allocated"] is False
    assert filled["main"]["allocated"] is True
    assert (filled["main"]["request"], filled["main"]["profileName"]) == (3, "3g.20gb")
    assert filled["main"]["instanceID"] == "0"
    assert filled["main"]["instanceUUID"]


def test_the_last_entry_marks_the_pod() -> None:
    waiting = pod(notes=entries(main=True, side=False))

    changes = written(call(entries=ENTRIES, lock="", container="side"), waiting)

    assert changes[MARK] == "true"
    assert json.loads(changes[ENTRIES])["side"]["allocated"] is True


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        pytest.param({}, "assigned-containers cannot be read", id="absent"),
        pytest.param({ENTRIES: "[1]"}, "assigned-containers cannot be read", id="a list"),
        pytest.param(entries(side=False), "has no container main", id="another container"),
    ],
)
def test_entries_that_do_not_name_the_container_are_refused(
    notes: Mapping[str, str], words: str
) -> None:
    result = converse(call(entries=ENTRIES), [(LIST_PODS, (pod(notes=notes),))])

    assert words in result.error
