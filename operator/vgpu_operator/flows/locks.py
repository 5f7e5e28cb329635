"""Node locks: may this pod take it, and which locks has everybody forgotten."""

import contextlib
import dataclasses
import datetime
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from vgpu_operator.flows import effects, lock_needs, pod_events
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.lock_sights import LockSight
from vgpu_operator.machines import node_lock
from vgpu_operator.model import reason, records, request
from vgpu_operator.wire import keys, lock_kinds, resource_version

Removal: TypeAlias = Generator[effects.Effect, Any, None]
"""A flow that removes one lock."""


def holder(
    books: Books, *, node: str, key: str, wanted_by: request.PodKey | None
) -> tuple[node_lock.Holder, records.PodRecord | None]:
    """Return what the owner of the lock that stands is to the asking pod, and its record."""
    sight = books.locks.get(node, key)
    if sight is None:
        return node_lock.Holder.NOBODY, None
    owner = _owner(books, sight, node=node, key=key)
    who = node_lock.holder(
        sight.text,
        node=node,
        wanted_by=wanted_by,
        owner=owner,
        owner_uid=sight.known_uid,
        idle=sight.proven and _is_idle(books, sight.known_uid),
        style=books.lock_kind(key).style,
    )
    return who, owner


def _owner(books: Books, sight: LockSight, *, node: str, key: str) -> records.PodRecord | None:
    """Return the pod that a lock is for: whom we took it for, else whom it names.

    A bare lock names nobody: it is for the pod that needs one there.
    """
    if sight.known_uid:
        return books.ledger.record(sight.known_uid)
    if sight.owner is not None:
        return books.ledger.record_of(*sight.owner)
    if books.lock_kind(key).style is lock_kinds.LockStyle.BARE:
        found = lock_needs.due(books, node=node, key=key)
        return None if found is None else found[1]
    return None


def _is_idle(books: Books, uid: str) -> bool:
    """Whether no Binding of ours for the pod is under way, done, or in doubt."""
    return not (uid in books.binding or uid in books.bound or uid in books.in_doubt)


def age(books: Books, *, node: str, key: str, now: datetime.datetime) -> node_lock.Age:
    """Return whether the lock is past its expiry."""
    sight = books.locks.get(node, key)
    if sight is None:
        return node_lock.Age.FRESH
    return node_lock.age(
        sight.lock,
        first_seen=sight.seen_at,
        now=now,
        expiry_s=expiry_s(books, key),
        style=books.lock_kind(key).style,
    )


def expiry_s(books: Books, key: str) -> float:
    """Return how old that lock may become, in seconds."""
    own = books.lock_kind(key).expiry_s
    return books.settings.lock.expiry_s if own is None else own


def verdict(
    books: Books, *, node: str, key: str, wanted_by: request.PodKey | None, now: datetime.datetime
) -> tuple[node_lock.Verdict, node_lock.Holder, records.PodRecord | None]:
    """Return what the pod may do about one lock, and why.

    Where no lock stands, or one whose owner has no use of it or no Binding yet,
    a pod that needs it holds the node all the same.
    """
    who, owner = holder(books, node=node, key=key, wanted_by=wanted_by)
    how_old = age(books, node=node, key=key, now=now)
    if who in node_lock.FREE or who is node_lock.Holder.SELF:
        besides = {wanted_by.uid} if wanted_by is not None else set()
        # The lock's own owner has been judged: it has no use of it, or is the pod that asks.
        besides |= {owner.key.uid} if owner is not None else set()
        found = lock_needs.due(books, node=node, key=key, besides=besides)
        if found is not None:
            who, owner = found
            how_old = _age_of_need(books, who, owner, key=key, now=now)
    return node_lock.verdict(who, how_old), who, owner


def _age_of_need(
    books: Books,
    who: node_lock.Holder,
    owner: records.PodRecord,
    *,
    key: str,
    now: datetime.datetime,
) -> node_lock.Age:
    """Return whether a pod without lock has needed it for longer than locks last.

    A Binding in doubt has no lock that would protect it, so it is fenced at once.
    """
    if who is node_lock.Holder.UNBOUND:
        return node_lock.Age.EXPIRED
    since = lock_needs.since(books, owner, now)
    if since is None:
        return node_lock.Age.FRESH
    return node_lock.age(None, first_seen=since, now=now, expiry_s=expiry_s(books, key))


