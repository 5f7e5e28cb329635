"""Churn against one operator, and samples of what it costs while it goes on."""

import asyncio
import contextlib
import itertools
import random
import re
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import objects
from support.samples import Samples
from support.world import World, fetch, nvidia_pod
from vgpu_operator.agent import simulator
from vgpu_operator.kube import errors, paths

LIVE = 24
"""Pods that live at the same time."""

NODES = 6
CARDS = 4
SAMPLE_S = 0.5
FIRST_REST_S = 4.0
REST_LIMIT_S = 100.0
"""Go closes idle connections after 90 s."""

POD_LIMIT_S = 20.0
"""How long a pod is waited for before it is deleted anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the operator cost at one moment.

    Attributes:
        filters: filters answered so far, and the seconds that they took in all.
    """

    at_s: float
    memory_mib: float
    files: int
    sockets: int
    threads: int
    tasks: int
    filters: tuple[float, float]


@dataclass(slots=True)
class Done:
    """How much churn there was."""

    pods: int = 0
    finished: int = 0
    refused: int = 0
    registers: int = 0
    restarts: int = 0
    nodes: int = 0


class Churn:
    """Pods that come, run, finish and go; cards that fail; nodes that restart, come and go."""

    def __init__(self, here: World, sim: simulator.Simulator, *, seed: int = 6) -> None:
        self._here = here
        self._sim = sim
        self._random = random.Random(seed)  # noqa: S311  # to vary, not to hide
        self._numbers = itertools.count()
        self.done = Done()

    async def go_on(self, until_s: float) -> None:
        """Churn until that moment; every pod that was made is gone then."""

        async def again(act: Callable[[], Awaitable[None]], pause_s: float) -> None:
            while time.monotonic() < until_s:
                await act()
                await asyncio.sleep(pause_s)

        async with asyncio.TaskGroup() as group:
            for _ in range(LIVE):
                group.create_task(again(self._one_pod, 0.05))
            group.create_task(again(self._one_refused_pod, 0.5))
            group.create_task(again(self._one_register_change, 0.5))
            group.create_task(again(self._one_restart, 2.0))
            group.create_task(again(self._one_node, 1.0))

    async def _one_pod(self) -> None:
        """Let a pod live: run and finish, run and be deleted, or be deleted at once."""
        name = f"soak-{next(self._numbers)}"
        memory = self._random.choice((1000, 3000, 6000, 12000))
        await self._here.create(nvidia_pod(name, memory=memory))
        self.done.pods += 1
        waits, finishes = self._random.random() < 0.8, self._random.random() < 0.5
        if waits and await self._runs(name) and finishes:
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                status = {"status": {"phase": "Succeeded"}}
                await self._here.kube.patch(f"{paths.pod('default', name)}/status", status)
                self.done.finished += 1
        with contextlib.suppress(errors.NotFound):
            await self._here.delete(name)

    async def _runs(self, name: str) -> bool:
        deadline = time.monotonic() + POD_LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(errors.NotFound):
                if (await self._here.pod(name))["status"]["phase"] in ("Running", "Failed"):
                    return True
            await asyncio.sleep(0.2)
        return False

    async def _one_refused_pod(self) -> None:
        name = f"refused-{next(self._numbers)}"
        await self._here.create(nvidia_pod(name, memory=10_000_000))
        await asyncio.sleep(1.0)
        await self._here.delete(name)
        self.done.refused += 1

    async def _one_register_change(self) -> None:
        node = self._random.choice(tuple(self._sim.nodes.values()))
        card = self._random.choice(node.cards)
        await node.set_healthy(card.id, not card.healthy)
        self.done.registers += 1

    async def _one_restart(self) -> None:
        node = self._random.choice(tuple(self._sim.nodes.values()))
        await node.vanish()
        await asyncio.sleep(0.5)
        await node.come_back()
        self.done.restarts += 1

    async def _one_node(self) -> None:
        """Let a node with a name of its own come and go; it takes no pods."""
        name = f"passing-{next(self._numbers)}"
        made = objects.node(name, cards=CARDS)
        made["spec"] = {"unschedulable": True}
        await self._here.kube.create(paths.NODES, made)
        await asyncio.sleep(0.5)
        await self._here.kube.delete(paths.node(name))
        self.done.nodes += 1


