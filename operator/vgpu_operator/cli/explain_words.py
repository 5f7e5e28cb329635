"""``vgpu explain`` in sentences: what the answer is, and each change that would make it fit."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vgpu_operator.cli import ages, cluster_view, core_counts
from vgpu_operator.flows import leaving, smaller, what_if
from vgpu_operator.model import request
from vgpu_operator.wire import shape

FEW = 3
"""Names in a sentence; of more the number is said."""

_NOT_JUDGED: Final = (
    "affinity rules",
    "topology spread",
    "free ports",
    "volume",
    "disk conflict",
    "resourceclaim",
    "cannot allocate all claims",
)
"""Parts of kube-scheduler's reasons that nobody looks at here, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event about the pod."""

    reason: str
    message: str
    time: datetime.datetime | None
    count: int = 1


def asked(wish: request.PodRequest) -> list[str]:
    """Return a sentence for each container that asks for a card."""
    found = []
    for container in wish.containers:
        if container.impossible:
            found.append(container.impossible)
        found += [f"{container.name}: {_asked(device)}" for device in container.devices]
    return found


def _asked(device: request.DeviceRequest) -> str:
    cards = f"{device.count} {device.vendor} card{'s' * (device.count > 1)}"
    amounts = []
    if device.memory_mib > 0:
        amounts.append(f"{device.memory_mib} MiB")
    elif device.memory_percent is not None:
        amounts.append(f"{device.memory_percent}% of its memory")
    if device.cores_percent:
        amounts.append(f"{device.cores_percent}% of its cores")
    if not amounts:
        return cards
    return f"{cards}, {'each ' * (device.count > 1)}with {' and '.join(amounts)}"


def answer(
    found: what_if.Explanation, *, raw: Mapping[str, Any], scheduler: str, new: bool
) -> list[str]:
    """Return the answer to "why", one or two sentences.

    Args:
        found: what was found out.
        raw: the pod.
        scheduler: whose pods the operator places.
        new: the pod is only a manifest.
    """
    record = found.record
    name = str(record.key)
    if record.ended:
        return [f"{name} has ended ({record.phase}): it holds no card."]
    if not record.request.wants_devices:
        return [f"{name} asks for no card: where it goes is kube-scheduler's business alone."]
    if record.deleting and not record.node:
        return [f"{name} is being deleted: no scheduler looks at it any more."]
    if record.node:
        leaving = f"{name} is being deleted: what it holds is free when it is gone."
        return [*([leaving] if record.deleting else []), *_placed(found)]
    spec = shape.mapping(raw.get("spec"))
    gates = [shape.text(gate.get("name")) for gate in shape.mappings(spec.get("schedulingGates"))]
    if gates:
        return [
            f"{name} is held back by its scheduling gates ({', '.join(gates)}): no scheduler"
            " looks at it until they are removed."
        ]
    if record.scheduler != scheduler:
        return [
            f"{name} asks for cards, but its scheduler is {record.scheduler or 'not named'}, not"
            f" {scheduler}: the operator is never asked about it. Create it again so that it"
            f" passes the webhook, or set schedulerName: {scheduler}."
        ]
    said = not_judged(cluster_view.scheduler_message(raw))
    if said and found.takers:
        where = listed([node.name for node in found.takers])
        return [
            f"{name} waits for what is not judged here: kube-scheduler last said {listed(said)}.",
            f"Its cards, and all else that is judged, would be free on {where}.",
        ]
    return _unplaced(found, new=new)


def not_judged(message: str) -> list[str]:
    """Return the reasons among kube-scheduler's that are not looked at here.

    >>> not_judged("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod"
    ...            " topology spread constraints. preemption: 0/2 nodes are available: 2 x.")
    ["1 node(s) didn't match pod topology spread constraints"]
    """
    reasons = message.partition("preemption:")[0].rpartition("are available:")[2]
    parts = (part.strip(" .") for part in reasons.split(", "))
    return [part for part in parts if any(word in part.lower() for word in _NOT_JUDGED)]


