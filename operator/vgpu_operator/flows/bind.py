"""The bind step: reserve, wait for the lock, take it, check again, bind.

    choose + reserve ─► wait for the turn ─► take the lock ─► (list the node's pods)
         │ does not fit       │ lock stuck       ▲ 409: look again
         ▼                    ▼                  │
       refuse              refuse   ... bound ◄─ Binding ◄─ (choose again)
                             │ 409: read the pod ─► bound already, replaced, or once more

A node may change its dialect while a pod waits: other locks are waited for then,
and locks that were taken already are given back first.

Two API calls a pod: the lock's PATCH and the Binding. The lock stays when the
bind succeeds: the device plugin finds its pod by it and removes it.
"""

import dataclasses
import datetime
from collections.abc import Generator
from typing import Any, TypeAlias

from vgpu_operator.flows import (
    bindable,
    binding,
    effects,
    nominated,
    pod_events,
    promises,
    quotas,
    reasons,
    take_locks,
)
from vgpu_operator.flows.books import Books
from vgpu_operator.model import allocation, reason, records, request
from vgpu_operator.scheduling import choose
from vgpu_operator.wire import extender, fields, object_names

Flow: TypeAlias = Generator[effects.Effect, Any, effects.BindResult]
Step: TypeAlias = Generator[effects.Effect, Any, str]
"""A part of the flow; its value is an error text, empty when it went well."""

LOCK_TRIES = 3
"""How often the locks are taken for one bind while the node changes its dialect."""


def bind(books: Books, args: extender.BindArgs, now: datetime.datetime) -> Flow:
    """Bind one pod to one node.

    The answer's error is for kube-scheduler's event and log: one sentence.
    """
    problem = _no_name(args)
    if problem:
        return effects.BindResult(error=problem)
    record, problem = yield from _find(books, args)
    if record is None:
        return effects.BindResult(error=problem)
    if record.node:
        return effects.BindResult(error="" if record.node == args.node else problem)
    pod = record.key
    try:
        if record.request.wants_devices:
            error = yield from _bind_in_turn(books, record, args.node, now)
        else:
            error = yield from binding.create(books, record, args.node, {}, {})
    except effects.GivenUp as end:
        books.ledger.unassume(pod.uid)
        return effects.BindResult(error=f"{pod} was not bound to {args.node}: {end}")
    except effects.Doubtful as doubt:
        # The Binding may have happened: the reservation and the lock stay until
        # the watch, the audit or the pod's next bind shows what is true.
        return effects.BindResult(error=f"it is unknown whether {pod} was bound: {doubt}")
    finally:
        books.turns.leave(pod.uid)
    if error:
        return effects.BindResult(error=error)
    if record.request.wants_devices and books.settings.events.success:
        yield reasons.binding_succeeded(pod, args.node)
    return effects.BindResult()


def _no_name(args: extender.BindArgs) -> str:
    """Return which of the names cannot be one, before it becomes part of a path of the API."""
    names = {"PodNamespace": args.namespace, "PodName": args.name, "Node": args.node}
    wrong = [(what, text) for what, text in names.items() if not object_names.is_name(text)]
    if not object_names.is_uid(args.uid):
        wrong.append(("PodUID", args.uid))
    return "; ".join(f"{what} {fields.shown(text)} is no such name" for what, text in wrong)


def _bind_in_turn(
    books: Books, record: records.PodRecord, node: str, now: datetime.datetime
) -> Step:
    """Reserve, wait, lock, bind; a failure gives back the cards and exactly our locks."""
    pod = record.key
    granted = reserve(books, record.request, node, priority=record.priority)
    if isinstance(granted, reason.NodeRejection):
        return f"{pod} no longer fits on {node}: {granted}"
    generation = books.ledger.generation
    error = ""
    held: tuple[str, ...] = ()
    for _ in range(LOCK_TRIES):
        error, held, now = yield from take_locks.take(books, record, node, now)
        if error:
            break
        reserved = _Reserved(
            wish=record.request, granted=granted, generation=generation, lock_keys=held
        )
        try:
            error = yield from _bind_locked(books, reserved, node, now)
        except _LocksMovedError:
            # Under the locks that it holds, nobody else would be kept off its plugin.
            yield from take_locks.release(books, pod, node, held, now)
            error, held = f"{node} keeps changing its dialect; kube-scheduler tries again", ()
            continue
        break
    if not error or _is_bound_by_us(books, pod, node):
        # Bound at last, or by an earlier Binding that nobody had answered: its
        # plugin needs the lock.
        return ""
    books.ledger.unassume(pod.uid)
    if held:
        yield from take_locks.release(books, pod, node, held, now)
    return error


def _is_bound_by_us(books: Books, pod: request.PodKey, node: str) -> bool:
    """Whether the pod is bound there with a promise for that node."""
    record = books.ledger.record(pod.uid)
    return record is not None and record.node == node and record.promised_node == node