async def sample(here: World) -> Sample:
    """Look at the operator's process from outside, and at its own metrics."""
    pid = here.replica.component.pid
    assert pid is not None
    process = Path(f"/proc/{pid}")
    status = (process / "status").read_text()
    found = Samples(await fetch(f"{here.replica.metrics_url}/metrics"))
    descriptors = _descriptors(process)
    name = "vgpu_extender_request_duration_seconds"
    return Sample(
        at_s=time.monotonic(),
        memory_mib=_number(status, r"VmRSS:\s+(\d+) kB") / 1024,
        files=len(descriptors),
        sockets=sum(1 for target in descriptors if target.startswith("socket:")),
        threads=int(_number(status, r"Threads:\s+(\d+)")),
        tasks=int(found.total("vgpu_event_loop_tasks")),
        filters=(
            found.total(f"{name}_count", verb="filter"),
            found.total(f"{name}_sum", verb="filter"),
        ),
    )


def _descriptors(process: Path) -> list[str]:
    targets = []
    for link in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets.append(str(link.readlink()))
    return targets


def _number(text: str, pattern: str) -> float:
    match = re.search(pattern, text)
    assert match is not None, f"no {pattern} in the process's status"
    return float(match[1])


async def samples_until(here: World, until_s: float) -> list[Sample]:
    """Take samples until that moment."""
    taken = []
    while time.monotonic() < until_s:
        taken.append(await sample(here))
        await asyncio.sleep(SAMPLE_S)
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Third:
    """What a third of the run cost: under churn, and at rest after it.

    What comes and goes with the load (tasks, connections) is compared at rest,
    where only a leak is left; memory is the median and latency the mean under churn.
    """

    memory_mib: float
    filter_ms: float
    tasks: int
    files: int
    sockets: int
    threads: int


def third(under_churn: Sequence[Sample], at_rest: Sample) -> Third:
    """Return what the samples of a third come to."""
    (calls, seconds), (later_calls, later_seconds) = (
        under_churn[0].filters,
        under_churn[-1].filters,
    )
    return Third(
        memory_mib=round(statistics.median(s.memory_mib for s in under_churn), 1),
        filter_ms=round(1000 * (later_seconds - seconds) / max(1, later_calls - calls), 2),
        tasks=at_rest.tasks,
        files=at_rest.files,
        sockets=at_rest.sockets,
        threads=at_rest.threads,
    )


BOUNDS: Mapping[str, tuple[float, float]] = {
    "memory_mib": (1.04, 4.0),
    "filter_ms": (2.0, 4.0),
    "tasks": (1.0, 8.0),
    "files": (1.0, 6.0),
    "sockets": (1.0, 6.0),
    "threads": (1.0, 2.0),
}
"""How much a third may cost: so many times the one before, and so much more."""

AT_REST = ("tasks", "files", "sockets", "threads")


async def rested(here: World, before: Third | None) -> Sample:
    """Wait until what the load has left is gone, as far as it goes; return what is there then.

    Idle connections and Kopf's workers end by themselves after seconds. The
    first rest has nothing to be compared with, so it takes its whole time.
    """
    end = time.monotonic() + (FIRST_REST_S if before is None else REST_LIMIT_S)
    while True:
        now = await sample(here)
        calm = before is not None and not _beyond(before, now, AT_REST)
        if calm or time.monotonic() >= end:
            return now
        await asyncio.sleep(SAMPLE_S)


def growth(before: Third, after: Third) -> list[str]:
    """Return a sentence for everything that grew beyond its bound."""
    return _beyond(before, after, BOUNDS)


def _beyond(before: Third, after: Third | Sample, names: Iterable[str]) -> list[str]:
    return [
        f"{name} grew from {getattr(before, name)} to {getattr(after, name)}"
        for name in names
        if getattr(after, name) > getattr(before, name) * BOUNDS[name][0] + BOUNDS[name][1]
    ]
