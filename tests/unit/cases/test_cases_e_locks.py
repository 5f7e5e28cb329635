"""Cases from real use, area E: whose the node's lock is, and when it ends.

On the operator's shell with a fake API server; the flows' own answers to the
same cases are in ``tests/unit/flows`` (``test_bind_*``, ``test_reconcile_locks``).
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from support import played_node
from support.desk import NODE_PATH, Shell
from support.extender_calls import until
from support.operator_books import LOCK, lock_of, used_mib
from support.played_node import PHASE, THREE_LOCKS, TO_ALLOCATE, bind_args, pod_path
from support.waiting import settled
from vgpu_operator.flows import effects
from vgpu_operator.kube import errors

TEN_SECONDS_OLD = "2026-01-15T09:59:50Z"
BOUND = effects.BindResult()


def lock(shell: Shell) -> str | None:
    """Return the node's lock as the API server has it."""
    return shell.notes(NODE_PATH).get(LOCK)


def show_locked_by(shell: Shell, text: str) -> None:
    """Have somebody write the lock, and show it."""
    played_node.annotate(shell, NODE_PATH, {LOCK: text})


async def ended(call: Awaitable[effects.BindResult]) -> effects.BindResult:
    """Return what came of a bind, which has to end by itself."""
    return await asyncio.wait_for(call, timeout=5)


async def seconds_pass(shell: Shell, seconds: int) -> None:
    """Let the operator's quick timer ring every second, and the watch show what it did."""
    for _ in range(seconds):
        shell.clock.turn(1)
        shell.intake.quick_tick()
        await settled()
        shell.show(NODE_PATH)


# --- 79: only the owner's lock is released ---------------------------------------------


async def test_case_79_a_bind_that_fails_leaves_the_lock_that_names_another_pod() -> None:
    shell = Shell()
    shell.put_node()
    shell.put_pod("p2")
    shell.kube.fail_next("POST", "p2/binding", errors.Denied("403", status=403))
    of_p1 = lock_of("p1", at="2026-01-15T10:00:00Z")
    call = asyncio.create_task(shell.binder.bind(bind_args("p2")))
    await until(lambda: bool(shell.kube.sent("PATCH", NODE_PATH)))

    show_locked_by(shell, of_p1)
    error = (await ended(call)).error

    assert "403" in error
    assert lock(shell) == of_p1


async def test_case_79_a_waiter_that_leaves_and_the_clean_up_leave_it_too() -> None:
    shell = Shell()
    shell.put_node()
    for name in ("p1", "p2"):
        shell.put_pod(name)
    await ended(shell.binder.bind(bind_args("p1")))
    shell.show(NODE_PATH)
    shell.show(pod_path("p1"))
    of_p1 = lock(shell)
    call = asyncio.create_task(shell.binder.bind(bind_args("p2")))
    await settled()

    raw = shell.kube.objects[pod_path("p2")]
    shell.kube.remove(pod_path("p2"))
    shell.intake.pod_event("DELETED", raw)
    assert (await ended(call)).error == "pod team-a/p2 is gone"
    await seconds_pass(shell, 20)

    assert lock(shell) == of_p1 == "2026-01-15T10:00:00Z,team-a,p1"


# --- 81: an owner that does not exist --------------------------------------------------


async def test_case_81_the_lock_of_a_pod_that_does_not_exist_is_taken_over_by_the_next_bind() -> (
    None
):
    shell = Shell()
    shell.put_node(lock=lock_of("p1", at=TEN_SECONDS_OLD))
    shell.put_pod("p2")

    assert await ended(shell.binder.bind(bind_args("p2"))) == BOUND

    assert lock(shell) == "2026-01-15T10:00:00Z,team-a,p2"


async def test_case_81_a_lock_whose_owner_cannot_be_read_is_kept_and_the_bind_fails() -> None:
    of_p1 = lock_of("p1", at=TEN_SECONDS_OLD)
    shell = Shell(bind={"timeLimitS": 2.05})
    shell.put_node(lock=of_p1)
    shell.put_pod("p2")
    shell.kube.fail_next("GET", "pods/p1", errors.ServerFault("503", status=503))

    error = (await ended(shell.binder.bind(bind_args("p2")))).error

    assert "did not become free in time" in error
    assert lock(shell) == of_p1
    assert shell.kube.sent("POST") == []
    assert used_mib(shell.books) == {"GPU-a0": 0}


