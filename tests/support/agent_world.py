"""Simulated nodes on a fake API server, and pods bound to them by hand."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Sequence
from typing import Any

from support.fake_kube import FakeKube
from vgpu_operator.agent import simulator, spec

ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"
LOCK = "hami.io/mutex.lock"
REGISTER = "hami.io/node-nvidia-register"


class StillClock:
    """A clock that stands at ten o'clock."""

    def now(self) -> datetime.datetime:
        return datetime.datetime(2026, 1, 15, 10, 0, tzinfo=datetime.UTC)


class HandTurnedSleep:
    """Sleeps that end when the test says so.

    The watch's own pauses end at once, so that only delays and rounds wait.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[float, asyncio.Event]] = []

    async def __call__(self, seconds: float) -> None:
        if seconds == simulator.RECONNECT_PAUSE_S:
            await asyncio.sleep(0)
            return
        wakes = asyncio.Event()
        self._waiting.append((seconds, wakes))
        await wakes.wait()

    def asleep(self, seconds: float) -> int:
        """Return how many sleeps of that length wait."""
        return sum(1 for length, _ in self._waiting if length == seconds)

    def end(self, seconds: float) -> None:
        """End every sleep of that length."""
        due = [entry for entry in self._waiting if entry[0] == seconds]
        self._waiting = [entry for entry in self._waiting if entry[0] != seconds]
        for _, wakes in due:
            wakes.set()


class World:
    """What a test holds in its hands."""

    def __init__(self, kube: FakeKube, sim: simulator.Simulator, sleep: HandTurnedSleep) -> None:
        self.kube = kube
        self.sim = sim
        self.sleep = sleep

    def pod(self, name: str) -> dict[str, Any]:
        return self.kube.objects.get(pod_path(name), {})

    def notes(self, name: str) -> dict[str, str]:
        notes: dict[str, str] = self.pod(name)["metadata"]["annotations"]
        return notes

    def phase(self, name: str) -> str:
        return str(self.pod(name).get("status", {}).get("phase", "gone"))

    def node(self, name: str = "sim-1") -> dict[str, Any]:
        return self.kube.objects[f"/api/v1/nodes/{name}"]

    def node_notes(self, name: str = "sim-1") -> dict[str, str]:
        notes: dict[str, str] = self.node(name)["metadata"].get("annotations", {})
        return notes

    def lock(self, text: str | None, node: str = "sim-1") -> None:
        """Set or remove a node's lock as a scheduler would."""
        path = f"/api/v1/nodes/{node}"
        notes = {k: v for k, v in self.node_notes(node).items() if k != LOCK}
        if text is not None:
            notes[LOCK] = text
        metadata = {**self.node(node)["metadata"], "annotations": notes}
        self.kube.put(path, {**self.node(node), "metadata": metadata})

    def bind(self, name: str, text: str, **kinds: Any) -> None:
        """Lock the node and put a bound pod on it."""
        self.lock(f"2026-01-15T10:00:00Z,default,{name}", kinds.get("node", "sim-1"))
        self.kube.put(pod_path(name), bound_pod(name, text, **kinds))

    async def until_phase(self, name: str, phase: str) -> None:
        await self.kube.until(lambda: self.phase(name) == phase)


@contextlib.asynccontextmanager
async def world(values: Any, kube: FakeKube | None = None) -> AsyncIterator[World]:
    """Run a simulation on a fake API server."""
    kube = kube or FakeKube()
    sleep = HandTurnedSleep()
    sim = simulator.Simulator(kube, spec.build(values), StillClock(), sleep=sleep)
    async with sim:
        kube.requests.clear()
        yield World(kube, sim, sleep)


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/default/pods/{name}"


def bound_pod(
    name: str,
    text: str | None,
    *,
    node: str = "sim-1",
    asks: Sequence[int] = (1,),
    init_asks: Sequence[int] = (),
    phase: str = "allocating",
    left: str | None = None,
) -> dict[str, Any]:
    """Return a bound pod whose containers ask for so many cards each."""
    notes = {"hami.io/vgpu-node": node, "hami.io/bind-time": "1768471200", PHASE: phase}
    if text is not None:
        notes |= {ALLOCATED: text, TO_ALLOCATE: text if left is None else left}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {
            "nodeName": node,
            "initContainers": [_container(f"i{n}", ask) for n, ask in enumerate(init_asks)],
            "containers": [_container(f"c{n}", ask) for n, ask in enumerate(asks)],
        },
        "status": {"phase": "Pending"},
    }


def _container(name: str, asks: int) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(asks)} if asks else {}
    return {"name": name, "image": "none", "resources": {"limits": limits}}