def held_by(books: Books, owner: records.PodRecord, now: datetime.datetime) -> tuple[str, ...]:
    """Return the locks of its node that a bound pod keeps others from."""
    held = []
    for key in books.lock_keys(owner.request, owner.node):
        _, _, found = verdict(books, node=owner.node, key=key, wanted_by=None, now=now)
        if found is not None and found.key == owner.key:
            held.append(key)
    return tuple(held)


def stuck_owner(
    books: Books, *, node: str, key: str, now: datetime.datetime
) -> records.PodRecord | None:
    """Return the bound pod whose expired lock can pass to nobody; None when it is not so."""
    answer, _, owner = verdict(books, node=node, key=key, wanted_by=None, now=now)
    return owner if answer is node_lock.Verdict.BLOCKED else None


def closed_to(
    books: Books, wish: request.PodRequest, now: datetime.datetime
) -> dict[str, reason.NodeRejection]:
    """Return the nodes that take no such pod because a lock that it needs is stuck."""
    if not books.stuck_locks:
        return {}
    closed = {}
    for node, key in books.stuck_locks:
        wanted = key in books.lock_keys(wish, node)
        owner = stuck_owner(books, node=node, key=key, now=now) if wanted else None
        if owner is not None:
            # No eviction of others would help.
            closed[node] = reason.NodeRejection(detail=stuck_words(owner.key), resolvable=False)
    return closed


def stuck_words(owner: request.PodKey) -> str:
    """Return the sentence about a lock that is stuck on that pod."""
    return f"the node lock is stuck on pod {owner}, which is bound there and no kubelet has seen"


def see(books: Books, record: records.NodeRecord, now: datetime.datetime) -> None:
    """Take in a Node's lock texts; one that somebody else wrote costs the node our trust."""
    for key in books.all_lock_keys:
        text = record.locks.get(key)
        if text is None:
            books.locks.drop(record.name, key)
            continue
        books.locks.put(record.name, key, text, now=now)
        sight = books.locks.get(record.name, key)
        if sight is not None and not sight.ours:
            books.trusted_nodes.discard(record.name)


def wrote(
    books: Books,
    *,
    node: str,
    texts: Mapping[str, str | None],
    version: str,
    now: datetime.datetime,
    owner_uid: str = "",
) -> None:
    """Take in our own successful write, ahead of the watch that will repeat it.

    Where the watch is ahead of the answer already, it has shown our write and
    what came after it.

    Args:
        books: what is known.
        node: where it was written.
        texts: lock texts by key; None = removed.
        version: the Node's version since.
        now: the time.
        owner_uid: whom the locks were taken for.
    """
    seen = books.nodes.get(node)
    if seen is None:
        return
    if resource_version.is_earlier(version, seen.resource_version):
        books.locks.confirm(node, texts, owner_uid=owner_uid)
        return
    for key, text in texts.items():
        books.locks.drop(node, key)
        if text is not None:
            books.locks.put(node, key, text, now=now, owner_uid=owner_uid)
    merged = {**seen.locks, **texts}
    books.nodes[node] = dataclasses.replace(
        seen,
        resource_version=version,
        locks={key: text for key, text in merged.items() if text is not None},
    )


def owner_lives(books: Books, node: str, key: str) -> Generator[effects.Effect, Any, bool]:
    """Ask the API server for an owner that our watch does not show.

    A read that fails keeps the lock: not knowing is no proof of absence.
    """
    sight = books.locks.get(node, key)
    if sight is None or sight.owner is None:
        return False
    namespace, name = sight.owner
    try:
        record = yield effects.ReadPod(namespace=namespace, name=name)
    except effects.EffectFailed:
        return True
    if record is None:
        return False
    yield from pod_events.take_in(books, record)
    who, _ = holder(books, node=node, key=key, wanted_by=None)
    return who is not node_lock.Holder.GONE