def copies(name: str, placed: Sequence[str], wanted: int) -> str:
    """Return in a sentence where the copies of a workload would go.

    >>> copies("a/x", ["n1", "n2", "n1"], 3)
    'All 3 copies of a/x would fit, one after another: n1 (2), n2.'
    >>> copies("a/x", ["n1"], 3)
    '1 of 3 copies of a/x would fit, one after another: n1.'
    >>> copies("a/x", [], 3)
    'None of 3 copies of a/x would fit.'
    """
    if not placed:
        return f"None of {wanted} copies of {name} would fit."
    each = [f"{node} ({placed.count(node)})" for node in dict.fromkeys(placed)]
    where = listed([one.removesuffix(" (1)") for one in each])
    number = f"All {wanted}" if len(placed) == wanted else f"{len(placed)} of {wanted}"
    return f"{number} copies of {name} would fit, one after another: {where}."


def refused(
    found: what_if.Explanation,
    node: str,
    event: Told | None,
    now: datetime.datetime,
    *,
    perhaps: bool = False,
) -> list[str]:
    """Return what became of the pod on one node: when it was refused there, and now.

    Args:
        found: what was found out.
        node: which.
        event: the last that names it.
        now: the time.
        perhaps: the event cuts its names short, and the node may not be among them.
    """
    here = next((one for one in found.nodes if one.name == node), None)
    if here is None:
        return []
    words = [here.rejection.text] if here.rejection is not None else []
    words += [obstacle.sentence for obstacle in here.obstacles]
    today = "; ".join(words) if words else "it could take the pod"
    if event is None:
        return [f"{node} now: {today}. When it last refused the pod no event tells any more."]
    age = ages.encode_age(ages.age_s(event.time, now))
    if perhaps:
        return [
            f"{node} perhaps refused the pod {age} ago, for the event's list of names is cut:"
            f" {event.message}. Now: {today}."
        ]
    return [f"{node} refused the pod {age} ago: {event.message}. Now: {today}."]


def _placed(found: what_if.Explanation) -> list[str]:
    record = found.record
    name, here = str(record.key), record.node
    shares = [
        f"{share.device_id} ({share.memory_mib} MiB,"
        f" {core_counts.number(vendor, share.cores_percent)}"
        f"{core_counts.unit(vendor) or '% cores'})"
        for vendor, pod in record.promised.items()
        for entry in pod
        for share in entry
    ]
    if not shares:
        return [
            f"{name} is on {here}, but no annotation promises it a card: it went past the"
            " scheduler, and nothing is charged for it."
        ]
    first = f"{name} is on {here} and holds {listed(shares)}."
    order = sorted(
        found.takers,
        key=lambda node: (node.score or 0.0) * (1 if found.node_policy == "spread" else -1),
    )
    place = next((rank for rank, node in enumerate(order, 1) if node.name == here), None)
    total = len(found.nodes)
    wanted = "the emptiest" if found.node_policy == "spread" else "the fullest"
    if place is None:
        return [first, f"As of now {here} would not take it again: see below."]
    return [
        first,
        f"As of now {len(order)} of {total} nodes could take it, and {here} is number {place} of"
        f" them by the node policy {found.node_policy} ({wanted} first; kube-scheduler's own"
        " scores count too).",
    ]


def _unplaced(found: what_if.Explanation, *, new: bool) -> list[str]:
    name, total = str(found.record.key), len(found.nodes)
    nodes = f"{total} node{'s' * (total != 1)}"
    takers = found.takers
    if takers:
        where = listed([node.name for node in takers])
        if new:
            return [f"{name} would fit on {len(takers)} of {nodes}: {where}."]
        return [
            f"{name} waits, yet {len(takers)} of {nodes} could take it as things stand: {where}.",
            "kube-scheduler tries it again by itself; what it last said is below.",
        ]
    verb = "would wait" if new else "waits"
    with_cards = sum(node.rejection is None for node in found.nodes)
    if not total:
        first = f"{name} {verb}: the cluster has no node."
    elif with_cards:
        first = (
            f"{name} {verb}: its cards are free on {with_cards} of {nodes}, where it may not go."
        )
    else:
        first = f"{name} {verb}: none of {nodes} has the cards that it asks for."
    if not found.ways:
        return [first, "No change was found that would make it fit: see the reasons."]
    return [first, f"Smallest change: {way(found.ways[0])}."]


