"""Node locks: may this pod take it, and which locks has everybody forgotten."""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping

from vgpu_operator.flows import effects
from vgpu_operator.flows.books import Books
from vgpu_operator.machines import node_lock
from vgpu_operator.model import records, request
from vgpu_operator.wire import resource_version


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


def forgotten(
    books: Books, *, nodes: Iterable[str], now: datetime.datetime
) -> tuple[effects.PatchNode, ...]:
    """Return the removals of locks that nobody waits for and whose owner has no more use of them.

    A served or failed owner's lock is left to its plugin for a grace time:
    removing it earlier would cost the plugin requests (a conflict costs it two
    of its five a second). Each removal is conditioned on the Node's version.
    """
    removals = []
    for node in nodes:
        seen = books.nodes.get(node)
        if seen is None:
            continue
        for key, sight in books.locks.on(node):
            if books.turns.first(node, key) is not None:
                continue
            who, _ = holder(books, node=node, key=key, wanted_by=None)
            remnant = node_lock.may_release(who, age(books, node=node, key=key, now=now))
            # A lock may be seen before the pod that it names: they come by two watches.
            in_grace = (now - sight.seen_at).total_seconds() < books.settings.lock.release_after_s
            needs_grace = remnant is node_lock.Remnant.AFTER_GRACE or who is node_lock.Holder.GONE
            if remnant is not node_lock.Remnant.NEVER and not (needs_grace and in_grace):
                removals.append(
                    effects.PatchNode(
                        node=node,
                        annotations={key: None},
                        resource_version=seen.resource_version,
                    )
                )
    return tuple(removals)