# --- 82: an owner that is done ---------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("success", {"phase": "Running"}),
        ("failed", {"phase": "Pending"}),
        ("allocating", {"phase": "Failed"}),
        ("allocating", {"phase": "Succeeded"}),
    ],
    ids=["served", "failed", "pod failed", "pod succeeded"],
)
async def test_case_82_the_lock_of_an_owner_that_is_done_is_removed_within_seconds(
    outcome: str, status: dict[str, str]
) -> None:
    shell = Shell()
    shell.put_node()
    shell.put_pod("p1")
    assert await ended(shell.binder.bind(bind_args("p1"))) == BOUND
    shell.show(NODE_PATH)
    shell.show(pod_path("p1"))
    await seconds_pass(shell, 10)
    assert lock(shell) is not None, "nobody is done"

    played_node.serve(shell, "p1", outcome=outcome, **status)
    await seconds_pass(shell, 5)

    assert lock(shell) is None


# --- 85: all locks or none -------------------------------------------------------------


def three_locks(shell: Shell) -> dict[str, str]:
    """Return which of the three locks stand."""
    notes = shell.notes(NODE_PATH)
    return {key: notes[key] for key in THREE_LOCKS if key in notes}


def node_writes(shell: Shell) -> list[dict[str, str | None]]:
    """Return the annotations of every write of the node, in order."""
    return [
        dict(request.body["metadata"]["annotations"])
        for request in shell.kube.sent("PATCH", NODE_PATH)
    ]


def with_three_vendors(**locks: str) -> Shell:
    """Return a shell with a node of three locks and pod p1, which needs them all."""
    shell = Shell()
    played_node.put_node_with_three_locks(shell, **locks)
    played_node.put_pod(shell, "p1", played_node.THREE_VENDORS)
    return shell


async def test_case_85_the_locks_of_three_vendors_are_taken_by_one_write() -> None:
    shell = with_three_vendors()

    assert await ended(shell.binder.bind(bind_args("p1"))) == BOUND

    assert [sorted(texts) for texts in node_writes(shell)] == [list(THREE_LOCKS)]
    assert sorted(three_locks(shell)) == list(THREE_LOCKS)


async def test_case_85_when_the_locks_cannot_be_taken_none_stays_and_the_error_is_told() -> None:
    shell = with_three_vendors()
    shell.kube.fail_next("PATCH", NODE_PATH, errors.Denied("403 nodes is forbidden", status=403))

    error = (await ended(shell.binder.bind(bind_args("p1")))).error

    assert error == "the lock of node-a cannot be taken: 403 nodes is forbidden"
    assert three_locks(shell) == {}
    assert used_mib(shell.books) == {"GPU-a0": 0}


async def test_case_85_a_release_that_fails_keeps_the_first_error_and_is_made_up_for() -> None:
    shell = with_three_vendors()
    shell.kube.fail_next("POST", "p1/binding", errors.Denied("403 the Binding", status=403))
    call = asyncio.create_task(shell.binder.bind(bind_args("p1")))
    await until(lambda: bool(three_locks(shell)))
    shell.kube.fail_next("PATCH", NODE_PATH, errors.Denied("403 the release", status=403))

    error = (await ended(call)).error

    assert "403 the Binding" in error
    assert sorted(three_locks(shell)) == list(THREE_LOCKS)
    shell.show(NODE_PATH)
    before = len(node_writes(shell))
    await seconds_pass(shell, 1)
    assert three_locks(shell) == {}
    assert len(node_writes(shell)) == before + 1, "by one write"


@pytest.mark.parametrize("held", THREE_LOCKS)
async def test_case_85_while_another_pod_holds_one_of_the_locks_none_is_taken(held: str) -> None:
    text = "2026-01-15T09:59:50Z"
    shell = with_three_vendors(**{held: f"{text},team-a,p9" if "hami" in held else text})
    limits = {"nvidia.com/gpu": "1"}
    played_node.put_pod(shell, "p9", limits)
    before = three_locks(shell)

    call = asyncio.create_task(shell.binder.bind(bind_args("p1")))
    await settled()

    assert not call.done()
    assert three_locks(shell) == before
    await shell.binder.close()
    assert (await ended(call)).error
    assert three_locks(shell) == before


# --- 86: a release for nobody ----------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", ",", ",,", "2026-01-15T10:00:00Z,,", "2026-01-15T10:00:00Z,team-a,", ",team-a,p1", "\n"],
    ids=repr,
)
async def test_case_86_a_lock_of_nobody_ends_after_one_period_and_crashes_nothing(
    text: str,
) -> None:
    shell = Shell()
    shell.put_node()
    shell.put_pod("p2")
    show_locked_by(shell, text)
    call = asyncio.create_task(shell.binder.bind(bind_args("p2")))
    await settled()

    await seconds_pass(shell, 302)

    assert await ended(call) == BOUND
    assert str(lock(shell)).endswith(",team-a,p2")


