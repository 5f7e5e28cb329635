"""Who has to leave, once more, as plain loops: the oracle of the preemption tests.

Every set of pods of every node is tried, by the slow twin of the scheduling core, on a
cluster in which the set is not there. Nothing here is fast.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from support import clusters, slow_twin
from vgpu_operator.model import policy, quota, records, request
from vgpu_operator.model.budgets import Budget

NEVER_STARTED = float("inf")


@dataclass(frozen=True)
class Expected:
    """What is to be said.

    ``cost``: highest priority, sum of priorities counted from the lowest there can be,
    number, the earliest start of the most important ones (negated), node.
    """

    kind: str
    node: str = ""
    cost: tuple[object, ...] = ()
    sets: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True)
class Case:
    """The question."""

    cluster: clusters.Cluster
    wish: request.PodRequest
    policies: tuple[policy.CardPolicy, ...]
    highest: int
    budgets: Sequence[Budget] = ()
    limits: Mapping[str, quota.Allowance] = dataclasses.field(default_factory=dict)
    fewest_first: bool = False


def expected(case: Case) -> Expected:
    """Return what is to be said of a case."""
    waits = [name for name in sorted(case.cluster.nodes) if fits(case, name, frozenset())]
    if waits:
        return Expected(kind="waits")
    found: list[tuple[tuple[object, ...], list[frozenset[str]]]] = []
    broken = False
    for name in sorted(case.cluster.nodes):
        pods = may_go(case, name)
        if not pods or not fits(case, name, frozenset(pod.key.uid for pod in pods)):
            continue
        best = _fewest(case, name, pods)
        if best is None:
            broken = True
        else:
            found.append(best)
    if found:
        cost, sets = min(found, key=lambda one: one[0])
        return Expected(kind="plan", node=str(cost[-1]), cost=cost, sets=tuple(sets))
    return Expected(kind="blocked" if broken else "nothing")


def may_go(case: Case, name: str) -> list[records.PodRecord]:
    """Return the pods that may go from a node."""
    return [
        pod
        for pod in case.cluster.pods
        if pod.node == pod.promised_node == name
        and pod.phase not in ("Succeeded", "Failed")
        and not pod.deleting
        and pod.priority <= case.highest
    ]


def fits(case: Case, name: str, gone: frozenset[str]) -> bool:
    """Return whether a node takes the pod without those, and without those that are going."""
    staying = [pod for pod in case.cluster.pods if pod.key.uid not in gone and not pod.deleting]
    # What cannot be read keeps everybody off, gone or not: nothing says what it is.
    unreadable = [dataclasses.replace(pod, promised={}) for pod in case.cluster.pods if pod.faults]
    left = dataclasses.replace(case.cluster, pods=[*staying, *unreadable])
    allowances = _allowances(case, name, gone)
    return slow_twin.Twin(left).judge(name, case.wish, case.policies, allowances).fits


def _allowances(case: Case, name: str, gone: frozenset[str]) -> dict[str, quota.Allowance]:
    """Return what is left of the quota once those have left, and those going on this node."""
    books = clusters.build_ledger(case.cluster)
    left = {}
    for vendor, limit in case.limits.items():
        used = quota.NOTHING
        for pod in case.cluster.pods:
            held = books.holding(pod.key.uid)
            is_gone = pod.key.uid in gone or (pod.deleting and pod.node == name)
            if held is None or is_gone or pod.key.namespace != case.wish.pod.namespace:
                continue
            used += held.against_quota.get(vendor, quota.NOTHING)
        left[vendor] = limit.less(used)
    return left


def _fewest(
    case: Case, name: str, pods: Sequence[records.PodRecord]
) -> tuple[tuple[object, ...], list[frozenset[str]]] | None:
    """Return the cheapest of the smallest sets that break no budget, with those as cheap."""
    for size in range(1, len(pods) + 1):
        by_cost: dict[tuple[object, ...], list[frozenset[str]]] = {}
        for chosen in itertools.combinations(pods, size):
            gone = frozenset(pod.key.uid for pod in chosen)
            if not breaks(case.budgets, chosen) and fits(case, name, gone):
                by_cost.setdefault(cost(case, name, chosen), []).append(gone)
        if by_cost:
            least = min(by_cost)
            return least, by_cost[least]
    return None


def cost(case: Case, name: str, chosen: Sequence[records.PodRecord]) -> tuple[object, ...]:
    """Return what is compared of two sets."""
    highest = max(pod.priority for pod in chosen)
    total = sum(pod.priority + 2**31 for pod in chosen)
    starts = [
        pod.started.timestamp() if pod.started is not None else NEVER_STARTED
        for pod in chosen
        if pod.priority == highest
    ]
    if case.fewest_first:
        return len(chosen), highest, total, -min(starts), name
    return highest, total, len(chosen), -min(starts), name


def breaks(budgets: Sequence[Budget], chosen: Sequence[records.PodRecord]) -> bool:
    """Whether these pods may not all be evicted."""
    for pod in chosen:
        covering = [one for one in budgets if _counts(one, pod)]
        if len(covering) > 1:
            return True
    return any(sum(_counts(budget, pod) for pod in chosen) > budget.allowed for budget in budgets)


def _counts(budget: Budget, pod: records.PodRecord) -> bool:
    if budget.namespace != pod.key.namespace or pod.phase == "Pending":
        return False
    if pod.key.name in budget.disrupted or budget.selector is None:
        return False
    return all(
        pod.labels.get(wanted.key) in wanted.values  # the tests use no other operator
        for wanted in budget.selector
    )
