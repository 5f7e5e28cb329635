"""Series that are read from the books at each scrape.

Names, labels and units of the ``hami_`` series are HAMi's, so that dashboards
made for it work. Allocation series come from the leader only: with two
replicas a sum over all targets must not double.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import core
from prometheus_client.registry import Collector

from vgpu_operator.flows.books import Books

MIB = 1024 * 1024
ZONE = "vGPU"
CARD_LABELS = ("zone", "node", "device_uuid", "device_index", "device_type")
SHARE_LABELS = ("zone", "namespace", "node", "pod", "container_index", "device_uuid")


class BooksCollector(Collector):
    """Reads the books; a scrape makes no API call."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def collect(self) -> Iterable[core.Metric]:
        """Yield every family; names that a page cannot carry are replaced, not fatal."""
        yield from self._own_state()
        if self._books.leader:
            yield from self._cards()
            yield from self._shares()

    def describe(self) -> Iterable[core.Metric]:
        """Describe nothing: the families depend on what is known."""
        return ()

    def _own_state(self) -> Iterator[core.Metric]:
        books = self._books
        for name, help_text, value in (
            ("vgpu_leader", "1 when this replica leads.", float(books.leader)),
            ("vgpu_synced", "1 when the ledger is complete.", float(books.synced)),
            ("vgpu_nodes", "Nodes known.", len(books.nodes)),
            ("vgpu_pods_refused", "Pods that fitted nowhere when last asked.", len(books.refused)),
            ("vgpu_binds_waiting", "Binds that wait for a node's lock.", len(books.turns)),
            ("vgpu_node_locks", "Nodes with a lock.", len(books.locks.nodes())),
        ):
            yield core.GaugeMetricFamily(name, help_text, value=value)

    def _cards(self) -> Iterator[core.Metric]:
        limit = core.GaugeMetricFamily(
            "hami_gpu_memory_limit_bytes", "Schedulable memory of the card.", labels=CARD_LABELS
        )
        core_limit = core.GaugeMetricFamily(
            "hami_gpu_core_limit_ratio",
            "Schedulable cores in percent of one card.",
            labels=CARD_LABELS,
        )
        memory = core.GaugeMetricFamily(
            "hami_gpu_memory_allocated_bytes",
            "Memory promised to pods.",
            labels=(*CARD_LABELS, "device_cores"),
        )
        cores = core.GaugeMetricFamily(
            "hami_gpu_core_allocated_ratio", "Cores promised to pods.", labels=CARD_LABELS
        )
        shared = core.GaugeMetricFamily(
            "hami_gpu_shared_count", "Containers that share the card.", labels=CARD_LABELS
        )
        ratio = core.GaugeMetricFamily(
            "hami_node_gpu_memory_allocated_ratio",
            "Promised by schedulable memory, 0 to 1.",
            labels=CARD_LABELS,
        )
        for node in sorted(self._books.nodes):
            for vendor in self._books.vendors:
                for card in self._books.ledger.usage(node, vendor.spec.keyword):
                    device = card.device
                    labels = tuple(
                        _clean(text)
                        for text in (ZONE, node, device.id, str(device.index), device.type)
                    )
                    limit.add_metric(labels, device.memory_mib * MIB)
                    core_limit.add_metric(labels, device.cores_percent)
                    memory.add_metric(
                        (*labels, str(device.cores_percent)), card.used_memory_mib * MIB
                    )
                    cores.add_metric(labels, card.used_cores_percent)
                    shared.add_metric(labels, card.used_slots)
                    if device.memory_mib > 0:
                        ratio.add_metric(labels, card.used_memory_mib / device.memory_mib)
        yield from (limit, core_limit, memory, cores, shared, ratio)

    def _shares(self) -> Iterator[core.Metric]:
        memory = core.GaugeMetricFamily(
            "hami_vgpu_memory_allocated_bytes",
            "Memory promised to a container on a card.",
            labels=SHARE_LABELS,
        )
        cores = core.GaugeMetricFamily(
            "hami_vgpu_core_allocated_ratio",
            "Cores promised to a container on a card.",
            labels=SHARE_LABELS,
        )
        for node in sorted(self._books.nodes):
            for row in self._books.ledger.holders(node):
                labels = tuple(
                    _clean(text)
                    for text in (
                        ZONE,
                        row.pod.namespace,
                        node,
                        row.pod.name,
                        str(row.container),
                        row.share.card_id,
                    )
                )
                memory.add_metric(labels, row.share.memory_mib * MIB)
                cores.add_metric(labels, row.share.cores_percent)
        yield from (memory, cores)


def _clean(text: str) -> str:
    """Return text that UTF-8 can carry: a lone surrogate would break the whole page."""
    return text.encode("utf-8", "replace").decode("utf-8")
