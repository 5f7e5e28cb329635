"""Why a pod is where it is or nowhere, and the smallest changes that would make it fit.

    books + pod ─► explain ─► Explanation
                     every node: its cards (the scheduling code), what else keeps
                     the pod off (``steering``)
                     ways: one amount less, another node, no annotation, a card
                     put back, pods that go, a larger quota

Every way was tried by the code that places pods. Nothing in the books changes.
"""

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from vgpu_operator.flows import admit, bind, leaving, locks, one_node, quotas, smaller, steering
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import residents, snapshot
from vgpu_operator.model import allocation, device, policy, reason, records, request
from vgpu_operator.model.vendor_settings import resources
from vgpu_operator.scheduling import choose, fit, preempt
from vgpu_operator.wire import keys, shape

Json: TypeAlias = Mapping[str, Any]

NEAREST = 5
"""Nodes that are looked at card by card unless more are asked for."""

HALF = 0.5
"""A change that gives up more of an amount than this is proposed after all others."""

LOOKED_AT = 64
"""Nodes on which putting a card back is tried, the nearest first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The question.

    Attributes:
        pod: as the API serves it, or as admission would leave it.
        nodes: every Node, as the API serves it.
        pods: every Pod that is bound and has not ended, by its node.
    """

    pod: Json
    record: records.PodRecord
    nodes: Sequence[Json]
    pods: Mapping[str, Sequence[Json]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card as the pod finds it.

    Cores are in the unit that the vendor registers: percent, or a mask of those in use.

    Attributes:
        why: the facts that keep the pod off, in HAMi's words; empty when it could serve.
        holders: who has a share.
    """

    vendor: str
    device: device.Device
    free_slots: int
    free_memory_mib: int
    used_cores: int
    why: str
    holders: tuple[residents.Holder, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node as the pod finds it.

    Attributes:
        rejection: why its cards do not do; None when they do.
        obstacles: what besides the cards keeps the pod off.
        score: how full the node is before the pod, higher is fuller; None when it does not fit.
        cards: empty where the node was not looked at card by card.
    """

    name: str
    rejection: reason.NodeRejection | None
    obstacles: tuple[steering.Obstacle, ...]
    score: float | None = None
    cards: tuple[Card, ...] = ()

    @property
    def takes(self) -> bool:
        """Whether the pod could be bound here now."""
        return self.rejection is None and not self.obstacles


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A node whose cards would do, and what keeps the pod off it."""

    node: str
    obstacles: tuple[steering.Obstacle, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WithoutRules:
    """Pod annotations without which it would fit, and where."""

    annotations: Mapping[str, str]
    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CardsBack:
    """Cards that are kept out on a node that would take the pod with them."""

    node: str
    cordoned: tuple[str, ...]
    unhealthy: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MoreQuota:
    """A sentence of the quota that is used up, and which pods hold what it allows."""

    sentence: str
    holders: tuple[request.PodKey, ...]


Way: TypeAlias = smaller.Change | Elsewhere | WithoutRules | CardsBack | leaving.Leaving | MoreQuota


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer.

    Attributes:
        record: the pod.
        nodes: every node: where the pod is, where it fits, then the nearest first.
        ways: the smallest change of each kind, empty where the pod fits: the quota that is
            all that is missing, less of an amount (the smallest part first), an annotation,
            another node, a card, pods; then less of an amount by more than half.
        node_policy, card_policies: as they hold for this pod.
    """

    record: records.PodRecord
    nodes: tuple[Node, ...]
    ways: tuple[Way, ...]
    node_policy: policy.NodePolicy
    card_policies: tuple[policy.CardPolicy, ...]

    @property
    def takers(self) -> tuple[Node, ...]:
        """The nodes that could take the pod now, the preferred one first."""
        return tuple(node for node in self.nodes if node.takes)


def explain(
    books: Books,
    case: Case,
    now: datetime.datetime,
    *,
    detailed: int | None = NEAREST,
    only: str = "",
) -> Explanation:
    """Judge every node for the pod as things stand, it itself not counted.

    Args:
        books: what is known, without the pod itself.
        case: the question.
        now: the time.
        detailed: how many nodes are looked at card by card; None is all.
        only: look at that node alone card by card.
    """
    wish = case.record.request
    raws = {_name(raw): raw for raw in case.nodes}
    placement, rejections = _judged(books, case.record, tuple(raws), now)
    scores = dict(zip(placement.fitting, placement.raw_scores.tolist(), strict=True))
    owned = _owned(books)
    off = {
        name: steering.off(case.pod, raw, case.pods.get(name, ()), owned=owned)
        for name, raw in raws.items()
    }
    here = case.record.node
    nodes = [
        Node(
            name=name,
            rejection=rejections.get(name),
            obstacles=off[name],
            score=scores.get(name),
        )
        for name in raws
    ]
    nodes.sort(
        key=lambda node: (
            node.name != here,
            *_rank(node, placement.node_policy),
            _distance(books, wish, node),
            node.name,
        )
    )
    ways: tuple[Way, ...] = ()
    if not any(node.takes for node in nodes) and wish.wants_devices:
        ways = tuple(_ways(books, case, nodes))
    looked_at = {only} if only else {node.name for node in nodes[:detailed]}
    return Explanation(
        record=case.record,
        nodes=tuple(
            dataclasses.replace(node, cards=_cards(books, case.record, node.name))
            if node.name in looked_at and node.name in books.nodes
            else node
            for node in nodes
        ),
        ways=ways,
        node_policy=placement.node_policy,
        card_policies=wish.card_policies or books.defaults.card_policies,
    )


def admitted(books: Books, raw: Json) -> admit.Verdict:
    """Return what the webhook would answer about a new pod."""
    namespace = shape.text(shape.mapping(raw.get("metadata")).get("namespace")) or "default"
    return admit.admit(
        raw,
        settings=books.settings,
        vendors=books.vendors,
        standing=books.ledger.quota_standing(namespace),
    )


def settle(books: Books, case: Case, there: Explanation, now: datetime.datetime) -> str | None:
    """Put a pod on the node that it prefers, cards and all; it counts from here on.

    Args:
        books: what is known; the pod's cards are assumed in it.
        case: the pod, and what stands beside it now.
        there: the explanation of a pod that is alike, from which what never changes is taken.
        now: the time.

    Returns:
        The node; None where none takes it.
    """
    wish = case.record.request
    owned = _owned(books)
    raws = {_name(raw): raw for raw in case.nodes}
    open_nodes = [node.name for node in there.nodes if not node.obstacles]
    placement, _ = _judged(books, case.record, open_nodes, now)
    sign = 1 if placement.node_policy is policy.NodePolicy.SPREAD else -1
    scores = zip(placement.raw_scores.tolist(), placement.fitting, strict=True)
    for _, name in sorted((sign * score, name) for score, name in scores):
        if steering.off(case.pod, raws[name], case.pods.get(name, ()), owned=owned):
            continue  # pods before it have taken the room
        reserved = bind.reserve(books, wish, name, priority=case.record.priority)
        if isinstance(reserved, allocation.Allocation):
            return name
    return None


def _owned(books: Books) -> frozenset[str]:
    """Return the resources that cards are asked by, under today's names and earlier ones."""
    earlier = books.settings.resource_aliases
    today = {name for _, name in resources.named(books.settings.vendors)}
    return frozenset(today.union(*earlier.values()))


def _judged(
    books: Books, pod: records.PodRecord, names: Sequence[str], now: datetime.datetime
) -> tuple[fit.Placement, dict[str, reason.NodeRejection]]:
    wish = pod.request
    closed = locks.closed_to(books, wish, now)
    open_nodes = [name for name in names if name not in closed]
    placement = flow_filter.place(books, wish, open_nodes, priority=pod.priority)
    refused = {name: closed[name] for name in names if name in closed}
    return placement, {**placement.rejections, **refused}


def _rank(node: Node, prefers: policy.NodePolicy) -> tuple[int, float]:
    """Return what goes before: where it can go, where only steering is against it, the rest."""
    if node.rejection is None:
        score = node.score or 0.0
        wanted = score if prefers is policy.NodePolicy.SPREAD else -score
        return (0 if node.takes else 1), wanted
    return (2 if node.rejection.resolvable else 3) + 2 * bool(node.obstacles), 0.0


def _distance(books: Books, wish: request.PodRequest, node: Node) -> float:
    """Return how far a refused node is: the share of the asked memory and cores that is missing."""
    if node.rejection is None:
        return 0.0
    missing = 0.0
    for container in wish.containers:
        for asked in container.devices:
            usages = books.ledger.usage(node.name, asked.vendor)
            short = sorted(
                _short(
                    asked.memory_on(usage.device.memory_mib),
                    usage.device.memory_mib - usage.used_memory_mib,
                )
                + _short(asked.cores_percent, usage.device.cores_percent - usage.used_cores_percent)
                + _short(1, usage.device.slots - usage.used_slots)
                for usage in usages
            )
            missing += sum(short[: asked.count]) + 3.0 * max(0, asked.count - len(short))
    return missing


def _short(asked: int, free: int) -> float:
    return max(0, asked - max(0, free)) / asked if asked > 0 else 0.0


def _cards(books: Books, pod: records.PodRecord, node: str) -> tuple[Card, ...]:
    """Return every card of the vendors that the pod asks, each judged by itself."""
    wish = pod.request
    holders: dict[tuple[str, str], list[residents.Holder]] = {}
    for holder in books.ledger.holders(node):
        holders.setdefault((holder.vendor, holder.share.card_id), []).append(holder)
    found = []
    for keyword in wish.vendors or tuple(books.by_keyword):
        for usage in sorted(
            books.ledger.usage(node, keyword), key=lambda one: (one.device.index, one.device.id)
        ):
            card = usage.device
            found.append(
                Card(
                    vendor=keyword,
                    device=card,
                    free_slots=card.slots - usage.used_slots,
                    free_memory_mib=card.memory_mib - usage.used_memory_mib,
                    used_cores=usage.used_cores_percent,
                    why=_why_not(books, pod, node, keyword, card.id),
                    holders=tuple(holders.get((keyword, card.id), ())),
                )
            )
    return tuple(found)


def _why_not(books: Books, pod: records.PodRecord, node: str, keyword: str, card_id: str) -> str:
    """Return why that card alone can serve no container of the pod; empty when it can.

    The node is judged as if it had no other card of the vendor, for one card of each wish.
    """

    def alone(vendor: str, card: device.Device) -> device.Device | None:
        return card if (vendor, card.id) == (keyword, card_id) else None

    wish = pod.request
    scratch = one_node.copied(books, node, change=alone)
    view = scratch.snapshot(
        with_claims=False, without_claim_of=pod.key.uid, for_priority=pod.priority
    )
    words = ""
    for container in wish.containers:
        asked = container.of(keyword)
        if asked is None:
            continue
        one = dataclasses.replace(container, devices=(dataclasses.replace(asked, count=1),))
        answer = choose.choose(
            view, node, dataclasses.replace(wish, containers=(one,)), books.defaults
        )
        if isinstance(answer, allocation.Allocation):
            return ""
        words = words or ", ".join(
            str(count.reason)
            for count in answer.counts
            if count.reason != reason.Reason.TOO_FEW_FREE_CARDS
        )
        words = words or answer.detail
    return words


def _ways(books: Books, case: Case, nodes: Sequence[Node]) -> Iterable[Way]:
    allowed = [node.name for node in nodes if not node.obstacles]
    quota = _more_quota(books, case.record, allowed)
    if quota is not None:
        yield quota
    changes = sorted(
        smaller.largest(books, case.pod, allowed, priority=case.record.priority),
        key=lambda change: change.given_up,
    )
    yield from (change for change in changes if change.given_up <= HALF)
    rules = _without_rules(books, case, allowed)
    if rules is not None:
        yield rules
    for node in nodes:
        if node.rejection is None and node.obstacles:
            yield Elsewhere(node=node.name, obstacles=node.obstacles)
            break
    back = next(
        filter(None, (_cards_back(books, case.record, name) for name in allowed[:LOOKED_AT])),
        None,
    )
    if back is not None:
        yield back
    eviction = _eviction(books, case, nodes)
    if eviction is not None:
        yield eviction
    yield from (change for change in changes if change.given_up > HALF)


def _eviction(books: Books, case: Case, nodes: Sequence[Node]) -> leaving.Leaving | None:
    """Return the fewest pods whose end makes room on a node: on its cards and beside them."""
    wish, owned = case.record.request, _owned(books)
    raws = {_name(raw): raw for raw in case.nodes}
    full = {node.name for node in nodes if node.obstacles}

    def opens(node: str, gone: Collection[str]) -> bool:
        if node not in full:
            return True
        stay = [
            raw for raw in case.pods.get(node, ()) if str(raw["metadata"].get("uid")) not in gone
        ]
        return not steering.off(case.pod, raws[node], stay, owned=owned)

    def could_help(node: Node) -> bool:
        why = node.rejection
        if why is not None and not why.resolvable:
            # A quota stays used up for kube-scheduler's evictions, but not when its pods end.
            alone = refused.get(node.name)
            if reason.Reason.QUOTA_NOT_FIT not in why.reasons or not (
                alone is None or alone.resolvable
            ):
                return False
        if not all(obstacle.room for obstacle in node.obstacles) or node.name not in books.nodes:
            return False
        if not node.obstacles:
            return True
        holders = one_node.pods_on(books, node.name)
        return opens(node.name, {record.key.uid for record in holders})

    view = _view_at_bind(books, case.record)
    refused = fit.place(view, [node.name for node in nodes], wish, books.defaults).rejections
    names = [node.name for node in nodes if could_help(node)]
    question = leaving.Question(
        wish=wish, nodes=names, opens=opens, prefer=preempt.Prefer.FEWEST, even_going=True
    )
    found = leaving.cheapest(books, view, question)
    return found if isinstance(found, leaving.Leaving) else None


def _view_at_bind(books: Books, pod: records.PodRecord) -> snapshot.Snapshot:
    """Return the ledger as the pod's bind would see it."""
    return books.ledger.snapshot(
        with_claims=False, without_claim_of=pod.key.uid, for_priority=pod.priority
    )


def _more_quota(books: Books, pod: records.PodRecord, nodes: Sequence[str]) -> MoreQuota | None:
    """Return the quota that is all that keeps the pod off every node; None when it is not."""
    wish = pod.request
    if not fit.place(_view_at_bind(books, pod), nodes, wish, books.defaults).fitting:
        return None
    standing = books.ledger.quota_standing(wish.pod.namespace, without=wish.pod.uid)
    sentences = [
        quotas.refusal(wish, standing, books.by_keyword[word])
        for word in wish.vendors
        if word in books.by_keyword
    ]
    sentence = next(filter(None, sentences), "")
    if not sentence:
        sentence = (
            "exceeding resource quota: on the cards that are free the pod takes more than the"
            " namespace's ResourceQuota leaves; ask for less, end other pods, or raise it"
        )
    holders = tuple(
        sorted(
            record.key
            for record in books.ledger.records()
            if record.key.namespace == wish.pod.namespace
            and record.key.uid != wish.pod.uid
            and books.ledger.holding(record.key.uid) is not None
        )
    )
    return MoreQuota(sentence=sentence, holders=holders)


def _without_rules(books: Books, case: Case, nodes: Sequence[str]) -> WithoutRules | None:
    """Return the annotations that rule all else out: selections, and the mutex policy."""
    wish = case.record.request
    notes = shape.annotations(case.pod)
    written = {
        key: str(notes[key])
        for word in wish.selections
        for key in books.by_keyword[word].spec.selection_keys
        if key is not None and key in notes
    }
    policies = wish.card_policies
    if policy.CardPolicy.MUTEX in policies:
        written |= {keys.CARD_POLICY: str(notes.get(keys.CARD_POLICY, policy.CardPolicy.MUTEX))}
        policies = tuple(one for one in policies if one is not policy.CardPolicy.MUTEX)
    if not written:
        return None
    freer = dataclasses.replace(
        wish, selections={}, card_policies=policies or (policy.CardPolicy.SPREAD,)
    )
    placement = flow_filter.place(books, freer, nodes, priority=case.record.priority)
    fitting = placement.fitting
    return WithoutRules(annotations=written, nodes=fitting) if fitting else None


def _cards_back(books: Books, pod: records.PodRecord, node: str) -> CardsBack | None:
    """Return the cards of a node that would make it take the pod if they were not kept out."""
    record = books.nodes.get(node)
    if record is None:
        return None
    there = [
        card for keyword in pod.request.vendors for card in books.ledger.devices(node, keyword)
    ]
    cordoned = [card.id for card in there if card.id in record.cordoned]
    unhealthy = [card.id for card in there if not card.healthy]
    if cordoned and _fits_with(books, pod, node, cordoned=cordoned, unhealthy=()):
        unhealthy = []
    elif not (unhealthy and _fits_with(books, pod, node, cordoned=cordoned, unhealthy=unhealthy)):
        return None
    for needed in (unhealthy, cordoned):  # repairing is the harder order
        for card in tuple(needed):
            needed.remove(card)
            if not _fits_with(books, pod, node, cordoned=cordoned, unhealthy=unhealthy):
                needed.append(card)
    return CardsBack(
        node=node, cordoned=tuple(sorted(cordoned)), unhealthy=tuple(sorted(unhealthy))
    )


def _fits_with(
    books: Books,
    pod: records.PodRecord,
    node: str,
    *,
    cordoned: Collection[str],
    unhealthy: Collection[str],
) -> bool:
    """Whether the node takes the pod with these cordoned and these unhealthy cards back."""

    def change(_vendor: str, card: device.Device) -> device.Device:
        return dataclasses.replace(card, healthy=True) if card.id in unhealthy else card

    scratch = one_node.copied(books, node, change=change, uncordoned=cordoned)
    found = one_node.judged(books, scratch, node, pod.request, priority=pod.priority)
    return isinstance(found, allocation.Allocation)


def _name(raw: Json) -> str:
    return shape.text(shape.mapping(raw.get("metadata")).get("name"))