async def test_case_86_a_bind_whose_node_goes_before_its_lock_is_given_back_is_an_error() -> None:
    shell = Shell()
    shell.put_node()
    shell.put_pod("p1")
    shell.kube.fail_next("POST", "p1/binding", errors.Denied("403", status=403))
    call = asyncio.create_task(shell.binder.bind(bind_args("p1")))
    await until(lambda: lock(shell) is not None)

    raw = shell.kube.objects[NODE_PATH]
    shell.kube.remove(NODE_PATH)
    shell.intake.node_event("DELETED", raw)

    assert (await ended(call)).error
    assert not [r for r in shell.kube.requests if r.verb == "PATCH" and None in _texts(r.body)]


def _texts(body: dict[str, dict[str, dict[str, str | None]]]) -> list[str | None]:
    return list(body["metadata"]["annotations"].values())


# --- 95 to 97: one pod at a time -------------------------------------------------------


async def test_case_95_after_a_good_bind_the_lock_stays_until_the_plugin_is_done() -> None:
    shell = Shell()
    shell.put_node()
    path = shell.put_pod("p1")

    assert await ended(shell.binder.bind(bind_args("p1"))) == BOUND
    shell.show(NODE_PATH)
    shell.show(path)
    await seconds_pass(shell, 240)

    notes = shell.notes(path)
    assert lock(shell) == "2026-01-15T10:00:00Z,team-a,p1"
    assert notes[PHASE] == "allocating"
    assert notes["hami.io/bind-time"] == "1768471200"  # 2026-01-15T10:00:00Z
    assert notes[TO_ALLOCATE] == "GPU-a0,NVIDIA,1000,0:;"


async def test_case_96_of_two_pods_of_a_node_never_both_are_allocating() -> None:
    shell = Shell()
    shell.put_node()
    names = ("p1", "p2")
    for name in names:
        shell.put_pod(name)
    calls = [asyncio.create_task(shell.binder.bind(bind_args(name))) for name in names]
    await settled()
    assert list(played_node.allocating(shell)) == ["p1"]
    assert (calls[0].done(), calls[1].done()) == (True, False)

    shell.show(pod_path("p1"))
    await seconds_pass(shell, 30)
    assert list(played_node.allocating(shell)) == ["p1"]
    played_node.serve(shell, "p1")

    assert [await ended(call) for call in calls] == [BOUND, BOUND]
    assert list(played_node.allocating(shell)) == ["p2"]
    assert lock(shell) == "2026-01-15T10:00:30Z,team-a,p2"


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ({"scheduling.x-k8s.io/pod-group": "gang"}, {}),
        ({}, {"schedulingGroup": {"podGroupName": "gang"}}),
    ],
    ids=["label", "spec.schedulingGroup"],
)
async def test_case_97_members_of_a_group_are_bound_in_one_call_each_and_side_by_side(
    labels: dict[str, str], spec: dict[str, Any]
) -> None:
    shell = Shell()
    shell.put_node(lock=lock_of("p0"))
    for name in ("p0", "m1", "p2", "m3"):
        path = shell.put_pod(name, **(spec if name[0] == "m" else {}))
        if name[0] == "m":
            whole = shell.kube.objects[path]
            shell.kube.put(path, {**whole, "metadata": {**whole["metadata"], "labels": labels}})
            shell.show(path)
    played_node.annotate(shell, pod_path("p0"), {PHASE: "allocating"})
    order: list[str] = []

    async def bind(name: str) -> effects.BindResult:
        result = await shell.binder.bind(bind_args(name))
        order.append(name)
        return result

    calls = []
    for name in ("m1", "p2", "m3"):
        calls.append(asyncio.create_task(bind(name)))
        await settled()
    assert order == []

    played_node.annotate(shell, NODE_PATH, {LOCK: None})
    for number in range(3):
        await settled(200)
        shell.show(NODE_PATH)
        assert len(order) == number + 1
        shell.show(pod_path(order[-1]))
        played_node.serve(shell, order[-1])
        played_node.annotate(shell, NODE_PATH, {LOCK: None})

    assert order == ["m1", "m3", "p2"]
    assert [call.result() for call in calls] == [BOUND] * 3
    assert len(shell.kube.sent("POST", "/binding")) == 3
