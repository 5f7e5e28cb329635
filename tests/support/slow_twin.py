"""The scheduling core once more, as plain loops: the oracle of the property tests.

Written from the rules (HAMi v2.10.0's, and where we differ on purpose), not
from the fast code, and kept as dull as can be. It keeps its own books too:
usage is counted anew from the pods' annotations. Nothing here is fast.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from support import clusters
from vgpu_operator.model import allocation, device, policy, quota, records, request

BINPACK, SPREAD = policy.CardPolicy.BINPACK, policy.CardPolicy.SPREAD
NUMA, MUTEX = policy.CardPolicy.NUMA, policy.CardPolicy.MUTEX


@dataclass
class Card:
    """A card and what is used of it."""

    device: device.Device
    position: int
    cordoned: bool
    slots: int = 0
    memory: int = 0
    cores: int = 0


@dataclass
class NodeAnswer:
    """What the twin says of one node."""

    fits: bool
    score: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    candidates: int = 0
    unregistered: bool = False
    resolvable: bool = True
    shares: dict[str, list[list[tuple[str, int, int]]]] = field(default_factory=dict)

    def text(self) -> str:
        """Return HAMi's words, without any detail."""
        if self.unregistered:
            return "node unregistered"
        if "NodeInsufficientDevice" in self.counts:
            return "NodeInsufficientDevice"
        words = [f"{number}/{self.candidates} {why}" for why, number in self.counts.items()]
        return ", ".join(sorted(words))


class Twin:
    """A cluster whose pods' annotations are believed as far as the pods asked."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        self.cluster = cluster
        self.cards: dict[str, dict[str, list[Card]]] = {}
        self.unreadable: set[tuple[str, str]] = set()
        for name, node in cluster.nodes.items():
            self.cards[name] = {
                vendor: [
                    Card(device=one, position=at, cordoned=one.id in node.cordoned)
                    for at, one in enumerate(node.cards.get(vendor, ()))
                ]
                for vendor in cluster.vendors
            }
        for pod in cluster.pods:
            self._count(pod)

    def _count(self, pod: records.PodRecord) -> None:
        if not pod.node or pod.node != pod.promised_node:
            return
        if pod.phase in ("Succeeded", "Failed"):
            return
        for vendor in self.cluster.vendors:
            asking = [c for c in pod.request.containers if c.of(vendor)]
            if vendor in pod.faults and asking:
                self.unreadable.add((pod.node, vendor))
        if pod.node not in self.cards:
            return
        for vendor, containers in pod.promised.items():
            for card in self.cards[pod.node].get(vendor, []):
                self._count_on(card, vendor, containers, pod)

    def _count_on(
        self,
        card: Card,
        vendor: str,
        containers: allocation.PodShares,
        pod: records.PodRecord,
    ) -> None:
        sum_slots = sum_memory = sum_cores = 0
        top_slots = top_memory = top_cores = 0
        for asked_by, entry in zip(pod.request.containers, containers, strict=True):
            asked = asked_by.of(vendor)
            if asked is None:
                continue
            slots = memory = cores = 0
            for share in entry[: asked.count]:
                if share.device_id == card.device.id:
                    limit = asked.memory_mib
                    if limit == 0 and asked.memory_percent is not None:
                        limit = card.device.memory_mib * asked.memory_percent // 100
                    slots += 1
                    memory += min(share.memory_mib, limit)
                    most = 100 if asked.cores_by_default else asked.cores_percent
                    cores += min(share.cores_percent, most, 100)
            if asked_by.kind == "init":
                top_slots = max(top_slots, slots + sum_slots if slots else 0)
                top_memory = max(top_memory, memory + sum_memory if slots else 0)
                top_cores = max(top_cores, cores + sum_cores if slots else 0)
            else:
                sum_slots += slots
                sum_memory += memory
                sum_cores += cores
        card.slots += max(top_slots, sum_slots)
        card.memory += sum_memory if pod.init_done else max(top_memory, sum_memory)
        card.cores += sum_cores if pod.init_done else max(top_cores, sum_cores)

    def place(
        self,
        names: Sequence[str],
        wish: request.PodRequest,
        node_policy: policy.NodePolicy,
        card_policies: tuple[policy.CardPolicy, ...],
    ) -> dict[str, NodeAnswer]:
        """Return an answer for every name."""
        del node_policy
        return {name: self.judge(name, wish, card_policies) for name in names}

    def judge(
        self,
        name: str,
        wish: request.PodRequest,
        default_policies: tuple[policy.CardPolicy, ...],
        allowances: quota.Allowances = quota.NO_LIMITS,
    ) -> NodeAnswer:
        """Return the answer for one node."""
        for vendor in wish.vendors:
            if name not in self.cards or not self.cards[name].get(vendor):
                return NodeAnswer(fits=False, unregistered=True, resolvable=False)
            count = self.cluster.nodes[name].allocatable.get(vendor)
            if not count or (name, vendor) in self.unreadable:
                return NodeAnswer(fits=False, unregistered=True, resolvable=False)
        policies = wish.card_policies or default_policies
        weights = wish.weights or policy.ScoringWeights()
        cards = _copied(self.cards.get(name, {}))
        answer = _walk(cards, wish, policies, weights, allowances)
        answer.score = _node_score(self.cards.get(name, {}))
        if not answer.fits:
            for of_vendor in cards.values():
                for card in of_vendor:
                    card.slots = card.memory = card.cores = 0
            answer.resolvable = _walk(cards, wish, policies, weights, allowances).fits
        return answer


def _walk(
    cards: dict[str, list[Card]],
    wish: request.PodRequest,
    policies: tuple[policy.CardPolicy, ...],
    weights: policy.ScoringWeights,
    allowances: quota.Allowances,
) -> NodeAnswer:
    staying = _copied(cards)
    lasting = dict.fromkeys(wish.vendors, (0, 0))
    answer = NodeAnswer(fits=True)
    for vendor in wish.vendors:
        answer.shares[vendor] = [[] for _ in wish.containers]
    for number, container in enumerate(wish.containers):
        here = _copied(staying) if container.kind == "init" else staying
        for asked in container.devices:
            word = asked.vendor.lower()
            candidates = [c for c in here[asked.vendor] if word in c.device.type.lower()]
            if len(candidates) < asked.count:
                return NodeAnswer(fits=False, counts={"NodeInsufficientDevice": 1})
            left = _left(allowances.get(asked.vendor), lasting[asked.vendor])
            chosen, counts = _take(candidates, asked, wish, policies, weights, left)
            if len(chosen) < asked.count:
                if chosen:
                    counts["AllocatedCardsInsufficientRequest"] = len(chosen)
                counts = {why: n for why, n in counts.items() if n}
                return NodeAnswer(fits=False, counts=counts, candidates=len(candidates))
            for card in chosen:
                memory, cores = _needs(card, asked)
                card.slots += 1
                card.memory += memory
                card.cores += cores
                answer.shares[asked.vendor][number].append((card.device.id, memory, cores))
                if container.kind != "init":
                    held = lasting[asked.vendor]
                    lasting[asked.vendor] = (held[0] + memory, held[1] + cores)
    return answer


def _left(
    allowance: quota.Allowance | None, lasting: tuple[int, int]
) -> tuple[int | None, int | None]:
    """Return what the namespace may take beside the pod's earlier lasting containers."""
    if allowance is None:
        return None, None
    memory = None if allowance.memory_mib is None else allowance.memory_mib - lasting[0]
    cores = None if allowance.cores is None else allowance.cores - lasting[1]
    return memory, cores


