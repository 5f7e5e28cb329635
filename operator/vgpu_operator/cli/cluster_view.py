"""What the annotations of a cluster say right now, read with nothing but get and list."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths
from vgpu_operator.ledger import ledger
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.model import errors as model_errors
from vgpu_operator.model import records, settings
from vgpu_operator.vendors import base, registry
from vgpu_operator.vendors import records as vendor_records


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster at one moment.

    Attributes:
        ledger: filled from what was listed.
        vendors: by keyword.
        nodes: by name.
        messages: kube-scheduler's own words, by UID of the pods that wait.
        faults: register texts that cannot be read, as (node, what is wrong).
    """

    ledger: ledger.Ledger
    vendors: Mapping[str, base.Vendor]
    nodes: Mapping[str, records.NodeRecord]
    messages: Mapping[str, str]
    faults: tuple[tuple[str, model_errors.DecodeError], ...] = ()

    def cards(self, node: str) -> Iterator[tuple[str, ledger_nodes.CardUsage]]:
        """Yield the cards of a node with their vendors, by vendor and index."""
        for vendor in self.vendors:
            usages = self.ledger.usage(node, vendor)
            for usage in sorted(usages, key=lambda one: (one.device.index, one.device.id)):
                yield vendor, usage


async def read_view(
    client: kube_client.KubeClient,
    configured: settings.Settings,
    *,
    namespace: str | None = None,
    pod_labels: str | None = None,
    nodes_needed: bool = True,
) -> ClusterView:
    """List nodes and pods and put them together.

    Cards are there and held whatever the operator serves, so every vendor is read.

    Args:
        configured: names of resources and chips, and what is believed of annotations.
        namespace: only that namespace's pods; None lists all.
        nodes_needed: False goes on without nodes where listing them is denied.
    """
    raw_nodes, raw_pods = await list_raw(
        client, namespace=namespace, pod_labels=pod_labels, nodes_needed=nodes_needed
    )
    return view_of(raw_nodes, raw_pods, configured)


async def list_raw(
    client: kube_client.KubeClient,
    *,
    namespace: str | None = None,
    pod_labels: str | None = None,
    nodes_needed: bool = True,
) -> tuple[list[kube_client.Json], list[kube_client.Json]]:
    """List nodes and pods, for whoever puts them together more than once.

    Args:
        namespace: only that namespace's pods; None lists all.
        nodes_needed: False goes on without nodes where listing them is denied.
    """
    raw_nodes: list[kube_client.Json] = []
    try:
        raw_nodes, _ = await client.list(paths.NODES)
    except errors.Denied:
        if nodes_needed:
            raise
    where = paths.PODS if namespace is None else paths.namespaced(namespace, "pods")
    raw_pods, _ = await client.list(
        where, params={"labelSelector": pod_labels} if pod_labels else None
    )
    return raw_nodes, raw_pods


def view_of(
    raw_nodes: Iterable[kube_client.Json],
    raw_pods: Iterable[kube_client.Json],
    configured: settings.Settings,
) -> ClusterView:
    """Put nodes and pods together, whoever has listed them."""
    configured = settings.with_every_vendor(configured)
    served = registry.build(configured)
    vendors = served.by_keyword
    book = ledger.Ledger(vendors=tuple(vendors), trust=configured.ledger.trust, rules=vendors)
    nodes: dict[str, records.NodeRecord] = {}
    faults: list[tuple[str, model_errors.DecodeError]] = []
    for raw in raw_nodes:
        node = vendor_records.node_record(raw, served)
        nodes[node.name] = node
        faults.extend((node.name, fault) for fault in take_node(book, node, vendors))
    messages: dict[str, str] = {}
    aliases = configured.resource_aliases
    for raw in raw_pods:
        # Most pods are nobody's concern, and reading each takes long.
        if not vendor_records.may_matter(raw, served, aliases=aliases):
            continue
        pod = vendor_records.pod_record(raw, served, aliases=aliases)
        book.observe(pod)
        if not pod.node:
            messages[pod.key.uid] = scheduler_message(raw)
    return ClusterView(
        ledger=book, vendors=vendors, nodes=nodes, messages=messages, faults=tuple(faults)
    )


def take_node(
    book: ledger.Ledger, node: records.NodeRecord, vendors: Mapping[str, base.Vendor]
) -> list[model_errors.DecodeError]:
    """Put a node's readable cards into the ledger; return what cannot be read."""
    faults: list[model_errors.DecodeError] = []
    book.set_cordoned(node.name, node.cordoned)
    book.set_notes(node.name, node.notes)
    for keyword, text in node.registers.items():
        try:
            read = vendor_records.decode_register(node, vendors[keyword], text)
        except model_errors.DecodeError as fault:
            faults.append(fault)
            continue
        faults.extend(read.faults)
        book.set_devices(node.name, keyword, read.devices)
    return faults


def scheduler_message(raw: Mapping[str, Any]) -> str:
    """Return why kube-scheduler has not placed the pod; empty when it has not said."""
    for condition in raw.get("status", {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message", ""))
    return ""
