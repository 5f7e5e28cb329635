"""What goes wrong with what a node says: registration, handshake, lock."""

import datetime
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from vgpu_operator.flows import unregistered
from vgpu_operator.flows.doctor import finding as found
from vgpu_operator.flows.doctor.cluster import Cluster, NodeSight, PodSight
from vgpu_operator.flows.doctor.finding import Sight
from vgpu_operator.machines import bind_phase, handshake, node_lock
from vgpu_operator.model import errors, records
from vgpu_operator.vendors import base
from vgpu_operator.wire import handshake as wire_handshake
from vgpu_operator.wire import lock_kinds
from vgpu_operator.wire import node_lock as wire_lock

LEFT_OVER_S: Final = 30.0
"""How long a lock of nobody may stand: the operator removes it within seconds."""

_GONE_UNASKED: Final = (
    "the device plugin or the kubelet of the node has gone: the kubelet offers none of the cards"
    " that are listed, and no new pod is placed there"
)
"""For vendors whose plugins are asked nothing."""
_NEEDLESS: Final = {
    node_lock.Holder.GONE: "which is no more",
    node_lock.Holder.ELSEWHERE: "which is bound to another node",
    node_lock.Holder.ENDED: "which has ended",
    node_lock.Holder.FAILED: "which the device plugin reports failed",
    node_lock.Holder.SERVED: "which has been served",
    node_lock.Holder.UNBOUND: "which is not bound",
    node_lock.Holder.REPLACED: "which is younger than the lock",
    node_lock.Holder.ADMITTED: "which the kubelet has started",
}


def register_unreadable(cluster: Cluster) -> Iterator[Sight]:
    """Find register texts that cannot be read, in full or in part."""
    by_key: dict[tuple[str, str], list[errors.DecodeError]] = defaultdict(list)
    for node, fault in cluster.faults:
        by_key[node, fault.key].append(fault)
    for (node, _), faults in sorted(by_key.items()):
        shown = tuple(found.one_line(str(fault)) for fault in faults[: found.MOST_NAMES])
        yield Sight(place=found.node(node), evidence=shown)


def no_node_registered(cluster: Cluster) -> Iterator[Sight]:
    """Find vendors that pods wait for, and no node has a card of."""
    waiting: dict[str, list[PodSight]] = defaultdict(list)
    for one in cluster.waiting():
        if one.record.scheduler != cluster.settings.scheduler_name:
            continue  # whole cards, say, which another scheduler counts
        for keyword in one.record.request.vendors:
            waiting[keyword].append(one)
    for keyword, pods in sorted(waiting.items()):
        if any(cluster.ledger.devices(node, keyword) for node in cluster.nodes):
            continue
        spec = cluster.vendors.by_keyword[keyword].spec
        names = found.a_few(["/".join(one.name) for one in pods])
        yield Sight(
            place=found.Place(kind="Resource", name=spec.count_resource),
            evidence=(
                f"{len(pods)} pods wait: {names}",
                f"of {len(cluster.nodes)} nodes none has a card of {keyword}:"
                f" {unregistered.never(spec)}",
            ),
        )


def plugin_gone(cluster: Cluster) -> Iterator[Sight]:
    """Find nodes that still list cards, while nothing is allocatable and nobody answers."""
    for name, sight in cluster.nodes.items():
        for keyword in sight.record.registers:
            vendor = cluster.vendors.by_keyword[keyword]
            evidence = _silent(cluster, sight, vendor)
            if evidence:
                state = "" if sight.ready is not False else "; the node is not Ready"
                cause = "" if _handshake_key(sight, vendor) else _GONE_UNASKED
                yield Sight(place=found.node(name), evidence=(evidence + state,), cause=cause)


def _silent(cluster: Cluster, sight: NodeSight, vendor: base.Vendor) -> str:
    """Return what shows that a vendor's plugin is gone from a node; empty when it is not."""
    record, spec = sight.record, vendor.spec
    keyword = spec.keyword
    supply = record.allocatable.get(keyword)
    if supply or not cluster.ledger.devices(record.name, keyword):
        return ""
    resource = spec.supply_resource or spec.count_resource
    counts = f"allocatable {resource} {'(none)' if supply is None else supply}"
    older = record.older.get(keyword)
    limits = cluster.settings.handshake, cluster.settings.dialects.forerunner
    expiry_s = limits[0].expiry_s if older is None else limits[1].handshake_expiry_s
    register = spec.register_key if older is None else older.register
    written = cluster.age_s(_written(sight, register or ""))
    has_just_come = written is not None and written < expiry_s
    key = _handshake_key(sight, vendor)
    if key is None:
        n_cards = len(cluster.ledger.devices(record.name, keyword))
        listed = "1 card is listed" if n_cards == 1 else f"{n_cards} cards are listed"
        return "" if has_just_come else f"{counts}, and {listed}"
    text = record.handshakes.get(keyword)
    read = wire_handshake.decode_handshake(text)
    if read.state is wire_handshake.State.REQUESTING:
        seen = _written(sight, key) or cluster.now
        aged = handshake.age(read, first_seen=seen, now=cluster.now, expiry_s=expiry_s)
        return f"{counts}; {key}: {text}" if aged is handshake.Age.EXPIRED else ""
    if read.state not in (wire_handshake.State.ABSENT, wire_handshake.State.DELETED):
        return ""
    return "" if has_just_come else f"{counts}; {key}: {text or '(absent)'}"


