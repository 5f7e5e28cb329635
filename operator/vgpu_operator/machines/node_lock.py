"""The node lock, seen by the pod that wants it.

Allocate carries no pod name: the plugin serves the pod that the lock names.
So a lock is never taken from an owner whose Allocate may still come, and every
other lock ends by its owner's end or by expiry::

    unbound -> awaited -> admitted -> served (or failed) -> ended -> gone
    (lock taken, Binding may be on its way; bound; kubelet has it; plugin is done)

Three tables: what the pod at the head of the queue does (``VERDICTS``), what
happens to a lock that nobody waits for (``REMNANTS``), and whether a lock that
is missing is put back for the pod that still needs it (``RETURNS``).
"""

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from vgpu_operator.machines import bind_phase
from vgpu_operator.model import errors, records, request
from vgpu_operator.wire import lock_kinds, node_lock


class Holder(enum.StrEnum):
    """Whose the lock is.

    ``NOBODY`` there is no lock. ``SELF`` the pod that wants it. ``UNNAMED``
    malformed, or without owner and no pod needs it. ``GONE`` no such pod.
    ``ELSEWHERE`` bound to another node. ``ENDED`` Succeeded or Failed.
    ``FAILED``, ``SERVED`` the plugin is done with it. ``UNBOUND`` its Binding
    may be on its way. ``ABANDONED`` unbound, and we know that no Binding is.
    ``REPLACED`` unbound and younger than the lock, by the clocks of two
    machines. ``AWAITED`` bound here, kubelet has not seen it. ``ADMITTED``
    kubelet has seen it, the plugin is not done.
    """

    NOBODY = "nobody"
    SELF = "self"
    UNNAMED = "unnamed"
    GONE = "gone"
    ELSEWHERE = "elsewhere"
    ENDED = "ended"
    FAILED = "failed"
    SERVED = "served"
    UNBOUND = "unbound"
    ABANDONED = "abandoned"
    REPLACED = "replaced"
    AWAITED = "awaited"
    ADMITTED = "admitted"


class Age(enum.StrEnum):
    """Whether the lock is past its expiry."""

    FRESH = "fresh"
    EXPIRED = "expired"


class Verdict(enum.StrEnum):
    """What the pod that wants the lock does.

    ``TAKE`` write it. ``KEEP`` it is ours already. ``WAIT`` for the next event.
    ``FENCE`` patch the owner first, so that an older Binding for it fails by
    its resourceVersion, then take. ``BLOCKED`` the owner's Allocate may come
    at any time: the node takes no further pod, with an event.
    """

    TAKE = "take"
    KEEP = "keep"
    WAIT = "wait"
    FENCE = "fence"
    BLOCKED = "blocked"


class Progress(enum.StrEnum):
    """How far the plugins that share a lock are with a pod.

    ``NONE`` none is done, ``SOME`` one is and another is not, ``ALL`` all are.
    ``UNKNOWN`` they do not say.
    """

    NONE = "none"
    SOME = "some"
    ALL = "all"
    UNKNOWN = "unknown"


class Return(enum.StrEnum):
    """Whether a missing lock is written again in the name of a pod.

    ``AFTER_GRACE`` Node and Pod come by two watches, and the Pod's may be about
    to show that the plugin is done; only when it has not done so do we.
    """

    NOW = "now"
    AFTER_GRACE = "after grace"
    NEVER = "never"


class Remnant(enum.StrEnum):
    """Whether a lock that nobody waits for is removed.

    ``AFTER_GRACE`` the plugin removes it itself; only when it has not done so
    after a while do we. ``AFTER_FENCE`` once an older Binding for its owner
    fails by its resourceVersion.
    """

    NOW = "now"
    AFTER_GRACE = "after grace"
    AFTER_FENCE = "after fence"
    NEVER = "never"


Key: TypeAlias = tuple[Holder, Age]

