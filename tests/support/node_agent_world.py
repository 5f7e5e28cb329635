"""A node agent between a fake kubelet and a fake API server, and pods bound by hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from support import agent_world, fake_kubelet, waiting
from support.fake_kube import FakeKube
from vgpu_operator.node_agent import agent as node_agent
from vgpu_operator.node_agent import configuration

NODE = "node-1"
NODE_PATH = f"/api/v1/nodes/{NODE}"
DEVICE_IDS = "vgpu-operator.io/device-ids"
TWO_CARDS = "{cards: 2, memory: 24576, slots: 4}"
PATIENCE_S = 10.0


class World:
    """What a test holds in its hands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cards = folder / "cards.yaml"
        self.kube = FakeKube()
        self.kubelet = fake_kubelet.FakeKubelet(folder)
        self.kube.put(NODE_PATH, {"metadata": {"name": NODE}})
        self._agent: asyncio.Task[None] | None = None
        self._made: node_agent.Agent | None = None

    # The agent.

    async def start(self, **switches: Any) -> None:
        """Start the agent; it has not registered yet."""
        await self.start_as(switches=configuration.Switches(**switches))

    async def start_as(self, **settings: Any) -> None:
        """Start an agent with another configuration than the usual."""
        usual = {
            "node": NODE,
            "backend": "simulated",
            "cards": self.cards,
            "kubelet_dir": self.folder,
            "pod_resources": self.kubelet.pod_resources,
            "host_dir": self.folder / "host",
        }
        self._made = await node_agent.prepare(
            configuration.Configuration(**{**usual, **settings}),
            self.kube,
            clock=agent_world.StillClock(),
        )
        self._agent = asyncio.create_task(self._made.run())

    async def finish(self) -> None:
        """Wait for the agent to end by itself, and raise what it broke on."""
        assert self._agent is not None, "no agent has been started"
        async with asyncio.timeout(PATIENCE_S):
            await self._agent

    async def start_and_register(self, **switches: Any) -> None:
        """Start the agent and wait for its devices, and for its cards on the Node."""
        await self.start(**switches)
        await self.kubelet.until(lambda: self.kubelet.healthy > 0)
        await self.kube.until(lambda: agent_world.REGISTER in self.node_notes)

    async def stop(self) -> None:
        """End the agent, and raise what it broke on."""
        if self._agent is not None:
            self._agent.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._agent
            self._agent = None

    @property
    def agent(self) -> node_agent.Agent:
        """The agent that runs."""
        assert self._made is not None, "no agent has been started"
        return self._made

    @property
    def sees_lock(self) -> bool:
        """Whether the agent's watch shows the lock that stands."""
        seen = self.agent.keeper.seen
        return seen is not None and seen.annotations.get(agent_world.LOCK) == self.lock_text

    @property
    def hung_up(self) -> bool:
        """Whether the agent knows that the kubelet waits for no call any more."""
        return bool(self.agent.service._abandoned)

    # The cluster.

    @property
    def node_notes(self) -> dict[str, str]:
        notes: dict[str, str] = self.kube.objects[NODE_PATH]["metadata"].get("annotations", {})
        return notes

    def write_node(self, changes: dict[str, str | None]) -> None:
        """Change the Node's annotations as somebody else would."""
        known = self.kube.objects[NODE_PATH]
        merged = {**self.node_notes, **changes}
        notes = {key: text for key, text in merged.items() if text is not None}
        self.kube.put(NODE_PATH, {**known, "metadata": {**known["metadata"], "annotations": notes}})

    def lock(self, pod: str | None) -> None:
        """Set the node's lock for a pod as a scheduler would, or remove it."""
        text = None if pod is None else f"2026-01-15T10:00:00Z,default,{pod}"
        self.write_node({agent_world.LOCK: text})

    def bind(self, name: str, text: str | None, **kinds: Any) -> None:
        """Lock the node and put a bound pod on it."""
        self.lock(name)
        self.put_pod(name, text, **kinds)

    def put_pod(self, name: str, text: str | None, **kinds: Any) -> None:
        """Put a bound pod on the node."""
        body = agent_world.bound_pod(name, text, node=NODE, **kinds)
        self.kube.put(agent_world.pod_path(name), body)

    def put_plain_pod(self, name: str, *, asks: int = 1) -> None:
        """Put a pod on the node that came past the scheduler, without the protocol's keys."""
        body = agent_world.bound_pod(name, None, node=NODE, asks=(asks,))
        del body["metadata"]["annotations"]
        self.kube.put(agent_world.pod_path(name), body)

    def put_copy(self, name: str, notes: dict[str, str], **kinds: Any) -> None:
        """Put a pod on the node that came past the scheduler with another pod's annotations."""
        body = agent_world.bound_pod(name, None, node=NODE, **kinds)
        body["metadata"]["annotations"] = dict(notes)
        self.kube.put(agent_world.pod_path(name), body)

    def end_pod(self, name: str) -> None:
        """Delete a pod; the kubelet's slots of it are free again."""
        self.kube.remove(agent_world.pod_path(name))
        self.kubelet.holdings = [one for one in self.kubelet.holdings if one.pod != name]

    def change_pod(self, name: str, **status: Any) -> None:
        """Change a pod's status as a kubelet would."""
        path = agent_world.pod_path(name)
        known = self.kube.objects[path]
        self.kube.put(path, {**known, "status": {**known.get("status", {}), **status}})

    def notes(self, pod: str) -> dict[str, str]:
        notes: dict[str, str] = self.kube.objects[agent_world.pod_path(pod)]["metadata"].get(
            "annotations", {}
        )
        return notes

    def uid(self, pod: str) -> str:
        return str(self.kube.objects[agent_world.pod_path(pod)]["metadata"]["uid"])

    def phase(self, pod: str) -> str | None:
        return self.notes(pod).get(agent_world.PHASE)

    @property
    def lock_text(self) -> str | None:
        return self.node_notes.get(agent_world.LOCK)

    def events(self) -> list[tuple[str, str]]:
        """Reason and message of every event."""
        return [
            (one["reason"], one["message"])
            for path, one in self.kube.objects.items()
            if "/events/" in path
        ]


async def until(holds: Callable[[], bool], what: str = "what the test waits for") -> None:
    """Return once ``holds()`` is true."""

    async def ask() -> bool:
        return holds()

    await waiting.until(what, ask, limit_s=PATIENCE_S, every_s=0.005)


@contextlib.asynccontextmanager
async def world(
    folder: Path, *, cards: str = TWO_CARDS, kubelet: bool = True
) -> AsyncIterator[World]:
    """A cluster of one node; the agent is for the test to start."""
    made = World(folder)
    made.cards.write_text(cards)
    if kubelet:
        await made.kubelet.start()
    try:
        yield made
    finally:
        await made.stop()
        await made.kubelet.stop()


def entry(card: int, memory: int = 3000, cores: int = 30) -> str:
    """One device entry of one of the node's cards."""
    return f"GPU-{NODE}-{card},NVIDIA,{memory},{cores}:"
