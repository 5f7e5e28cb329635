"""A cluster on paper, driven by the operator's own flows: where would a pod go?

    see_pods ─► see_nodes ─► admit ─► place
                                        filter ─► best node ─► bind on paper

Nothing is decided here: admission, filter, scores, cards, texts and locks come
from the flows that the operator runs. Only kube-scheduler's choice among the
nodes that fit is played: the highest raw score under binpack, the lowest under
spread, the first named among equals.
"""

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_operator.flows import (
    admit,
    bind,
    books,
    effects,
    json_patch,
    paper,
    pod_events,
    promises,
    quotas,
    register,
)
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.preemption import forecast, plan
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.model import allocation, budgets, policy, reason, records
from vgpu_operator.model.settings import Settings
from vgpu_operator.vendors import base, requests
from vgpu_operator.vendors import quotas as vendor_quotas
from vgpu_operator.vendors import records as vendor_records
from vgpu_operator.wire import dialects, extender, shape

Written = Mapping[str, str | None]
"""Annotations by key; None = removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """What admission made of a new pod; ``pod`` is as sent where it was refused."""

    verdict: admit.Verdict
    pod: paper.Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How the bind step ended.

    Attributes:
        error: of the answer to kube-scheduler; empty when the pod is bound.
        waited: what the bind would have waited for; empty when it did not.
        annotations: what the Binding carried.
        node_annotations: what changed on the node.
    """

    error: str = ""
    waited: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_annotations: Written = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What became of one pod.

    Attributes:
        record: the pod as the flows see it.
        scores: raw score of each node that fits, in the order asked.
        rejections: why each other node does not.
        node: the node that it goes to; None when there is none.
        granted: the cards there.
        annotations, labels: what the promise writes on the pod.
        usage: every used card of that node once the pod holds its cards.
        bound: the bind step; None when there was none.
    """

    record: records.PodRecord
    scores: Mapping[str, float]
    rejections: Mapping[str, reason.NodeRejection]
    node: str | None = None
    granted: allocation.Allocation | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    usage: tuple[ledger_nodes.CardUsage, ...] = ()
    bound: Bound | None = None


class Simulation:
    """One cluster on paper.

    Args:
        settings: the operator's.
        vendors: as ``registry.build`` returns them for these settings.
        patient: a lock that would be waited for is served at once, as if its
            owner's device plugin had finished; else the bind ends there.
    """

    def __init__(
        self, settings: Settings, vendors: Sequence[base.Vendor], *, patient: bool = False
    ) -> None:
        self.books = books.open_books(settings, vendors)
        self.books.leader = self.books.synced = True
        self._paper = paper.Paper()
        self._patient = patient
        self._node_lives = 0

    # What is there

    def see_pods(self, raws: Iterable[paper.Json]) -> None:
        """Take in pods as they are."""
        for raw in raws:
            self.record(raw)

    def see_quotas(self, raws: Iterable[paper.Json]) -> None:
        """Take in ResourceQuotas as they are."""
        for place, raw in enumerate(raws):
            metadata = shape.mapping(raw.get("metadata"))
            named = {"name": f"quota-{place}", **metadata}
            record = vendor_quotas.quota_record(
                {**raw, "metadata": named},
                self.books.vendors,
                aliases=self.books.settings.resource_aliases,
            )
            quotas.quota_seen(self.books, record)

    def see_nodes(self, raws: Sequence[paper.Json], now: datetime.datetime) -> dict[str, Written]:
        """Take in all nodes as they are now; return what registration writes on each.

        Nodes that are no longer among them are gone.
        """
        names = {shape.mapping(raw.get("metadata")).get("name") for raw in raws}
        for name in [name for name in self._paper.nodes if name not in names]:
            del self._paper.nodes[name]
            register.node_gone(self.books, name)
        written: dict[str, Written] = {}
        for raw in raws:
            name = shape.text(shape.mapping(raw.get("metadata")).get("name"))
            known = self._paper.nodes.get(name)
            self._node_lives += known is None
            uid = f"{name}#{self._node_lives}" if known is None else known["metadata"]["uid"]
            stored = self._paper.put_node(raw, uid=uid)
            reaction = register.node_seen(self.books, self._node(stored), now)
            written[name] = self._apply(reaction, now)
        return written

    def _apply(self, reaction: effects.Reaction, now: datetime.datetime) -> Written:
        """Write a node event's patches, and let the watch show them."""
        texts: dict[str, str | None] = {}
        for effect in reaction.effects:
            if isinstance(effect, effects.PatchNode):
                self._paper.perform(effect)
                texts |= effect.annotations
                self._show_node(effect.node, now)
        return texts

    def devices(self, node: str) -> dict[str, tuple[Any, ...]]:
        """Return the registered cards of a node by vendor, those without any left out."""
        found = {
            vendor.spec.keyword: self.books.ledger.devices(node, vendor.spec.keyword)
            for vendor in self.books.vendors
        }
        return {keyword: cards for keyword, cards in found.items() if cards}

    def usage(self, node: str) -> tuple[ledger_nodes.CardUsage, ...]:
        """Return the cards of a node that somebody uses."""
        return tuple(
            card
            for vendor in self.books.vendors
            for card in self.books.ledger.usage(node, vendor.spec.keyword)
            if card.used_slots
        )

    # One pod

    def admit(self, raw: paper.Json) -> Admitted:
        """Let a new pod pass the webhook."""
        namespace = requests.pod_key(raw).namespace
        verdict = admit.admit(
            raw,
            settings=self.books.settings,
            vendors=self.books.vendors,
            standing=self.books.ledger.quota_standing(namespace),
        )
        pod = json_patch.applied(raw, verdict.patch) if verdict.allowed else raw
        return Admitted(verdict=verdict, pod=pod)

    def record(self, raw: paper.Json) -> records.PodRecord:
        """Return a pod as the flows see it; it is there from now on."""
        metadata = shape.mapping(raw.get("metadata"))
        uid = f"{metadata.get('namespace', '')}:{metadata.get('name', '')}"
        record = self._record(self._paper.put_pod(raw, uid=uid))
        pod_events.pod_seen(self.books, record)
        return record

    def place(
        self, record: records.PodRecord, nodes: Sequence[str], now: datetime.datetime
    ) -> Placed:
        """Filter the nodes for a pending pod, take the best one, and bind the pod to it."""
        answer = flow_filter.filter_nodes(self.books, record, nodes, now)
        if not record.request.wants_devices:
            return Placed(record=record, scores=dict.fromkeys(answer.fitting, 0.0), rejections={})
        scores: dict[str, float] = {}
        if answer.fitting:
            placement = flow_filter.place(
                self.books, record.request, answer.fitting, priority=record.priority
            )
            scores = dict(zip(placement.fitting, placement.raw_scores.tolist(), strict=True))
        node = self._best(record, scores)
        if node is None:
            return Placed(record=record, scores=scores, rejections=answer.rejections)
        granted = bind.reserve(self.books, record.request, node, priority=record.priority)
        if not isinstance(granted, allocation.Allocation):
            return Placed(record=record, scores={}, rejections={node: granted})
        usage = self.usage(node)
        self.books.ledger.unassume(record.key.uid)
        texts = promises.annotations(self.books, record, granted, now)
        return Placed(
            record=record,
            scores=scores,
            rejections=answer.rejections,
            node=node,
            granted=granted,
            annotations=texts,
            labels=promises.labels(texts),
            usage=usage,
            bound=self._bind(record, node, now),
        )

    def preempt(
        self,
        placed: Placed,
        nodes: Sequence[str],
        all_budgets: Collection[budgets.Budget],
        now: datetime.datetime,
    ) -> forecast.Forecast:
        """Return who would be evicted for a pod that found no node; from now on that counts."""
        found = forecast.forecast(self.books, placed.record, nodes, all_budgets, now)
        if isinstance(found.answer, plan.Plan | plan.Waits):
            forecast.hold(self.books, placed.record, found.answer, now)
        return found

    def _best(self, record: records.PodRecord, scores: Mapping[str, float]) -> str | None:
        wanted = record.request.node_policy or self.books.defaults.node_policy
        pick = min if wanted is policy.NodePolicy.SPREAD else max
        return pick(scores, key=scores.__getitem__, default=None)

    def _bind(self, record: records.PodRecord, node: str, now: datetime.datetime) -> Bound:
        """Drive the bind flow to its end on paper."""
        key = record.key
        args = extender.BindArgs(namespace=key.namespace, name=key.name, uid=key.uid, node=node)
        before = self._paper.node_annotations(node)
        flow = bind.bind(self.books, args, now)
        waited = ""
        carried: Mapping[str, str] = {}
        answer: Any = None
        fault: effects.EffectFailed | None = None
        while True:
            try:
                effect = flow.send(answer) if fault is None else flow.throw(fault)
            except StopIteration as end:
                error: str = end.value.error
                break
            answer = fault = None
            if isinstance(effect, effects.AwaitChange):
                first_wait = not waited
                waited = waited or self._lock_words(node, record)
                if self._patient and first_wait:
                    answer = self._serve(node, now)
                else:
                    fault = effects.GivenUp(f"the lock of {node} is held")
                continue
            try:
                answer = self._perform(effect)
            except effects.EffectFailed as failure:
                fault = failure
                continue
            if isinstance(effect, effects.BindPod):
                carried = effect.annotations
        if not error and key.uid in self._paper.pods:
            pod_events.pod_seen(self.books, self._record(self._paper.pods[key.uid]))
        after = self._paper.node_annotations(node)
        changed: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
        changed |= {name: text for name, text in after.items() if before.get(name) != text}
        return Bound(error=error, waited=waited, annotations=carried, node_annotations=changed)

    def _perform(self, effect: effects.Effect) -> Any:
        answer = self._paper.perform(effect)
        match effect:
            case effects.ReadPod():
                return None if answer is None else self._record(answer)
            case effects.ListNodePods():
                return tuple(self._record(raw) for raw in answer)
        return answer

    def _serve(self, node: str, now: datetime.datetime) -> datetime.datetime:
        """Serve the node's pods and remove its locks, as the device plugins do."""
        for record in self.books.ledger.records():
            if record.node == node and record.bind_phase is records.BindPhase.ALLOCATING:
                self._serve_pod(record)
        texts = dict.fromkeys(self.books.all_lock_keys)
        self._paper.perform(effects.PatchNode(node=node, annotations=texts))
        self._show_node(node, now)
        return now

    def _serve_pod(self, record: records.PodRecord) -> None:
        """Leave the pod as its device plugins do: nothing to allocate, and ``success``."""
        raw = self._paper.pods[record.key.uid]
        held = shape.annotations(raw)
        spoken = dialects.written_on(held, node=record.node)
        lists = [dialect.to_allocate for dialect in spoken]
        lists += [vendor.spec.to_allocate_key for vendor in self.books.vendors]
        emptied = ";" * len(record.request.containers)
        texts = {key: emptied for key in lists if key and held.get(key)}
        texts |= {dialect.bind_phase: records.BindPhase.SUCCESS.value for dialect in spoken}
        self._paper.perform(effects.PatchPod(pod=record.key, annotations=texts))
        pod_events.pod_seen(self.books, self._record(self._paper.pods[record.key.uid]))

    def _lock_words(self, node: str, record: records.PodRecord) -> str:
        """Return HAMi's words for a lock that somebody else holds."""
        needed = {self.books.by_keyword[word].spec.lock_key for word in record.request.vendors}
        for key in sorted(self.books.nodes[node].locks.keys() & needed):
            own_expiry_s = self.books.lock_kind(key).expiry_s
            if own_expiry_s is not None:
                return f"node {node} has been locked within {own_expiry_s / 60:.0f} minutes"
        if record.group:
            return f"timed out after 28s waiting for node {node} to be unlocked: {_CONTENTION}"
        minutes, seconds = divmod(round(self.books.settings.lock.expiry_s), 60)
        return f"node {node} has been locked within {minutes}m{seconds}s: {_CONTENTION}"

    def _show_node(self, node: str, now: datetime.datetime) -> None:
        register.node_seen(self.books, self._node(self._paper.nodes[node]), now)

    def _node(self, raw: paper.Json) -> records.NodeRecord:
        return vendor_records.node_record(raw, self.books.vendors)

    def _record(self, raw: paper.Json) -> records.PodRecord:
        aliases = self.books.settings.resource_aliases
        return vendor_records.pod_record(raw, self.books.vendors, aliases=aliases)


_CONTENTION = "node lock contention"
