"""What complete lists and time alone cause: forgotten objects, stuck pods and locks."""

import datetime
from collections.abc import Collection, Iterable, Iterator

from vgpu_operator.flows import (
    effects,
    lock_needs,
    locks,
    nominated,
    pod_events,
    quotas,
    reasons,
    register,
)
from vgpu_operator.flows.books import Books
from vgpu_operator.machines import bind_phase
from vgpu_operator.model import records, settings
from vgpu_operator.wire import resource_version


def nodes_listed(books: Books, *, names: Collection[str], version: str) -> effects.Reaction:
    """Forget the Nodes that one complete list no longer has; what it has is taken in apart.

    A deletion that no watch delivered cannot hold cards for ever. What is
    known from a later moment than the list stays.
    """
    missing = [
        name
        for name, node in books.nodes.items()
        if name not in names and not resource_version.is_earlier(version, node.resource_version)
    ]
    return join(register.node_gone(books, name) for name in missing)


def pods_listed(books: Books, *, uids: Collection[str], version: str) -> effects.Reaction:
    """Forget the Pods that one complete list no longer has, as ``nodes_listed`` does."""
    missing = [
        record.key
        for record in books.ledger.records()
        if record.key.uid not in uids
        and not resource_version.is_earlier(version, record.resource_version)
    ]
    return join(pod_events.pod_gone(books, pod) for pod in missing)


def synced(books: Books) -> None:
    """Note that complete lists were taken in; what happened before them unseen is not known."""
    books.trusted_nodes.clear()
    books.synced = True


def term_ended(books: Books) -> None:
    """Forget what only a leader looks after: whoever leads next finds it out anew.

    A follower would never look again, and tell the last it knew for ever.
    """
    books.refused.clear()
    books.preemption.clear()
    for kept in books.ledger.nominations():
        books.ledger.end_nomination(kept.pod.uid)
    books.stuck_locks.clear()
    books.stuck.clear()


def join(reactions: Iterable[effects.Reaction]) -> effects.Reaction:
    """Return all of them as one."""
    wanted: list[effects.Effect] = []
    nodes: set[str] = set()
    pods: set[str] = set()
    for reaction in reactions:
        wanted += reaction.effects
        nodes |= reaction.nodes
        pods |= reaction.pods
    return effects.Reaction(effects=tuple(wanted), nodes=frozenset(nodes), pods=frozenset(pods))


def standing_complaints(books: Books) -> Iterator[tuple[effects.Effect, ...]]:
    """Yield the events for all that is wrong now, object by object.

    A new leader says what he saw while he followed; there may be many Pods, so
    whoever reads can pause between any two.
    """
    yield from register.standing_complaints(books)
    yield from pod_events.standing_complaints(books)


def tick(books: Books, now: datetime.datetime) -> effects.Reaction:
    """Do what time alone causes: stuck pods and locks, claims that ended.

    The handshakes of thousands of nodes are stepped apart, see ``register``.
    """
    books.ledger.expire_claims(now)
    quotas.tidy(books)
    if not books.leader:
        return effects.NOTHING
    return _leaders_second(books, now, again=True)


def quick_tick(books: Books, now: datetime.datetime) -> effects.Reaction:
    """Do what must not wait for the slow tick.

    That is locks that are over, pods that are stuck, and cards that are kept for nothing.
    """
    books.ledger.expire_claims(now)
    books.ledger.expire_nominations(now)
    if not books.leader:
        return effects.NOTHING
    nominated.review_changed(books)
    return _leaders_second(books, now, again=False)


def _leaders_second(books: Books, now: datetime.datetime, *, again: bool) -> effects.Reaction:
    locked = books.locks.nodes()
    wanted: list[effects.Effect] = list(locks.forgotten(books, nodes=locked, now=now))
    wanted += lock_needs.put_back(books, nodes=tuple(books.awaited), now=now)
    closed = {node for node, _ in books.stuck_locks}
    wanted += _stuck_locks(books, now, again=again)
    books.opened |= closed - {node for node, _ in books.stuck_locks}
    wanted += _slow_pods(books, now)
    # Every waiter, lock or not: his own write may have been lost without any event.
    return effects.Reaction(effects=tuple(wanted), nodes=books.turns.nodes())


def _stuck_locks(books: Books, now: datetime.datetime, *, again: bool) -> Iterator[effects.Effect]:
    """Note the locks that can pass to nobody; yield what is done about each owner, once.

    Args:
        books: what is known.
        now: the time.
        again: ask again for a deletion that was asked for and has not begun.
    """
    books.stuck_locks.clear()
    for node in sorted({*books.locks.nodes(), *books.awaited}):
        standing = {key for key, _ in books.locks.on(node)}
        for key in sorted(standing | lock_needs.keys_due(books, node)):
            owner = locks.stuck_owner(books, node=node, key=key, now=now)
            if owner is None:
                continue
            books.stuck_locks[node, key] = owner.key
            told = books.stuck.get(owner.key.uid) == "blocked"
            if not told:
                books.stuck[owner.key.uid] = "blocked"
                yield _blocked(node, owner)
            wanted = books.settings.bind.stuck_pod is settings.StuckPod.DELETE
            if wanted and (again or not told) and not owner.deleting:
                # No kubelet has seen it in this version, so no process of it can run; and
                # a deletion with grace would wait for that kubelet.
                yield effects.DeletePod(
                    pod=owner.key, grace_s=0, resource_version=owner.resource_version
                )


def _slow_pods(books: Books, now: datetime.datetime) -> Iterator[effects.Effect]:
    """Yield an event, once each, for bound pods that are not served in time."""
    for uid, found_at in books.allocating.items():
        since = books.allocating[uid] = found_at or now
        owner = books.ledger.record(uid)
        if owner is None or uid in books.stuck:
            continue
        limit_s = books.settings.bind.stuck_after_s
        if not bind_phase.is_stuck(owner, now=now, stuck_after_s=limit_s, first_seen=since):
            continue
        books.stuck[uid] = "slow"
        pod = owner.key
        held = locks.held_by(books, owner, now)
        yield reasons.on_pod(
            pod,
            "AllocationStuck",
            f"bound to {owner.node}, but its device plugin has not served it for"
            f" {limit_s:.0f} s; look at the plugin's and the kubelet's log on {owner.node}"
            + (f"; later pods wait for the lock {', '.join(held)}" if held else ""),
        )


def _blocked(node: str, owner: records.PodRecord) -> effects.Effect:
    """Say that a node takes no further pod, and why."""
    return reasons.on_node(
        node,
        "NodeLockStuck",
        f"pod {owner.key} is bound here and no kubelet has seen it, so its allocation may still"
        " come and the lock cannot pass on; start the kubelet and the device plugin, or delete"
        " the pod with grace period 0",
    )
