"""One filter and its scores without HTTP: columns beside the slow twin.

Nodes of 8 cards with ten pods each, of one slot and 1,000 MiB, and one pod to
place that is asked for with all names, as kube-scheduler does.
"""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench import quantiles
from support import clusters, slow_twin
from vgpu_operator.model import policy, request, settings
from vgpu_operator.scheduling import choose, explain, fit
from vgpu_operator.vendors import registry


def build(n_nodes: int, n_pods: int) -> clusters.Cluster:
    """Return the cluster; pods are spread over nodes and cards by a fixed seed."""
    chance = random.Random(7)  # noqa: S311 - a fixed seed, not a secret
    nodes = clusters.eight_card_nodes(n_nodes)
    names = list(nodes)
    return clusters.Cluster(
        nodes=nodes,
        pods=[
            clusters.holder(f"held-{number}", node, f"GPU-{node}-{chance.randrange(8)}", 1000, 5)
            for number in range(n_pods)
            for node in (names[number % n_nodes],)
        ],
    )


def timed(
    call: Callable[[], object],
    repeats: int,
    *,
    clock_s: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median and the 99th percentile in milliseconds."""
    took = []
    for _ in range(repeats):
        start = clock_s()
        call()
        took.append(1000 * (clock_s() - start))
    took.sort()
    return {"p50": statistics.median(took), "p99": quantiles.p99(took)}


def measure(*, nodes: int, pods: int, quick: bool = False) -> dict[str, Any]:
    """Return the times of each kind of question, and of the slow twin for one of them."""
    repeats = 50 if quick else 200
    cluster = build(nodes, pods)
    vendors = registry.build(settings.Settings()).by_keyword
    start = time.perf_counter()
    books = clusters.build_ledger(cluster, trust=settings.Trust.REQUESTS, rules=vendors)
    found: dict[str, Any] = {
        "nodes": nodes,
        "pods": pods,
        "ledger_s": time.perf_counter() - start,
    }
    names = list(cluster.nodes)
    shuffled = list(names)
    random.Random(1).shuffle(shuffled)  # noqa: S311
    orders = [names, shuffled]
    defaults = fit.Defaults(vendors=vendors)
    one = clusters.wish(clusters.asks(memory_mib=1000))
    two = clusters.wish(clusters.asks(memory_mib=1000), clusters.asks(memory_mib=500))
    none = clusters.wish(clusters.asks(memory_mib=30_000))
    numa = clusters.wish(
        clusters.asks(count=2, memory_mib=1000), selection=request.CardSelection(numa_bind=True)
    )
    linked = clusters.wish(
        clusters.asks(memory_mib=1000), card_policies=(policy.CardPolicy.TOPOLOGY_AWARE,)
    )

    def answer(wish: request.PodRequest, asked: list[str]) -> list[int]:
        placed = fit.place(books.snapshot(without_claim_of=wish.pod.uid), asked, wish, defaults)
        return list(placed.scores(100).tolist())

    def refuse() -> tuple[explain.Group, ...]:
        return explain.groups(fit.place(books.snapshot(), names, none, defaults).rejections)

    def another_order() -> list[int]:
        orders.reverse()
        return answer(one, orders[0])

    found["all fit"] = timed(lambda: answer(one, names), repeats)
    found["another order"] = timed(another_order, repeats)
    found["all refused"] = timed(refuse, repeats)
    found["two containers"] = timed(lambda: answer(two, names), repeats)
    found["two of one NUMA node"] = timed(lambda: answer(numa, names), repeats)
    found["card by card"] = timed(lambda: answer(linked, names), 1 if quick else 3)
    found["one node"] = timed(
        lambda: choose.choose(books.snapshot(), names[0], two, defaults), repeats
    )
    twin = slow_twin.Twin(cluster)
    rules = (policy.NodePolicy.BINPACK, (policy.CardPolicy.SPREAD,))
    found["slow twin"] = timed(lambda: twin.place(names, one, *rules), 1 if quick else 3)
    return found
