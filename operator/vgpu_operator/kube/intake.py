"""Raw objects in, flows run, effects out: the shell around the books."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import structlog

from vgpu_operator.flows import (
    effects,
    lock_needs,
    locks,
    outcomes,
    pod_events,
    quotas,
    reading,
    reconcile,
    register,
    wake,
)
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths, perform, steps, waiting
from vgpu_operator.model import records
from vgpu_operator.vendors import quotas as vendor_quotas
from vgpu_operator.vendors import records as vendor_records
from vgpu_operator.wire import resource_version

log = structlog.get_logger(__name__)

EFFECTS_AT_ONCE = 32

FIRST_PAGE = 500
"""Objects in one page of the first lists, while nobody is served yet."""

PAGE = 100
"""Objects in one page of a later list: a page is read in one step, and each may have 10 KiB."""

PATIENCE_S = 1.0
PATIENCE_PER_S = 0.1
"""Refusals wait for the watch at most this part of the time, after a first second:
kube-scheduler asks for one pod after the other, so all pods behind wait too."""


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
        self._patience_s = PATIENCE_S
        self._patience_at = 0.0
        self._clearing: set[str] = set()
        self._handshaking: asyncio.Task[None] | None = None
        self._handshakes_due = False
        self._nodes_relisted = False
        self.pods_version = ""
        """Version of the last complete list of Pods: where a watch may begin."""
        self._pods_reached = ""
        self._pods_shown = ""
        self._pods_settled = ""
        self._of_no_concern: dict[str, str] = {}

    def pod_record(self, raw: kube_client.Json) -> records.PodRecord:
        """Return what we keep of a raw Pod."""
        return reading.decode_pod(self._books, raw)

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
            self._nodes_relisted = True
        self.react(register.node_seen(self._books, record, self._clock.now()))

    def pod_event(self, kind: str, raw: kube_client.Json) -> None:
        """Take in a watch event of a Pod; most Pods are nobody's concern here."""
        self.pods_reached(raw["metadata"]["resourceVersion"])
        if not self._may_concern_us(raw):
            return
        record = self.pod_record(raw)
        if kind == "DELETED":
            self.react(pod_events.pod_gone(self._books, record.key))
        else:
            self.react(pod_events.pod_seen(self._books, record))

    def pods_reached(self, version: str) -> None:
        """Note that the watch of Pods has shown everything up to that version."""
        if not resource_version.is_earlier(version, self._pods_reached):
            self._pods_reached = version

    def _may_concern_us(self, raw: kube_client.Json) -> bool:
        """Whether a Pod is known, or has anything on it that could make it matter."""
        metadata = raw["metadata"]
        books = self._books
        return (
            books.ledger.record(metadata["uid"]) is not None
            or vendor_records.may_matter(
                raw, books.vendors, aliases=books.settings.resource_aliases
            )
            or raw["spec"].get("schedulerName") == books.settings.scheduler_name
            or bool(books.locks.nodes_of(metadata.get("namespace", ""), metadata["name"]))
        )

    def quota_event(self, kind: str | None, raw: kube_client.Json) -> None:
        """Take in a watch event of a ResourceQuota."""
        record = self._quota_record(raw)
        if kind == "DELETED":
            quotas.quota_gone(self._books, record.namespace, record.name, uid=record.uid)
        else:
            for sentence in quotas.quota_seen(self._books, record):
                log.warning(
                    "ResourceQuota entry without effect",
                    namespace=record.namespace,
                    name=record.name,
                    why=sentence,
                )
        # Refused pods may fit now.
        self.react(effects.NOTHING)

    def react(self, reaction: effects.Reaction) -> None:
        """Wake who waits, perform in the background what the reaction asks for.

        What concerns one object is done in order, different objects side by side.
        """
        self._waits.notify(reaction.nodes, reaction.pods)
        now = self._clock.now()
        outcomes.note(self._books, reaction, now)
        needed = lock_needs.put_back(self._books, nodes=reaction.nodes, now=now)
        for wanted in _by_object((*reaction.effects, *needed)):
            self._spawn(self._perform(wanted))
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
        """Wait a moment for cards to become free; return whether any did.

        Does not wait while too much of the time has gone into such waits:
        whoever is refused too early is woken when the watch shows the change.
        """
        begun = asyncio.get_running_loop().time()
        earned_s = (begun - self._patience_at) * PATIENCE_PER_S
        self._patience_s = min(PATIENCE_S, self._patience_s + earned_s)
        self._patience_at = begun
        if self._patience_s <= 0:
            return False
        self._freed.clear()
        try:
            await asyncio.wait_for(self._freed.wait(), timeout=limit_s)
        except TimeoutError:
            return False
        finally:
            self._patience_s -= asyncio.get_running_loop().time() - begun
        return True

    def tick(self) -> None:
        """Do what time alone causes, every handshake interval; the handshakes in steps."""
        now = self._clock.now()
        self.react(reconcile.tick(self._books, now))
        self._handshakes_due = True
        if self._handshaking is None or self._handshaking.done():
            self._handshaking = self._spawn(self._step_handshakes())

    async def _step_handshakes(self) -> None:
        while self._handshakes_due:
            self._handshakes_due = False
            async for node in steps.through(tuple(self._books.nodes)):
                try:
                    reaction = register.step_handshakes(self._books, (node,), self._clock.now())
                    if reaction != effects.NOTHING:
                        self.react(reaction)
                except Exception:
                    log.exception("handshake failed", node=node)

    def quick_tick(self) -> None:
        """Do what must not wait so long, every second."""
        # Events of one second ago have come through Kopf's queues, in whatever order.
        self._pods_settled, self._pods_shown = self._pods_shown, self._pods_reached
        self.react(reconcile.quick_tick(self._books, self._clock.now()))
        if self._books.leader:
            # A node whose last look has had no answer yet is not looked at again.
            for node in self._books.locks.nodes():
                if node not in self._clearing:
                    self._clear_orphans(node)

    async def sync(self) -> None:
        """Take in one complete list of Nodes, ResourceQuotas and Pods, in small steps.

        Raises:
            errors.ApiError: the API server did not answer as it should.
        """
        names: set[str] = set()

        def take_in(raw: kube_client.Json) -> None:
            record = vendor_records.node_record(raw, self._books.vendors)
            names.add(record.name)
            self.react(register.node_seen(self._books, record, self._clock.now()))

        version = await self._each(paths.NODES, take_in)
        self.react(reconcile.nodes_listed(self._books, names=names, version=version))
        await self._take_in_quotas()
        uids, _ = await self._take_in_pods()
        reconcile.synced(self._books)
        log.info("synced", nodes=len(names), pods=len(uids))

    async def relist_pods(self) -> str:
        """Take in one complete list of Pods; return its version.

        Raises:
            errors.ApiError: the API server did not answer as it should.
        """
        await self._take_in_pods()
        return self.pods_version

    async def audit_what_kopf_lists(self) -> None:
        """Forget the Nodes and ResourceQuotas that went between our list and Kopf's own."""
        await self._audit_nodes()
        try:
            await self._take_in_quotas()
        except errors.ApiError as fault:
            log.warning("audit failed", error=str(fault))

    async def _audit_nodes(self) -> None:
        """Forget the Nodes that are gone, if their watch has begun anew since we last looked.

        A deletion in between is not delivered.
        """
        relisted, self._nodes_relisted = self._nodes_relisted, False
        if not relisted:
            return
        try:
            names, version = await self._list_node_names()
        except errors.ApiError as fault:
            self._nodes_relisted = True
            log.warning("audit failed", error=str(fault))
            return
        self.react(reconcile.nodes_listed(self._books, names=names, version=version))

    async def audit(self) -> None:
        """Compare with a fresh list of Pods, and of ResourceQuotas; take over what differs.

        What the ledger knows from later than the list stays. Only what the watch
        should have shown counts as a difference: a list is often ahead of it.
        """
        await self._audit_nodes()
        try:
            await self._take_in_quotas()
            _, differences = await self._take_in_pods()
        except errors.ApiError as fault:
            log.warning("audit failed", error=str(fault))
            return
        self._on_audit(differences)
        if differences:
            log.warning("audit found differences", pods=differences)

    async def tell_standing_complaints(self) -> None:
        """Send the events that nobody was told while this process followed."""
        async for events in steps.through(reconcile.standing_complaints(self._books)):
            self.react(effects.Reaction(effects=events))

    async def close(self) -> None:
        """Let running effects end; cancel what takes longer than a moment."""
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=2.0)
            for task in late:
                task.cancel()

    async def _take_in_pods(self) -> tuple[set[str], int]:
        """Take in a complete list of Pods.

        Returns the UIDs that it has, and how many pods the watch has not shown
        although it was past them, or shown gone.
        """
        settled, ignored = self._pods_settled, self._of_no_concern
        self._of_no_concern = {}
        uids: set[str] = set()
        differences = 0

        def take_in(raw: kube_client.Json) -> None:
            nonlocal differences
            uid, at = raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
            uids.add(uid)
            if not self._may_concern_us(raw):
                return
            known = self._books.ledger.record(uid)
            if (ignored.get(uid) if known is None else known.resource_version) == at:
                if known is None:
                    self._of_no_concern[uid] = at
                return
            reaction = pod_events.pod_seen(self._books, self.pod_record(raw))
            if self._books.ledger.record(uid) is None:
                self._of_no_concern[uid] = at
            is_late = bool(settled) and not resource_version.is_earlier(settled, at)
            differences += bool(reaction.pods) and is_late
            self.react(reaction)

        version = await self._each(paths.PODS, take_in)
        reaction = reconcile.pods_listed(self._books, uids=uids, version=version)
        self.react(reaction)
        self.pods_version = version
        return uids, differences + len(reaction.pods)

    async def _take_in_quotas(self) -> None:
        """Take in a complete list of ResourceQuotas."""
        uids: set[str] = set()

        def take_in(raw: kube_client.Json) -> None:
            uids.add(raw["metadata"]["uid"])
            self.quota_event(None, raw)

        version = await self._each(paths.QUOTAS, take_in)
        quotas.quotas_listed(self._books, uids=uids, version=version)
        self.react(effects.NOTHING)

    async def _each(self, path: str, take_in: Callable[[kube_client.Json], None]) -> str:
        """Take in each object of a complete list, in steps; return the list's version."""
        version = ""
        size = PAGE if self._books.synced else FIRST_PAGE
        async for page in self._client.pages(path, page=size):
            version = version or page["metadata"]["resourceVersion"]
            async for raw in steps.through(page.get("items") or ()):
                take_in(raw)
        return version

    def _quota_record(self, raw: kube_client.Json) -> records.QuotaRecord:
        return vendor_quotas.quota_record(
            raw, self._books.vendors, aliases=self._books.settings.resource_aliases
        )

    async def _list_node_names(self) -> tuple[set[str], str]:
        """Return the names of all Nodes and the list's version."""
        names: set[str] = set()
        version = await self._each(paths.NODES, lambda raw: names.add(raw["metadata"]["name"]))
        return names, version

    def _wake_now(self) -> None:
        self._wake_timer = None
        self._spawn(self._performer.run(wake.wake(self._books)))

    def _clear_orphans(self, node: str) -> None:
        flows = locks.orphans(self._books, nodes=(node,), now=self._clock.now())
        if flows:
            self._clearing.add(node)
            self._spawn(self._run_all(node, flows))

    async def _run_all(self, node: str, flows: tuple[locks.Removal, ...]) -> None:
        try:
            for flow in flows:
                await self._performer.run(flow)
        finally:
            self._clearing.discard(node)

    async def _perform(self, wanted: Sequence[effects.Effect]) -> None:
        async with self._slots:
            await self._performer.run_all(wanted)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _by_object(wanted: Iterable[effects.Effect]) -> Iterable[Sequence[effects.Effect]]:
    """Return the effects apart by the object that they concern, each in its order."""
    groups: dict[object, list[effects.Effect]] = {}
    for effect in wanted:
        match effect:
            case effects.PostEvent():
                target: object = effects.PostEvent
            case effects.PatchNode() | effects.ListNodePods():
                target = effect.node
            case (
                effects.PatchPod()
                | effects.BindPod()
                | effects.DeletePod()
                | effects.EvictPod()
                | effects.NominateNode()
            ):
                target = effect.pod.uid
            case _:
                target = None
        groups.setdefault(target, []).append(effect)
    return groups.values()
