"""What goes wrong with pods: what they are promised, and why they wait."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from vgpu_operator.flows import pod_events, quotas
from vgpu_operator.flows.doctor import finding as found
from vgpu_operator.flows.doctor.cluster import Cluster, PodSight
from vgpu_operator.flows.doctor.finding import Sight
from vgpu_operator.flows.doctor.plugins import EVENT_COUNTS_S
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.machines import bind_phase
from vgpu_operator.model import allocation, records, request
from vgpu_operator.wire import dialects

_GLIBC: Final = re.compile(r"version [`'\"]?(GLIBC_[0-9.]+)['\"]? not found")
_INSUFFICIENT: Final = re.compile(r"Insufficient ([a-z0-9.-]+/[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)")


def allocation_stuck(cluster: Cluster) -> Iterator[Sight]:
    """Find bound pods that no device plugin has served in time."""
    limit_s = cluster.settings.bind.stuck_after_s
    for one in cluster.device_pods():
        record, bound_at = one.record, one.health.scheduled_at
        stuck = bind_phase.is_stuck(record, cluster.now, limit_s, first_seen=bound_at)
        if stuck and _is_unserved(cluster, record):
            left = ", ".join(sorted(record.to_allocate)) or "nothing"
            yield Sight(
                place=found.pod(*one.name),
                evidence=(
                    f"bound to {record.node}, bind phase allocating, still to allocate: {left}",
                    f"longer than {limit_s:.0f} s; status.startTime"
                    f" {'set' if record.admitted else 'not set: no kubelet has seen it'}",
                ),
            )


def allocation_failed(cluster: Cluster) -> Iterator[Sight]:
    """Find pods that a plugin reports failed, and that have not ended."""
    for one in cluster.device_pods():
        record = one.record
        failed = bind_phase.state(record) is bind_phase.State.FAILED
        if failed and record.node and not record.ended and not record.deleting:
            yield Sight(
                place=found.pod(*one.name),
                evidence=(f"bind phase failed on {record.node}, phase {record.phase}",),
            )


def allocation_surplus(cluster: Cluster) -> Iterator[Sight]:
    """Find pods whose annotations promise more than their containers ask for."""
    for one in cluster.device_pods():
        surplus = cluster.ledger.surplus(one.record.key.uid)
        if surplus:
            yield Sight(
                place=found.pod(*one.name),
                evidence=tuple(
                    f"container {over.container}, card {over.device_id}: beyond what it asks"
                    f" {over.slots} slots, {over.memory_mib} MiB, {over.cores_percent} cores"
                    for over in surplus[: found.MOST_NAMES]
                ),
            )


def allocation_dangling(cluster: Cluster) -> Iterator[Sight]:
    """Find bound pods that are promised cards which are not where they run."""
    for one in cluster.device_pods():
        record = one.record
        if not record.node or record.ended or record.node not in cluster.nodes:
            continue
        if record.promised and record.promised_node and record.promised_node != record.node:
            yield Sight(
                place=found.pod(*one.name),
                evidence=(
                    f"bound to {record.node}, promised cards of {record.promised_node}",
                    "no card is charged for it",
                ),
            )
            continue
        absent = tuple(_absent(cluster, one))
        if absent:
            yield Sight(
                place=found.pod(*one.name),
                evidence=(f"promised on {record.node}: {', '.join(absent[: found.MOST_NAMES])}",),
            )


def allocation_unreadable(cluster: Cluster) -> Iterator[Sight]:
    """Find bound pods whose promise cannot be read."""
    for one in cluster.device_pods():
        record = one.record
        if record.node and not record.ended and record.faults:
            shown = tuple(found.one_line(str(fault)) for fault in record.faults.values())
            yield Sight(place=found.pod(*one.name), evidence=shown)


def card_overpromised(cluster: Cluster) -> Iterator[Sight]:
    """Find cards of which pods hold more than there is."""
    busy = {one.record.node for one in cluster.device_pods() if one.record.promised}
    for node in sorted(filter(None, busy)):
        for vendor in cluster.vendors.by_keyword:
            for usage in cluster.ledger.usage(node, vendor):
                over = tuple(_over(usage))
                if over:
                    card = usage.device.id
                    yield Sight(
                        place=found.Place(kind="Card", name=f"{card} of node {node}"),
                        evidence=(", ".join(over), f"held by {_holders(cluster, node, card)}"),
                    )


def waits_for_shares(cluster: Cluster) -> Iterator[Sight]:
    """Find pods for which a scheduler looks for memory or cores of cards on the Node."""
    shares = {
        name
        for vendor in cluster.vendors
        if vendor.spec.keyword in cluster.served
        for name in (
            vendor.spec.memory_resource,
            vendor.spec.memory_percent_resource,
            vendor.spec.cores_resource,
        )
        if name
    }
    for one in cluster.waiting():
        wanted = shares.intersection(_INSUFFICIENT.findall(one.health.scheduler_message))
        if wanted:
            ours = one.record.scheduler == cluster.settings.scheduler_name
            yield Sight(
                place=found.pod(*one.name),
                evidence=(
                    f"schedulerName {one.record.scheduler}",
                    found.one_line(one.health.scheduler_message),
                ),
                cause="the profile of that name knows no extender that counts"
                f" {', '.join(sorted(wanted))}: managedResources of its configuration lack it"
                if ours
                else "",
                fix="compare managedResources in kube-scheduler's configuration with the names"
                " of the device configuration"
                if ours
                else "",
            )


def bypassed(cluster: Cluster) -> Iterator[Sight]:
    """Find pods that ask for cards and that the webhook has not seen."""
    settings = cluster.settings
    ours = settings.scheduler_name
    skipped = set(cluster.opted_out).union(*(hook.left_out for hook in cluster.webhooks))
    for one in cluster.pods.values():
        record = one.record
        if (
            pod_events.bypassed(settings, record)
            and (cluster.wants_served(one) or record.passed_by)
            and not record.ended
            and record.key.namespace not in skipped
            and not _INSUFFICIENT.search(one.health.scheduler_message)
        ):
            where = f"bound to {record.node}" if record.node else "not bound"
            seen = f"schedulerName {record.scheduler}, {where}, no promise on it"
            named = "" if record.passed_by else f", or set schedulerName: {ours} in its template"
            would = (f"the webhook would have {record.passed_by}",) if record.passed_by else ()
            yield Sight(
                place=found.pod(*one.name),
                evidence=(seen, *would),
                fix=f"create it again{named}",
            )


def glibc(cluster: Cluster) -> Iterator[Sight]:
    """Find containers in which HAMi's library asks for a newer C library than the image has."""
    for one in cluster.device_pods():
        line = next(filter(_GLIBC.search, cluster.lines(one)), "")
        if line:
            images = ", ".join(sorted({box.image for box in one.template.containers}))
            yield Sight(
                place=found.pod(*one.name),
                evidence=(found.one_line(line), f"images: {images}"),
            )


