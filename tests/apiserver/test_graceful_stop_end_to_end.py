"""SIGTERM: what is being bound is bound, the rest is given back, and the end comes within 5 s."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from support import api_audit
from support.slow_api import SlowApi, slow_api
from support.world import World, nvidia_pod, world
from vgpu_operator.cli import stack as cli_stack

pytestmark = pytest.mark.apiserver

STOP_S = 5.0
"""How long an end may take, by promise."""

SPARE_S = 1.5
"""What a busy test machine may add: Python itself takes a while to end."""


@contextlib.asynccontextmanager
async def behind_a_relay() -> AsyncIterator[tuple[World, SlowApi, cli_stack.Replica]]:
    """Run a cluster, and a second replica that reaches the API through a relay."""
    async with (
        world() as here,
        slow_api(here.kube.server_url) as relay,
        here.simulate({"name": "node-a", "cards": 2}) as sim,
    ):
        await here.until_handshake("node-a", lambda text: text is not None)
        sim.node("node-a").pause()  # locks stay where they are
        await here.replica.component.stop()
        kubeconfig = relay.kubeconfig(here.stack.ground.operator_kubeconfig(), here.plane.directory)
        replica = here.stack.start_operator("slow", arguments=("--kubeconfig", str(kubeconfig)))
        await replica.until_ready()
        await here.stack.register_webhook(here.kube, replica)
        yield here, relay, replica


async def pod_of_nobody(here: World, name: str) -> dict[str, Any]:
    """Create a pod that our own scheduler leaves alone."""
    return await here.create(nvidia_pod(name, scheduler="nobody"))


async def bind(replica: cli_stack.Replica, pod: dict[str, Any]) -> dict[str, Any]:
    """Ask for a bind as kube-scheduler does; return what it is told, or why nothing is."""
    body = {
        "PodName": pod["metadata"]["name"],
        "PodNamespace": pod["metadata"]["namespace"],
        "PodUID": pod["metadata"]["uid"],
        "Node": "node-a",
    }
    limit = aiohttp.ClientTimeout(total=60)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.post(f"{replica.extender_url}/bind", json=body) as answer,
        ):
            return await answer.json()
    except aiohttp.ClientError as fault:
        return {"hung up": str(fault)}


async def stopped(replica: cli_stack.Replica) -> float:
    """Send SIGTERM, wait for the end, and return how many seconds it took."""
    begun = time.monotonic()
    replica.component.terminate()
    ended = await asyncio.to_thread(replica.component.wait, 30.0)
    assert ended, "it has not ended at all"
    assert replica.component.exit_code == 0
    assert "Traceback" not in replica.component.log_tail(400)
    return time.monotonic() - begun


async def test_what_is_being_bound_is_bound_and_who_waits_is_told() -> None:
    async with behind_a_relay() as (here, relay, replica):
        first, second = [await pod_of_nobody(here, name) for name in ("first", "second")]
        relay.delay_s = 0.2
        binding = asyncio.create_task(bind(replica, first))

        async def locked() -> bool:
            return "node-a" in api_audit.locks(await here.nodes())

        await here.until("the first pod has the lock", locked, every_s=0.01)
        assert "nodeName" not in (await here.pod("first"))["spec"]
        waiting = asyncio.create_task(bind(replica, second))

        took_s = await stopped(replica)

        assert await binding == {"Error": ""}
        assert (await here.pod("first"))["spec"]["nodeName"] == "node-a"
        refused = await waiting
        assert "the operator stops" in refused.get("Error", "") or "hung up" in refused
        assert "nodeName" not in (await here.pod("second"))["spec"]
        assert took_s < STOP_S + SPARE_S
        await here.assert_sound()


async def test_an_api_server_that_hangs_does_not_hold_up_the_end() -> None:
    async with behind_a_relay() as (here, relay, replica):
        pod = await pod_of_nobody(here, "first")
        relay.open.clear()
        binding = asyncio.create_task(bind(replica, pod))
        silent = [
            await asyncio.open_connection("127.0.0.1", port.number) for port in replica.reserved
        ]

        took_s = await stopped(replica)

        assert took_s < STOP_S + SPARE_S
        assert (await binding).get("Error") != ""
        for _, writer in silent:
            writer.transport.abort()

        # Whoever comes next finds everything as it was: the pod can be bound.
        relay.open.set()
        replica.component.start()
        await replica.until_ready()
        assert await bind(replica, pod) == {"Error": ""}
        await here.assert_sound()


async def test_an_operator_that_has_not_reached_the_api_server_yet_ends_at_once() -> None:
    async with behind_a_relay() as (_, relay, replica):
        await replica.component.stop()
        relay.open.clear()
        replica.component.start()
        await replica.until_listening()

        took_s = await stopped(replica)

        assert took_s < STOP_S + SPARE_S
