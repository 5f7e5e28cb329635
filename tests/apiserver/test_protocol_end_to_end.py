"""A pod through kube-scheduler, the operator and a simulated node (must hold 1, 3, 4, 5, 8)."""

import asyncio
import time

import pytest

from support import api_audit
from support.world import World, nvidia_pod, world
from vgpu_operator.kube import paths

pytestmark = pytest.mark.apiserver


async def _follow(here: World, name: str, states: list[dict]) -> asyncio.Task[None]:
    """Begin to note every state of a pod that a watch shows."""
    params = {"fieldSelector": f"metadata.name={name}"}
    _, version = await here.kube.list(paths.PODS, params=params)

    async def follow() -> None:
        async for event in here.kube.watch(paths.PODS, resource_version=version, params=params):
            if event["type"] != "BOOKMARK":
                states.append(event["object"])  # noqa: PERF401  # kept while it is cancelled

    return asyncio.create_task(follow())


async def test_1_a_pod_is_bound_with_all_its_annotations_in_one_step() -> None:
    async with world() as here, here.simulate({"name": "node-a", "cards": 2, "delay": 0.05}):
        states: list[dict] = []
        watching = await _follow(here, "one", states)
        pod = nvidia_pod("one", memory=3000, cores=30)
        pod["spec"]["containers"].insert(0, {"name": "plain", "image": "none"})

        await here.create(pod)
        await here.until_phase("success", "one")
        await here.until_no_lock()
        watching.cancel()

        bound = [state for state in states if state["spec"].get("nodeName")]
        unbound = [state for state in states if not state["spec"].get("nodeName")]
        assert unbound
        for state in unbound:
            assert not [k for k in api_audit.annotations(state) if k.startswith("hami.io/")]
        first = bound[0]["metadata"]
        now = int(time.time())
        assert int(first["annotations"].pop("hami.io/vgpu-time")) == pytest.approx(now, abs=30)
        assert int(first["annotations"].pop("hami.io/bind-time")) == pytest.approx(now, abs=30)
        assert first["annotations"] == {
            "hami.io/vgpu-node": "node-a",
            "hami.io/bind-phase": "allocating",
            "hami.io/vgpu-devices-to-allocate": ";GPU-node-a-1,NVIDIA,3000,30:;",
            "hami.io/vgpu-devices-allocated": ";GPU-node-a-1,NVIDIA,3000,30:;",
        }
        assert first["labels"]["hami.io/vgpu-node"] == "node-a"
        last = api_audit.annotations(await here.pod("one"))
        assert last["hami.io/vgpu-devices-allocated"] == ";GPU-node-a-1,NVIDIA,3000,30:;"
        assert last["hami.io/vgpu-devices-to-allocate"].strip(";") == ""
        await here.assert_sound()


async def test_3_forty_pods_at_once_on_one_node_all_succeed_one_at_a_time() -> None:
    delay_s = 0.2
    async with world() as here:
        card = {"name": "only", "cards": 8, "delay": delay_s}
        async with here.simulate(card):
            alone_s = await _one_after_another(here, 5)
            names = [f"burst-{i}" for i in range(40)]
            lock_owners: list[str] = []
            watching = asyncio.create_task(_lock_owners(here, lock_owners))
            begun = time.monotonic()

            await asyncio.gather(*(here.create(nvidia_pod(name)) for name in names))
            await here.until_phase("success", *names)
            took_s = time.monotonic() - begun
            await here.until_no_lock()
            watching.cancel()

            assert await here.events("FailedScheduling") == []
            assert (
                await here.metric(
                    "vgpu_extender_request_duration_seconds_count", verb="bind", outcome="bound"
                )
                == len(names) + 5
            )
            # On a machine that is busy with other things the plugin's own requests take longer:
            # then no more than the same pods would take alone, one after another.
            limit_s = 1.2 * len(names) * delay_s + 3
            assert took_s <= max(limit_s, 1.2 * len(names) * alone_s)
            assert sorted(lock_owners) == sorted(names)
            await here.assert_sound()


async def _one_after_another(here: World, count: int) -> float:
    """Return how long one pod takes from its creation to success while nothing else happens."""
    begun = time.monotonic()
    for number in range(count):
        name = f"alone-{number}"
        await here.create(nvidia_pod(name))

        async def served(name: str = name) -> bool:
            phase = api_audit.annotations(await here.pod(name)).get("hami.io/bind-phase")
            return bool(phase == "success")

        await here.until(f"{name} is served", served, every_s=0.02)
    took_s = (time.monotonic() - begun) / count
    await here.until_no_lock()
    return took_s


