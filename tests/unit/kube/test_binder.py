"""Binds end to end on a fake API server: turns, replacement, hang-ups."""

import asyncio

import pytest

from support.desk import NODE_PATH, Shell
from support.operator_books import LOCK, used_mib
from support.waiting import settled
from vgpu_operator.flows import effects
from vgpu_operator.kube import binder, errors
from vgpu_operator.wire import extender

PHASE = "hami.io/bind-phase"


def args(name: str) -> extender.BindArgs:
    return extender.BindArgs(namespace="team-a", name=name, uid=f"uid-of-{name}", node="node-a")


def serve(shell: Shell, name: str) -> None:
    """Have the device plugin serve a pod and the watch show it."""
    path = f"/api/v1/namespaces/team-a/pods/{name}"
    notes = {**shell.notes(path), PHASE: "success", "hami.io/vgpu-devices-to-allocate": ";"}
    whole = shell.kube.objects[path]
    shell.kube.put(path, {**whole, "metadata": {**whole["metadata"], "annotations": notes}})
    shell.show(path)


async def test_case_155_a_bind_is_bound_by_a_list_a_lock_and_a_binding() -> None:
    shell = Shell()
    shell.put_node()
    path = shell.put_pod("p1")
    shell.kube.requests.clear()

    result = await shell.binder.bind(args("p1"))

    assert result == effects.BindResult()
    assert [(r.verb, r.path) for r in shell.kube.requests] == [
        ("PATCH", NODE_PATH),
        ("GET", "/api/v1/pods"),
        ("POST", f"{path}/binding"),
    ]
    assert shell.notes(path)["hami.io/vgpu-devices-allocated"] == "GPU-a0,NVIDIA,1000,0:;"
    assert shell.notes(NODE_PATH)[LOCK] == "2026-01-15T10:00:00Z,team-a,p1"


async def test_case_96_two_pods_at_once_are_bound_one_after_the_other_in_their_own_calls() -> None:
    shell = Shell()
    shell.put_node()
    for name in ("p1", "p2"):
        shell.put_pod(name)

    calls = [asyncio.create_task(shell.binder.bind(args(name))) for name in ("p1", "p2")]
    await settled()
    assert (calls[0].done(), calls[1].done()) == (True, False)
    serve(shell, "p1")

    assert [await call for call in calls] == [effects.BindResult()] * 2
    assert shell.notes(NODE_PATH)[LOCK].endswith(",team-a,p2")
    assert used_mib(shell.books) == {"GPU-a0": 2000}


async def waiting_bind(shell: Shell) -> asyncio.Task[effects.BindResult]:
    """Return p2's bind, which waits for the lock of p1."""
    shell.put_node()
    for name in ("p1", "p2"):
        shell.put_pod(name)
    await shell.binder.bind(args("p1"))
    call = asyncio.create_task(shell.binder.bind(args("p2")))
    await settled()
    assert shell.books.turns.waiting_at("node-a") == ("uid-of-p2",)
    return call


async def test_a_newer_bind_of_the_same_pod_replaces_the_older() -> None:
    shell = Shell()
    older = await waiting_bind(shell)

    newer = asyncio.create_task(shell.binder.bind(args("p2")))
    assert "a newer bind of the same pod replaced this one" in (await older).error
    serve(shell, "p1")

    assert await newer == effects.BindResult()
    assert len(shell.books.turns) == 0


async def test_of_three_binds_of_one_pod_only_the_newest_lives() -> None:
    shell = Shell()
    first = await waiting_bind(shell)
    others = [asyncio.create_task(shell.binder.bind(args("p2"))) for _ in range(2)]
    await settled()
    serve(shell, "p1")

    results = [await call for call in (first, *others)]

    assert [bool(result.error) for result in results] == [True, True, False]


async def test_a_caller_that_hangs_up_leaves_the_queue_and_frees_the_cards() -> None:
    shell = Shell()
    call = await waiting_bind(shell)
    assert used_mib(shell.books) == {"GPU-a0": 2000}

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await settled()

    assert len(shell.books.turns) == 0
    assert used_mib(shell.books) == {"GPU-a0": 1000}
    assert shell.books.binding == set()


