"""Guards against a loss of speed: ratios within one run, never times.

Each figure is the fastest of a few runs, which is what a busy machine disturbs
least; the bounds are far from what is measured (see docs/performance.md).
"""

import time
from collections.abc import Callable
from typing import Any

from support import clusters, operator_books, slow_twin
from support.pods import pod
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import policy, settings
from vgpu_operator.scheduling import fit
from vgpu_operator.vendors import records, registry

VENDORS = registry.build(settings.Settings())
DEFAULTS = fit.Defaults(vendors=VENDORS.by_keyword)
ONE = clusters.wish(clusters.asks(memory_mib=1000))


def fastest_s(call: Callable[[], object], *, runs: int = 7, times: int = 1) -> float:
    """Return the CPU seconds of the fastest of some runs."""
    took = []
    for _ in range(runs):
        begun = time.process_time()
        for _ in range(times):
            call()
        took.append(time.process_time() - begun)
    return min(took)


def cluster(n_nodes: int, n_pods: int) -> clusters.Cluster:
    nodes = clusters.eight_card_nodes(n_nodes)
    names = list(nodes)
    return clusters.Cluster(
        nodes=nodes,
        pods=[
            clusters.holder(f"held-{number}", name, f"GPU-{name}-{number % 8}", 100, 1)
            for number in range(n_pods)
            for name in (names[number % n_nodes],)
        ],
    )


def filter_s(built: clusters.Cluster) -> float:
    ledger = clusters.build_ledger(built, trust=settings.Trust.REQUESTS, rules=VENDORS.by_keyword)
    names = list(built.nodes)

    def ask() -> object:
        return fit.place(ledger.snapshot(), names, ONE, DEFAULTS).scores(100)

    return fastest_s(ask, runs=9, times=3) / 3


def test_columns_are_many_times_faster_than_plain_loops() -> None:
    built = cluster(1_000, 2_000)
    twin = slow_twin.Twin(built)
    rules = (policy.NodePolicy.BINPACK, (policy.CardPolicy.SPREAD,))
    slow_s = fastest_s(lambda: twin.place(list(built.nodes), ONE, *rules), runs=2)

    assert slow_s > 20 * filter_s(built)


def test_a_filter_grows_no_faster_than_the_nodes_asked_for() -> None:
    assert filter_s(cluster(4_000, 0)) < 8 * filter_s(cluster(1_000, 0))


def test_a_filter_costs_the_same_however_many_pods_there_are() -> None:
    assert filter_s(cluster(1_000, 10_000)) < 2 * filter_s(cluster(1_000, 100))


def foreign() -> dict[str, Any]:
    """Return a pod of another workload, of the size that real ones have."""
    limits = {"limits": {"cpu": "1", "memory": "1Gi"}}
    raw = pod(*({"name": f"c{number}", "resources": limits} for number in range(3)))
    raw["metadata"] |= {
        "uid": "u",
        "annotations": {f"example.com/{number}": "x" * 50 for number in range(10)},
    }
    raw["status"] = {"conditions": [{"type": "Ready", "status": "True"}] * 5}
    return raw


def test_a_pod_that_is_nobodys_concern_is_passed_over_cheaply() -> None:
    raw = foreign()
    look_s = fastest_s(lambda: records.may_matter(raw, VENDORS, aliases={}), times=500)
    read_s = fastest_s(lambda: records.pod_record(raw, VENDORS, aliases={}), times=500)

    assert not records.may_matter(raw, VENDORS, aliases={})
    assert read_s > 1.5 * look_s


def test_a_pod_that_asks_like_one_that_was_refused_is_answered_from_memory() -> None:
    held = operator_books.open_books()
    names = tuple(f"node-{number}" for number in range(300))
    for name in names:
        operator_books.put_node(held, name)
    too_much = clusters.asks(memory_mib=999_999)
    asking = operator_books.pending("p", too_much)
    refused = flow_filter.filter_nodes(held, asking, names, operator_books.NOW)
    first_s = fastest_s(
        lambda: flow_filter.place(held, asking.request, names, priority=0).rejections.keys()
    )
    again_s = fastest_s(
        lambda: flow_filter.filter_nodes(held, asking, names, operator_books.NOW), times=20
    )

    assert refused.refused
    assert first_s > 2 * again_s / 20