def quota_blocks(cluster: Cluster) -> Iterator[Sight]:
    """Find pods that wait, or were never made, because of their namespace's quota."""
    for one in cluster.waiting():
        if one.record.scheduler != cluster.settings.scheduler_name:
            continue  # nobody counts its shares
        wish = one.record.request
        standing = cluster.ledger.quota_standing(wish.pod.namespace, without=wish.pod.uid)
        for keyword in wish.vendors:
            refused = quotas.refusal(wish, standing, cluster.vendors.by_keyword[keyword])
            if refused:
                yield Sight(place=found.pod(*one.name), evidence=(refused,))
    told: set[tuple[str, str, str]] = set()
    for event in cluster.events:
        about = (event.kind, event.namespace, event.name)
        age_s = cluster.age_s(event.last_seen)
        is_new = age_s is not None and age_s < EVENT_COUNTS_S and about not in told
        if event.reason == "FailedCreate" and is_new and _is_quota(cluster, event.message):
            told.add(about)
            yield Sight(
                place=found.Place(kind=event.kind, name=event.name, namespace=event.namespace),
                evidence=(f"Event {event.reason}: {found.one_line(event.message, 400)}",),
            )


def quota_ignored(cluster: Cluster) -> Iterator[Sight]:
    """Find entries of ResourceQuotas that do not limit what they seem to."""
    for one in cluster.quotas:
        if one.ignored:
            place = found.Place(kind="ResourceQuota", name=one.name, namespace=one.namespace)
            yield Sight(place=place, evidence=one.ignored)


def _is_unserved(cluster: Cluster, record: records.PodRecord) -> bool:
    """Whether some plugin still owes an allocating pod its part.

    Plugins that never say so keep the phase for the pod's life: there the kubelet's
    admission is all there is to see. A vendor without lock delays nobody.
    """
    owing = record.to_allocate
    if record.bind_phase is records.BindPhase.ALLOCATING:
        owing |= frozenset(record.request.vendors)
    sight = cluster.nodes.get(record.node)
    for vendor in cluster.vendors:
        keyword = vendor.spec.keyword
        older = sight is not None and keyword in sight.record.older
        kind = dialects.FORERUNNER.lock if older else vendor.spec.lock
        if keyword in owing and kind is not None and (kind.reported or not record.admitted):
            return True
    return False


def _is_quota(cluster: Cluster, message: str) -> bool:
    if "exceeding resource quota" in message:
        return True  # the webhook's own words
    return "exceeded quota" in message and any(
        name in message for name in cluster.vendors.resources
    )


def _absent(cluster: Cluster, one: PodSight) -> Iterator[str]:
    """Yield the promised cards that the pod's node does not register."""
    for keyword, shares in one.record.promised.items():
        known = {card.id for card in cluster.ledger.devices(one.record.node, keyword)}
        for share in _all(shares):
            if share.card_id not in known:
                yield f"{keyword} {share.card_id} (registered: {', '.join(sorted(known)) or '-'})"


def _all(shares: allocation.PodShares) -> Iterator[allocation.DeviceShare]:
    for entry in shares:
        yield from entry


def _over(usage: ledger_nodes.CardUsage) -> Iterator[str]:
    card = usage.device
    for used, total, unit in (
        (usage.used_slots, card.slots, "slots"),
        (usage.used_memory_mib, card.memory_mib, "MiB"),
        (usage.used_cores_percent, card.cores_percent, "cores"),
    ):
        if used > total:
            yield f"{used} of {total} {unit}"


def _holders(cluster: Cluster, node: str, card: str) -> str:
    by_pod: dict[request.PodKey, int] = defaultdict(int)
    for holder in cluster.ledger.holders(node):
        if holder.share.card_id == card:
            by_pod[holder.pod] += holder.share.memory_mib
    largest = sorted(by_pod.items(), key=lambda item: (-item[1], str(item[0])))
    return found.a_few([f"{pod} {memory_mib} MiB" for pod, memory_mib in largest])
