"""Raw objects in, flows run, effects out: the shell around the books."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from vgpu_operator.flows import effects, locks, reconcile, register, wake
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths, perform, waiting
from vgpu_operator.model import records
from vgpu_operator.vendors import records as vendor_records

log = structlog.get_logger(__name__)

EFFECTS_AT_ONCE = 32


class Intake:
    """Takes in what the API server shows and does what follows from it."""

    def __init__(
        self,
        books: Books,
        client: kube_client.KubeClient,
        clock: kube_clock.Clock,
        *,
        performer: perform.Performer,
        waits: waiting.Waiting,
        on_audit: Callable[[int], None],
    ) -> None:
        self._books = books
        self._client = client
        self._clock = clock
        self._performer = performer
        self._waits = waits
        self._on_audit = on_audit
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(EFFECTS_AT_ONCE)
        self._wake_timer: asyncio.TimerHandle | None = None
        self._freed = asyncio.Event()

    def pod_record(self, raw: kube_client.Json) -> records.PodRecord:
        """Return what we keep of a raw Pod."""
        return decode_pod(self._books, raw)

    def node_event(self, kind: str | None, raw: kube_client.Json) -> None:
        """Take in a watch event of a Node."""
        if kind == "DELETED":
            name, uid = raw["metadata"]["name"], raw["metadata"].get("uid", "")
            self.react(register.node_gone(self._books, name, uid=uid))
            return
        record = vendor_records.node_record(raw, self._books.vendors)
        if kind is None:
            # Part of a list: what the watch missed before it cannot be known.
            self._books.trusted_nodes.discard(record.name)
        self.react(register.node_seen(self._books, record, self._clock.now()))

    def pod_event(self, kind: str | None, raw: kube_client.Json) -> None:
        """Take in a watch event of a Pod."""
        record = self.pod_record(raw)
        if kind == "DELETED":
            self.react(reconcile.pod_gone(self._books, record.key))
        else:
            self.react(reconcile.pod_seen(self._books, record))

    def react(self, reaction: effects.Reaction) -> None:
        """Wake who waits, perform in the background what the reaction asks for."""
        self._waits.notify(reaction.nodes, reaction.pods)
        if reaction.effects:
            self._spawn(self._perform(reaction.effects))
        if wake.is_due(self._books):
            self._freed.set()
            if self._wake_timer is None:
                delay_s = self._books.settings.wake.delay_s
                loop = asyncio.get_running_loop()
                self._wake_timer = loop.call_later(delay_s, self._wake_now)

    def post(self, event: effects.PostEvent) -> None:
        """Send an Event in the background."""
        self.react(effects.Reaction(effects=(event,)))

    async def freed(self, *, limit_s: float) -> bool:
        """Wait a moment for cards to become free; return whether any did."""
        self._freed.clear()
        try:
            await asyncio.wait_for(self._freed.wait(), timeout=limit_s)
        except TimeoutError:
            return False
        return True

    def tick(self) -> None:
        """Do what time alone causes, every handshake interval."""
        self.react(reconcile.tick(self._books, self._clock.now()))

    def quick_tick(self) -> None:
        """Do what must not wait so long, every second."""
        self.react(reconcile.quick_tick(self._books, self._clock.now()))
        if self._books.leader:
            for flow in locks.orphans(self._books, nodes=self._books.locks.nodes()):
                self._spawn(self._performer.run(flow))

    async def sync(self) -> None:
        """Take in one complete list of Nodes and Pods.

        Raises:
            errors.ApiError: the API server did not answer as it should.
        """
        raw_nodes, nodes_version = await self._client.list(paths.NODES)
        pods, version = await self._list_pods({})
        nodes = [vendor_records.node_record(raw, self._books.vendors) for raw in raw_nodes]
        self.react(
            reconcile.listed(
                self._books,
                nodes=nodes,
                nodes_version=nodes_version,
                pods=pods,
                pods_version=version,
                now=self._clock.now(),
            )
        )
        self._books.synced = True
        log.info("synced", nodes=len(nodes), pods=len(pods), pods_version=version)

    async def audit(self) -> None:
        """Compare with a fresh list of Pods and take over what differs.

        The list comes from the API server's cache: it may be a moment old, so
        what the ledger knows from later stays.
        """
        try:
            pods, version = await self._list_pods({"resourceVersion": "0"})
        except errors.ApiError as fault:
            log.warning("audit failed", error=str(fault))
            return
        reaction = reconcile.pods_listed(self._books, pods=pods, version=version)
        self._on_audit(len(reaction.pods))
        if reaction.pods:
            log.warning("audit found differences", pods=len(reaction.pods))
        self.react(reaction)

    async def close(self) -> None:
        """Let running effects end; cancel what takes longer than a moment."""
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=2.0)
            for task in late:
                task.cancel()

    async def _list_pods(self, params: dict[str, str]) -> tuple[list[records.PodRecord], str]:
        """Return records of all Pods and the list's version, decoding page by page."""
        found: list[records.PodRecord] = []
        version = ""
        async for page in self._client.pages(paths.PODS, params=params):
            version = version or page["metadata"]["resourceVersion"]
            found += [self.pod_record(raw) for raw in page.get("items") or ()]
            await asyncio.sleep(0)
        return found, version

    def _wake_now(self) -> None:
        self._wake_timer = None
        self.react(wake.wake(self._books))

    async def _perform(self, wanted: tuple[effects.Effect, ...]) -> None:
        async with self._slots:
            await self._performer.run_all(wanted)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def decode_pod(books: Books, raw: kube_client.Json) -> records.PodRecord:
    """Return what we keep of a raw Pod."""
    return vendor_records.pod_record(raw, books.vendors, aliases=books.settings.resource_aliases)
