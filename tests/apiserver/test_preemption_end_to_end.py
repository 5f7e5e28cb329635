"""Pods of lower priority leave for one of higher priority (must hold 1 to 4).

One cluster for all; each test has nodes of its own, which its pods select by a label.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from support import api_audit
from support.world import Json, World, nvidia_pod, world
from vgpu_operator.agent import simulator
from vgpu_operator.kube import errors

pytestmark = pytest.mark.apiserver

CARD_MIB = 24576
CLASSES = {"low": 100, "high": 1000, "highest": 2000}
NEVER = "high-but-never"
NOMINATION = "vgpu-operator.io/nomination"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

SPARE_S = 2.0
"""How much longer than the grace period of those who leave it may take."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def here() -> AsyncIterator[World]:
    async with world(controller_manager=True) as made:
        for name, value in CLASSES.items():
            await make_class(made, name, value)
        await make_class(made, NEVER, CLASSES["high"], preemptionPolicy="Never")
        yield made


async def make_class(here: World, name: str, value: int, **fields: str) -> None:
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }
    await here.kube.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)


def on(here: World, group: str, *, count: int = 1, stop: str = "0s") -> simulator.Simulator:
    """Return nodes of one card each, labelled with their group, to be entered."""
    return here.simulate(
        {
            "prefix": f"{group}-",
            "count": count,
            "cards": 1,
            "stop": stop,
            "labels": {"group": group},
        }
    )


def pod(
    name: str,
    group: str,
    priority_class: str = "low",
    *,
    memory: int = CARD_MIB,
    grace_s: int = 0,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    node: str = "",
) -> Json:
    """Return a pod for a group of nodes, or one of them; the webhook leaves some namespaces out."""
    made = nvidia_pod(
        name,
        memory=memory,
        scheduler="hami-scheduler",
        node_selector={"group": group} | ({"kubernetes.io/hostname": node} if node else {}),
        labels=labels,
        namespace=namespace,
    )
    made["spec"] |= {
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": grace_s,
    }
    return made


async def fill(here: World, *pods: Json) -> dict[str, Json]:
    """Create pods, wait until they run, and return them by name."""
    await asyncio.gather(*(create(here, one) for one in pods))
    names = {one["metadata"]["name"] for one in pods}
    await here.until_phase("success", *names)

    async def running() -> dict[str, Json] | None:
        found = {p["metadata"]["name"]: p for p in await here.pods()}
        found = {name: found[name] for name in names}
        return found if all(p["status"]["phase"] == "Running" for p in found.values()) else None

    made: dict[str, Json] = await here.until(f"{len(names)} pods run", running)
    return made


async def create(here: World, wanted: Json) -> None:
    """Create a pod, as soon as the webhook of an operator that was started anew is called."""

    async def created() -> bool:
        try:
            await here.create(wanted)
        except errors.ServerFault:
            return False
        return True

    await here.until(f"pod {wanted['metadata']['name']} is created", created)


async def bound_to(here: World, name: str) -> str:
    return str((await here.pod(name))["spec"].get("nodeName", ""))


async def until_bound(here: World, name: str) -> str:
    """Return the node that a pod is bound to, once it is."""
    node: str = await here.until(
        f"{name} is bound", lambda: bound_to(here, name), every_s=0.02, limit_s=30
    )
    return node


async def stays(here: World, before: Mapping[str, Json]) -> None:
    """Check that these very pods are there, and nobody has deleted them."""
    now = {p["metadata"]["name"]: p for p in await here.pods()}
    for name, was in before.items():
        assert now[name]["metadata"]["uid"] == was["metadata"]["uid"]
        assert "deletionTimestamp" not in now[name]["metadata"]


async def until_unmarked(here: World, *names: str) -> None:
    """Wait until nothing on these pods says any more that cards are held for them."""

    async def unmarked() -> bool:
        found = [await here.pod(name) for name in names]
        return not any(
            NOMINATION in api_audit.annotations(one) or one["status"].get("nominatedNodeName")
            for one in found
        )

    await here.until("the marks are off", unmarked)


async def until_led_again(here: World) -> None:
    """Start a killed operator again; the API server calls its new webhook from then on."""
    await here.until_restarted()
    await here.stack.register_webhook(here.kube, here.replica)