VERDICTS: Final[Mapping[Key, Verdict]] = {
    (Holder.NOBODY, Age.FRESH): Verdict.TAKE,
    (Holder.NOBODY, Age.EXPIRED): Verdict.TAKE,
    (Holder.SELF, Age.FRESH): Verdict.KEEP,
    (Holder.SELF, Age.EXPIRED): Verdict.KEEP,
    (Holder.UNNAMED, Age.FRESH): Verdict.WAIT,
    (Holder.UNNAMED, Age.EXPIRED): Verdict.TAKE,
    (Holder.GONE, Age.FRESH): Verdict.TAKE,
    (Holder.GONE, Age.EXPIRED): Verdict.TAKE,
    (Holder.ELSEWHERE, Age.FRESH): Verdict.TAKE,
    (Holder.ELSEWHERE, Age.EXPIRED): Verdict.TAKE,
    (Holder.ENDED, Age.FRESH): Verdict.TAKE,
    (Holder.ENDED, Age.EXPIRED): Verdict.TAKE,
    (Holder.FAILED, Age.FRESH): Verdict.TAKE,
    (Holder.FAILED, Age.EXPIRED): Verdict.TAKE,
    (Holder.SERVED, Age.FRESH): Verdict.TAKE,
    (Holder.SERVED, Age.EXPIRED): Verdict.TAKE,
    (Holder.UNBOUND, Age.FRESH): Verdict.WAIT,
    (Holder.UNBOUND, Age.EXPIRED): Verdict.FENCE,
    (Holder.ABANDONED, Age.FRESH): Verdict.TAKE,
    (Holder.ABANDONED, Age.EXPIRED): Verdict.TAKE,
    (Holder.REPLACED, Age.FRESH): Verdict.FENCE,
    (Holder.REPLACED, Age.EXPIRED): Verdict.FENCE,
    (Holder.AWAITED, Age.FRESH): Verdict.WAIT,
    (Holder.AWAITED, Age.EXPIRED): Verdict.BLOCKED,
    (Holder.ADMITTED, Age.FRESH): Verdict.WAIT,
    (Holder.ADMITTED, Age.EXPIRED): Verdict.TAKE,
}

REMNANTS: Final[Mapping[Key, Remnant]] = {
    (Holder.NOBODY, Age.FRESH): Remnant.NEVER,
    (Holder.NOBODY, Age.EXPIRED): Remnant.NEVER,
    (Holder.SELF, Age.FRESH): Remnant.NEVER,
    (Holder.SELF, Age.EXPIRED): Remnant.NEVER,
    (Holder.UNNAMED, Age.FRESH): Remnant.NEVER,
    (Holder.UNNAMED, Age.EXPIRED): Remnant.NOW,
    (Holder.GONE, Age.FRESH): Remnant.NOW,
    (Holder.GONE, Age.EXPIRED): Remnant.NOW,
    (Holder.ELSEWHERE, Age.FRESH): Remnant.NOW,
    (Holder.ELSEWHERE, Age.EXPIRED): Remnant.NOW,
    (Holder.ENDED, Age.FRESH): Remnant.NOW,
    (Holder.ENDED, Age.EXPIRED): Remnant.NOW,
    (Holder.FAILED, Age.FRESH): Remnant.AFTER_GRACE,
    (Holder.FAILED, Age.EXPIRED): Remnant.AFTER_GRACE,
    (Holder.SERVED, Age.FRESH): Remnant.AFTER_GRACE,
    (Holder.SERVED, Age.EXPIRED): Remnant.AFTER_GRACE,
    (Holder.UNBOUND, Age.FRESH): Remnant.NEVER,
    (Holder.UNBOUND, Age.EXPIRED): Remnant.AFTER_FENCE,
    (Holder.ABANDONED, Age.FRESH): Remnant.NOW,
    (Holder.ABANDONED, Age.EXPIRED): Remnant.NOW,
    (Holder.REPLACED, Age.FRESH): Remnant.AFTER_FENCE,
    (Holder.REPLACED, Age.EXPIRED): Remnant.AFTER_FENCE,
    (Holder.AWAITED, Age.FRESH): Remnant.NEVER,
    (Holder.AWAITED, Age.EXPIRED): Remnant.NEVER,
    (Holder.ADMITTED, Age.FRESH): Remnant.NEVER,
    (Holder.ADMITTED, Age.EXPIRED): Remnant.NOW,
}


RETURNS: Final[Mapping[tuple[Progress], Return]] = {
    (Progress.NONE,): Return.AFTER_GRACE,
    (Progress.SOME,): Return.NOW,
    (Progress.ALL,): Return.NEVER,
    (Progress.UNKNOWN,): Return.NEVER,
}
"""For pods that no kubelet has seen yet; after that no Allocate comes any more."""

FREE: Final = frozenset(
    {
        Holder.NOBODY,
        Holder.UNNAMED,
        Holder.GONE,
        Holder.ELSEWHERE,
        Holder.ENDED,
        Holder.FAILED,
        Holder.SERVED,
        Holder.ABANDONED,
    }
)
"""Whoever the lock names has no use of it; another pod of that node may need it all the same."""


