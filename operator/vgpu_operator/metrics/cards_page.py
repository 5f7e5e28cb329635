"""What every card and every share holds, and what namespaces may hold, as Prometheus text.

Names, labels and units of the ``hami_`` series are HAMi's, so that dashboards made for
it work; the names from before HAMi 2.9, and those of HAMi-WebUI, can be switched on.
They come from the leader only: with two replicas a sum over all targets must not
double. A page may be of several moments, as a page of several nodes' exporters
would be.
"""

import operator
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Final

from vgpu_operator.flows.books import Books
from vgpu_operator.kube import steps
from vgpu_operator.metrics import (
    card_families,
    families,
    kept,
    older_families,
    rows,
    web_ui_families,
)
from vgpu_operator.metrics.families import Family, Numbered
from vgpu_operator.model import quota
from vgpu_operator.vendors import base

CARD_STATES: Final = families.numbered(
    "vgpu_cards",
    "Registered cards: usable, unhealthy, cordoned, or closed: the kubelet offers none of that"
    " vendor's, or a pod keeps others off.",
    "vendor",
    "state",
)

FAMILIES: Final[Sequence[Family[Any]]] = (
    *kept.HAMI.all,
    card_families.QUOTA_USED,
    card_families.QUOTA_LIMIT,
    CARD_STATES,
)
"""What is always there, on a leader."""


NODES_AT_ONCE: Final = 32
"""Of how many nodes a family's lines are sent at once."""


async def pieces(books: Books, kept_texts: kept.Kept | None = None) -> AsyncIterator[bytes]:
    """Yield the page's pieces; no further family once this replica does not lead.

    Args:
        books: what is known.
        kept_texts: the text of earlier pages; without it all is written anew.
    """
    if not _leads(books):
        return
    wanted = kept.groups(books.settings.metrics)
    nodes = await (kept_texts or kept.Kept()).read(books, wanted)
    for place, family in enumerate(wanted.all):
        if not _leads(books):
            return
        yield families.encoded(family.head)
        starts = range(0, len(nodes), NODES_AT_ONCE)
        async for start in steps.through(starts, pause_s=steps.PAUSE_S):
            lines = [node.lines[place] for node in nodes[start : start + NODES_AT_ONCE]]
            yield b"".join(lines)
    for small, samples in await _small(books, nodes):
        if not _leads(books):
            return
        async for piece in families.written(small, samples):
            yield piece


async def _small(
    books: Books, nodes: Sequence[kept.NodeText]
) -> list[tuple[Family[Numbered], Sequence[Numbered]]]:
    """Return the families with few samples."""
    wanted = books.settings.metrics
    quotas = await _quotas(books)
    found: list[tuple[Family[Numbered], Sequence[Numbered]]] = [
        (card_families.QUOTA_USED, [used for used, _, _ in quotas]),
        (card_families.QUOTA_LIMIT, [limit for _, limit, _ in quotas]),
        (CARD_STATES, await _states(nodes)),
    ]
    if wanted.legacy_names:
        found.append((older_families.QUOTA_USED, [older for _, _, older in quotas]))
    if wanted.web_ui_names:
        found += zip(web_ui_families.POOLS, await _pools(nodes), strict=True)
    return found


def _leads(books: Books) -> bool:
    """Whether this replica leads now: it may cease to while a page is written."""
    return books.leader


async def _quotas(books: Books) -> list[tuple[Numbered, Numbered, Numbered]]:
    """Return used and limit of each namespace's resources, and used in the earlier spelling."""
    found = []
    async for namespace in steps.through(books.ledger.quota_namespaces, pause_s=steps.PAUSE_S):
        standing = books.ledger.quota_standing(namespace)
        for keyword in sorted({*standing.used, *standing.limits}):
            used = standing.used.get(keyword, quota.NOTHING)
            limit = standing.limits.get(keyword, quota.UNLIMITED)
            spec = books.by_keyword[keyword].spec
            for name, held, most in _resources(spec, used, limit):
                found.append(_quota_rows(namespace, name, held, most))
    return found


def _resources(
    spec: base.VendorSpec, used: quota.Amount, limit: quota.Allowance
) -> Iterator[tuple[str, float, float | None]]:
    """Yield each limited or held resource of a vendor in its own unit: name, used, limit."""
    unit = spec.memory_unit_mib
    memory_limit = None if limit.memory_mib is None else limit.memory_mib / unit
    if spec.memory_resource and (used.memory_mib or memory_limit is not None):
        yield spec.memory_resource, used.memory_mib / unit, memory_limit
    if spec.cores_resource and (used.cores or limit.cores is not None):
        yield spec.cores_resource, used.cores, limit.cores


def _quota_rows(
    namespace: str, resource: str, used: float, limit: float | None
) -> tuple[Numbered, Numbered, Numbered]:
    spoken = f"{limit or 0:g}" if limit is None or limit % 1 else f"{limit:.0f}"
    labels = families.labels(zone=rows.ZONE, namespace=namespace, quota_name=resource)
    older = families.labels(
        zone=rows.ZONE, quotanamespace=namespace, quotaName=resource, limit=spoken
    )
    return (
        Numbered(labels=f'{labels},limit="{spoken}"', value=used),
        Numbered(labels=labels, value=limit),
        Numbered(labels=older, value=used),
    )


async def _states(nodes: Iterable[kept.NodeText]) -> list[Numbered]:
    """Return how many cards of each vendor are in each state."""
    counts: Counter[tuple[str, str]] = Counter()
    async for node in steps.through(nodes, pause_s=steps.PAUSE_S):
        counts.update(node.states)
    return families.counted(counts)


async def _pools(nodes: Iterable[kept.NodeText]) -> list[list[Numbered]]:
    """Return per family of ``web_ui_families.POOLS`` the sums over each vendor's cards."""
    sums: dict[str, list[int]] = {}
    async for node in steps.through(nodes, pause_s=steps.PAUSE_S):
        for vendor, amounts in node.pools.items():
            total = sums.setdefault(vendor, [0] * len(amounts))
            total[:] = map(operator.add, total, amounts)
    return [
        [Numbered(labels=families.labels(pool=pool), value=sums[pool][place]) for pool in sums]
        for place in range(len(web_ui_families.POOLS))
    ]