def evicted(here: World) -> list[str]:
    """Return whom the operator has asked to evict and was answered that it is done."""
    return [r.name for r in here.requests() if r.subresource == "eviction" and r.code == 201]


async def gone(here: World, name: str) -> bool:
    with contextlib.suppress(errors.NotFound):
        await here.pod(name)
        return False
    return True


async def test_1_the_fewest_leave_and_the_pod_is_bound_in_time(here: World) -> None:
    grace_s = 2
    async with on(here, "one", count=2, stop="9s"):
        low = await fill(
            here,
            pod("one-half", "one", memory=CARD_MIB // 2, grace_s=grace_s, node="one-1"),
            pod("other-half", "one", memory=CARD_MIB // 2, grace_s=grace_s, node="one-1"),
            pod("whole", "one", grace_s=grace_s, node="one-2"),
        )
        victim = low.pop("whole")
        node = victim["spec"]["nodeName"]
        begun = time.monotonic()
        await here.create(pod("wins", "one", "high"))

        async def nominated() -> Json | None:
            found = await here.pod("wins")
            return found if found["status"].get("nominatedNodeName") else None

        waiting = await here.until("its node is nominated", nominated, every_s=0.02)
        assert waiting["status"]["nominatedNodeName"] == node
        mark = json.loads(api_audit.annotations(waiting)[NOMINATION])
        assert (mark["node"], mark["victims"]) == (node, [victim["metadata"]["uid"]])
        # Nobody else gets the cards while they come free, whenever he asks.
        await here.create(pod("thief", "one", memory=1000))
        assert await until_bound(here, "wins") == node
        took_s = time.monotonic() - begun
        print(f"bound {took_s:.2f} s after its creation, grace period {grace_s} s")

        assert grace_s <= took_s <= grace_s + SPARE_S
        assert evicted(here) == ["whole"]
        await stays(here, low)
        await here.until_phase("success", "wins")
        await until_unmarked(here, "wins")
        assert not await bound_to(here, "thief")
        told = await here.until_event("Preempting", "wins")
        assert f"evicting 1 pod (whole) from {node}" in told["message"]
        told = await here.until_event("Preempted", "whole")
        uid = waiting["metadata"]["uid"]
        assert told["message"] == f"Preempted by pod wins ({uid}) on node {node}"
        assert await here.metric("vgpu_preemption_attempts_total", outcome="bound") == 1
        assert await here.metric("vgpu_preemption_victims_total") == 1
        assert await here.metric("vgpu_preemption_duration_seconds_count") == 1
        await here.delete("thief")
        await here.assert_sound()


async def test_2_a_budget_holds_and_is_named_until_it_allows_one(here: World) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        # A number: of pods that no controller owns, Kubernetes knows no share.
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    async with on(here, "two", count=2):
        await here.kube.create(BUDGETS, budget)
        low = await fill(
            here,
            pod("web-1", "two", labels={"app": "web"}),
            pod("even", "two", "high"),
        )
        before = evicted(here)
        for name, priority_class, namespace in (
            ("same", "low", "default"),
            ("never", NEVER, "default"),
            ("exempt", "high", "kube-system"),
        ):
            await here.create(pod(name, "two", priority_class, namespace=namespace))
            await here.until_event("FilteringFailed", name)
        assert await here.events("PreemptionBlocked") == []

        await here.create(pod("blocked", "two", "high"))
        told = await here.until_event("PreemptionBlocked", "blocked")
        assert "PodDisruptionBudget web allows no more evictions now" in told["message"]
        assert evicted(here) == before
        assert not (await here.pod("blocked"))["status"].get("nominatedNodeName")
        assert [e["involvedObject"]["name"] for e in await here.events("PreemptionBlocked")] == [
            "blocked"
        ]
        await stays(here, low)

        await here.kube.patch(f"{BUDGETS}/web", {"spec": {"minAvailable": 0}})
        assert await until_bound(here, "blocked") == low["web-1"]["spec"]["nodeName"]

        assert await here.metric("vgpu_preemption_attempts_total", outcome="blocked") >= 1
        assert evicted(here) == [*before, "web-1"]
        for name, namespace in (
            ("same", "default"),
            ("never", "default"),
            ("exempt", "kube-system"),
        ):
            assert not (await here.pod(name, namespace))["spec"].get("nodeName")
            await here.delete(name, namespace)
        await here.assert_sound()


async def test_3_fifty_at_once_on_a_hundred_nodes_take_fifty_pods_cards(here: World) -> None:
    nodes, wanted = 100, 50
    async with on(here, "three", count=nodes, stop="300ms"):
        low = await fill(here, *(pod(f"low-{i}", "three", grace_s=1) for i in range(nodes)))
        before = evicted(here)
        begun = time.monotonic()
        high = [f"high-{i}" for i in range(wanted)]

        await asyncio.gather(*(here.create(pod(name, "three", "high")) for name in high))
        await here.until_phase("success", *high)
        await until_unmarked(here, *high)
        print(f"{wanted} pods at once: {time.monotonic() - begun:.1f} s")

        gone = evicted(here)[len(before) :]
        assert len(gone) == len(set(gone)) == wanted
        pods = {p["metadata"]["name"]: p for p in await here.pods()}
        freed = {low[name]["spec"]["nodeName"] for name in gone}
        assert {pods[name]["spec"]["nodeName"] for name in high} == freed
        await stays(here, {name: was for name, was in low.items() if name not in gone})
        assert await here.metric("vgpu_preemptions_pending") == 0
        await here.until_no_lock()
        await here.assert_sound()


async def test_4_killed_before_the_eviction_the_next_leader_goes_on(here: World) -> None:
    # A budget of which the API server is told nothing new: it asks everybody to come again.
    async with on(here, "four") as sim:
        low = await fill(here, pod("four-low", "four", labels={"app": "four"}))
        manager = here.plane.components["kube-controller-manager"]
        manager.pause()
        await here.kube.create(BUDGETS, budget_behind(here))
        await allow_one(here)
        await here.create(pod("four-high", "four", "high"))
        node = low["four-low"]["spec"]["nodeName"]

        async def refused_for_now() -> bool:
            return any(
                r.subresource == "eviction" and r.name == "four-low" and r.code == 429
                for r in here.requests()
            )

        await here.until("the eviction is refused for now", refused_for_now)
        here.replica.component.kill()
        await stays(here, low)
        assert (await here.pod("four-high"))["status"]["nominatedNodeName"] == node
        await here.kube.delete(f"{BUDGETS}/four")
        manager.resume()
        await until_led_again(here)

        assert await until_bound(here, "four-high") == node
        assert evicted(here).count("four-low") == 1
        await here.until_phase("success", "four-high")
        await until_unmarked(here, "four-high")
        await here.assert_sound()
        assert sim.node(node)


def budget_behind(here: World) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "four", "namespace": "default"},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "four"}}},
    }


