"""The sentence that an event about a refused pod ends with: what came closest to taking it.

Worked out when the event is sent, not when the filter refuses: thousands of pods may wait,
and most of what there is to say about them was said already. Pods that ask alike share
what was found, and looking takes a bounded part of the time, however many ask differently:
it is one step of the thread that also answers kube-scheduler.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from vgpu_operator.flows import effects, locks, quotas, reasons
from vgpu_operator.flows.books import Books, Refusal
from vgpu_operator.model import fitting, reason, request
from vgpu_operator.scheduling import near_miss

MOST_HOLDERS: Final = 3
"""Pods that are named as holding the card; of more the number is said."""

PAUSE_PER_NODE: Final = datetime.timedelta(microseconds=50)
"""How long after each look there is none, per node looked at.

5,000 nodes take up to 26 ms, so once in 250 ms; 100 nodes may be looked at as often as
events are sent. An event that comes in between is sent without the detail.
"""

_NOT_FREED: Final = reason.EVICTION_CANNOT_HELP | {reason.Reason.QUOTA_NOT_FIT}
"""Facts of which the pods on the card are not the reason."""

MOST_KEPT: Final = 256
"""Different questions whose answers are kept while nothing changes."""


class Closest:
    """Finds what came closest, once for all pods that ask alike while nothing changes."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._generation = -1
        self._closed: Mapping[str, reason.NodeRejection] = {}
        self._found: dict[object, near_miss.NearMiss | None] = {}
        self._not_before: datetime.datetime | None = None
        self._looked_at: datetime.datetime | None = None

    def message(self, event: effects.PostEvent, now: datetime.datetime) -> str:
        """Return an event's whole message as things stand now."""
        if not event.closest or event.pod is None:
            return event.message
        refusal = self._books.refused.get(event.pod.uid)
        miss = self._find(refusal, now) if refusal is not None else None
        if refusal is None or miss is None:
            return event.message
        return reasons.joined(event.message, sentence(miss, refusal.request))

    def _find(self, refusal: Refusal, now: datetime.datetime) -> near_miss.NearMiss | None:
        """Return what came closest; None too where it is too early to look again."""
        books, wish = self._books, refusal.request
        closed = locks.closed_to(books, wish, now)
        if books.ledger.generation != self._generation or closed != self._closed:
            self._found.clear()
            self._generation, self._closed = books.ledger.generation, closed
        question = books.question(wish, refusal.priority), refusal.nodes
        if question in self._found:
            return self._found[question]
        if self._is_too_early(now):
            return None
        self._looked_at = now
        self._not_before = now + PAUSE_PER_NODE * len(refusal.nodes)
        while len(self._found) >= MOST_KEPT:
            del self._found[next(iter(self._found))]
        found = self._found[question] = near_miss.find(
            books.ledger.snapshot(
                with_claims=True,
                without_claim_of=wish.pod.uid,
                for_priority=refusal.priority,
            ),
            [node for node in refusal.nodes if node not in closed] if closed else refusal.nodes,
            wish,
            books.defaults,
            allowances=quotas.allowances(books, wish.pod),
        )
        return found

    def _is_too_early(self, now: datetime.datetime) -> bool:
        """Whether the last look was a moment ago; a clock that was set back is no reason."""
        looked, due = self._looked_at, self._not_before
        return looked is not None and due is not None and looked <= now < due


def sentence(miss: near_miss.NearMiss, wish: request.PodRequest) -> str:
    """Return what came closest, for the people of the pod's namespace.

    Pods of other namespaces are counted and not named: who may read events here need not
    know who else is there.
    """
    count, card = miss.wish.count, miss.card
    where = f"closest is {miss.node}"
    if len(wish.containers) > 1:
        where += f" for container {wish.containers[miss.container].name}"
    if card is None:
        return f"{where}: {_of_the_node(miss)}"
    if count > 1:
        where += f", where {miss.able} of {count} cards would do; the next"
    told = ", ".join(_of_the_card(card, miss.facts))
    freed = any(fact not in _NOT_FREED for fact in miss.facts)
    held = _held(card.tenants, wish.pod.namespace) if freed else ""
    return f"{where}: card {card.device.id}: {told}{held}"


def _of_the_node(miss: near_miss.NearMiss) -> str:
    if reason.Reason.NUMA_NOT_FIT in miss.facts:
        return f"{miss.able} cards would do, but no {miss.wish.count} of one NUMA node"
    return f"it has {miss.able} {miss.wish.vendor} cards, {miss.wish.count} are asked for"


def _of_the_card(card: near_miss.Card, facts: Sequence[reason.Reason]) -> Iterator[str]:
    device = card.device
    for fact in facts:
        match fact:
            case reason.Reason.INSUFFICIENT_MEMORY:
                yield (
                    f"{card.asked_memory_mib} MiB asked, {card.free_memory_mib} of"
                    f" {device.memory_mib} MiB free"
                )
            case reason.Reason.INSUFFICIENT_CORES:
                yield (
                    f"{card.asked_cores} cores asked, {card.free_cores} of"
                    f" {device.cores_percent} free"
                )
            case reason.Reason.CORES_EXHAUSTED:
                yield "none of its cores is free"
            case reason.Reason.SLOTS_EXHAUSTED:
                yield f"all of its {device.slots} shares are given away"
            case reason.Reason.EXCLUSIVE_CONFLICT:
                yield "the pod wants it alone, and it is in use"
            case reason.Reason.CARD_NOT_HEALTHY:
                yield "its plugin calls it unhealthy"
            case reason.Reason.CARD_CORDONED:
                yield "it is cordoned"
            case reason.Reason.CARD_TYPE_MISMATCH:
                yield f"the pod's annotations rule out its type or mode ({device.type})"
            case reason.Reason.CARD_UUID_MISMATCH:
                yield "the pod's annotations rule it out by its id"
            case reason.Reason.QUOTA_NOT_FIT:
                yield "the quota of the namespace does not cover it"
            case _:
                yield str(fact)


def _held(tenants: Sequence[fitting.Tenant], namespace: str) -> str:
    """Return who holds the card, the largest share first; empty where nobody does.

    >>> _held((), "team-a")
    ''
    """
    memory_mib: dict[request.PodKey, int] = {}
    for tenant in tenants:
        memory_mib[tenant.pod] = memory_mib.get(tenant.pod, 0) + tenant.share.memory_mib
    ours = sorted(
        ((pod, mib) for pod, mib in memory_mib.items() if pod.namespace == namespace),
        key=lambda held: (-held[1], held[0]),
    )
    named = [f"{pod.name} {mib} MiB" for pod, mib in ours[:MOST_HOLDERS]]
    rest = len(ours) - len(named)
    if rest:
        named.append(f"{rest} more of this namespace")
    others = [mib for pod, mib in memory_mib.items() if pod.namespace != namespace]
    if others:
        named.append(f"{len(others)} of other namespaces {sum(others)} MiB")
    return f" (held by {', '.join(named)})" if named else ""
