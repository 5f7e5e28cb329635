"""The bind step: reserve, wait for the lock, take it, check again, bind.

    choose + reserve ─► wait for the turn ─► take the lock ─► (list the node's pods)
         │ does not fit       │ lock stuck       ▲ 409: look again
         ▼                    ▼                  │
       refuse              refuse   ... bound ◄─ Binding ◄─ (choose again)
                             │ 409: read the pod ─► bound already, replaced, or once more

Two API calls a pod: the lock's PATCH and the Binding. The lock stays when the
bind succeeds: the device plugin finds its pod by it and removes it.
"""

import dataclasses
import datetime
from collections.abc import Generator
from typing import Any, TypeAlias

from vgpu_operator.flows import effects, locks, pod_events, promises, reasons
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.turns import Waiter
from vgpu_operator.machines import node_lock
from vgpu_operator.model import allocation, reason, records, request
from vgpu_operator.scheduling import choose
from vgpu_operator.wire import extender
from vgpu_operator.wire import node_lock as lock_text

Flow: TypeAlias = Generator[effects.Effect, Any, effects.BindResult]
Step: TypeAlias = Generator[effects.Effect, Any, str]
"""A part of the flow; its value is an error text, empty when it went well."""

BINDING_TRIES = 5
"""How often a Binding is tried again when only the pod's version had moved."""

RELEASE_TRIES = 5

RELEASE_TIME_S = 0.05
"""How long a plugin that has just reported success is left to remove its lock.

With requests to spare it takes about 10 ms (recorded); handing the lock over in
that time would only be a conflict, for it and for us. Later we hand it over.
"""


def bind(books: Books, args: extender.BindArgs, now: datetime.datetime) -> Flow:
    """Bind one pod to one node.

    The answer's error is for kube-scheduler's event and log: one sentence.
    """
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
            error = yield from _create_binding(books, record, args.node, {}, {})
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


def _bind_in_turn(
    books: Books, record: records.PodRecord, node: str, now: datetime.datetime
) -> Step:
    """Reserve, wait, lock, bind; a failure gives back the cards and exactly our locks."""
    pod = record.key
    granted = reserve(books, record.request, node)
    if isinstance(granted, reason.NodeRejection):
        return f"{pod} no longer fits on {node}: {granted}"
    reserved = _Reserved(wish=record.request, granted=granted, generation=books.ledger.generation)
    lock_keys = books.lock_keys(record.request)
    if lock_keys:
        error, now = yield from _take_locks(books, record, node, lock_keys, now)
        if error:
            if _is_bound_by_us(books, pod, node):
                return ""
            books.ledger.unassume(pod.uid)
            return error
    error = yield from _bind_locked(books, reserved, node, now, locked=bool(lock_keys))
    if error and _is_bound_by_us(books, pod, node):
        # An earlier Binding that nobody had answered: its plugin needs the lock.
        return ""
    if error:
        books.ledger.unassume(pod.uid)
        if lock_keys:
            yield from _release(books, pod, node, lock_keys, now)
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
    if record is None or record.key.uid != args.uid:
        gone = request.PodKey(namespace=args.namespace, name=args.name, uid=args.uid)
        yield from pod_events.lose(books, gone)
        return None, f"pod {named} with UID {args.uid} does not exist any more"
    if record.key.name != args.name or record.key.namespace != args.namespace:
        return None, f"UID {args.uid} belongs to pod {record.key}, not to {named}"
    problem = _hopeless(record)
    return (record if record.node or not problem else None), problem


def _hopeless(record: records.PodRecord) -> str:
    """Return why a pod can no longer be bound, empty while it can."""
    if record.node:
        return f"pod {record.key} is bound to {record.node} already"
    if record.ended:
        return f"pod {record.key} has ended"
    if record.deleting:
        return f"pod {record.key} is being deleted"
    return ""


def reserve(
    books: Books, wish: request.PodRequest, node: str
) -> allocation.Allocation | reason.NodeRejection:
    """Choose the cards and assume them, in one step of the event loop."""
    books.ledger.unassume(wish.pod.uid)
    view = books.ledger.snapshot(with_claims=False)
    granted = choose.choose(view, node, wish, books.defaults)
    if isinstance(granted, allocation.Allocation):
        # Ends the pod's claim too: cards that it keeps have not become free.
        books.ledger.assume(wish, granted)
    else:
        books.ledger.drop_claim(wish.pod.uid)
    return granted


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Reserved:
    """What was reserved before the lock, and the ledger's generation then."""

    wish: request.PodRequest
    granted: allocation.Allocation
    generation: int


def _still_holds(books: Books, reserved: _Reserved, record: records.PodRecord) -> bool:
    """Whether nothing has happened since that a fresh choice would have to look at.

    Other binds of ours have counted this reservation; cards that changed and
    pods that somebody else has bound have not.
    """
    held = books.ledger.holding(record.key.uid)
    return (
        books.ledger.assumed(record.key.uid)
        and held is not None
        and held.node == reserved.granted.node
        and record.request == reserved.wish
        and books.upsets.get(held.node, 0) <= reserved.generation
    )