async def allow_one(here: World) -> None:
    await here.kube.patch(
        f"{BUDGETS}/four/status",
        {
            "status": {
                "observedGeneration": 0,
                "disruptionsAllowed": 1,
                "currentHealthy": 1,
                "desiredHealthy": 0,
                "expectedPods": 1,
            }
        },
    )


async def test_4_killed_before_the_bind_the_next_leader_holds_the_cards(here: World) -> None:
    async with on(here, "five", stop="6s"):
        low = await fill(here, pod("five-low", "five", grace_s=60))
        node = low["five-low"]["spec"]["nodeName"]
        await here.create(pod("five-high", "five", "high"))

        async def leaves() -> bool:
            return "deletionTimestamp" in (await here.pod("five-low"))["metadata"]

        await here.until("the victim leaves", leaves, every_s=0.02)
        await here.create(pod("five-thief", "five", "low"))
        here.replica.component.kill()
        await until_led_again(here)
        assert await here.metric("vgpu_preemptions_pending") == 1

        assert await until_bound(here, "five-high") == node
        await here.until_phase("success", "five-high")
        await until_unmarked(here, "five-high")
        assert evicted(here).count("five-low") == 1
        assert not await bound_to(here, "five-thief")
        await here.delete("five-thief")
        await here.assert_sound()
