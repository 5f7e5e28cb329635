"""Killed operators, dead agents, locks that must not pass on (must hold 6, 9)."""

import asyncio

import pytest

from support import api_audit, chart_account
from support.world import World, nvidia_pod, world
from vgpu_operator.cli import stack as cli_stack

pytestmark = pytest.mark.apiserver


async def until_ledger_equals_the_api(here: World) -> None:
    """Wait until what the operator exports is what the pods' annotations add up to."""

    async def equal() -> bool:
        expected: dict[str, tuple[float, float, float]] = {}
        for node in await here.nodes():
            name = node["metadata"]["name"]
            for i in range(len(api_audit.annotations(node)[api_audit.REGISTER].split('"id"')) - 1):
                expected[f"GPU-{name}-{i}"] = (0.0, 0.0, 0.0)
        for pod in await here.pods():
            text = api_audit.annotations(pod).get(api_audit.ALLOCATED, "")
            for container in api_audit.shares(text):
                for card, memory, cores in container:
                    slots, mib, percent = expected[card]
                    expected[card] = (slots + 1, mib + memory * 2**20, percent + cores)
        return await here.ledger() == expected

    await here.until("the ledger equals the API", equal)


async def test_6_an_operator_killed_in_a_burst_and_started_again_loses_nothing() -> None:
    async with world() as here, here.simulate({"prefix": "sim-", "count": 4, "cards": 2}):
        names = [f"burst-{i}" for i in range(60)]
        await asyncio.gather(*(here.create(nvidia_pod(name, memory=3000)) for name in names))

        async def some_bound() -> bool:
            bound = [pod for pod in await here.pods() if pod["spec"].get("nodeName")]
            return len(bound) >= 10

        await here.until("ten pods are bound", some_bound, every_s=0.02)
        here.replica.component.kill()
        await here.until_restarted()

        await here.until_phase("success", *names, limit_s=120)
        await here.until_no_lock()
        await here.assert_sound()
        await until_ledger_equals_the_api(here)


async def test_6_the_lock_of_a_bound_pod_that_no_kubelet_has_seen_is_not_passed_on() -> None:
    configured = {
        "lock": {"expiryS": 2.0},
        "bind": {"stuckAfterS": 1.0},
    }
    async with world(configured=configured) as here:  # noqa: SIM117  # the node needs the world
        async with here.simulate({"name": "node-a", "cards": 2}) as sim:
            await here.until_handshake("node-a", lambda text: text is not None)
            sim.node("node-a").pause()
            await here.create(nvidia_pod("first"))
            await here.until_phase("allocating", "first")
            await here.create(nvidia_pod("second"))

            slow = await here.until_event("AllocationStuck", "first")
            stuck = await here.until_event("NodeLockStuck", "node-a")

            assert "node-a" in slow["message"]
            assert "default/first" in stuck["message"]
            second = await here.pod("second")
            assert "nodeName" not in second["spec"]
            lock = api_audit.locks(await here.nodes())["node-a"]
            assert lock.endswith(",default,first")

            sim.node("node-a").resume()

            await here.until_phase("success", "first", "second")
            await here.until_no_lock()
            await here.assert_sound()


async def test_6_a_pod_deleted_before_its_allocation_frees_lock_and_cards() -> None:
    async with world() as here, here.simulate({"name": "node-a", "cards": 1}) as sim:
        await here.until_handshake("node-a", lambda text: text is not None)
        sim.node("node-a").pause()
        await here.create(nvidia_pod("first", memory=24576))
        await here.until_phase("allocating", "first")
        await here.create(nvidia_pod("second", memory=24576))
        await here.until_event("FilteringFailed", "second")

        await here.delete("first")
        sim.node("node-a").resume()

        await here.until_phase("success", "second")
        await here.until_no_lock()


async def test_9_a_replica_that_does_not_lead_writes_nothing() -> None:
    async with world() as here:
        follower = here.stack.start_operator(
            "follower", lease="/".join(chart_account.LEASE), hostname="nobody"
        )
        await follower.until_ready()
        # Admission works on every ready replica, whoever leads.
        await here.stack.register_webhook(here.kube, follower)
        here.replica.component.pause()
        try:
            mark = len(here.requests())
            async with here.simulate({"prefix": "sim-", "count": 3, "cards": 1}):
                await here.create(nvidia_pod("nobody-binds-it"))
                answer = await post(
                    f"{follower.extender_url}/filter",
                    {
                        "Pod": await here.pod("nobody-binds-it"),
                        "NodeNames": ["sim-1"],
                    },
                )
                assert "does not lead" in answer["Error"]
                answer = await post(
                    f"{follower.extender_url}/bind",
                    {
                        "PodName": "nobody-binds-it",
                        "PodNamespace": "default",
                        "PodUID": "some-uid",
                        "Node": "sim-1",
                    },
                )
                assert "does not lead" in answer["Error"]
                await until_ticked(here, follower)
            # Before the one that leads goes on: it writes at once.
            verbs = {request.verb for request in here.requests()[mark:]}
        finally:
            here.replica.component.resume()
        assert verbs <= {"get", "list", "watch"}


async def until_ticked(here: World, follower: cli_stack.Replica) -> None:
    """Wait until the follower's own clockwork has gone round: it has seen all nodes, and ticked."""

    async def seen() -> bool:
        text = await fetch_metrics(follower)
        return "vgpu_nodes 3.0" in text and "vgpu_leader 0.0" in text

    await here.until("the follower has seen the nodes", seen)
    begun = await lag_samples(follower)

    async def two_seconds_on() -> bool:
        return await lag_samples(follower) >= begun + 20

    await here.until("twenty of its timers have rung", two_seconds_on)


async def lag_samples(replica: cli_stack.Replica) -> float:
    text = await fetch_metrics(replica)
    line = next(x for x in text.splitlines() if x.startswith("vgpu_event_loop_lag_seconds_count"))
    return float(line.split()[1])


async def fetch_metrics(replica: cli_stack.Replica) -> str:
    from support.world import fetch

    return await fetch(f"{replica.metrics_url}/metrics")


async def post(url: str, body: dict) -> dict:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        return await answer.json()
