"""Simulated nodes on a real API server: pods bound by hand, as a scheduler would bind them."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from vgpu_operator.agent import simulator, spec
from vgpu_operator.cli import cluster_view, nodes, pods
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.kube import client, clock, errors, paths
from vgpu_operator.model import settings
from vgpu_operator.wire import node_lock

pytestmark = pytest.mark.apiserver

Json = dict[str, Any]
LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
REGISTER = "hami.io/node-nvidia-register"
LIMIT_S = 60.0


class HandBinder:
    """Creates and binds pods in one namespace, and waits for what comes of them."""

    def __init__(self, kube: client.KubeClient, namespace: str, node: str) -> None:
        self.kube = kube
        self.namespace = namespace
        self.name = node

    async def lock(self, holder: str, *, namespace: str | None = None) -> None:
        text = node_lock.encode_lock(
            clock.SystemClock().now(), namespace=namespace or self.namespace, pod=holder
        )
        await self._annotate_node({LOCK: text})

    async def unlock(self) -> None:
        await self._annotate_node({LOCK: None})

    async def bind(self, name: str, text: str, *, asks: tuple[int, ...] = (1,)) -> None:
        """Create a pod and bind it with its annotations in the Binding, as the operator does."""
        await self.create(name, asks=asks)
        notes = {
            "hami.io/vgpu-node": self.name,
            "hami.io/bind-time": str(int(time.time())),
            PHASE: "allocating",
            TO_ALLOCATE: text,
            "hami.io/vgpu-devices-allocated": text,
        }
        await self.kube.create(
            paths.binding(self.namespace, name),
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "annotations": notes},
                "target": {"kind": "Node", "name": self.name},
            },
        )

    async def create(self, name: str, *, asks: tuple[int, ...] = (1,)) -> None:
        limits = [{"nvidia.com/gpu": str(count)} if count else {} for count in asks]
        containers = [
            {"name": f"c{place}", "image": "none", "resources": {"limits": limit}}
            for place, limit in enumerate(limits)
        ]
        await self.kube.create(
            paths.namespaced(self.namespace, "pods"),
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {"schedulerName": "nobody", "containers": containers},
            },
        )

    async def pod(self, name: str) -> Json:
        return await self.kube.get(paths.pod(self.namespace, name))

    async def node(self) -> Json:
        return await self.kube.get(paths.node(self.name))

    async def notes(self, name: str) -> dict[str, str]:
        notes: dict[str, str] = (await self.pod(name))["metadata"]["annotations"]
        return notes

    async def node_notes(self) -> dict[str, str]:
        notes: dict[str, str] = (await self.node())["metadata"].get("annotations", {})
        return notes

    async def until_status(self, name: str, phase: str) -> Json:
        async def reached() -> bool:
            return bool((await self.pod(name))["status"]["phase"] == phase)

        await until(reached)
        return await self.pod(name)

    async def until_unlocked(self) -> None:
        async def free() -> bool:
            return LOCK not in await self.node_notes()

        await until(free)

    async def _annotate_node(self, notes: dict[str, str | None]) -> None:
        await self.kube.patch(paths.node(self.name), {"metadata": {"annotations": notes}})


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again; what is awaited takes milliseconds on an idle machine."""
    async with asyncio.timeout(LIMIT_S):
        while not await condition():  # noqa: ASYNC110  # the API server cannot set our events
            await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def kube(control_plane: ControlPlane) -> AsyncIterator[client.KubeClient]:
    configuration = await client.load_configuration(kubeconfig=str(control_plane.kubeconfig))
    async with client.KubeClient(configuration) as connected:
        yield connected


@pytest_asyncio.fixture
async def hand(kube: client.KubeClient, namespace: str) -> AsyncIterator[HandBinder]:
    """Give a binder for a node of a name that no other test has."""
    name = f"sim-{uuid.uuid4().hex[:8]}"
    yield HandBinder(kube, namespace, name)
    await kube.delete(paths.node(name))


def simulation(hand: HandBinder, **fields: Any) -> simulator.Simulator:
    values = {
        "nodes": [{"name": hand.name, "cards": 2, **fields}],
        "roundInterval": 0.2,
    }
    return simulator.Simulator(hand.kube, spec.build(values), clock.SystemClock())


def entry(hand: HandBinder, card: int = 0, memory: int = 1000) -> str:
    return f"GPU-{hand.name}-{card},NVIDIA,{memory},10:;"


async def test_a_node_appears_ready_untainted_with_cards_and_counts(hand: HandBinder) -> None:
    async with simulation(hand):
        node = await hand.node()

    assert node["status"]["capacity"]["nvidia.com/gpu"] == "20"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "20"
    assert node["status"]["conditions"][0]["type"] == "Ready"
    assert "taints" not in node["spec"]
    assert f"GPU-{hand.name}-1" in node["metadata"]["annotations"][REGISTER]


async def test_an_edited_register_text_is_repaired(hand: HandBinder) -> None:
    async with simulation(hand):
        good = (await hand.node_notes())[REGISTER]
        body = {"metadata": {"annotations": {REGISTER: "garbage"}}}
        await hand.kube.patch(paths.node(hand.name), body)

        async def repaired() -> bool:
            return (await hand.node_notes()).get(REGISTER) == good

        await until(repaired)


async def test_a_bound_pod_goes_to_success_runs_and_the_lock_is_gone(hand: HandBinder) -> None:
    async with simulation(hand):
        await hand.lock("p1")
        await hand.bind("p1", entry(hand))
        pod = await hand.until_status("p1", "Running")

        assert pod["metadata"]["annotations"][PHASE] == "success"
        assert pod["metadata"]["annotations"][TO_ALLOCATE] == ";;"
        assert pod["status"]["startTime"]
        assert {c["type"]: c["status"] for c in pod["status"]["conditions"]}["Ready"] == "True"
        assert LOCK not in await hand.node_notes()


