"""Which refused pods may evict others, which pods may be evicted, and who is looked at next."""

import datetime
import functools
from collections.abc import Collection, Sequence
from typing import Final

from vgpu_operator.flows import locks, quotas
from vgpu_operator.flows.books import Books, Refusal
from vgpu_operator.flows.preemption.attempts import Attempt, Candidate, Fitted
from vgpu_operator.model import records, request
from vgpu_operator.scheduling import fit

SETTLE: Final = datetime.timedelta(milliseconds=100)
"""How long a refusal stands before a plan is made: kube-scheduler asks for a nominated node
alone first and for all others after it, and nominates a node by itself after both."""

PATIENCE: Final = datetime.timedelta(seconds=10)
"""Who is due for longer than that comes before any of higher priority: many of those, looked at
again and again, would keep it waiting for ever."""

REVIEW: Final = datetime.timedelta(seconds=10)
"""How often those who were refused are looked at without kube-scheduler asking again: it does
not when a pod of low priority is seen to hold its cards only after the refusal."""

CRITICAL: Final = frozenset({"system-node-critical", "system-cluster-critical"})
"""PriorityClasses of Kubernetes whose pods keep nodes and cluster alive."""


def note_refusal(books: Books, record: records.PodRecord, now: datetime.datetime) -> bool:
    """Note that the filter refused a pod; return whether it is to be looked at.

    What is looked at waits for ``SETTLE``, and for as long as the last look has said.
    """
    uid = record.key.uid
    if not books.leader or not may_evict(books, record) or uid in books.preemption.attempts:
        return False
    if not _is_above_somebody(books, record.priority):
        return False
    due = now + SETTLE
    known = books.preemption.candidates.get(uid)
    if known is None:
        books.preemption.candidates[uid] = Candidate(
            record=record, since=now, look_at=due, not_before=now
        )
        return True
    known.record = record
    if known.look_at is None:
        known.look_at = max(due, known.not_before)
    return True


def review(books: Books, now: datetime.datetime) -> None:
    """Note all that stand refused anew, now and then."""
    known = books.preemption
    if known.reviewed_at is not None and known.reviewed_at <= now < known.reviewed_at + REVIEW:
        return
    known.reviewed_at = now
    for uid in tuple(books.refused):
        record = books.ledger.record(uid)
        if record is not None and not (record.node or record.ended):
            note_refusal(books, record, now)


def may_evict(books: Books, record: records.PodRecord) -> bool:
    """Whether a pod may evict others at all, if there are any of low enough priority."""
    return record.request.wants_devices and not why_not(books, record)


def why_not(books: Books, record: records.PodRecord) -> str:
    """Return why a pod with devices may evict nobody at all; empty when it may."""
    if not books.settings.preemption.enabled:
        return "preemption.enabled is off"
    if record.never_preempts:
        return "its preemptionPolicy is Never"
    return exemption(books, record) or ("it is being deleted" if record.deleting else "")


def _is_above_somebody(books: Books, priority: int) -> bool:
    """Whether anybody could have to go: where no pod has a priority, nobody is worth a look."""
    lowest = books.ledger.stakes.lowest_priority()
    return lowest is not None and lowest <= priority - books.settings.preemption.min_priority_gap


def may_go(books: Books, victim: records.PodRecord) -> bool:
    """Whether a pod may be evicted, its priority aside."""
    return victim.priority_class not in CRITICAL and not exemption(books, victim)


def exemption(books: Books, record: records.PodRecord) -> str:
    """Return which setting keeps a pod out, as one who leaves too; empty when none does."""
    configured = books.settings.preemption
    if record.key.namespace in configured.exempt_namespaces:
        return f"preemption.exemptNamespaces holds its namespace {record.key.namespace}"
    if record.priority_class in configured.exempt_priority_classes:
        return f"preemption.exemptPriorityClasses holds its PriorityClass {record.priority_class}"
    return ""


def next_due(books: Books, now: datetime.datetime) -> Candidate | None:
    """Return who is looked at next: the highest priority, of equal ones the longest refused.

    Whom a budget has kept waiting comes after the others, else a few such pods that are looked
    at again and again would take the turns of all below them. Before all comes who has been
    due for ``PATIENCE``, the longest due first.
    """
    due = (
        candidate
        for candidate in books.preemption.candidates.values()
        if candidate.look_at is not None and candidate.look_at <= now
    )
    return min(due, key=functools.partial(_turn, now), default=None)


def next_look(books: Books) -> datetime.datetime | None:
    """Return when somebody is to be looked at; None when nobody is."""
    times = (candidate.look_at for candidate in books.preemption.candidates.values())
    return min((time for time in times if time is not None), default=None)


def open_nodes(books: Books, refusal: Refusal, now: datetime.datetime) -> tuple[str, ...]:
    """Return the nodes that it was refused on, without those that take nobody for their locks."""
    closed = locks.closed_to(books, refusal.request, now)
    return tuple(node for node in refusal.nodes if node not in closed) if closed else refusal.nodes


def fits(
    books: Books, asking: Candidate | Attempt, refusal: Refusal, now: datetime.datetime
) -> bool:
    """Whether a pod fits as things stand, or will once claims of others are over.

    What was found is noted; where it fitted nowhere, only what has come free is judged anew.
    """
    wish, nodes = refusal.request, open_nodes(books, refusal, now)
    generation = books.ledger.generation
    before = asking.fitted
    where: Collection[str] = nodes
    if before is not None and before.nodes == nodes and before.wish == wish:
        if before.generation == generation:
            return before.fits
        if not before.fits:
            where = _freed(books, wish.pod, before.generation, nodes)
    found = bool(where) and fits_without_claims(books, wish, refusal.priority, tuple(where))
    asking.fitted = Fitted(wish=wish, generation=generation, nodes=nodes, fits=found)
    return found


def _freed(
    books: Books, pod: request.PodKey, generation: int, nodes: Collection[str]
) -> Collection[str]:
    """Return which of the nodes have more for the pod than in an earlier generation."""
    if pod.namespace in books.ledger.quota_freed_since(generation):
        return nodes
    freed = books.ledger.freed_since(generation)
    return [node for node in nodes if node in freed] if freed else ()


def fits_without_claims(
    books: Books, wish: request.PodRequest, priority: int, nodes: Sequence[str]
) -> bool:
    """Whether a pod fits on one of the nodes once it is seen that others went elsewhere."""
    view = books.ledger.snapshot(
        with_claims=False, without_claim_of=wish.pod.uid, for_priority=priority
    )
    allowances = quotas.allowances(books, wish.pod)
    return bool(fit.place(view, nodes, wish, books.defaults, allowances=allowances).fitting)


def tidy(books: Books) -> None:
    """Forget the candidates that fit by now, are bound or gone."""
    known = books.preemption.candidates
    for uid in [uid for uid in known if uid not in books.refused]:
        if uid not in books.preemption.attempts:
            del known[uid]


def _turn(
    now: datetime.datetime, candidate: Candidate
) -> tuple[datetime.datetime, bool, int, datetime.datetime, str]:
    record, due = candidate.record, candidate.look_at or now
    impatient = due if now - due >= PATIENCE else now
    return impatient, candidate.blocked > 0, -record.priority, candidate.since, record.key.uid