async def _lock_owners(here: World, owners: list[str]) -> None:
    """Note each change of owner of a node's lock."""
    nodes, version = await here.kube.list(paths.NODES)
    assert api_audit.locks(nodes) == {}
    last = ""
    async for event in here.kube.watch(paths.NODES, resource_version=version):
        lock = api_audit.annotations(event["object"]).get(api_audit.LOCK, "")
        if lock != last and lock:
            owners.append(lock.split(",")[2])
        last = lock


async def test_4_three_hundred_pods_over_twenty_nodes_within_limits_and_few_requests() -> None:
    async with world() as here, here.simulate({"prefix": "sim-", "count": 20, "cards": 4}):
        names = [f"many-{i}" for i in range(300)]
        await here.until_handshake("sim-20", lambda text: text is not None)
        before = len(here.requests())

        await asyncio.gather(*(here.create(nvidia_pod(name, memory=4000)) for name in names))
        await here.until_phase("success", *names, limit_s=120)
        await here.until_no_lock()

        mine = here.requests()[before:]
        assert len(mine) <= 3 * len(names)
        assert not [r for r in mine if r.code == 403]
        assert await here.events("BindingSucceed") == []
        assert await here.events("FilteringSucceed") == []
        await here.assert_sound()


async def test_4_success_events_come_when_they_are_asked_for() -> None:
    async with (
        world(configured={"events": {"success": True}}) as here,
        here.simulate({"name": "node-a", "cards": 1}),
    ):
        await here.create(nvidia_pod("told"))

        assert "node-a" in (await here.until_event("BindingSucceed", "told"))["message"]
        assert "node-a" in (await here.until_event("FilteringSucceed", "told"))["message"]


async def test_5_a_full_cluster_takes_the_waiting_pod_after_each_of_fifty_deletions() -> None:
    async with world() as here, here.simulate({"prefix": "sim-", "count": 2, "cards": 2}):
        whole = [f"whole-{i}" for i in range(4)]
        for name in whole:
            await here.create(nvidia_pod(name, memory=24576))
        await here.until_phase("success", *whole)
        holders, slowest_s = list(whole), 0.0
        for turn in range(50):
            waiting = f"waits-{turn}"
            await here.create(nvidia_pod(waiting, memory=24576))
            await here.until(
                f"{waiting} is refused", lambda name=waiting: _refused(here, name), every_s=0.02
            )
            begun = time.monotonic()
            await here.delete(holders.pop(0))

            await here.until(
                f"{waiting} is bound",
                lambda name=waiting: _bound(here, name),
                limit_s=3.0,
                every_s=0.02,
            )
            slowest_s = max(slowest_s, time.monotonic() - begun)
            holders.append(waiting)
        print(f"slowest of 50: {slowest_s:.2f} s")
        await here.until_phase("success", *holders)
        await here.assert_sound()


async def _refused(here: World, name: str) -> bool:
    conditions = (await here.pod(name))["status"].get("conditions", [])
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


async def _bound(here: World, name: str) -> str:
    return (await here.pod(name))["spec"].get("nodeName", "")


async def test_a_refused_pod_is_told_why_in_words_that_a_person_understands() -> None:
    async with world() as here, here.simulate({"name": "node-a", "cards": 2}):
        await here.create(nvidia_pod("holder", memory=20000))
        await here.until_phase("success", "holder")
        await here.create(nvidia_pod("greedy", memory=6000, count=2))

        # One event for each reason; the first of them says what came closest.
        told = await here.until_event(
            "FilteringFailed", "greedy", says="1 nodes AllocatedCardsInsufficientRequest"
        )

        promise = api_audit.annotations(await here.pod("holder"))[api_audit.ALLOCATED]
        (((card, _, _),),) = api_audit.shares(promise)
        assert told["message"] == (
            "1 nodes AllocatedCardsInsufficientRequest (node-a); closest is node-a, where 1 of 2"
            f" cards would do; the next: card {card}: 6000 MiB asked, 4576 of 24576 MiB free"
            " (held by holder 20000 MiB)"
        )
