"""One burst with a fault in the middle, and the audit after it, from the API alone."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp

from support import agent_log, api_audit, ledger_page
from support.replicas import Replicas
from support.world import nvidia_pod

Json = dict[str, Any]

NODES = 4
CARDS = 2
CARD_MIB = 24_576
POD_MIB = 6_000
ROOM = NODES * CARDS * (CARD_MIB // POD_MIB)
"""Pods that fit: four to a card. A card counted twice, or forgotten, shows at once."""

PODS = ROOM + 2
"""The last two must be told why they wait."""

SIMULATION = {
    "nodes": [
        {"prefix": "sim-", "count": NODES, "cards": CARDS, "memory": CARD_MIB, "delay": 0.15}
    ],
    "roundInterval": 1.0,
}
"""An Allocate takes 150 ms, so a burst takes more than a second: a fault hits its middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """How the pods of a burst stand."""

    bound: int
    running: int
    failed: int
    told: int
    total: int

    @property
    def settled(self) -> bool:
        """Whether nothing more is to come: all that fit run, all others know why not."""
        room_taken = self.running == min(ROOM, self.total - self.failed)
        return room_taken and self.running + self.failed + self.told == self.total


def count(pods: list[Json]) -> Pods:
    """Count the pods by how they stand."""
    return Pods(
        bound=sum(1 for pod in pods if pod["spec"].get("nodeName")),
        running=sum(1 for pod in pods if _runs(pod)),
        failed=sum(
            1
            for pod in pods
            if pod["status"].get("phase") == "Failed" and pod["status"].get("reason")
        ),
        told=sum(1 for pod in pods if "Insufficient" in _refusal(pod)),
        total=len(pods),
    )


def _runs(pod: Json) -> bool:
    phase = api_audit.annotations(pod).get("hami.io/bind-phase")
    return phase == "success" and pod["status"].get("phase") == "Running"


def _refusal(pod: Json) -> str:
    """Return what an unbound pod is told, empty when it is bound or not refused."""
    if pod["spec"].get("nodeName"):
        return ""
    return next(
        (
            str(condition.get("message", ""))
            for condition in pod["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ),
        "",
    )


class Burst:
    """Pods that are created at once, and what becomes of them."""

    def __init__(self, here: Replicas, tag: str, *, pods: int = PODS) -> None:
        self._here = here
        self._tag = tag
        self._first = pods
        self.names: list[str] = []
        self.last = count([])
        self._creating: list[asyncio.Task[None]] = []
        self.bound: list[tuple[float, int]] = []
        """When the number of bound pods was seen to grow, and to what."""
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Burst":
        self.add(self._first)
        self._watching = asyncio.create_task(self._watch())
        return self

    def add(self, pods: int) -> None:
        """Create more pods, all at once."""
        for number in range(len(self.names), len(self.names) + pods):
            pod = nvidia_pod(f"{self._tag}-{number}", memory=POD_MIB, scheduler="hami-scheduler")
            self.names.append(pod["metadata"]["name"])
            self._creating.append(asyncio.create_task(self._here.create(pod)))

    async def __aexit__(self, *_: object) -> None:
        for task in (*self._creating, self._watching):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait((task,))

    async def _watch(self) -> None:
        while True:
            found = await self._here.pods()
            if found is not None:
                number = count(found).bound
                if not self.bound or number > self.bound[-1][1]:
                    self.bound.append((time.monotonic(), number))
            await asyncio.sleep(0.05)

    @property
    def bound_now(self) -> int:
        """How many pods were bound when last seen."""
        return self.bound[-1][1] if self.bound else 0

    async def until_bound(self, number: int) -> None:
        """Wait until so many are bound."""

        async def reached() -> bool:
            return self.bound_now >= number

        await self._here.until(f"{number} pods are bound", reached, every_s=0.01)

    async def until_settled(self) -> float:
        """Wait until nothing more is to come and no lock is left; return when that was."""
        await asyncio.gather(*self._creating)

        async def settled() -> bool:
            pods, nodes = await self._here.pods(), await self._here.nodes()
            if pods is None or nodes is None:
                return False
            over = api_audit.violations(nodes, pods)
            assert not over, "; ".join(over)
            self.last = count(pods)
            return len(pods) == len(self.names) and self.last.settled and not api_audit.locks(nodes)

        try:
            await self._here.until("the burst is settled", settled, every_s=0.1)
        except TimeoutError as fault:
            raise TimeoutError(f"{fault}: {self.last}, restarts {self._here.restarts}") from None
        return time.monotonic()

    def bound_after(self, moment: float) -> float | None:
        """Return how long after that moment the first pod was seen bound."""
        before = max((number for seen, number in self.bound if seen <= moment), default=0)
        return next(
            (seen - moment for seen, number in self.bound if seen > moment and number > before),
            None,
        )

    async def problems(self, *, lines_may_lack: bool, may_fail_pods: bool) -> list[str]:
        """Audit; return a sentence for everything that is wrong."""
        pods = await self._here.until("the pods are listed", self._here.pods)
        nodes = await self._here.until("the nodes are listed", self._here.nodes)
        found = api_audit.violations(nodes, pods)
        found += [
            f"{node} is still locked: {text}" for node, text in api_audit.locks(nodes).items()
        ]
        found += _left_behind((*pods, *nodes))
        found += self._served_wrongly(pods, lines_may_lack=lines_may_lack)
        if not may_fail_pods:
            failed = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
            found += [f"{p['metadata']['name']}: {p['status'].get('message')}" for p in failed]
        return found

    def _served_wrongly(self, pods: list[Json], *, lines_may_lack: bool) -> Iterator[str]:
        """Say which pods were given other cards than their annotations say."""
        served = agent_log.served(self._here.agents.log_file)
        for pod in filter(_runs, pods):
            name = f"default/{pod['metadata']['name']}"
            promised = [
                tuple(card for card, _, _ in container)
                for container in api_audit.shares(api_audit.annotations(pod)[api_audit.ALLOCATED])
            ]
            given = served.get(name, [])
            if given != promised and not (lines_may_lack and given == []):
                yield f"{name} was served {given}, but its annotations promise {promised}"

    async def until_ledger_equals(self) -> None:
        """Wait until the leader exports just what the pods' annotations add up to."""

        async def equal() -> bool:
            pods, nodes = await self._here.pods(), await self._here.nodes()
            if pods is None or nodes is None:
                return False
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                page = await (await self._here.leader()).page()
                return ledger_page.read(page) == api_audit.promised(nodes, pods)
            return False

        await self._here.until("the ledger equals the API", equal, every_s=0.2)


def _left_behind(things: tuple[Json, ...]) -> Iterator[str]:
    for thing in things:
        if thing["metadata"].get("finalizers"):
            yield f"{thing['metadata']['name']} has finalizers"
        if any("kopf" in key for key in api_audit.annotations(thing)):
            yield f"{thing['metadata']['name']} has annotations of Kopf's"
