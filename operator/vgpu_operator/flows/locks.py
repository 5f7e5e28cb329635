"""Node locks: may this pod take it, and which locks has everybody forgotten."""

import contextlib
import dataclasses
import datetime
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from vgpu_operator.flows import effects
from vgpu_operator.flows.books import Books
from vgpu_operator.machines import node_lock
from vgpu_operator.model import records, request
from vgpu_operator.wire import resource_version

Removal: TypeAlias = Generator[effects.Effect, Any, None]
"""A flow that removes one lock."""


def holder(
    books: Books, *, node: str, key: str, wanted_by: request.PodKey | None
) -> tuple[node_lock.Holder, records.PodRecord | None]:
    """Return what the lock's owner is to the asking pod, and the owner's record."""
    sight = books.locks.get(node, key)
    named = None if sight is None else sight.owner
    owner = None if named is None else books.ledger.record_of(*named)
    text = None if sight is None else sight.text
    return node_lock.holder(text, node=node, wanted_by=wanted_by, owner=owner), owner


def age(books: Books, *, node: str, key: str, now: datetime.datetime) -> node_lock.Age:
    """Return whether the lock is past its expiry."""
    sight = books.locks.get(node, key)
    if sight is None:
        return node_lock.Age.FRESH
    return node_lock.age(
        sight.lock, first_seen=sight.seen_at, now=now, expiry_s=books.settings.lock.expiry_s
    )


def verdict(
    books: Books, *, node: str, key: str, wanted_by: request.PodKey, now: datetime.datetime
) -> tuple[node_lock.Verdict, node_lock.Holder, records.PodRecord | None]:
    """Return what the pod may do about one lock, and why."""
    who, owner = holder(books, node=node, key=key, wanted_by=wanted_by)
    return node_lock.verdict(who, age(books, node=node, key=key, now=now)), who, owner


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
) -> None:
    """Take in our own successful write, ahead of the watch that will repeat it.

    Where the watch is ahead of the answer already, it has shown our write and
    what came after it.
    """
    seen = books.nodes.get(node)
    if seen is None or resource_version.is_earlier(version, seen.resource_version):
        return
    for key, text in texts.items():
        books.locks.drop(node, key)
        if text is not None:
            books.locks.put(node, key, text, now=now, ours=True)
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
    books.ledger.observe(record)
    who, _ = holder(books, node=node, key=key, wanted_by=None)
    return who is not node_lock.Holder.GONE


def forgotten(
    books: Books, *, nodes: Iterable[str], now: datetime.datetime
) -> tuple[effects.PatchNode, ...]:
    """Return the removals of locks that nobody waits for and whose owner has no more use of them.

    A served or failed owner's lock is left to its plugin for a grace time,
    from when the owner was first seen done: removing it earlier would cost the
    plugin requests (a conflict costs it two of its five a second). Each removal
    is conditioned on the Node's version. Locks of owners that our watch does not
    show are left to ``orphans``.
    """
    removals = []
    for node, key, who in _unwanted(books, nodes):
        if who is node_lock.Holder.GONE:
            continue
        remnant = node_lock.may_release(who, age(books, node=node, key=key, now=now))
        if remnant is node_lock.Remnant.AFTER_GRACE:
            since_s = (now - books.locks.done_since(node, key, now=now)).total_seconds()
            if since_s >= books.settings.lock.release_after_s:
                remnant = node_lock.Remnant.NOW
        if remnant is node_lock.Remnant.NOW:
            removals.append(_removal(books.nodes[node], key))
    return tuple(removals)


def orphans(books: Books, *, nodes: Iterable[str]) -> tuple[Removal, ...]:
    """Return a flow for each lock that nobody waits for and whose owner we do not know.

    Nodes and pods come by two watches, so a lock may be seen before the pod
    that it names: each flow reads the pod before it removes the lock.
    """
    return tuple(
        _remove_orphan(books, node, key)
        for node, key, who in _unwanted(books, nodes)
        if who is node_lock.Holder.GONE
    )


def _remove_orphan(books: Books, node: str, key: str) -> Removal:
    seen = books.nodes[node]
    if (yield from owner_lives(books, node, key)):
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


def _removal(seen: records.NodeRecord, key: str) -> effects.PatchNode:
    return effects.PatchNode(
        node=seen.name, annotations={key: None}, resource_version=seen.resource_version
    )
