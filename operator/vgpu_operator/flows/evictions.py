"""Which pods would have to leave a node so that a pod fits there: as few as possible.

The scheduling code judges every try, on a copy of the node. It is the node that is
judged, not the right to evict: which pods may go is the caller's to say.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from vgpu_operator.flows import one_node, quotas
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import ledger
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.model import allocation, quota, records, request
from vgpu_operator.scheduling import choose

MOST_TRIES: Final = 2000
"""Sets of pods that are tried on one node in search of a smaller one: up to two of 60 pods."""

MOST_NODES: Final = 16
"""Nodes that are tried, the likeliest first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Pods that would have to leave one node.

    Attributes:
        pods: in the order in which they were chosen.
        highest_priority: of them.
        exact: no smaller set of these candidates does.
    """

    node: str
    pods: tuple[request.PodKey, ...]
    highest_priority: int
    exact: bool


def _always(_record: records.PodRecord) -> bool:
    return True


def fewest(
    books: Books,
    wish: request.PodRequest,
    nodes: Iterable[str],
    *,
    priorities: Mapping[str, int],
    may_go: Callable[[records.PodRecord], bool] = _always,
) -> Eviction | None:
    """Return the fewest pods on one of the nodes; None where even all of them are not enough.

    Among sets of one size the one whose highest priority is lowest, then the first node.

    Args:
        books: what is known.
        wish: the pod that is to fit.
        nodes: names; those that seem to need the fewest are tried.
        priorities: of pods by UID, 0 where missing.
        may_go: which pods may be taken off.
    """
    likely = sorted((_estimate(books, wish, node), node) for node in nodes)
    found: list[Eviction] = []
    for estimated, node in likely[:MOST_NODES]:
        if math.isinf(estimated):
            break
        eviction = on_node(books, wish, node, priorities=priorities, may_go=may_go)
        if eviction is not None:
            found.append(eviction)
    return min(found, key=lambda one: (len(one.pods), one.highest_priority, one.node), default=None)


def on_node(
    books: Books,
    wish: request.PodRequest,
    node: str,
    *,
    priorities: Mapping[str, int],
    may_go: Callable[[records.PodRecord], bool] = _always,
) -> Eviction | None:
    """Return the fewest pods that would have to leave that node.

    As kube-scheduler's preemption does it: all leave, then each stays that can, the
    most important first. Smaller sets are then tried as far as ``MOST_TRIES`` reaches.
    """
    candidates = [record for record in one_node.pods_on(books, node) if may_go(record)]
    candidates.sort(key=lambda record: (priorities.get(record.key.uid, 0), record.key))
    trial = _Trial(
        scratch=one_node.copied(books, node),
        node=node,
        wish=wish,
        books=books,
        allowances=quotas.allowances(books, wish.pod),
    )
    going = list(candidates)
    trial.send_away(going)
    if not going or not trial.fits():
        return None
    for record in reversed(candidates):
        trial.bring_back([record])
        if trial.fits():
            going.remove(record)
        else:
            trial.send_away([record])
    trial.bring_back(going)
    smaller, exact = _smaller(trial, candidates, len(going))
    chosen = smaller or going
    return Eviction(
        node=node,
        pods=tuple(record.key for record in chosen),
        highest_priority=max(priorities.get(record.key.uid, 0) for record in chosen),
        exact=exact,
    )


def _smaller(
    trial: "_Trial", candidates: Sequence[records.PodRecord], size: int
) -> tuple[list[records.PodRecord] | None, bool]:
    """Return a set of fewer than ``size`` pods that does, and whether all such were tried."""
    tries = 0
    for fewer in range(1, size):
        tries += math.comb(len(candidates), fewer)
        if tries > MOST_TRIES:
            return None, False
        for chosen in itertools.combinations(candidates, fewer):
            trial.send_away(chosen)
            fits = trial.fits()
            trial.bring_back(chosen)
            if fits:
                return list(chosen), True
    return None, True


@dataclasses.dataclass(slots=True, kw_only=True)
class _Trial:
    """One node on which pods come and go."""

    scratch: ledger.Ledger
    node: str
    wish: request.PodRequest
    books: Books
    allowances: quota.Allowances

    def send_away(self, pods: Iterable[records.PodRecord]) -> None:
        for record in pods:
            self.scratch.observe(dataclasses.replace(record, phase="Succeeded"))

    def bring_back(self, pods: Iterable[records.PodRecord]) -> None:
        for record in pods:
            self.scratch.observe(record)

    def fits(self) -> bool:
        answer = choose.choose(
            self.scratch.snapshot(with_claims=False),
            self.node,
            self.wish,
            self.books.defaults,
            allowances=self.allowances,
        )
        return isinstance(answer, allocation.Allocation)


def _estimate(books: Books, wish: request.PodRequest, node: str) -> float:
    """Return about how many pods would have to go; infinite where it has no card for it.

    Per card the largest holders leave until one share fits; the cheapest cards are taken.
    """
    total = 0.0
    shares: dict[tuple[str, str], list[allocation.DeviceShare]] = {}
    for holder in books.ledger.holders(node):
        shares.setdefault((holder.vendor, holder.share.card_id), []).append(holder.share)
    for container in wish.containers:
        for asked in container.devices:
            costs = sorted(
                _card_cost(usage, asked, shares.get((asked.vendor, usage.device.id), ()))
                for usage in books.ledger.usage(node, asked.vendor)
            )
            if len(costs) < asked.count:
                return math.inf
            total += sum(costs[: asked.count])
    return total


def _card_cost(
    usage: ledger_nodes.CardUsage,
    asked: request.DeviceRequest,
    shares: Sequence[allocation.DeviceShare],
) -> float:
    card = usage.device
    memory_mib = asked.memory_on(card.memory_mib) - (card.memory_mib - usage.used_memory_mib)
    cores = asked.cores_percent - (card.cores_percent - usage.used_cores_percent)
    slots = 1 - (card.slots - usage.used_slots)
    if not card.healthy:
        return math.inf
    cost = 0.0
    for share in sorted(shares, key=lambda one: (-one.memory_mib, -one.cores_percent)):
        if memory_mib <= 0 and cores <= 0 and slots <= 0:
            break
        memory_mib -= share.memory_mib
        cores -= share.cores_percent
        slots -= 1
        cost += 1
    return cost if memory_mib <= 0 and cores <= 0 and slots <= 0 else math.inf