def _take_locks(
    books: Books,
    record: records.PodRecord,
    node: str,
    lock_keys: tuple[str, ...],
    now: datetime.datetime,
) -> Generator[effects.Effect, Any, tuple[str, datetime.datetime]]:
    """Wait for the pod's turn and take all its locks in one write.

    Returns an error text (empty when the locks are ours) and the time.
    """
    pod = record.key
    books.turns.join(node, Waiter(uid=pod.uid, keys=lock_keys, group=record.group))
    spared: records.NodeRecord | None = None
    while True:
        problem = _lost_sense(books, pod, node)
        if problem:
            return problem, now
        seen = books.nodes[node]
        stuck = _stuck(books, node, lock_keys, pod, now)
        if stuck:
            return f"{pod} was not bound to {node}: {stuck}", now
        may_write = yield from _look(books, pod, node, lock_keys, now)
        if not may_write:
            now = yield effects.AwaitChange(node=node, pod=pod)
            continue
        if books.nodes.get(node) is not seen:
            # Looking asked the API server, and meanwhile the Node has changed.
            continue
        if spared is not seen and _is_being_released(books, node, lock_keys, pod):
            spared = seen
            now = yield effects.AwaitChange(node=node, pod=pod, at_most_s=RELEASE_TIME_S)
            continue
        # Asked before the write: its echo may come before its answer.
        foreign = _is_foreign(books, node, lock_keys)
        texts = dict.fromkeys(lock_keys, _new_text(seen, pod, now))
        books.locks.announce(node, texts, owner_uid=pod.uid)
        try:
            version = yield effects.PatchNode(
                node=node, annotations=texts, resource_version=seen.resource_version
            )
        except (effects.Conflict, effects.Doubtful):
            # Somebody wrote the Node in between, or our own write may have
            # happened: what the watch shows next decides.
            if books.nodes.get(node) is seen:
                now = yield effects.AwaitChange(node=node, pod=pod)
            continue
        except effects.EffectFailed as fault:
            return f"the lock of {node} cannot be taken: {fault}", now
        if foreign:
            books.trusted_nodes.discard(node)
        locks.wrote(books, node=node, texts=texts, version=version, now=now, owner_uid=pod.uid)
        return "", now


def _is_being_released(
    books: Books, node: str, lock_keys: tuple[str, ...], pod: request.PodKey
) -> bool:
    """Whether a plugin has just served the owner of a lock, and so is about to remove it."""
    return any(
        locks.holder(books, node=node, key=key, wanted_by=pod)[0] is node_lock.Holder.SERVED
        for key in lock_keys
    )


def _new_text(seen: records.NodeRecord, pod: request.PodKey, now: datetime.datetime) -> str:
    """Return a lock text that does not stand on the Node.

    The same text again would be no write, and so no proof that the lock is ours.
    """
    text = lock_text.encode_lock(now, namespace=pod.namespace, pod=pod.name)
    if text not in seen.locks.values():
        return text
    return _new_text(seen, pod, now + datetime.timedelta(seconds=1))


def _stuck(
    books: Books,
    node: str,
    lock_keys: tuple[str, ...],
    pod: request.PodKey,
    now: datetime.datetime,
) -> str:
    """Return why it is in vain to wait for the locks; empty while it is not.

    The filter keeps off such a node from now on.
    """
    for key in lock_keys:
        answer, _, owner = locks.verdict(books, node=node, key=key, wanted_by=pod, now=now)
        if answer is node_lock.Verdict.BLOCKED and owner is not None:
            books.stuck_locks[node, key] = owner.key
            return locks.stuck_words(owner.key)
    return ""


def _is_foreign(books: Books, node: str, lock_keys: tuple[str, ...]) -> bool:
    """Whether one of the locks was not written by this process."""
    sights = (books.locks.get(node, key) for key in lock_keys)
    return any(sight is not None and not sight.ours for sight in sights)


def _lost_sense(books: Books, pod: request.PodKey, node: str) -> str:
    """Return why there is nothing left to bind, empty while there is."""
    record = books.ledger.record(pod.uid)
    if record is None:
        return f"pod {pod} is gone"
    if node not in books.nodes:
        return f"node {node} is gone"
    return _hopeless(record)


def _look(
    books: Books,
    pod: request.PodKey,
    node: str,
    lock_keys: tuple[str, ...],
    now: datetime.datetime,
) -> Generator[effects.Effect, Any, bool]:
    """Say whether the pod may write all its locks now; else it must wait.

    A lock that names the pod already is written again: it may be left from
    another pod of that name or from another leader's bind, and only a
    conditioned write proves that it is ours. Its holder goes ahead of the
    queue: nobody in front of it could take that lock.
    """
    for key in lock_keys:
        verdict, who, owner = locks.verdict(books, node=node, key=key, wanted_by=pod, now=now)
        if verdict is node_lock.Verdict.KEEP:
            continue
        if verdict is node_lock.Verdict.WAIT:
            return False
        if not books.turns.may_try(node, pod.uid):
            return False
        if who is node_lock.Holder.GONE and (yield from locks.owner_lives(books, node, key)):
            return False
        if verdict is node_lock.Verdict.FENCE and owner is not None:
            fenced = yield from locks.fence(books, owner, now)
            if not fenced:
                return False
    return True


