"""The replica's own state, read from the books at each scrape."""

import itertools
import platform
from collections.abc import Iterable, Iterator

from prometheus_client import core
from prometheus_client.registry import Collector

import vgpu_operator
from vgpu_operator.flows import tallies
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
            (
                "vgpu_node_locks_stuck",
                "Locks that had expired, of bound pods that no kubelet has seen (leader only).",
                len(books.stuck_locks),
            ),
            (
                "vgpu_allocations_pending",
                "Bound pods whose device plugins are not done with them.",
                len(books.allocating),
            ),
            (
                "vgpu_allocations_stuck",
                "Those that an event was sent for: longer than bind.stuckAfterS (leader only).",
                len(books.stuck.keys() & books.allocating.keys()),
            ),
            (
                "vgpu_pods_bypassed",
                "Pods that ask for devices and never passed the webhook.",
                len(books.tallies.bypassed),
            ),
            (
                "vgpu_preemptions_pending",
                "Pods for which cards are held while others leave (leader only).",
                len(books.preemption.attempts),
            ),
        ):
            yield core.GaugeMetricFamily(name, help_text, value=value)
        yield from _durations(books.tallies)
        yield from _preemptions(books.tallies)
        yield from _build()


def _durations(counted: tallies.Tallies) -> Iterator[core.Metric]:
    held = core.HistogramMetricFamily(
        "vgpu_node_lock_hold_seconds",
        "How long a lock stood on its node, from when it was first seen until it passed on.",
    )
    held.add_metric([], _buckets(counted.lock_held), counted.lock_held.sum_s)
    yield held
    allocated = core.HistogramMetricFamily(
        "vgpu_allocation_duration_seconds",
        "From when a pod was seen bound until its device plugins were done, by outcome.",
        labels=["outcome"],
    )
    for outcome, tally in counted.allocations.items():
        allocated.add_metric([outcome], _buckets(tally), tally.sum_s)
    yield allocated


def _preemptions(counted: tallies.Tallies) -> Iterator[core.Metric]:
    attempts = core.CounterMetricFamily(
        "vgpu_preemption_attempts",
        "Attempts to make room for a pod by evicting others, by how they ended; one that stays"
        " blocked, or planned in a dry run, counts once.",
        labels=["outcome"],
    )
    for outcome, count in counted.preemptions.items():
        attempts.add_metric([outcome], count)
    yield attempts
    yield core.CounterMetricFamily(
        "vgpu_preemption_victims",
        "Pods evicted for one of higher priority.",
        value=counted.preemption_victims,
    )
    yield core.HistogramMetricFamily(
        "vgpu_preemption_duration_seconds",
        "From a pod's first refusal until it was bound to the node that others left for it.",
        buckets=_buckets(counted.preempted),
        sum_value=counted.preempted.sum_s,
    )


def _buckets(tally: tallies.Tally) -> list[tuple[str, float]]:
    """Return the counts as Prometheus wants them: by upper end, each with all below it."""
    ends = [*(str(end) for end in tallies.SECONDS), "+Inf"]
    return list(zip(ends, map(float, itertools.accumulate(tally.counts)), strict=True))


def _build() -> Iterator[core.Metric]:
    """Yield what runs here; HAMi's family has HAMi's labels, as far as they mean anything."""
    version, python = vgpu_operator.__version__, f"python{platform.python_version()}"
    hami = core.GaugeMetricFamily(
        "hami_build_info",
        "1; the version is this operator's.",
        labels=["version", "revision", "build_date", "go_version", "compiler", "platform"],
    )
    system = f"{platform.system().lower()}/{platform.machine()}"
    compiler = platform.python_implementation().lower()
    hami.add_metric([version, "unknown", "unknown", python, compiler, system], 1)
    yield hami
