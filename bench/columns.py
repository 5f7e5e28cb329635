"""How long one filter and its scores take, on a big cluster.

5,000 nodes x 8 cards, 50,000 pods of one slot and 1,000 MiB, and one pod to
place that is asked for with all names, as kube-scheduler does. Run it with
``PYTHONPATH=operator:tests python bench/filter_bench.py`` from the root of the
checkout.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

from support import clusters, slow_twin
from vgpu_operator.model import policy, reason, request, settings
from vgpu_operator.scheduling import choose, explain, fit
from vgpu_operator.vendors import registry

REPEATS = 200
BY_HAND_REPEATS = 5
TWIN_REPEATS = 3


def build(n_nodes: int, n_pods: int) -> clusters.Cluster:
    """Return the cluster; pods are spread over nodes and cards by a fixed seed."""
    chance = random.Random(7)  # noqa: S311 - a fixed seed, not a secret
    names = [f"node-{number:05d}" for number in range(n_nodes)]
    return clusters.Cluster(
        nodes={
            name: clusters.node(
                *(clusters.card(f"GPU-{name}-{index}", index=index) for index in range(8))
            )
            for name in names
        },
        pods=[
            clusters.holder(f"held-{number}", node, f"GPU-{node}-{chance.randrange(8)}", 1000, 5)
            for number in range(n_pods)
            for node in (names[number % n_nodes],)
        ],
    )


def measure(what: str, call: Callable[[], object], repeats: int) -> float:
    """Print and return the median in milliseconds."""
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        took.append(1000 * (time.perf_counter() - start))
    took.sort()
    median = statistics.median(took)
    print(f"{what:52} p50 {median:9.3f} ms   p99 {took[int(0.99 * len(took))]:9.3f} ms")
    return median


def main() -> None:
    """Build, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    options = parser.parse_args()
    cluster = build(options.nodes, options.pods)
    start = time.perf_counter()
    vendors = {vendor.spec.keyword: vendor for vendor in registry.build(settings.Settings())}
    books = clusters.build_ledger(cluster, trust=settings.Trust.REQUESTS, rules=vendors)
    print(f"{options.nodes} nodes x 8 cards, {options.pods} pods: ", end="")
    print(f"ledger built in {time.perf_counter() - start:.1f} s")
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

    def answer(wish: request.PodRequest, nodes: list[str]) -> list[int]:
        found = fit.place(books.snapshot(without_claim_of=wish.pod.uid), nodes, wish, defaults)
        return found.scores(100)

    def refuse(wish: request.PodRequest) -> dict[str, str]:
        found = fit.place(books.snapshot(), names, wish, defaults)
        return explain.texts(found.rejections)

    def another_order() -> list[int]:
        orders.reverse()
        return answer(one, orders[0])

    fast = measure("filter+score, all fit, names as last time", lambda: answer(one, names), REPEATS)
    measure("filter+score, all fit, names in another order", another_order, REPEATS)
    measure("filter, all refused, every reason read", lambda: refuse(none), REPEATS)
    measure("filter+score, two containers", lambda: answer(two, names), REPEATS)
    measure("filter+score, two cards of one NUMA node", lambda: answer(numa, names), REPEATS)
    measure(
        "filter+score, every node by the vendor's own rules",
        lambda: answer(linked, names),
        BY_HAND_REPEATS,
    )
    measure(
        "choose on one node",
        lambda: choose.choose(books.snapshot(), names[0], two, defaults),
        REPEATS,
    )
    claimed = choose.choose(books.snapshot(), names[0], two, defaults)
    if not isinstance(claimed, reason.NodeRejection):
        books.claim(two, claimed, clusters.LATER)
    measure("filter+score, all fit, with a claim", lambda: answer(one, names), REPEATS)
    twin = slow_twin.Twin(cluster)
    rules = (policy.NodePolicy.BINPACK, (policy.CardPolicy.SPREAD,))
    slow = measure("slow twin, all fit", lambda: twin.place(names, one, *rules), TWIN_REPEATS)
    print(f"slow twin / filter+score: {slow / fast:.0f} x")


if __name__ == "__main__":
    main()
