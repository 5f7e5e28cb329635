"""Pods that need their node's lock, whether or not it stands there.

A pod that is bound and not served yet may be Allocated at any moment. Until
then no other pod of its node may be ``allocating`` under the same lock, even
where somebody has removed it: a plugin that is done with its part of a pod of
several vendors, a hand, or the plugin of the pod before, which removes a bare
lock without looking whose it is.
"""

import datetime
from collections.abc import Collection, Iterable, Iterator

from vgpu_operator.flows import effects, lock_sights
from vgpu_operator.flows.books import Books
from vgpu_operator.machines import bind_phase, node_lock
from vgpu_operator.model import records, request
from vgpu_operator.wire import node_lock as lock_text

GRACE_S = 1.0
"""How far the watches of Nodes and Pods may be apart before a missing lock is believed."""

ANSWER_S = 5.0
"""How long the watch may take to show a lock that was put back, before it is asked for again."""

PAUSE_S = 1.0
"""How often, at most, somebody who removes a pod's lock again and again gets it put back."""


def note(books: Books, record: records.PodRecord) -> None:
    """Keep account of a pod that was seen: is its plugin due, is its lock needed."""
    uid = record.key.uid
    if _is_unserved(books, record):
        books.allocating.setdefault(uid, None)
    else:
        books.allocating.pop(uid, None)
    if node_lock.is_awaited(record):
        books.awaited.setdefault(record.node, {})[uid] = None
    else:
        served(books, record)


def forget(books: Books, record: records.PodRecord) -> None:
    """Take a pod that is gone off the account."""
    books.allocating.pop(record.key.uid, None)
    served(books, record)


def served(books: Books, record: records.PodRecord) -> None:
    """Note that a pod needs its lock no more."""
    here = books.awaited.get(record.node)
    if here is not None:
        here.pop(record.key.uid, None)
        if not here:
            del books.awaited[record.node]


def _is_unserved(books: Books, record: records.PodRecord) -> bool:
    """Whether some plugin still owes the pod its part.

    Where no plugin says so, the kubelet's admission is all there is to see; a
    pod that needs no lock waits for nobody.
    """
    if not record.node or record.ended:
        return False
    if bind_phase.state(record) is not bind_phase.State.ALLOCATING:
        return False
    owing = record.to_allocate
    if record.bind_phase is records.BindPhase.ALLOCATING:
        owing |= frozenset(record.request.vendors)
    return any(
        books.lock_kind(key).reported or not record.admitted
        for vendor in books.vendors
        if vendor.spec.keyword in owing and (key := books.lock_of(vendor, record.node))
    )


def due(
    books: Books, *, node: str, key: str, besides: Collection[str] = ()
) -> tuple[node_lock.Holder, records.PodRecord] | None:
    """Return a pod that needs that lock now, and how: ``AWAITED`` or ``UNBOUND``.

    Args:
        books: what is known.
        node: the node.
        key: the lock.
        besides: UIDs that do not count.
    """
    for uid, who in _candidates(books, node):
        if uid in besides:
            continue
        record = books.ledger.record(uid)
        if record is not None and key in books.lock_keys(record.request, node):
            return who, record
    return None


def keys_due(books: Books, node: str) -> set[str]:
    """Return the locks of a node that some pod needs now, whether or not they stand."""
    found: set[str] = set()
    for uid, _ in _candidates(books, node):
        record = books.ledger.record(uid)
        if record is not None:
            found.update(books.lock_keys(record.request, node))
    return found


def _candidates(books: Books, node: str) -> Iterator[tuple[str, node_lock.Holder]]:
    """Yield the pods that are bound there and awaited, then those that may become so."""
    for uid in books.awaited.get(node, ()):
        yield uid, node_lock.Holder.AWAITED
    for uid in books.bound:
        # Our Binding has been answered, and the watch has not shown it yet.
        if books.ledger.assumed_on(uid, node):
            yield uid, node_lock.Holder.AWAITED
    for uid in books.in_doubt:
        if books.ledger.assumed_on(uid, node):
            yield uid, node_lock.Holder.UNBOUND


