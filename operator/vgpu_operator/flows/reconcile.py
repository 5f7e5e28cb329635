"""Pod events: promises in and out of the ledger, phases, pods that went wrong."""

import datetime
from collections.abc import Collection, Iterable

from vgpu_operator.flows import effects, locks, reasons, register
from vgpu_operator.flows.books import Books
from vgpu_operator.machines import bind_phase, node_lock
from vgpu_operator.model import records, request
from vgpu_operator.wire import keys, resource_version

DEFAULT_SCHEDULER = "default-scheduler"


def pod_seen(books: Books, record: records.PodRecord) -> effects.Reaction:
    """Take in a Pod; seeing the same state twice, or an older one late, changes nothing."""
    pod = record.key
    before = books.ledger.record(pod.uid)
    if before is None and not _concerns_us(books, record):
        return effects.NOTHING
    newly_bound = bool(record.node) and (before is None or not before.node)
    foreign = newly_bound and not _is_assumed_on(books, pod, record.node)
    if not books.ledger.observe(record):
        return effects.NOTHING
    if record.node:
        books.refused.pop(pod.uid, None)
        books.bound.discard(pod.uid)
        if foreign:
            # Somebody else has bound a pod with devices to that node.
            books.trusted_nodes.discard(record.node)
    elif record.refused:
        books.ledger.drop_claim(pod.uid)
    nodes = {record.node} if record.node else set()
    nodes |= books.locks.nodes_of(pod.namespace, pod.name)
    return effects.Reaction(
        effects=tuple(_complaints(books, before, record)),
        nodes=frozenset(nodes),
        pods=frozenset({pod.uid}),
    )


def _is_assumed_on(books: Books, pod: request.PodKey, node: str) -> bool:
    """Whether a bind of ours to that node is under way for the pod."""
    held = books.ledger.holding(pod.uid)
    return books.ledger.assumed(pod.uid) and held is not None and held.node == node


def pod_gone(books: Books, pod: request.PodKey) -> effects.Reaction:
    """Forget a Pod: its cards are free, its lock may pass on."""
    before = books.ledger.record(pod.uid)
    nodes = set(books.locks.nodes_of(pod.namespace, pod.name))
    if before is not None and before.node:
        nodes.add(before.node)
    books.ledger.forget(pod.uid)
    books.refused.pop(pod.uid, None)
    books.bound.discard(pod.uid)
    books.stuck.pop(pod.uid, None)
    return effects.Reaction(nodes=frozenset(nodes), pods=frozenset({pod.uid}))


def listed(
    books: Books,
    *,
    nodes: Iterable[records.NodeRecord],
    nodes_version: str,
    pods: Iterable[records.PodRecord],
    pods_version: str,
    now: datetime.datetime,
) -> effects.Reaction:
    """Take in one complete list of Nodes and Pods.

    What the list no longer has is forgotten, so that a deletion that no watch
    delivered cannot hold cards for ever. What is known from a later moment
    than the list stays.
    """
    reactions = []
    seen_nodes = set()
    for node in nodes:
        seen_nodes.add(node.name)
        reactions.append(register.node_seen(books, node, now))
    reactions.append(nodes_listed(books, names=seen_nodes, version=nodes_version))
    reactions.append(pods_listed(books, pods=pods, version=pods_version))
    books.trusted_nodes.clear()
    return join(reactions)


def nodes_listed(books: Books, *, names: Collection[str], version: str) -> effects.Reaction:
    """Forget the Nodes that one complete list no longer has; what it has is left to the watch."""
    missing = [
        name
        for name, node in books.nodes.items()
        if name not in names and not resource_version.is_earlier(version, node.resource_version)
    ]
    return join(register.node_gone(books, name) for name in missing)


def pods_listed(
    books: Books,
    *,
    pods: Iterable[records.PodRecord],
    version: str,
) -> effects.Reaction:
    """Take in one complete list of Pods and forget those that it no longer has."""
    reactions = []
    seen = set()
    for pod in pods:
        seen.add(pod.key.uid)
        reactions.append(pod_seen(books, pod))
    missing = [
        record.key
        for record in books.ledger.records()
        if record.key.uid not in seen
        and not resource_version.is_earlier(version, record.resource_version)
    ]
    reactions += [pod_gone(books, pod) for pod in missing]
    return join(reactions)


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


def _concerns_us(books: Books, record: records.PodRecord) -> bool:
    """Whether a pod can ever matter: it asks for devices, holds some, or is ours to schedule."""
    return bool(
        record.request.wants_devices
        or record.promised
        or record.faults
        or record.scheduler == books.settings.scheduler_name
    )