def holder(
    lock_text: str | None,
    *,
    node: str,
    wanted_by: request.PodKey | None,
    owner: records.PodRecord | None,
    owner_uid: str = "",
    idle: bool = False,
    style: lock_kinds.LockStyle = lock_kinds.LockStyle.OWNED,
) -> Holder:
    """Return whose the lock of a node is.

    Args:
        lock_text: the annotation; None when the node has none.
        node: where it stands.
        wanted_by: the pod that wants the lock; None when nobody does. Locks
            carry no UID, so a new pod of the same name owns its forerunner's.
        owner: the pod that the lock names, or that a bare lock must be for;
            None when there is none.
        owner_uid: whom we took the lock for; empty when somebody else wrote it.
        idle: it is our lock, and no Binding of ours for its owner is under way.
        style: what the lock's text says.
    """
    if lock_text is None:
        return Holder.NOBODY
    try:
        lock = node_lock.decode_lock(lock_text)
    except errors.DecodeError:
        return Holder.UNNAMED
    if not lock.owned:
        if style is lock_kinds.LockStyle.OWNED or (owner is None and not owner_uid):
            return Holder.UNNAMED
        if wanted_by is not None and wanted_by.uid == (owner_uid or (owner and owner.key.uid)):
            return Holder.SELF
    elif wanted_by is not None and (lock.namespace, lock.pod) == (
        wanted_by.namespace,
        wanted_by.name,
    ):
        return Holder.SELF
    if owner is None or owner_uid not in ("", owner.key.uid):
        return Holder.GONE
    found = _holder_of(owner, node=node)
    if found is not Holder.UNBOUND:
        return found
    if owner_uid:
        return Holder.ABANDONED if idle else Holder.UNBOUND
    if owner.created is not None and lock.time is not None and owner.created > lock.time:
        return Holder.REPLACED
    return Holder.UNBOUND


def age(
    lock: node_lock.LockText | None,
    *,
    first_seen: datetime,
    now: datetime,
    expiry_s: float,
    style: lock_kinds.LockStyle = lock_kinds.LockStyle.OWNED,
) -> Age:
    """Return whether the lock is older than ``expiry_s``.

    Args:
        lock: None when the text is malformed.
        first_seen: when this process first saw exactly this text: a lock that
            is malformed, without readable time or from the future ages from
            there, and one without owner where locks have owners.
        now: the time.
        expiry_s: how old it may become.
        style: what the lock's text says.
    """
    since = first_seen
    counts = lock is not None and (lock.owned or style is lock_kinds.LockStyle.BARE)
    if counts and lock is not None and lock.time is not None and lock.time <= now:
        since = lock.time
    return Age.EXPIRED if now - since > timedelta(seconds=expiry_s) else Age.FRESH


def is_awaited(record: records.PodRecord) -> bool:
    """Say whether a pod is between its Binding and its Allocate, whatever lock stands.

    It needs its lock, written or not, until its plugins are done or the kubelet
    has admitted it: the kubelet calls Allocate before it writes a start time.
    """
    return (
        bool(record.node)
        and record.promised_node == record.node
        and bind_phase.state(record) is bind_phase.State.ALLOCATING
        and _holder_of(record, node=record.node) is Holder.AWAITED
    )


def progress(record: records.PodRecord, *, users: frozenset[str], reported: bool) -> Progress:
    """Return how far the plugins that share a lock are with the pod.

    Args:
        record: the pod.
        users: the vendors that the pod asks and whose plugins use the lock.
        reported: these plugins empty their to-allocate keys.
    """
    if not reported:
        return Progress.UNKNOWN
    unserved = record.to_allocate & users
    if not unserved:
        return Progress.ALL
    return Progress.NONE if unserved == users else Progress.SOME


def may_return(progress: Progress) -> Return:
    """Return whether a missing lock is put back for a pod that no kubelet has seen.

    >>> may_return(Progress.SOME)
    <Return.NOW: 'now'>

    Raises:
        MachineError: no such progress.
    """
    try:
        return RETURNS[progress,]
    except KeyError:
        raise errors.MachineError(f"the node lock knows no return for {progress}") from None


def verdict(holder: Holder, age: Age) -> Verdict:
    """Return what the pod that wants the lock does.

    >>> verdict(Holder.AWAITED, Age.EXPIRED)
    <Verdict.BLOCKED: 'blocked'>

    Raises:
        MachineError: no such combination.
    """
    try:
        return VERDICTS[holder, age]
    except KeyError:
        raise errors.MachineError(f"the node lock knows no verdict for {holder}, {age}") from None


def may_release(holder: Holder, age: Age) -> Remnant:
    """Return whether the lock may be removed although nobody waits for it.

    >>> may_release(Holder.SERVED, Age.FRESH)
    <Remnant.AFTER_GRACE: 'after grace'>

    Raises:
        MachineError: no such combination.
    """
    try:
        return REMNANTS[holder, age]
    except KeyError:
        raise errors.MachineError(f"the node lock knows no end for {holder}, {age}") from None


def _holder_of(owner: records.PodRecord, *, node: str) -> Holder:
    if owner.ended:
        return Holder.ENDED
    # Before the phases: whatever stands on an unbound pod, its Binding may come.
    if not owner.node:
        return Holder.UNBOUND
    if owner.node != node:
        return Holder.ELSEWHERE
    if owner.bind_phase is records.BindPhase.FAILED:
        return Holder.FAILED
    # A plugin knows only its own key, so another's may be left.
    if owner.bind_phase is records.BindPhase.SUCCESS and not owner.to_allocate:
        return Holder.SERVED
    return Holder.ADMITTED if owner.admitted else Holder.AWAITED