def since(
    books: Books, owner: records.PodRecord, now: datetime.datetime
) -> datetime.datetime | None:
    """Return since when a pod without lock has been allocating; None when unknown.

    A bind time that lies ahead is no time: the pod counts from when a tick first
    found it so.
    """
    if owner.bind_time_s is not None and owner.bind_time_s <= now.timestamp():
        return datetime.datetime.fromtimestamp(owner.bind_time_s, tz=datetime.UTC)
    return books.allocating.get(owner.key.uid)


def put_back(
    books: Books, *, nodes: Iterable[str], now: datetime.datetime
) -> tuple[effects.PatchNode, ...]:
    """Return the writes of locks that are missing and still needed, in their pods' names.

    Leader only; conditioned on the Node's version. The watch shows what came of
    it: while a write may be on its way nothing is asked for, and nothing else
    is announced. One that has come to nothing is repeated to the letter, so
    that whichever of the two happens is known for ours. For one pod, a lock
    that is removed again and again is put back once a second.
    """
    if not books.leader:
        return ()
    wanted = []
    for name in nodes:
        seen = books.nodes.get(name)
        if seen is None or name not in books.awaited or _is_on_its_way(books, seen, now):
            continue
        texts: dict[str, str] = {}
        for key, record in _missing(books, seen, now):
            last = books.locks.returns(name).get(key)
            text = new_text(books, record.key, key, now)
            if last is not None and last.owner_uid == record.key.uid:
                if last.unserved == record.to_allocate and _is_within(last.at, PAUSE_S, now):
                    continue
                if last.version == seen.resource_version:
                    text = last.text
            texts[key] = text
            books.locks.announce(name, {key: text}, owner_uid=record.key.uid)
            asked = lock_sights.LockReturn(
                version=seen.resource_version,
                at=now,
                text=text,
                owner_uid=record.key.uid,
                unserved=record.to_allocate,
            )
            books.locks.note_return(name, key, asked)
        if texts:
            wanted.append(
                effects.PatchNode(
                    node=name, annotations=texts, resource_version=seen.resource_version
                )
            )
    return tuple(wanted)


def _is_on_its_way(books: Books, seen: records.NodeRecord, now: datetime.datetime) -> bool:
    """Whether a lock may just be being put back on this very version of the Node."""
    return any(
        last.version == seen.resource_version and _is_within(last.at, ANSWER_S, now)
        for last in books.locks.returns(seen.name).values()
    )


def _is_within(since: datetime.datetime, limit_s: float, now: datetime.datetime) -> bool:
    """Whether less than that time has passed; a clock that was set back proves nothing."""
    return 0 <= (now - since).total_seconds() < limit_s


def _missing(
    books: Books, seen: records.NodeRecord, now: datetime.datetime
) -> Iterator[tuple[str, records.PodRecord]]:
    """Yield the locks to be put back on a node, and for whom."""
    for uid in books.awaited.get(seen.name, ()):
        record = books.ledger.record(uid)
        if record is None:
            continue
        for key in books.lock_keys(record.request, seen.name):
            if books.locks.get(seen.name, key) is not None:
                continue
            if _is_due_back(books, record, key, now):
                yield key, record


def _is_due_back(books: Books, record: records.PodRecord, key: str, now: datetime.datetime) -> bool:
    users = frozenset(
        vendor.spec.keyword
        for vendor in books.vendors
        if vendor.spec.keyword in record.request.vendors
        and books.lock_of(vendor, record.node) == key
    )
    kind = books.lock_kind(key)
    back = node_lock.may_return(node_lock.progress(record, users=users, reported=kind.reported))
    if back is node_lock.Return.AFTER_GRACE:
        missing_s = (now - books.locks.missing_since(record.node, key, now=now)).total_seconds()
        return missing_s >= GRACE_S
    return back is node_lock.Return.NOW


def new_text(
    books: Books,
    pod: request.PodKey,
    key: str,
    now: datetime.datetime,
    *,
    unlike: Collection[str] = (),
) -> str:
    """Return a lock text for that pod that does not stand on the Node.

    The same text again would be no write, and so no proof that the lock is ours.
    """
    style = books.lock_kind(key).style
    text = lock_text.encode_lock(now, namespace=pod.namespace, pod=pod.name, style=style)
    while text in unlike:
        now += datetime.timedelta(seconds=1)
        text = lock_text.encode_lock(now, namespace=pod.namespace, pod=pod.name, style=style)
    return text