async def test_several_containers_are_served_in_order(hand: HandBinder) -> None:
    async with simulation(hand):
        await hand.lock("p1")
        await hand.bind("p1", f";{entry(hand)}{entry(hand, 1)}", asks=(0, 1, 1))
        pod = await hand.until_status("p1", "Running")

        assert pod["metadata"]["annotations"][TO_ALLOCATE] == ";;;;;"
        assert [s["name"] for s in pod["status"]["containerStatuses"]] == ["c0", "c1", "c2"]


async def test_a_lock_that_was_handed_over_stays_with_its_new_owner(hand: HandBinder) -> None:
    async with simulation(hand, kubelet=False):
        await hand.create("p2")
        handing_over = asyncio.create_task(_hand_over_at_success(hand, "p1", "p2"))
        await hand.lock("p1")
        await hand.bind("p1", entry(hand))
        await handing_over

        for _ in range(20):
            assert LOCK in await hand.node_notes()
        assert (await hand.node_notes())[LOCK].endswith(f",{hand.namespace},p2")


async def _hand_over_at_success(hand: HandBinder, first: str, second: str) -> None:
    """Watch a pod and give the lock on as soon as it is served, unless it is gone already."""
    params = {"fieldSelector": f"metadata.name={first}"}
    where = paths.namespaced(hand.namespace, "pods")
    _, version = await hand.kube.list(where, params=params)
    async for event in hand.kube.watch(where, resource_version=version, params=params):
        notes = event["object"]["metadata"].get("annotations", {})
        if notes.get(PHASE) == "success":
            await hand.lock(second)
            return


async def test_a_lock_of_a_pod_that_is_gone_rejects_the_new_pod_and_stays(
    hand: HandBinder,
) -> None:
    async with simulation(hand):
        await hand.lock("nobody")
        await hand.bind("p1", entry(hand))
        pod = await hand.until_status("p1", "Failed")

        assert pod["status"]["reason"] == "UnexpectedAdmissionError"
        assert pod["metadata"]["annotations"][PHASE] == "allocating"
        assert (await hand.node_notes())[LOCK].endswith(",nobody")


async def test_a_pod_that_cannot_be_served_fails_and_the_lock_is_freed(hand: HandBinder) -> None:
    async with simulation(hand):
        await hand.lock("p1")
        await hand.bind("p1", "a,b;")
        pod = await hand.until_status("p1", "Failed")

        assert pod["metadata"]["annotations"][PHASE] == "failed"
        assert pod["metadata"]["annotations"][TO_ALLOCATE] == "a,b;"
        await hand.until_unlocked()


async def test_a_vanished_plugin_rejects_and_a_returned_one_serves(hand: HandBinder) -> None:
    async with simulation(hand) as sim:
        await sim.node(hand.name).vanish()
        assert (await hand.node())["status"]["allocatable"]["nvidia.com/gpu"] == "0"
        await hand.lock("p1")
        await hand.bind("p1", entry(hand))
        await hand.until_status("p1", "Failed")
        assert LOCK in await hand.node_notes()

        await sim.node(hand.name).come_back()
        await hand.lock("p2")
        await hand.bind("p2", entry(hand))
        await hand.until_status("p2", "Running")


async def test_an_agent_started_late_serves_what_is_bound_already(hand: HandBinder) -> None:
    async with simulation(hand):
        pass
    await hand.lock("p1")
    await hand.bind("p1", entry(hand) + entry(hand, 1), asks=(1, 1))
    assert (await hand.notes("p1"))[PHASE] == "allocating"

    async with simulation(hand):
        await hand.until_status("p1", "Running")
        await hand.until_unlocked()


async def test_a_node_that_died_between_two_containers_goes_on(hand: HandBinder) -> None:
    async with simulation(hand, failures={"dieAfterFirstContainer": True}):
        await hand.lock("p1")
        await hand.bind("p1", entry(hand) + entry(hand, 1), asks=(1, 1))

        async def half_served() -> bool:
            return (await hand.notes("p1"))[TO_ALLOCATE] == f";{entry(hand, 1)};"

        await until(half_served)
        assert (await hand.notes("p1"))[PHASE] == "allocating"

    async with simulation(hand):
        await hand.until_status("p1", "Running")
        await hand.until_unlocked()


async def test_a_deleted_pod_is_let_go(hand: HandBinder) -> None:
    async with simulation(hand):
        await hand.lock("p1")
        await hand.bind("p1", entry(hand))
        await hand.until_status("p1", "Running")
        await hand.kube.delete(paths.pod(hand.namespace, "p1"))

        async def gone() -> bool:
            try:
                await hand.pod("p1")
            except errors.NotFound:
                return True
            return False

        await until(gone)


async def test_the_reading_commands_show_what_stands_on_the_api_server(hand: HandBinder) -> None:
    async with simulation(hand):
        await hand.lock("p1")
        await hand.bind("p1", entry(hand))
        await hand.create("waits")
        await hand.until_status("p1", "Running")

    view = await cluster_view.read_view(hand.kube, settings.Settings(), namespace=hand.namespace)
    cards = nodes.card_table(view, clock.SystemClock().now(), only=frozenset({hand.name})).rows
    shares = pods.pod_table(view).rows

    assert [(row["card"], row["slots"]["used"]) for row in cards] == [
        (f"GPU-{hand.name}-0", 1),
        (f"GPU-{hand.name}-1", 0),
    ]
    assert [(row["pod"], row["card"]) for row in shares] == [
        ("p1", f"GPU-{hand.name}-0"),
        ("waits", ""),
    ]
