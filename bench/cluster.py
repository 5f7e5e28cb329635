"""The real components that are measured, and what they cost."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from bench import machine, objects
from support import samples
from vgpu_operator.cli import grounds
from vgpu_operator.cli import stack as cli_stack
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.kube import client, errors, paths

PAUSE_S = 0.2
"""Between a list that failed and the next try."""

AT_ONCE = 32
"""Requests of the load client that are under way at the same time."""


@dataclass(slots=True, kw_only=True)
class Bed:
    """A running cluster with one operator and its scheduler."""

    plane: ControlPlane
    kube: client.KubeClient
    stack: cli_stack.Stack
    replica: cli_stack.Replica | None = None
    nodes: list[str] = field(default_factory=list)

    @property
    def running(self) -> cli_stack.Replica:
        """The operator, which must have been started."""
        if self.replica is None:
            raise RuntimeError("the operator was not started yet; start it first")
        return self.replica

    async def add_nodes(
        self, count: int, *, cards: int = objects.CARDS, slots: int = objects.SLOTS
    ) -> None:
        """Create nodes; the operator learns them as it always does."""
        names = [f"node-{number:05d}" for number in range(len(self.nodes), len(self.nodes) + count)]

        async def add(name: str) -> None:
            await self.kube.create(paths.NODES, objects.node(name, cards=cards, slots=slots))
            path = f"{paths.node(name)}/status"
            await self.kube.patch(path, objects.node_status(cards=cards, slots=slots))

        await all_of(names, add)
        self.nodes += names

    async def until_known(self) -> None:
        """Wait until the operator's ledger has all the nodes' cards."""
        while True:
            probe = objects.pod("probe")
            probe["metadata"] |= {"uid": "probe", "namespace": "default"}
            answer = await self.ask("filter", {"Pod": probe, "NodeNames": self.nodes})
            if len(answer.get("NodeNames") or ()) == len(self.nodes):
                return
            await asyncio.sleep(0.2)

    async def ask(self, verb: str, args: Any) -> Any:
        """Send one request to the operator as kube-scheduler would."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.running.extender_url}/{verb}", data=orjson.dumps(args)) as answer,
        ):
            return orjson.loads(await answer.read())

    async def metrics(self) -> samples.Samples:
        """Scrape the operator."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.running.metrics_url}/metrics") as answer,
        ):
            return samples.Samples((await answer.read()).decode())

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU seconds that each process has used so far."""
        processes = {name: part.pid for name, part in self.plane.components.items()}
        if self.replica is not None:
            processes["operator"] = self.replica.component.pid
        return {name: machine.process_cpu_s(pid) for name, pid in processes.items() if pid}


@contextlib.asynccontextmanager
async def bed(*, operator: bool = True) -> AsyncIterator[Bed]:
    """Run a cluster of its own; without ``operator`` its scheduler waits for nobody."""
    async with (
        ControlPlane(ControlPlaneOptions()) as plane,
        await client.KubeClient.connect(kubeconfig=str(plane.kubeconfig)) as kube,
    ):
        stack = cli_stack.Stack(grounds.LocalGround(plane))
        made = Bed(plane=plane, kube=kube, stack=stack)
        try:
            await stack.prepare(kube)
            if operator:
                await start_operator(made)
            yield made
        finally:
            await stack.ground.stop()
            await stack.stop()


async def start_operator(made: Bed) -> float:
    """Start the operator and its scheduler; return the seconds until it was ready."""
    begun = time.monotonic()
    made.replica = made.stack.start_operator()
    await made.replica.until_ready(limit_s=600)
    took_s = time.monotonic() - begun
    await made.stack.start_scheduler(made.replica)
    return took_s


@contextlib.asynccontextmanager
async def agents(made: Bed, *, delay_s: float, expect: int) -> AsyncIterator["Serving"]:
    """Run the agents of all nodes."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.agents", "--kubeconfig", str(made.plane.kubeconfig)),
        *("--delay", str(delay_s), "--expect", str(expect)),
        cwd=Path(__file__).parent.parent,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        running = Serving(process)
        await running.ready()
        yield running
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def follow(
    kube: client.KubeClient, path: str, see: Callable[[str, Any], None], *, since: str
) -> None:
    """Watch for ever, from a version on; list again when a watch ends."""
    while True:
        try:
            async for event in kube.watch(path, resource_version=since):
                see(event["type"], event["object"])
        except errors.ApiError as fault:
            print(f"the watch ended: {fault}", file=sys.stderr, flush=True)
        try:
            found, since = await kube.list(path)
        except errors.ApiError:
            await asyncio.sleep(PAUSE_S)
            continue
        for raw in found:
            see("MODIFIED", raw)


class Serving:
    """The agents' process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ready(self) -> None:
        """Wait until they watch."""
        await self._line()

    async def done(self) -> Mapping[str, list[float]]:
        """Return when each pod was seen bound, and served, once all are."""
        times: dict[str, list[float]] = await self._line()
        return times

    async def _line(self) -> Any:
        stream = self._process.stdout
        line = await stream.readline() if stream is not None else b""
        if not line:
            raise RuntimeError("the agents' process ended")
        return orjson.loads(line)


async def all_of(items: Sequence[Any], act: Any, *, at_once: int = AT_ONCE) -> None:
    """Act on all items, so many at a time."""
    todo = iter(items)

    async def work() -> None:
        for item in todo:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())


async def create_pods(kube: client.KubeClient, pods: Sequence[objects.Json]) -> None:
    """Create pods as fast as the API server takes them."""
    path = paths.namespaced("default", "pods")
    await all_of(pods, lambda pod: kube.create(path, pod))


async def delete_pods(kube: client.KubeClient) -> None:
    """Delete all pods at once."""
    path = paths.namespaced("default", "pods")
    items, _ = await kube.list(path)
    await all_of(
        [item["metadata"]["name"] for item in items],
        lambda name: kube.delete(f"{path}/{name}", grace_s=0),
    )