def fence(
    books: Books, owner: records.PodRecord, now: datetime.datetime
) -> Generator[effects.Effect, Any, bool]:
    """Change a living, unbound owner so that an older Binding for it fails."""
    fenced = True
    try:
        yield effects.PatchPod(pod=owner.key, annotations={keys.FENCE: now.isoformat()})
    except effects.Missing:
        yield from pod_events.lose(books, owner.key)
        return True
    except effects.Conflict:
        # Another pod of that name, or a patch that lost too often against other writes.
        fenced = False
    except effects.EffectFailed:
        return False
    try:
        fresh = yield effects.ReadPod(namespace=owner.key.namespace, name=owner.key.name)
    except effects.EffectFailed:
        return False
    if fresh is not None:
        yield from pod_events.take_in(books, fresh)
    if fresh is None or fresh.key.uid != owner.key.uid:
        yield from pod_events.lose(books, owner.key)
        return True
    return fenced and not fresh.node


def forgotten(
    books: Books, *, nodes: Iterable[str], now: datetime.datetime
) -> tuple[effects.PatchNode, ...]:
    """Return the removals of locks that nobody waits for and whose owner has no more use of them.

    A served or failed owner's lock is left to its plugin for a grace time,
    from when the owner was first seen done: removing it earlier would cost the
    plugin requests (a conflict costs it two of its five a second). All of a node
    go in one write, conditioned on the Node's version. Locks that need a look at
    their owner first are left to ``orphans``.
    """
    removable: dict[str, list[str]] = {}
    for node, key, who in _unwanted(books, nodes):
        if who is node_lock.Holder.GONE:
            continue
        remnant = node_lock.may_release(who, age(books, node=node, key=key, now=now))
        if remnant is node_lock.Remnant.AFTER_GRACE:
            since_s = (now - books.locks.done_since(node, key, now=now)).total_seconds()
            if since_s >= books.settings.lock.release_after_s:
                remnant = node_lock.Remnant.NOW
        if remnant is node_lock.Remnant.NOW:
            removable.setdefault(node, []).append(key)
    return tuple(_removal(books.nodes[node], *found) for node, found in removable.items())


def orphans(books: Books, *, nodes: Iterable[str], now: datetime.datetime) -> tuple[Removal, ...]:
    """Return a flow for each lock that nobody waits for and whose owner must be looked at first.

    An owner that we do not know is read: nodes and pods come by two watches,
    so a lock may be seen before the pod that it names. A living owner is
    fenced.
    """
    flows = []
    for node, key, who in _unwanted(books, nodes):
        seen = books.nodes[node]
        remnant = node_lock.may_release(who, age(books, node=node, key=key, now=now))
        if who is node_lock.Holder.GONE:
            flows.append(_remove_orphan(books, seen, key))
        elif remnant is node_lock.Remnant.AFTER_FENCE:
            flows.append(_remove_fenced(books, seen, key, now))
    return tuple(flows)


def _remove_orphan(books: Books, seen: records.NodeRecord, key: str) -> Removal:
    if (yield from owner_lives(books, seen.name, key)):
        return
    with contextlib.suppress(effects.EffectFailed):
        yield _removal(seen, key)


def _remove_fenced(
    books: Books, seen: records.NodeRecord, key: str, now: datetime.datetime
) -> Removal:
    _, owner = holder(books, node=seen.name, key=key, wanted_by=None)
    if owner is None or owner.node or not (yield from fence(books, owner, now)):
        return
    with contextlib.suppress(effects.EffectFailed):
        yield _removal(seen, key)


def _unwanted(books: Books, nodes: Iterable[str]) -> Iterator[tuple[str, str, node_lock.Holder]]:
    """Yield the locks of known nodes that nobody waits for, and who holds them."""
    for node in nodes:
        if node not in books.nodes:
            continue
        for key, _ in books.locks.on(node):
            if books.turns.first(node, key) is None:
                yield node, key, holder(books, node=node, key=key, wanted_by=None)[0]


def _removal(seen: records.NodeRecord, *lock_keys: str) -> effects.PatchNode:
    return effects.PatchNode(
        node=seen.name,
        annotations=dict.fromkeys(lock_keys),
        resource_version=seen.resource_version,
    )
