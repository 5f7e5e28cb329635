"""d: a full cluster; one pod leaves, and how long a waiting pod takes to get its card."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench import agents, cluster, objects
from vgpu_operator.kube import paths

STUCK_S = 20.0
"""A round that takes longer counts as stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """All rounds.

    Attributes:
        waiting: pods that waited in each round.
        took_s: from the answered deletion to the Binding that the API shows.
        stuck: rounds that took longer than ``STUCK_S``.
        filters: what kube-scheduler asked, a round.
        cpu_ms: of the operator, a round.
    """

    waiting: int
    took_s: tuple[float, ...]
    stuck: int
    filters: float
    cpu_ms: float


async def measure(*, rounds: int, nodes: int = 4, waiting: int = 5) -> Freed:
    """Free one card after another while pods wait that fit nowhere else."""
    async with cluster.bed() as made:
        await made.add_nodes(nodes, cards=2, slots=1)
        await made.until_known()
        full = nodes * 2
        total = full + waiting + rounds
        async with cluster.agents(made, delay_s=0.0, expect=total * 10):
            bound = _Bound()
            _, version = await made.kube.list(paths.PODS)
            watching = asyncio.create_task(
                cluster.follow(made.kube, paths.PODS, bound.see, since=version)
            )
            names = iter(f"pod-{number}" for number in range(total))
            for _ in range(full):
                await _create(made, next(names))
            await bound.until(full, limit_s=60)
            await cluster.all_of(
                [next(names) for _ in range(waiting)], lambda name: _create(made, name)
            )
            await until_refused(made, waiting)
            asked, cpu_s = await asked_filters(made), made.cpu_s()["operator"]
            took: list[float] = []
            stuck = 0
            for number in range(rounds):
                await _create(made, next(names))
                await bound.until_quiet()
                leaves = next(iter(bound.names))
                await made.kube.delete(paths.pod("default", leaves), grace_s=0)
                begun = time.monotonic()
                bound.names.pop(leaves, None)
                if await bound.until(full + number + 1, limit_s=STUCK_S):
                    took.append(bound.latest - begun)
                else:
                    stuck += 1
            watching.cancel()
            asked = await asked_filters(made) - asked
            cpu_s = made.cpu_s()["operator"] - cpu_s
    return Freed(
        waiting=waiting,
        took_s=tuple(took),
        stuck=stuck,
        filters=asked / rounds,
        cpu_ms=1000 * cpu_s / rounds,
    )


async def asked_filters(made: cluster.Bed) -> float:
    """Return how many filter calls the operator has answered."""
    name = "vgpu_extender_request_duration_seconds_count"
    return (await made.metrics()).total(name, verb="filter")


async def until_refused(made: cluster.Bed, count: int) -> None:
    """Wait until so many pods have been told that they fit nowhere."""
    async with asyncio.timeout(600):
        while True:
            if (await made.metrics()).total("vgpu_pods_refused") >= count:
                return
            await asyncio.sleep(0.2)


async def _create(made: cluster.Bed, name: str) -> None:
    await made.kube.create(paths.namespaced("default", "pods"), objects.pod(name, exclusive=True))


class _Bound:
    """Pods that the API shows bound."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.seen: set[str] = set()
        self.served: set[str] = set()
        self.latest = 0.0
        self._news = asyncio.Event()

    def see(self, kind: str, pod: Mapping[str, Any]) -> None:
        """Take in what a watch has shown."""
        if kind not in ("ADDED", "MODIFIED"):
            return
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if pod["spec"].get("nodeName") and uid not in self.seen:
            self.seen.add(uid)
            self.names[name] = None
            self.latest = time.monotonic()
        annotations = pod["metadata"].get("annotations") or {}
        if annotations.get(agents.PHASE) == "success":
            self.served.add(uid)
        self._news.set()

    async def until(self, count: int, *, limit_s: float) -> bool:
        """Wait until so many have been bound; say whether that came in time."""
        return await self._reached(lambda: len(self.seen) >= count, limit_s)

    async def until_quiet(self) -> None:
        """Wait until every bound pod is served."""
        await self._reached(lambda: len(self.served) >= len(self.seen), STUCK_S)

    async def _reached(self, reached: Any, limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                while not reached():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True
