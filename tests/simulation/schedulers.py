"""A kube-scheduler: election, queue with backoff, filter, prioritize, bind.

What of the real one (1.36) matters to an extender: one pod after the other,
binds beside each other, refused pods tried again on changes of Nodes and when
bound pods go, never because time passes (five minutes are longer than a story).
The highest priority goes first, a nominated node is asked for before all others,
and preemption that finds no victim takes the nomination off the pod.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from simulation import clocks, oracle
from simulation.chance import Chance
from simulation.client import SimulatedClient
from simulation.server import Json
from vgpu_operator.kube import errors, paths

SCHEDULER_NAME = "hami-scheduler"
LEASE = ("kube-system", "kube-scheduler")
LEASE_S, RENEW_S, RETRY_S = 15, 10.0, 2.0
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 10.0
BIND_LIMIT_S = 600.0

Ask = Callable[[str, Json], Awaitable[Json]]


class LostLeaseError(Exception):
    """The Lease could not be renewed in time: kube-scheduler ends itself."""


@dataclass(slots=True)
class _Entry:
    """A pod in the queue; ``ready_at`` None = refused, waits for an event."""

    raw: Json
    ready_at: float | None
    tries: int = 0
    tried_at: float = 0.0
    busy: bool = False


class Scheduler:
    """One kube-scheduler process.

    Args:
        identity: its holder identity.
        ask: sends a request to its extender.
        on_filter: told the names asked for and the answer of every filter.
    """

    def __init__(
        self,
        identity: str,
        client: SimulatedClient,
        clock: clocks.SimulatedClock,
        *,
        chance: Chance,
        ask: Ask,
        on_filter: Callable[[Json, tuple[str, ...], Json], None],
    ) -> None:
        self.leads = False
        self._identity = identity
        self._client = client
        self._clock = clock
        self._chance = chance
        self._ask = ask
        self._on_filter = on_filter
        self._nodes: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._queue: dict[str, _Entry] = {}
        self._assumed: set[str] = set()
        self._moves = 0
        self._cycles = 0
        self._news = asyncio.Event()
        self._seen_lease: tuple[str, str] = ("", "")
        self._seen_lease_at = 0.0
        self._renewed_at = 0.0

    async def run(self) -> None:
        """Work until the Lease is lost."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._elect())
            group.create_task(self._follow(paths.NODES, self._node_event))
            group.create_task(self._follow(paths.PODS, self._pod_event))
            group.create_task(self._work())

    # Election, as client-go does it.

    async def _elect(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(RENEW_S):
                    holds = await self._try_lease()
            except (errors.ApiError, TimeoutError):
                holds = False
            now = loop.time()
            if holds:
                self._renewed_at = now
                if not self.leads:
                    self.leads = True
                    self._news.set()
            elif self.leads and now - self._renewed_at > RENEW_S:
                raise LostLeaseError
            await asyncio.sleep(RETRY_S)

    async def _try_lease(self) -> bool:
        loop = asyncio.get_running_loop()
        path = paths.lease(*LEASE)
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_S,
            "renewTime": f"{self._clock.now().isoformat()}Z",
        }
        try:
            raw = await self._client.get(path)
        except errors.NotFound:
            body: Json = {"metadata": {"name": LEASE[1]}, "spec": spec}
            await self._client.create(path.rpartition("/")[0], body)
            return True
        seen = (raw["spec"]["holderIdentity"], raw["spec"]["renewTime"])
        if seen != self._seen_lease:
            self._seen_lease, self._seen_lease_at = seen, loop.time()
        ours = seen[0] == self._identity
        if not ours and loop.time() < self._seen_lease_at + LEASE_S:
            if self.leads:
                raise LostLeaseError
            return False
        await self._client.replace(path, {**raw, "spec": spec})
        return True

    # Informers.

    async def _follow(self, path: str, take_in: Callable[[str, Json], None]) -> None:
        version = ""
        known = self._nodes if path == paths.NODES else self._pods
        while True:
            try:
                if not version:
                    items, version = await self._client.list(path)
                    listed = {raw["metadata"]["uid"] for raw in items}
                    for uid in [uid for uid in known if uid not in listed]:
                        take_in("DELETED", known[uid])
                    for raw in items:
                        take_in("MODIFIED", raw)
                async for event in self._client.watch(path, resource_version=version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        take_in(event["type"], event["object"])
            except errors.Expired:
                version = ""
            except errors.ApiError:
                pass
            await asyncio.sleep(0.5)

    def _node_event(self, kind: str, raw: Json) -> None:
        uid = raw["metadata"]["uid"]
        if kind == "DELETED":
            self._nodes.pop(uid, None)
            return
        known = self._nodes.get(uid)
        self._nodes[uid] = raw
        if (
            known is None
            or known["metadata"]["resourceVersion"] != raw["metadata"]["resourceVersion"]
        ):
            self._move_all()

    def _pod_event(self, kind: str, raw: Json) -> None:
        uid = raw["metadata"]["uid"]
        was_placed = bool(self._pods.get(uid, {}).get("spec", {}).get("nodeName"))
        is_over = kind == "DELETED" or oracle.ended(raw)
        if is_over:
            self._pods.pop(uid, None)
            self._queue.pop(uid, None)
            self._assumed.discard(uid)
            if was_placed:
                self._move_all()
            return
        self._pods[uid] = raw
        if raw["spec"].get("nodeName") or "deletionTimestamp" in raw["metadata"]:
            self._queue.pop(uid, None)
            if raw["spec"].get("nodeName"):
                self._assumed.discard(uid)
            return
        if raw["spec"].get("schedulerName") != SCHEDULER_NAME or uid in self._assumed:
            return
        entry = self._queue.get(uid)
        if entry is None:
            self._queue[uid] = _Entry(raw, asyncio.get_running_loop().time())
            self._news.set()
        else:
            entry.raw = raw

    def _move_all(self) -> None:
        """Try every refused pod again, at once where its backoff is over."""
        self._moves += 1
        now = asyncio.get_running_loop().time()
        for entry in self._queue.values():
            if entry.ready_at is None:
                entry.ready_at = max(now, entry.tried_at + self._backoff_s(entry))
        self._news.set()

    @staticmethod
    def _backoff_s(entry: _Entry) -> float:
        return float(min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** max(0, entry.tries - 1)))

    # Scheduling.

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as binds:
            while True:
                uid, wait_s = self._next(loop.time())
                if uid is None:
                    self._news.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), timeout=wait_s)
                    continue
                entry = self._queue[uid]
                entry.busy = True
                entry.tries += 1
                entry.tried_at = loop.time()
                moves = self._moves
                node, problem = await self._place(entry.raw)
                if not node:
                    await self._put_back(uid, entry, problem, moves=moves)
                    continue
                if self._queue.get(uid) is not entry:
                    continue
                self._assumed.add(uid)
                self._queue.pop(uid)
                binds.create_task(self._bind(uid, entry, node))

    def _next(self, now: float) -> tuple[str | None, float | None]:
        """Return whose turn it is, else how long nobody's turn comes; None = for ever."""
        if not self.leads:
            return None, None
        waiting = [
            (max(entry.ready_at, now), -oracle.priority(entry.raw), entry.ready_at, uid)
            for uid, entry in self._queue.items()
            if entry.ready_at is not None and not entry.busy
        ]
        if not waiting:
            return None, None
        at, _, _, uid = min(waiting)
        return (uid, None) if at <= now else (None, at - now)

    async def _place(self, pod: Json) -> tuple[str, str]:
        """Return the node to bind to, or an empty text and what stands in the way."""
        names = tuple(
            sorted(
                raw["metadata"]["name"]
                for raw in self._nodes.values()
                if not raw.get("spec", {}).get("unschedulable")
            )
        )
        if not names:
            return "", "Unschedulable"
        nominated = pod["status"].get("nominatedNodeName")
        if nominated in names:
            found, problem = await self._ask_for(pod, (nominated,))
            if problem != "Unschedulable":
                return found, problem
        return await self._ask_for(pod, names)

    async def _ask_for(self, pod: Json, names: tuple[str, ...]) -> tuple[str, str]:
        body: Json = {"Pod": pod, "NodeNames": list(names)}
        try:
            answer = await self._ask("/filter", body)
            if answer.get("Error"):
                return "", "SchedulerError"
            self._on_filter(pod, names, answer)
            fitting = answer.get("NodeNames") or []
            if not fitting:
                return "", "Unschedulable"
            scores = dict.fromkeys(fitting, 0)
            if len(fitting) > 1:
                ranked = await self._ask("/prioritize", {"Pod": pod, "NodeNames": fitting})
                scores |= {each["Host"]: each["Score"] for each in ranked.get("Scores", ())}
        except ConnectionError:
            return "", "SchedulerError"
        best = max(scores.values())
        self._cycles += 1
        equal = sorted(name for name in fitting if scores[name] == best)
        return self._chance.one_of(equal, "equal", self._identity, self._cycles), ""

    async def _bind(self, uid: str, entry: _Entry, node: str) -> None:
        metadata = entry.raw["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": uid,
            "Node": node,
        }
        try:
            async with asyncio.timeout(BIND_LIMIT_S):
                answer = await self._ask("/bind", body)
            problem = answer.get("Error", "")
        except (ConnectionError, TimeoutError) as fault:
            problem = f"no answer {fault}"
        if not problem:
            return
        self._assumed.discard(uid)
        self._move_all()
        seen = self._pods.get(uid)
        if seen is None or seen["spec"].get("nodeName") or uid in self._queue:
            return
        entry.raw = seen
        self._queue[uid] = entry
        await self._put_back(uid, entry, "SchedulerError", moves=-1)

    async def _put_back(self, uid: str, entry: _Entry, problem: str, *, moves: int) -> None:
        """Queue a pod again and write its condition, as for every failure."""
        now = asyncio.get_running_loop().time()
        entry.busy = False
        if self._queue.get(uid) is entry:
            again = problem != "Unschedulable" or moves != self._moves
            entry.ready_at = max(now, entry.tried_at + self._backoff_s(entry)) if again else None
            self._news.set()
        conditions: list[Any] = [
            each
            for each in entry.raw["status"].get("conditions") or ()
            if each["type"] != "PodScheduled"
        ]
        wanted = {"type": "PodScheduled", "status": "False", "reason": problem}
        changes: Json = {}
        if wanted not in (entry.raw["status"].get("conditions") or ()):
            changes["conditions"] = [*conditions, wanted]
        if problem == "Unschedulable" and entry.raw["status"].get("nominatedNodeName"):
            changes["nominatedNodeName"] = None  # its own preemption has found nobody
        if not changes:
            return
        patch = {"metadata": {"uid": uid}, "status": changes}
        metadata = entry.raw["metadata"]
        path = paths.pod_status(metadata["namespace"], metadata["name"])
        with contextlib.suppress(errors.ApiError):
            await self._client.patch(path, patch)