def _bind_locked(
    books: Books, reserved: _Reserved, node: str, now: datetime.datetime, *, locked: bool
) -> Step:
    """Check again under the lock, then create the Binding.

    Without a lock nothing proves that nobody else has bound since, so the
    node's pods are listed each time. The cards are chosen again only where
    something has happened on the node since they were reserved.
    """
    pod, granted = reserved.wish.pod, reserved.granted
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
    problem = _lost_sense(books, pod, node)
    if record is None or problem:
        return problem
    if not _still_holds(books, reserved, record):
        chosen = reserve(books, record.request, node)
        if isinstance(chosen, reason.NodeRejection):
            return f"{pod} no longer fits on {node}: {chosen}"
        granted = chosen
    texts = promises.annotations(books, record, granted, now)
    # What the vendors write (MIG placements, say) counts before the API shows it.
    books.ledger.assume(record.request, granted, notes=texts)
    marks = promises.labels(node)
    error = yield from _create_binding(books, record, node, texts, marks, fence=fence)
    if not error and marks and not books.label_in_binding:
        try:
            yield effects.PatchPod(pod=pod, labels=dict(marks))
        except effects.EffectFailed:
            # Only a convenience for selectors: the promise is in the annotations.
            return ""
    return error


def _create_binding(
    books: Books,
    record: records.PodRecord,
    node: str,
    texts: dict[str, str],
    marks: dict[str, str],
    *,
    fence: str = "",
) -> Step:
    """Create the Binding; read the pod and decide again when its version has moved.

    Args:
        fence: the fence that the pod carried when its lock was taken. Another
            one means that the lock was taken over since.

    Raises:
        effects.Doubtful: some Binding may have happened or may still happen.
    """
    doubt: effects.Doubtful | None = None
    for _ in range(BINDING_TRIES):
        if record.fenced != fence:
            return (
                f"the lock of {node} was taken over from {record.key}; kube-scheduler tries again"
            )
        try:
            yield effects.BindPod(
                pod=record.key,
                node=node,
                resource_version=record.resource_version,
                annotations=texts,
                labels=marks,
            )
        except (effects.Conflict, effects.Missing, effects.Doubtful) as fault:
            if isinstance(fault, effects.Doubtful):
                doubt = fault
                books.in_doubt[record.key.uid] = record.resource_version
            fresh = yield from _reread(record, fault)
        except effects.EffectFailed as fault:
            if doubt is not None:
                raise doubt from fault
            return f"{record.key} cannot be bound to {node}: {fault}"
        else:
            books.bound.add(record.key.uid)
            return ""
        if fresh is not None:
            yield from pod_events.take_in(books, fresh)
        if fresh is None or fresh.key.uid != record.key.uid:
            yield from pod_events.lose(books, record.key)
            return f"pod {record.key} is gone"
        if fresh.node == node and fresh.promised_node == (node if texts else ""):
            return ""
        problem = _hopeless(fresh)
        if problem:
            return problem
        if fresh.resource_version != record.resource_version:
            doubt = None  # what was on its way fails by its version now
        record = fresh
    if doubt is not None:
        raise doubt
    return f"{record.key} kept changing while it was bound to {node}; kube-scheduler tries again"


def _reread(
    record: records.PodRecord, fault: effects.EffectFailed
) -> Generator[effects.Effect, Any, records.PodRecord | None]:
    """Read the pod after a Binding that failed or may have happened."""
    try:
        fresh: records.PodRecord | None = yield effects.ReadPod(
            namespace=record.key.namespace, name=record.key.name
        )
    except effects.EffectFailed as second:
        raise effects.Doubtful(f"{fault}; reading it again failed too: {second}") from second
    return fresh


def _release(
    books: Books,
    pod: request.PodKey,
    node: str,
    lock_keys: tuple[str, ...],
    now: datetime.datetime,
) -> Generator[effects.Effect, Any, None]:
    """Remove the locks that this pod holds; another pod's stay."""
    for _ in range(RELEASE_TRIES):
        seen = books.nodes.get(node)
        ours = [
            key
            for key in lock_keys
            if locks.holder(books, node=node, key=key, wanted_by=pod)[0] is node_lock.Holder.SELF
        ]
        if seen is None or not ours:
            return
        try:
            version = yield effects.PatchNode(
                node=node,
                annotations=dict.fromkeys(ours),
                resource_version=seen.resource_version,
            )
        except (effects.Conflict, effects.Doubtful):
            if books.nodes.get(node) is not seen:
                continue
            try:
                yield effects.AwaitChange(node=node, pod=pod)
            except effects.GivenUp:
                return
            continue
        except effects.EffectFailed:
            # The clean-up of forgotten locks removes it when its owner ends.
            return
        locks.wrote(books, node=node, texts=dict.fromkeys(ours), version=version, now=now)
        return
