"""Take a pod's node locks when its turn comes, and give them back when its bind fails."""

import datetime
from collections.abc import Generator
from typing import Any

from vgpu_operator.flows import bindable, effects, lock_needs, locks
from vgpu_operator.flows.books import SHORTEST_GRACE_S, Books
from vgpu_operator.flows.turns import Waiter
from vgpu_operator.machines import node_lock
from vgpu_operator.model import records, request
from vgpu_operator.wire import lock_kinds

RELEASE_TRIES = 5

MOST_WAITS = 4
"""How often other news may interrupt one moment that a plugin is left."""

GRACE_DECAY = 0.95
"""By how much the grace shrinks with each lock that is taken without a conflict."""


def take(
    books: Books,
    record: records.PodRecord,
    node: str,
    now: datetime.datetime,
) -> Generator[effects.Effect, Any, tuple[str, tuple[str, ...], datetime.datetime]]:
    """Wait for the pod's turn and take all its locks in one write.

    Which locks these are is looked at anew each time: the node may change its
    dialect during the wait.

    Returns an error text (empty when the locks are ours), the locks that were
    taken (none where its vendors use none), and the time.
    """
    pod = record.key
    spared: records.NodeRecord | None = None
    spared_since, n_waits = now, 0
    while True:
        lock_keys = books.lock_keys(record.request, node)
        if not lock_keys:
            books.turns.leave(pod.uid)
            return "", (), now
        problem = bindable.lost_sense(books, pod, node)
        if problem:
            return problem, (), now
        books.turns.join(node, Waiter(uid=pod.uid, keys=lock_keys, group=record.group))
        seen = books.nodes[node]
        stuck = _stuck(books, node, lock_keys, pod, now)
        if stuck:
            return f"{pod} was not bound to {node}: {stuck}", (), now
        may_write = yield from _look(books, pod, node, lock_keys, now)
        if not may_write:
            now = yield effects.AwaitChange(node=node, pod=pod)
            continue
        if books.nodes.get(node) is not seen:
            # Looking asked the API server, and meanwhile the Node has changed.
            continue
        left_s = removal_left_s(books, node, lock_keys, pod, now)
        if left_s > 0:
            now = yield effects.AwaitChange(node=node, pod=pod, at_most_s=left_s)
            continue
        is_handed_over = _is_being_released(books, node, lock_keys, pod)
        if is_handed_over:
            if spared is not seen:
                spared, spared_since, n_waits = seen, now, 0
            waited_s = (now - spared_since).total_seconds()
            # Other news of the node wakes us too; a clock that stands still or was set
            # back must not keep us.
            if 0 <= waited_s < books.release_grace_s and n_waits < MOST_WAITS:
                n_waits += 1
                left_s = books.release_grace_s - waited_s
                now = yield effects.AwaitChange(node=node, pod=pod, at_most_s=left_s)
                continue
        # Asked before the write: its echo may come before its answer.
        foreign = _is_foreign(books, node, lock_keys)
        texts = {
            key: lock_needs.new_text(books, pod, key, now, unlike=seen.locks.values())
            for key in lock_keys
        }
        books.locks.announce(node, texts, owner_uid=pod.uid)
        try:
            version = yield effects.PatchNode(
                node=node, annotations=texts, resource_version=seen.resource_version
            )
        except (effects.Conflict, effects.Doubtful):
            # Somebody wrote the Node in between, or our own write may have
            # happened: what the watch shows next decides.
            if is_handed_over:
                # A plugin that takes longer has lost its lock by then.
                longest_s = max(SHORTEST_GRACE_S, books.settings.lock.release_after_s)
                books.release_grace_s = min(longest_s, 2 * books.release_grace_s)
            if books.nodes.get(node) is seen:
                now = yield effects.AwaitChange(node=node, pod=pod)
            continue
        except effects.EffectFailed as fault:
            return f"the lock of {node} cannot be taken: {fault}", (), now
        books.release_grace_s = max(SHORTEST_GRACE_S, GRACE_DECAY * books.release_grace_s)
        if foreign:
            books.trusted_nodes.discard(node)
        locks.wrote(books, node=node, texts=texts, version=version, now=now, owner_uid=pod.uid)
        return "", lock_keys, now


def _is_being_released(
    books: Books, node: str, lock_keys: tuple[str, ...], pod: request.PodKey
) -> bool:
    """Whether a plugin has just served the owner of a lock, and so is about to remove it."""
    return any(
        locks.holder(books, node=node, key=key, wanted_by=pod)[0] is node_lock.Holder.SERVED
        for key in lock_keys
    )


def removal_left_s(
    books: Books,
    node: str,
    lock_keys: tuple[str, ...],
    pod: request.PodKey,
    now: datetime.datetime,
) -> float:
    """Return how long a bare lock is still left to the plugin that is done with its owner.

    That plugin removes whatever stands there, the next pod's lock too.
    """
    left_s = 0.0
    for key in lock_keys:
        if books.lock_kind(key).style is lock_kinds.LockStyle.OWNED:
            continue
        who, _ = locks.holder(books, node=node, key=key, wanted_by=pod)
        if who in (node_lock.Holder.SERVED, node_lock.Holder.FAILED):
            waited = now - books.locks.done_since(node, key, now=now)
            left_s = max(left_s, books.settings.lock.release_after_s - waited.total_seconds())
    return left_s


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


def release(
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