def way(one: what_if.Way) -> str:
    """Return one change as an order."""
    match one:
        case smaller.Change():
            amounts = " and ".join(
                f"at most {amount.most} of {amount.resource}"
                + (f" (now {amount.asked})" if amount.asked is not None else " (now none is named)")
                for amount in one.amounts
            )
            return f"ask for {amounts}; it then fits on {listed(one.nodes)}"
        case what_if.Elsewhere():
            why = "; ".join(obstacle.sentence for obstacle in one.obstacles)
            return f"let it go to {one.node}, whose cards are free: {why}"
        case what_if.WithoutRules():
            rules = " and ".join(f"{key}: {text}" for key, text in one.annotations.items())
            return f"remove the annotation {rules}; it then fits on {listed(one.nodes)}"
        case what_if.CardsBack():
            orders = []
            if one.cordoned:
                orders.append(f"put back what is cordoned (vgpu uncordon {' '.join(one.cordoned)})")
            if one.unhealthy:
                orders.append(f"repair what its plugin calls unhealthy ({listed(one.unhealthy)})")
            return f"on {one.node} {' and '.join(orders)}"
        case leaving.Leaving():
            number = len(one.pods)
            pods = "1 pod" if number == 1 else f"{number} pods"
            least = "" if one.exact or number == 1 else ", perhaps fewer would do"
            names = ", ".join(str(pod.key) for pod in one.pods)
            highest = "priority" if number == 1 else "highest priority"
            important = f" ({highest} {one.highest_priority})" if one.highest_priority else ""
            return f"end {pods} on {one.node}: {names}{important}{least}"
        case what_if.MoreQuota():
            return one.sentence


def way_json(one: what_if.Way) -> dict[str, Any]:
    """Return one change as JSON shows it."""
    return {"kind": _KINDS[type(one)], "sentence": way(one), **_members(one)}


def _members(one: what_if.Way) -> dict[str, Any]:
    match one:
        case smaller.Change():
            amounts = [
                {"resource": amount.resource, "asked": amount.asked, "most": amount.most}
                for amount in one.amounts
            ]
            return {"amounts": amounts, "nodes": list(one.nodes)}
        case what_if.Elsewhere():
            return {"node": one.node, "obstacles": [each.sentence for each in one.obstacles]}
        case what_if.WithoutRules():
            return {"annotations": dict(one.annotations), "nodes": list(one.nodes)}
        case what_if.CardsBack():
            return {
                "node": one.node,
                "cordoned": list(one.cordoned),
                "unhealthy": list(one.unhealthy),
            }
        case leaving.Leaving():
            return {
                "node": one.node,
                "pods": [str(pod.key) for pod in one.pods],
                "highestPriority": one.highest_priority,
                "exact": one.exact,
            }
        case what_if.MoreQuota():
            return {"pods": [str(pod) for pod in one.holders]}


_KINDS = {
    smaller.Change: "askForLess",
    what_if.Elsewhere: "otherNode",
    what_if.WithoutRules: "removeAnnotations",
    what_if.CardsBack: "putCardsBack",
    leaving.Leaving: "endPods",
    what_if.MoreQuota: "raiseQuota",
}


def listed(names: Sequence[str]) -> str:
    """Return a few names.

    >>> listed(["a"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a, b, c and 2 more')
    """
    shown = ", ".join(names[:FEW])
    more = len(names) - FEW
    return f"{shown} and {more} more" if more > 0 else shown


def groups(found: what_if.Explanation) -> list[tuple[str, list[str]]]:
    """Return the reasons with the nodes that have them, most nodes first; takers left out.

    Nodes whose numbers differ but whose reasons do not stand together.
    """
    alike: dict[str, list[str]] = {}
    for node in found.nodes:
        words = list(node.rejection.reasons) if node.rejection is not None else []
        words += [obstacle.kind for obstacle in node.obstacles]
        if words:
            alike.setdefault(", ".join(words), []).append(node.name)
    return sorted(alike.items(), key=lambda item: (-len(item[1]), item[0]))
