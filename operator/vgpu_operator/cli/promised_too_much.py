"""Who promised too much: shares beyond what their pods ask for, cards beyond what they have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_operator.cli import cluster_view, core_counts, render
from vgpu_operator.kube import client as kube_client
from vgpu_operator.ledger import ledger
from vgpu_operator.model import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """One share or one card that is promised beyond its measure.

    Attributes:
        pod: whose annotation it is; empty for a card.
        promised, measure: memory in MiB, cores and slots, by the words of JSON. The measure
            is what the pod asks for, or what the card has.
        holders: of a card.
    """

    node: str
    card: str
    vendor: str
    promised: Mapping[str, int]
    measure: Mapping[str, int]
    pod: str = ""
    container: str = ""
    holders: tuple[str, ...] = ()


async def read(
    client: kube_client.KubeClient,
    configured: settings.Settings,
    *,
    namespace: str | None,
    pod_labels: str | None,
) -> list[Excess]:
    """Look at what annotations say, and at what the ledger charges for it."""
    whole = namespace is None and not pod_labels  # of part of the pods no card's sum is known
    nodes, pods = await cluster_view.list_raw(
        client, namespace=namespace, pod_labels=pod_labels, nodes_needed=whole
    )
    by_requests = _trusting(configured, settings.Trust.REQUESTS)
    found = _pods(cluster_view.view_of(nodes, pods, by_requests))
    if whole:
        believed = _trusting(configured, settings.Trust.ANNOTATIONS)
        found += _cards(cluster_view.view_of(nodes, pods, believed))
    return found


def _trusting(configured: settings.Settings, trust: settings.Trust) -> settings.Settings:
    section = configured.ledger.model_copy(update={"trust": trust})
    return configured.model_copy(update={"ledger": section})


def _pods(view: cluster_view.ClusterView) -> list[Excess]:
    found = []
    for record in sorted(view.ledger.records(), key=lambda record: record.key):
        held = view.ledger.holding(record.key.uid)
        if held is None:
            continue
        containers = record.request.containers
        for over in held.surplus:
            charged = [
                share
                for share in held.shares[over.vendor][over.container]
                if share.device_id == over.device_id
            ]
            measure = {
                "memoryMiB": sum(share.memory_mib for share in charged),
                "coresPercent": core_counts.number(
                    over.vendor, sum(share.cores_percent for share in charged)
                ),
                "slots": len(charged),
            }
            promised = {
                "memoryMiB": measure["memoryMiB"] + max(0, over.memory_mib),
                "coresPercent": measure["coresPercent"]
                + core_counts.number(over.vendor, max(0, over.cores_percent)),
                "slots": measure["slots"] + over.slots,
            }
            named = over.container < len(containers)
            found.append(
                Excess(
                    node=record.node,
                    card=over.device_id,
                    vendor=over.vendor,
                    pod=str(record.key),
                    container=containers[over.container].name if named else "",
                    promised=promised,
                    measure=measure,
                )
            )
    return found


def _cards(view: cluster_view.ClusterView) -> list[Excess]:
    found = []
    for node in sorted(view.nodes):
        for vendor, rules in view.vendors.items():
            for usage in view.ledger.usage(node, vendor):
                card = usage.device
                cores_over = not rules.mask_cores and usage.used_cores_percent > card.cores_percent
                if (
                    usage.used_memory_mib <= card.memory_mib
                    and usage.used_slots <= card.slots
                    and not cores_over
                ):
                    continue
                found.append(
                    Excess(
                        node=node,
                        vendor=vendor,
                        card=card.id,
                        promised={
                            "memoryMiB": usage.used_memory_mib,
                            "coresPercent": core_counts.number(vendor, usage.used_cores_percent),
                            "slots": usage.used_slots,
                        },
                        measure={
                            "memoryMiB": card.memory_mib,
                            "coresPercent": core_counts.number(vendor, card.cores_percent),
                            "slots": card.slots,
                        },
                        holders=_holders(view.ledger, node, card.id),
                    )
                )
    return found


def _holders(book: ledger.Ledger, node: str, card: str) -> tuple[str, ...]:
    pods = (str(one.pod) for one in book.holders(node) if one.share.card_id == card)
    return tuple(dict.fromkeys(pods))


def table(found: Sequence[Excess]) -> render.Table:
    """Return one row per share or card."""
    rows = [
        {
            "what": "pod" if each.pod else "card",
            "pod": each.pod,
            "container": each.container,
            "node": each.node,
            "card": each.card,
            "vendor": each.vendor,
            "promised": dict(each.promised),
            "measure": dict(each.measure),
            "holders": list(each.holders),
        }
        for each in found
    ]
    return render.Table(kind="ExcessList", columns=_COLUMNS, rows=rows)


def _amounts(member: str, row: render.Row) -> str:
    amounts: Mapping[str, Any] = row[member]
    unit = core_counts.unit(row["vendor"]) or "%"
    return f"{amounts['memoryMiB']} MiB, {amounts['coresPercent']}{unit}, {amounts['slots']}"


def _whose(row: render.Row) -> str:
    if row["pod"]:
        return f"{row['pod']} ({row['container']})" if row["container"] else str(row["pod"])
    return ", ".join(row["holders"])


_COLUMNS = (
    render.Column(header="WHAT", text=lambda row: str(row["what"])),
    render.Column(header="NODE", text=lambda row: str(row["node"])),
    render.Column(header="CARD", text=lambda row: str(row["card"])),
    render.Column(
        header="PROMISED (memory, cores, slots)", text=lambda row: _amounts("promised", row)
    ),
    render.Column(header="ASKED OR THERE", text=lambda row: _amounts("measure", row)),
    render.Column(header="POD", text=_whose),
)