def _handshake_key(sight: NodeSight, vendor: base.Vendor) -> str | None:
    older = sight.record.older.get(vendor.spec.keyword)
    return vendor.spec.handshake_key if older is None else older.handshake


def lock_stuck(cluster: Cluster) -> Iterator[Sight]:
    """Find locks that nobody has a use of, and those that keep a node closed."""
    due = _bare_owners(cluster)
    for name, sight in cluster.nodes.items():
        for key, text in sight.record.locks.items():
            kind = cluster.vendors.locks[key]
            lock = _decoded(text)
            if lock is not None and cluster.only_namespace in ("", lock.namespace):
                owner = _owner(cluster, lock, kind, due.get(name))
                yield from _judged(cluster, sight, kind, owner, lock=lock)


def _judged(
    cluster: Cluster,
    sight: NodeSight,
    kind: lock_kinds.LockKind,
    owner: records.PodRecord | None,
    *,
    lock: wire_lock.LockText,
) -> Iterator[Sight]:
    name, text = sight.record.name, sight.record.locks[kind.key]
    who = node_lock.holder(text, node=name, wanted_by=None, owner=owner, style=kind.style)
    expiry_s = cluster.settings.lock.expiry_s if kind.expiry_s is None else kind.expiry_s
    seen = _written(sight, kind.key) or cluster.now
    since = lock.time or seen
    age_s = (cluster.now - min(since, cluster.now)).total_seconds()
    aged = node_lock.age(
        lock, first_seen=seen, now=cluster.now, expiry_s=expiry_s, style=kind.style
    )
    evidence = (f"{kind.key}: {text}", f"{age_s:.0f} s old")
    if node_lock.verdict(who, aged) is node_lock.Verdict.BLOCKED and owner is not None:
        yield Sight(
            place=found.node(name),
            evidence=evidence,
            cause=f"pod {owner.key} is bound here and no kubelet has seen it, so its allocation"
            " may still come: the node takes no further pod",
            fix="start the kubelet and the device plugin there, or delete the pod with"
            " grace period 0",
        )
    elif age_s > LEFT_OVER_S and node_lock.may_release(who, aged) is not node_lock.Remnant.NEVER:
        whose = _NEEDLESS.get(who, "that nobody needs")
        held = f"it is for pod {lock.namespace}/{lock.pod}, {whose}" if lock.owned else ""
        yield Sight(place=found.node(name), evidence=(*evidence, held) if held else evidence)


def lock_malformed(cluster: Cluster) -> Iterator[Sight]:
    """Find lock texts that name nobody and no time."""
    for name, sight in cluster.nodes.items():
        for key, text in sight.record.locks.items():
            try:
                wire_lock.decode_lock(text, key=key)
            except errors.DecodeError as fault:
                yield Sight(place=found.node(name), evidence=(found.one_line(str(fault)),))


def _decoded(text: str) -> wire_lock.LockText | None:
    try:
        return wire_lock.decode_lock(text)
    except errors.DecodeError:
        return None


def _owner(
    cluster: Cluster,
    lock: wire_lock.LockText,
    kind: lock_kinds.LockKind,
    due: records.PodRecord | None,
) -> records.PodRecord | None:
    if kind.style is lock_kinds.LockStyle.BARE:
        return due
    sight = cluster.pods.get((lock.namespace, lock.pod))
    return None if sight is None else sight.record


def _bare_owners(cluster: Cluster) -> dict[str, records.PodRecord]:
    """Return by node the pod that is being served: a bare lock is for that one."""
    allocating = bind_phase.State.ALLOCATING
    return {
        one.record.node: one.record
        for one in cluster.device_pods()
        if one.record.node and not one.record.ended and bind_phase.state(one.record) is allocating
    }


def _written(sight: NodeSight, key: str) -> datetime.datetime | None:
    """Return when an annotation's writer last wrote there, by the API server's clock."""
    for writer in sight.writers:
        if key in writer.annotations:
            return writer.time
    return None
