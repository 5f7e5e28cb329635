"""The books of a running cluster, read with nothing but get and list.

What the operator would know if it started now: the same flows take the objects in.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import pod_events, quotas, register
from vgpu_operator.flows.preemption import take_over
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths
from vgpu_operator.model import records, settings
from vgpu_operator.vendors import quotas as vendor_quotas
from vgpu_operator.vendors import records as vendor_records
from vgpu_operator.vendors import registry, requests

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """What was listed.

    Attributes:
        unknown: a sentence for each kind that could not be listed.
    """

    nodes: Sequence[Json]
    pods: Sequence[Json]
    quotas: Sequence[Json] = ()
    unknown: tuple[str, ...] = ()

    def bound(self, *, besides: str = "") -> dict[str, list[Json]]:
        """Return the pods that have a node and have not ended, by node."""
        found: dict[str, list[Json]] = {}
        for raw in self.pods:
            node = raw.get("spec", {}).get("nodeName")
            ended = raw.get("status", {}).get("phase") in records.FINISHED
            if node and not ended and raw["metadata"].get("uid") != besides:
                found.setdefault(node, []).append(raw)
        return found


async def list_objects(client: kube_client.KubeClient) -> Objects:
    """List nodes, pods and quotas; without the quotas the rest is still an answer.

    Raises:
        Denied: nodes or pods may not be listed in the whole cluster.
    """
    nodes, _ = await client.list(paths.NODES)
    pods, _ = await client.list(paths.PODS)
    limits, unknown = await listed(
        client, paths.QUOTAS, "ResourceQuotas", "what namespaces may hold is not looked at"
    )
    return Objects(nodes=nodes, pods=pods, quotas=limits, unknown=unknown)


async def listed(
    client: kube_client.KubeClient, path: str, kinds: str, so_what: str
) -> tuple[Sequence[Json], tuple[str, ...]]:
    """List what an answer can do without; where that fails, a sentence says what is missing.

    Args:
        client: reads.
        path: of the collection.
        kinds: its name.
        so_what: what the answer lacks without it.
    """
    try:
        items, _ = await client.list(path)
    except errors.ApiError as fault:
        why = "may not" if isinstance(fault, errors.Denied) else f"could not ({fault})"
        return (), (f"{kinds} {why} be listed: {so_what}",)
    return items, ()


def opened(
    found: Objects, configured: settings.Settings, now: datetime.datetime, *, besides: str = ""
) -> flow_books.Books:
    """Return books that have taken the objects in, cards held that nominations on pods name.

    Args:
        found: what was listed.
        configured: the settings as they are; vendors that they leave out do not count.
        now: the time.
        besides: leave out the pod of that UID.
    """
    books = flow_books.open_books(configured, registry.build(configured))
    _take_in(books, found.nodes, now)
    aliases = configured.resource_aliases
    for raw in found.quotas:
        limits = vendor_quotas.quota_record(raw, books.vendors, aliases=aliases)
        quotas.quota_seen(books, limits)
    for raw in found.pods:
        if raw["metadata"].get("uid") != besides and _may_concern_us(books, raw):
            pod_events.pod_seen(books, pod_record(books, raw))
    take_over.take_over(books, now)  # what that would write is not our business
    return books


def pod_record(books: flow_books.Books, raw: Json) -> records.PodRecord:
    """Return a pod as the flows see it."""
    aliases = books.settings.resource_aliases
    return vendor_records.pod_record(raw, books.vendors, aliases=aliases)


def left_out(configured: settings.Settings, raw: Json) -> tuple[str, ...]:
    """Return the vendors whose cards a pod asks for though the settings leave them out."""
    served = registry.build(configured).by_keyword
    every = registry.build(settings.with_every_vendor(configured))
    asked = requests.without_weights(raw, every, aliases=configured.resource_aliases).vendors
    return tuple(keyword for keyword in asked if keyword not in served)


def _may_concern_us(books: flow_books.Books, raw: Json) -> bool:
    """Whether a Pod matters, as the operator asks of each; reading all of them takes long."""
    metadata = raw["metadata"]
    return (
        vendor_records.may_matter(raw, books.vendors, aliases=books.settings.resource_aliases)
        or raw.get("spec", {}).get("schedulerName") == books.settings.scheduler_name
        or bool(books.locks.nodes_of(metadata.get("namespace", ""), metadata.get("name", "")))
    )


def _take_in(books: flow_books.Books, nodes: Iterable[Json], now: datetime.datetime) -> None:
    for raw in nodes:
        register.node_seen(books, vendor_records.node_record(raw, books.vendors), now)
