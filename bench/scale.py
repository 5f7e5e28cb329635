"""A big cluster that is there already: start, memory, and what one filter takes over HTTP."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from bench import cluster, empty, freed, machine, objects, quantiles
from vgpu_operator.kube import paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One kind of question: times of ``/filter`` and ``/prioritize`` together, in ms."""

    p50_ms: float
    p99_ms: float


@dataclass(slots=True, kw_only=True)
class Scale:
    """One size."""

    nodes: int
    pods: int
    ready_s: float = 0.0
    memory_mib: float = 0.0
    start_cpu_s: float = 0.0
    asked: dict[str, Asked] = field(default_factory=dict)
    empty: Asked | None = None
    busy: Asked | None = None
    events_per_s: float = 0.0
    cores_for_events: float = 0.0
    longest_step_s: float = 0.0
    last_node_s: float = 0.0
    last_node_filters: float = 0.0


QUESTIONS: dict[str, list[dict[str, str]]] = {
    "one container": [{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}],
    "three containers": [{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}] * 3,
    "percentage": [{"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "10"}],
    "whole card": [{"nvidia.com/gpu": "1"}],
    "fits nowhere": [{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "30000"}],
}


async def measure(
    *, nodes: int, pods: int, repeats: int, events_s: float = 0.0, event_rate: int = 500
) -> Scale:
    """Fill the API server, start the operator on it, and ask."""
    found = Scale(nodes=nodes, pods=pods)
    async with cluster.bed(operator=False) as made:
        await made.add_nodes(nodes)
        await place_pods(made, pods)
        found.ready_s = await cluster.start_operator(made)
        pid = made.running.component.pid or 0
        found.start_cpu_s = machine.process_cpu_s(pid)
        for name, containers in QUESTIONS.items():
            found.asked[name] = await ask(made, containers, repeats=repeats)
        async with empty.server(nodes) as url:
            found.empty = await ask(made, QUESTIONS["one container"], repeats=repeats, url=url)
        found.memory_mib = machine.memory_mib(pid)
        if events_s:
            await _under_events(made, found, pid, seconds=events_s, rate=event_rate)
        await _place_on_the_last(made, found)
        found.longest_step_s = (await made.metrics()).most("vgpu_event_loop_lag_seconds", 1.0)
    return found


async def place_pods(made: cluster.Bed, count: int) -> None:
    """Create pods that are bound and served already, evenly over nodes and cards."""
    pods = [
        objects.placed_pod(
            f"placed-{number}",
            node=(node := made.nodes[number % len(made.nodes)]),
            card=f"GPU-{node}-{number // len(made.nodes) % objects.CARDS}",
        )
        for number in range(count)
    ]
    await cluster.create_pods(made.kube, pods)


async def _place_on_the_last(made: cluster.Bed, found: Scale) -> None:
    """Create a pod that fits on the last node only, and wait until it is bound."""
    asked = await freed.asked_filters(made)
    pod = objects.pod("for-the-last")
    card = f"GPU-{made.nodes[-1]}-0"
    pod["metadata"].setdefault("annotations", {})["nvidia.com/use-gpuuuid"] = card
    begun = time.monotonic()
    await cluster.create_pods(made.kube, [pod])
    async with asyncio.timeout(60):
        while True:
            shown = await made.kube.get(paths.pod("default", "for-the-last"))
            if shown["spec"].get("nodeName"):
                break
            await asyncio.sleep(0.01)
    found.last_node_s = time.monotonic() - begun
    found.last_node_filters = await freed.asked_filters(made) - asked


async def ask(
    made: cluster.Bed,
    containers: list[dict[str, str]],
    *,
    repeats: int,
    pause_s: float = 0.0,
    url: str = "",
) -> Asked:
    """Ask about the same kind of pod again and again, as kube-scheduler does."""
    took = await times(made, containers, repeats=repeats + 5, pause_s=pause_s, url=url)
    took = sorted(took[5:])
    return Asked(p50_ms=took[len(took) // 2], p99_ms=quantiles.p99(took))


async def times(
    made: cluster.Bed,
    containers: list[dict[str, str]],
    *,
    repeats: int,
    pause_s: float = 0.0,
    url: str = "",
) -> list[float]:
    """Ask so often and return how long each answer took, in ms, in order."""
    took = []
    url = url or made.running.extender_url
    names = list(made.nodes)
    async with aiohttp.ClientSession() as session:
        for number in range(repeats):
            pod = _pod(number, containers)
            body = orjson.dumps({"Pod": pod, "NodeNames": names})
            begun = time.perf_counter()
            answer = await _post(session, f"{url}/filter", body)
            fitting = orjson.loads(answer)["NodeNames"]
            if fitting:
                body = orjson.dumps({"Pod": pod, "NodeNames": fitting})
                await _post(session, f"{url}/prioritize", body)
            took.append(1000 * (time.perf_counter() - begun))
            if pause_s:
                await asyncio.sleep(pause_s)
            random.Random(number).shuffle(names)  # noqa: S311  # kube-scheduler's order turns too
    return took


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> bytes:
    async with session.post(url, data=body) as answer:
        return await answer.read()


def _pod(number: int, containers: list[dict[str, str]]) -> Any:
    pod = objects.pod(f"asked-{number}")
    pod["metadata"] |= {"uid": f"asked-{number}", "namespace": "default"}
    pod["spec"]["containers"] = [
        {"name": f"c{place}", "image": "none", "resources": {"limits": limits}}
        for place, limits in enumerate(containers)
    ]
    return pod


async def _under_events(
    made: cluster.Bed, found: Scale, pid: int, *, seconds: float, rate: int
) -> None:
    """Change pods of other workloads all the time, and ask meanwhile."""
    pods = [
        objects.plain_pod(f"other-{number}", node=made.nodes[number % len(made.nodes)])
        for number in range(200)
    ]
    await cluster.create_pods(made.kube, pods)
    over = False
    sent = 0

    async def change() -> None:
        nonlocal sent
        while not over:
            path = paths.pod("default", f"other-{sent % len(pods)}")
            sent += 1
            patch = {"metadata": {"annotations": {"example.com/beat": str(sent)}}}
            await made.kube.patch(path, patch)
            behind_s = sent / rate - (time.monotonic() - begun)
            if behind_s > 0:
                await asyncio.sleep(behind_s)

    begun = time.monotonic()
    before_s = machine.process_cpu_s(pid)
    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(change())
        await asyncio.sleep(seconds / 2)
        quiet_s, quiet_sent = machine.process_cpu_s(pid) - before_s, sent
        lasted_s = time.monotonic() - begun
        containers = QUESTIONS["one container"]
        found.busy = await ask(made, containers, repeats=int(seconds * 5), pause_s=0.1)
        over = True
    found.events_per_s = quiet_sent / lasted_s
    found.cores_for_events = quiet_s / lasted_s