async def test_a_caller_that_hangs_up_while_the_binding_is_sent_does_not_undo_it() -> None:
    shell = Shell()
    shell.put_node()
    path = shell.put_pod("p1")
    call = asyncio.create_task(shell.binder.bind(args("p1")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await settled()

    assert shell.kube.objects[path]["spec"]["nodeName"] == "node-a"
    assert used_mib(shell.books) == {"GPU-a0": 1000}


async def test_a_bind_that_fails_lets_the_next_one_try() -> None:
    shell = Shell()
    call = await waiting_bind(shell)
    shell.put_pod("p3")
    third = asyncio.create_task(shell.binder.bind(args("p3")))
    await settled()
    shell.kube.fail_next("POST", "p2/binding", errors.Denied("403", status=403))

    serve(shell, "p1")

    assert "403" in (await call).error
    assert await third == effects.BindResult()
    assert used_mib(shell.books) == {"GPU-a0": 2000}


async def test_a_pod_that_is_deleted_while_it_waits_ends_its_bind() -> None:
    shell = Shell()
    call = await waiting_bind(shell)
    path = "/api/v1/namespaces/team-a/pods/p2"
    raw = shell.kube.objects[path]
    shell.kube.remove(path)

    shell.intake.pod_event("DELETED", raw)

    assert (await call).error == "pod team-a/p2 is gone"


async def test_the_end_of_the_operator_ends_every_wait() -> None:
    shell = Shell()
    call = await waiting_bind(shell)

    await shell.binder.close()

    assert "the operator stops" in (await call).error


async def test_a_bind_that_begins_when_the_operator_stops_is_refused() -> None:
    shell = Shell()
    shell.put_node()
    shell.put_pod("p1")
    shell.kube.requests.clear()
    await shell.binder.close()

    result = await shell.binder.bind(args("p1"))

    assert "the operator stops" in result.error
    assert shell.kube.requests == []


async def test_a_write_that_is_never_answered_is_cut_off_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would go on when the connections are closed, and the end would wait for it."""
    monkeypatch.setattr(binder, "SPARE_S", 0.01)
    shell = Shell()
    shell.put_node()
    shell.put_pod("p1")

    async def silent(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(shell.kube, "patch", silent)
    call = asyncio.create_task(shell.binder.bind(args("p1")))
    await settled()

    await shell.binder.close()

    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_wait_ends_two_seconds_before_kube_schedulers_own_limit() -> None:
    shell = Shell(bind={"timeLimitS": 2.05})
    call = await waiting_bind(shell)

    assert "did not become free in time" in (await call).error
    assert used_mib(shell.books) == {"GPU-a0": 1000}


async def test_case_153_forty_pods_on_one_node_are_all_bound_one_at_a_time() -> None:
    shell = Shell()
    shell.put_node(register=ONE_BIG_CARD)
    names = [f"p{n}" for n in range(40)]
    for name in names:
        shell.put_pod(name, mem=100)
    calls = {name: asyncio.create_task(shell.binder.bind(args(name))) for name in names}
    for name in names:
        await calls[name]
        serve(shell, name)

    assert all(call.result() == effects.BindResult() for call in calls.values())
    assert len(shell.kube.sent("POST", "/binding")) == 40
    assert len(shell.kube.sent("PATCH", NODE_PATH)) == 40
    assert len(shell.kube.sent("GET", "/api/v1/pods")) <= 2


ONE_BIG_CARD = (
    '[{"id":"GPU-a0","count":100,"devmem":24576,"devcore":100,'
    '"type":"NVIDIA-NVIDIA A10","health":true}]'
)


async def test_who_is_not_next_in_line_spends_its_time_in_the_queue() -> None:
    shell = Shell()
    shell.put_node()
    for name in ("p1", "p2", "p3"):
        shell.put_pod(name)
    await shell.binder.bind(args("p1"))
    shell.show("/api/v1/namespaces/team-a/pods/p1")
    calls = {name: asyncio.create_task(shell.binder.bind(args(name))) for name in ("p2", "p3")}
    await settled()
    shell.phases.clear()

    shell.waits.give_up("uid-of-p3", "the caller hung up")
    await calls["p3"]

    took = {phase: seconds for _, phase, seconds in shell.phases}
    assert took["queue"] > 0
    assert took["lock wait"] == 0
    calls["p2"].cancel()
    await asyncio.gather(*calls.values(), return_exceptions=True)