def _complaints(
    books: Books,
    before: records.PodRecord | None,
    record: records.PodRecord,
) -> Iterable[effects.Effect]:
    """Yield an event for everything about the pod that somebody should look at."""
    pod = record.key
    told = before is not None and _bypassed(books, before)
    if _bypassed(books, record) and record.phase != "Succeeded" and not told:
        yield reasons.on_pod(
            pod,
            "WebhookBypassed",
            f"it asks for devices but its scheduler is {record.scheduler}: it never passed the"
            f" webhook; create it again, or set schedulerName: {books.settings.scheduler_name}",
        )
    if record.ended:
        books.stuck.pop(pod.uid, None)
        return
    if not record.node:
        return
    acts = bind_phase.step(bind_phase.state(before), bind_phase.state(record))
    if bind_phase.Effect.WARN_FAILED in acts:
        yield reasons.on_pod(
            pod,
            "AllocationFailed",
            f"the device plugin on {record.node} reports failed; if the pod runs all the same,"
            " the plugin marked the wrong pod: its cards stay charged until it ends",
        )
    seen_here = before if before is not None and before.node else None
    for vendor, fault in record.faults.items():
        if seen_here is None or vendor not in seen_here.faults:
            yield reasons.on_pod(
                pod,
                "AllocationUnreadable",
                f"{fault}; {record.node} takes no new {vendor} pod until this is readable or"
                " this pod ends",
            )
    surplus = books.ledger.surplus(pod.uid)
    if surplus and (seen_here is None or seen_here.promised != record.promised):
        yield reasons.on_pod(
            pod,
            "AllocationSurplus",
            "its annotations promise more than its containers ask for; only what they ask for"
            " is charged",
        )


def _bypassed(books: Books, record: records.PodRecord) -> bool:
    """Whether a pod asks for devices and the default scheduler is to place it all the same."""
    return (
        record.request.wants_devices
        and record.scheduler == DEFAULT_SCHEDULER
        and books.settings.scheduler_name != DEFAULT_SCHEDULER
        and books.settings.force_overwrite_default_scheduler
        and not record.opted_out
        and not record.promised
    )


def tick(books: Books, now: datetime.datetime) -> effects.Reaction:
    """Do what time alone causes: handshakes, stuck pods and locks, claims that ended."""
    books.ledger.expire_claims(now)
    reaction = register.step_handshakes(books, tuple(books.nodes), now)
    if not books.leader:
        return reaction
    return reaction + _leaders_second(books, now, again=True)


def quick_tick(books: Books, now: datetime.datetime) -> effects.Reaction:
    """Do what must not wait for the slow tick: locks that are over, pods that are stuck."""
    books.ledger.expire_claims(now)
    if not books.leader:
        return effects.NOTHING
    return _leaders_second(books, now, again=False)


def _leaders_second(books: Books, now: datetime.datetime, *, again: bool) -> effects.Reaction:
    locked = books.locks.nodes()
    wanted: list[effects.Effect] = list(locks.forgotten(books, nodes=locked, now=now))
    wanted += _stuck_pods(books, locked, now, again=again)
    # Every waiter, lock or not: his own write may have been lost without any event.
    return effects.Reaction(effects=tuple(wanted), nodes=books.turns.nodes())


def _stuck_pods(
    books: Books, locked: Iterable[str], now: datetime.datetime, *, again: bool
) -> Iterable[effects.Effect]:
    """Yield an event, once each, for owners of locks that are not served in time.

    Args:
        again: ask again for a deletion that was asked for and has not begun.
    """
    for node in locked:
        for key, sight in books.locks.on(node):
            owner = None if sight.owner is None else books.ledger.record_of(*sight.owner)
            if owner is None or owner.node != node:
                continue
            uid = owner.key.uid
            told = books.stuck.get(uid, "")
            verdict, _, _ = locks.verdict(books, node=node, key=key, wanted_by=_NOBODY, now=now)
            if verdict is node_lock.Verdict.BLOCKED:
                if told != "blocked":
                    books.stuck[uid] = "blocked"
                    yield _blocked(node, owner)
                due = again or told != "blocked"
                if due and books.settings.bind.stuck_pod == "delete" and not owner.deleting:
                    yield effects.DeletePod(pod=owner.key)
            elif not told and bind_phase.is_stuck(
                owner, now=now, stuck_after_s=books.settings.bind.stuck_after_s
            ):
                books.stuck[uid] = "slow"
                yield reasons.on_pod(
                    owner.key,
                    "AllocationStuck",
                    f"bound to {node}, but its device plugin has not served it for"
                    f" {books.settings.bind.stuck_after_s:.0f} s; look at the plugin's and the"
                    f" kubelet's log on {node}; later pods wait for the lock {keys.NODE_LOCK}",
                )


_NOBODY = request.PodKey(namespace="", name="", uid="")
"""A pod that no lock can name."""


def _blocked(node: str, owner: records.PodRecord) -> effects.Effect:
    """Say that a node takes no further pod, and why."""
    return reasons.on_node(
        node,
        "NodeLockStuck",
        f"pod {owner.key} is bound here and no kubelet has seen it, so its allocation may still"
        " come and the lock cannot pass on; start the kubelet and the device plugin, or delete"
        " the pod",
    )
