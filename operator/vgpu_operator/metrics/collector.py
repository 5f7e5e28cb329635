"""The replica's own state, read from the books at each scrape."""

from collections.abc import Iterable

from prometheus_client import core
from prometheus_client.registry import Collector

from vgpu_operator.flows.books import Books


class BooksCollector(Collector):
    """Reads the books; a scrape makes no API call."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def collect(self) -> Iterable[core.Metric]:
        """Yield every family."""
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