def _copied(cards: dict[str, list[Card]]) -> dict[str, list[Card]]:
    return {
        vendor: [dataclasses.replace(card) for card in of_vendor]
        for vendor, of_vendor in cards.items()
    }


def _take(
    candidates: list[Card],
    asked: request.DeviceRequest,
    wish: request.PodRequest,
    policies: tuple[policy.CardPolicy, ...],
    weights: policy.ScoringWeights,
    left: tuple[int | None, int | None],
) -> tuple[list[Card], dict[str, int]]:
    rules = wish.selection(asked.vendor)
    chosen: list[Card] = []
    counts: dict[str, int] = {}
    walked_numa: int | None = None
    for card in reversed(_sorted(candidates, asked, rules, policies, weights)):
        early = _early_reason(card, rules)
        if early:
            counts[early] = counts.get(early, 0) + 1
            continue
        if rules.numa_bind and card.device.numa != walked_numa:
            counts["NumaNotFit"] = counts.get("NumaNotFit", 0) + len(chosen)
            chosen = []
            walked_numa = card.device.numa
        late = _late_reason(card, asked, rules, policies, _is_beyond(chosen, card, asked, left))
        if late:
            counts[late] = counts.get(late, 0) + 1
            continue
        chosen.append(card)
        if len(chosen) == asked.count:
            break
    return chosen, counts