def _find(
    books: Books, args: extender.BindArgs
) -> Generator[effects.Effect, Any, tuple[records.PodRecord | None, str]]:
    """Return the pod's record, or None and why there is nothing to bind."""
    named = f"{args.namespace}/{args.name}"
    record = books.ledger.record(args.uid)
    if record is None or (args.uid in books.bound and not record.node):
        # Not seen yet, or bound by us and not seen bound yet: only the server knows where.
        try:
            record = yield effects.ReadPod(namespace=args.namespace, name=args.name)
        except effects.EffectFailed as fault:
            return None, f"pod {named} cannot be read: {fault}"
        if record is not None:
            yield from pod_events.take_in(books, record)
            # The answer may be older than what the watch has shown meanwhile.
            uid = record.key.uid
            record = None if books.ledger.gone(uid) else books.ledger.record(uid) or record
    if record is None or record.key.uid != args.uid:
        gone = request.PodKey(namespace=args.namespace, name=args.name, uid=args.uid)
        yield from pod_events.lose(books, gone)
        return None, f"pod {named} with UID {args.uid} does not exist any more"
    if record.key.name != args.name or record.key.namespace != args.namespace:
        return None, f"UID {args.uid} belongs to pod {record.key}, not to {named}"
    problem = bindable.hopeless(record)
    return (record if record.node or not problem else None), problem


def reserve(
    books: Books, wish: request.PodRequest, node: str, *, priority: int
) -> allocation.Allocation | reason.NodeRejection:
    """Choose the cards and assume them, in one step of the event loop.

    What is assumed counts for the namespace's quota at once, so a burst of
    binds cannot pass it. Cards that are kept for a pod of the same or a higher
    priority are not chosen; whose cards are taken by a higher one waits for
    them no longer.

    Args:
        books: what is known.
        wish: of the pod.
        node: its name.
        priority: of the pod.
    """
    uid = wish.pod.uid
    books.ledger.unassume(uid)
    view = books.ledger.snapshot(
        with_claims=False,
        without_claim_of=uid,
        for_priority=priority,
        kept_on=node,
    )
    allowances = quotas.allowances(books, wish.pod)
    granted = choose.choose(view, node, wish, books.defaults, allowances=allowances)
    if isinstance(granted, allocation.Allocation):
        # Ends the pod's claim and its nomination too: cards that it keeps have not become
        # free.
        books.ledger.assume(wish, granted)
        nominated.review(books, (node,))
    else:
        books.ledger.drop_claim(uid)
    return granted


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Reserved:
    """What was reserved before the lock.

    Attributes:
        wish: what the pod asked for.
        granted: the cards.
        generation: the ledger's generation then.
        lock_keys: the locks that were taken since; empty where none is used.
    """

    wish: request.PodRequest
    granted: allocation.Allocation
    generation: int
    lock_keys: tuple[str, ...]


class _LocksMovedError(Exception):
    """The node's plugins use other locks now than those that the pod has taken."""


def _still_holds(books: Books, reserved: _Reserved, record: records.PodRecord) -> bool:
    """Whether nothing has happened since that a fresh choice would have to look at.

    Other binds of ours have counted this reservation; cards that changed and
    pods that somebody else has bound have not.
    """
    node = reserved.granted.node
    return (
        books.ledger.assumed_on(record.key.uid, node)
        and record.request == reserved.wish
        and books.upsets.get(node, 0) <= reserved.generation
    )


def _bind_locked(books: Books, reserved: _Reserved, node: str, now: datetime.datetime) -> Step:
    """Check again under the lock, then create the Binding.

    Without a lock nothing proves that nobody else has bound since, so the
    node's pods are listed each time. The cards are chosen again only where
    something has happened on the node since they were reserved.

    Raises:
        _LocksMovedError: the node has changed its dialect; nothing was bound.
    """
    pod, granted, locked = reserved.wish.pod, reserved.granted, bool(reserved.lock_keys)
    before = books.ledger.record(pod.uid)
    fence = "" if before is None else before.fenced
    if not locked or node not in books.trusted_nodes:
        found = None
        if locked:
            # Before the list: whoever shows up while it is made costs the trust again.
            books.trusted_nodes.add(node)
        try:
            found = yield effects.ListNodePods(node=node)
        except effects.EffectFailed as fault:
            return f"the pods of {node} cannot be listed: {fault}"
        finally:
            if found is None:
                books.trusted_nodes.discard(node)
        for other in found:
            yield from pod_events.take_in(books, other)
    record = books.ledger.record(pod.uid)
    problem = bindable.lost_sense(books, pod, node)
    if record is None or problem:
        return problem
    if not _still_holds(books, reserved, record):
        chosen = reserve(books, record.request, node, priority=record.priority)
        if isinstance(chosen, reason.NodeRejection):
            return f"{pod} no longer fits on {node}: {chosen}"
        granted = chosen
    if books.lock_keys(record.request, node) != reserved.lock_keys:
        # The promise is written in the dialect that the node speaks now.
        raise _LocksMovedError
    texts = promises.annotations(books, record, granted, now)
    # What the vendors write (MIG placements, say) counts before the API shows it.
    books.ledger.assume(record.request, granted, notes=texts)
    marks = promises.labels(texts)
    error = yield from binding.create(books, record, node, texts, marks, fence=fence)
    if not error and marks and not books.label_in_binding:
        try:
            yield effects.PatchPod(pod=pod, labels=dict(marks))
        except effects.EffectFailed:
            # Only a convenience for selectors: the promise is in the annotations.
            return ""
    return error
