"""What became of locks and allocations, counted whenever something about them changes.

Every replica sees the same changes; only the leader counts what has ended, so that a
sum over replicas counts nothing twice.
"""

import datetime

from vgpu_operator.flows import pod_events
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.effects import Reaction
from vgpu_operator.flows.tallies import Standing
from vgpu_operator.model import records


def note(books: Books, reaction: Reaction, now: datetime.datetime) -> None:
    """Count what has ended at the nodes and pods about which something changed."""
    for uid in reaction.pods:
        _note_pod(books, uid, now)
    for node in reaction.nodes:
        _note_locks(books, node, now)


def _note_pod(books: Books, uid: str, now: datetime.datetime) -> None:
    record = books.ledger.record(uid)
    counted = books.tallies
    attempt = books.preemption.attempts.get(uid)
    if attempt is not None and record is not None and record.node:
        attempt.bound_at = attempt.bound_at or now
    if record is not None and not record.ended and _is_to_be_counted(books, record):
        counted.bypassed.add(uid)
    else:
        counted.bypassed.discard(uid)
    if uid in books.allocating:
        counted.allocating.setdefault(uid, now)
        return
    begun = counted.allocating.pop(uid, None)
    if begun is not None and books.leader:
        counted.allocations[_outcome(record)].note((now - begun).total_seconds())


def _is_to_be_counted(books: Books, record: records.PodRecord) -> bool:
    """Whether the webhook should have seen a pod that it has not seen."""
    left_out = record.key.namespace in books.settings.webhook_leaves_out
    return not left_out and pod_events.bypassed(books.settings, record)


def _outcome(record: records.PodRecord | None) -> str:
    """Return how the allocation of a pod that is no longer allocating has ended."""
    if record is None:
        return "gone"
    if record.bind_phase is records.BindPhase.FAILED:
        return "failed"
    served = record.bind_phase is records.BindPhase.SUCCESS and not record.to_allocate
    return "gone" if record.ended and not served else "success"


def _note_locks(books: Books, node: str, now: datetime.datetime) -> None:
    counted = books.tallies
    standing = {
        key: Standing(text=sight.text, since=sight.seen_at) for key, sight in books.locks.on(node)
    }
    before = counted.locks.pop(node, {})
    if standing:
        counted.locks[node] = standing
    if not books.leader:
        return
    for key, lock in before.items():
        if key not in standing or standing[key].text != lock.text:
            counted.lock_held.note((now - lock.since).total_seconds())