def _is_beyond(
    chosen: list[Card],
    card: Card,
    asked: request.DeviceRequest,
    left: tuple[int | None, int | None],
) -> bool:
    """Whether the quota does not cover the card beside those that are chosen already."""
    needs = [_needs(one, asked) for one in (*chosen, card)]
    for what in (0, 1):
        limit = left[what]
        if limit is not None and needs[-1][what] > 0 and sum(n[what] for n in needs) > limit:
            return True
    return False


def _sorted(
    candidates: list[Card],
    asked: request.DeviceRequest,
    rules: request.CardSelection,
    policies: tuple[policy.CardPolicy, ...],
    weights: policy.ScoringWeights,
) -> list[Card]:
    """Insertion of one sort after another: the last one matters most."""
    ordered = sorted(candidates, key=lambda c: c.position)
    ordered.sort(key=lambda c: c.device.index)
    if len(policies) == 1:
        ordered.sort(key=lambda c: c.device.numa)
    words = [word for word in policies if word in (BINPACK, SPREAD, NUMA)]
    if not words and policies != (MUTEX,):
        words = [SPREAD]
    for word in reversed(words):
        if word == NUMA:
            ordered.sort(key=lambda c: c.device.numa)
        elif word == BINPACK:
            ordered.sort(key=lambda c: _card_score(c, asked, weights))
        else:
            ordered.sort(key=lambda c: -_card_score(c, asked, weights))
    if rules.numa_bind and policies == (BINPACK,):
        ordered.sort(key=lambda c: -c.device.numa)
    elif rules.numa_bind:
        ordered.sort(key=lambda c: c.device.numa)
    return ordered


def _card_score(card: Card, asked: request.DeviceRequest, weights: policy.ScoringWeights) -> float:
    one = card.device
    if one.slots == 0 or one.cores_percent == 0 or one.memory_mib == 0:
        return 0.0
    slots, cores, memory = card.slots, card.cores, card.memory
    if one.type == asked.vendor:
        slots += asked.count
        cores += asked.cores_percent
        memory += asked.memory_on(one.memory_mib)
    return 10 * (
        weights.slot * (slots / one.slots)
        + weights.core * (cores / one.cores_percent)
        + weights.memory * (memory / one.memory_mib)
    )


def _early_reason(card: Card, rules: request.CardSelection) -> str:
    if not card.device.healthy:
        return "CardNotHealth"
    if card.cordoned:
        return "CardCordoned"
    registered = card.device.type.lower()
    if rules.mode is not None and card.device.mode not in rules.mode:
        return "CardTypeMismatch"
    if rules.use_types and not any(word.lower() in registered for word in rules.use_types):
        return "CardTypeMismatch"
    if any(word.lower() in registered for word in rules.avoid_types):
        return "CardTypeMismatch"
    return ""


def _late_reason(
    card: Card,
    asked: request.DeviceRequest,
    rules: request.CardSelection,
    policies: tuple[policy.CardPolicy, ...],
    beyond_quota: bool,
) -> str:
    one = card.device
    memory, cores = _needs(card, asked)
    if rules.use_ids and one.id not in rules.use_ids:
        return "CardUuidMismatch"
    if one.id in rules.avoid_ids:
        return "CardUuidMismatch"
    if one.slots <= card.slots:
        return "CardTimeSlicingExhausted"
    if MUTEX in policies and card.slots > 0:
        return "ExclusiveDeviceAllocateConflict"
    if beyond_quota:
        return "ResourceQuotaNotFit"
    if one.memory_mib - card.memory < memory:
        return "CardInsufficientMemory"
    if asked.memory_mib == 0 and asked.memory_percent is not None and one.memory_mib == 0:
        return "CardInsufficientMemory"
    if one.cores_percent - card.cores < cores:
        return "CardInsufficientCore"
    if one.cores_percent == 100 and cores == 100 and card.slots > 0:
        return "ExclusiveDeviceAllocateConflict"
    if one.cores_percent != 0 and card.cores >= one.cores_percent and cores == 0:
        return "CardComputeUnitsExhausted"
    return ""


def _needs(card: Card, asked: request.DeviceRequest) -> tuple[int, int]:
    return asked.memory_on(card.device.memory_mib), min(asked.cores_percent, 100)


def _node_score(cards: dict[str, list[Card]]) -> float:
    every = [card for of_vendor in cards.values() for card in of_vendor]
    slots = sum(card.device.slots for card in every)
    cores = sum(card.device.cores_percent for card in every)
    memory = sum(card.device.memory_mib for card in every)
    if slots == 0 or cores == 0 or memory == 0:
        return 0.0
    return 10 * (
        sum(card.slots for card in every) / slots
        + sum(card.cores for card in every) / cores
        + sum(card.memory for card in every) / memory
    )
