"""Which pods would have to leave a node so that a pod fits there: as few as possible.

The scheduling code judges every try, on a copy of the node. It is the node that is
judged, not the right to evict: which pods may go is the caller's to say.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from vgpu_operator.flows import one_node
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import ledger
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.model import allocation, policy, quota, records, request
from vgpu_operator.scheduling import choose, masks

MOST_TRIES: Final = 2000
"""Sets of pods that are tried on one node in search of a smaller one: up to two of 60 pods."""

MOST_NODES: Final = 16
"""Nodes that are tried, the likeliest first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Pods that would have to leave one node.

    Attributes:
        pods: the least important first.
        highest_priority: of them.
        exact: no smaller set of the candidates does, on any of the nodes.
    """

    node: str
    pods: tuple[request.PodKey, ...]
    highest_priority: int
    exact: bool


def _always(_record: records.PodRecord) -> bool:
    return True


def _open(_node: str, _gone: Collection[str]) -> bool:
    return True


def fewest(
    books: Books,
    wish: request.PodRequest,
    nodes: Iterable[str],
    *,
    priorities: Mapping[str, int],
    may_go: Callable[[records.PodRecord], bool] = _always,
    opens: Callable[[str, Collection[str]], bool] = _open,
) -> Eviction | None:
    """Return the fewest pods on one of the nodes; None where even all of them are not enough.

    Among sets of one size the one whose highest priority is lowest, then the first node.

    Args:
        books: what is known.
        wish: the pod that is to fit.
        nodes: names; those that seem to need the fewest are tried.
        priorities: of pods by UID, 0 where missing.
        may_go: which pods may be taken off.
        opens: whether a node takes the pod, its cards aside, without the pods of those UIDs.
    """
    likely = sorted((_estimate(books, wish, node), node) for node in nodes)
    tries = (
        on_node(books, wish, node, priorities=priorities, may_go=may_go, opens=opens)
        for _, node in likely[:MOST_NODES]
    )
    found = [eviction for eviction in tries if eviction is not None]
    if not found:
        return None
    best = min(found, key=lambda one: (len(one.pods), one.highest_priority, one.node))
    left_out = any(math.isfinite(estimated) for estimated, _ in likely[MOST_NODES:])
    exact = best.exact and (len(best.pods) == 1 or not left_out)
    return dataclasses.replace(best, exact=exact)


def on_node(
    books: Books,
    wish: request.PodRequest,
    node: str,
    *,
    priorities: Mapping[str, int],
    may_go: Callable[[records.PodRecord], bool] = _always,
    opens: Callable[[str, Collection[str]], bool] = _open,
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
        opens=opens,
        standing=books.ledger.quota_standing(wish.pod.namespace, without=wish.pod.uid),
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
    if not going:  # it fits as things are
        return None
    better, exact = _better(trial, candidates, len(going), priorities)
    chosen = better or going
    return Eviction(
        node=node,
        pods=tuple(record.key for record in chosen),
        highest_priority=max(priorities.get(record.key.uid, 0) for record in chosen),
        exact=exact,
    )


def _better(
    trial: "_Trial",
    candidates: Sequence[records.PodRecord],
    size: int,
    priorities: Mapping[str, int],
) -> tuple[Sequence[records.PodRecord] | None, bool]:
    """Return the least important set of the fewest pods that does, at most ``size`` of them.

    Among sets of one size the one whose highest priority is lowest, then the sum of
    priorities. The second value says whether all sets of fewer than ``size`` were tried.
    """

    def importance(chosen: Sequence[records.PodRecord]) -> tuple[int, int]:
        each = [priorities.get(record.key.uid, 0) for record in chosen]
        return max(each), sum(each)

    tries = 0
    for number in range(1, size + 1):
        tries += math.comb(len(candidates), number)
        if tries > MOST_TRIES:
            return None, number == size
        for chosen in sorted(itertools.combinations(candidates, number), key=importance):
            trial.send_away(chosen)
            fits = trial.fits()
            trial.bring_back(chosen)
            if fits:
                return chosen, True
    return None, True


@dataclasses.dataclass(slots=True, kw_only=True)
class _Trial:
    """One node on which pods come and go.

    Attributes:
        opens: as in ``fewest``.
        standing: how the namespace of the pod stands while nobody is gone.
        gone: who is, by UID.
    """

    scratch: ledger.Ledger
    node: str
    wish: request.PodRequest
    books: Books
    opens: Callable[[str, Collection[str]], bool]
    standing: quota.Standing
    gone: dict[str, records.PodRecord] = dataclasses.field(default_factory=dict)

    def send_away(self, pods: Iterable[records.PodRecord]) -> None:
        for record in pods:
            self.gone[record.key.uid] = record
            self.scratch.observe(dataclasses.replace(record, phase="Succeeded"))

    def bring_back(self, pods: Iterable[records.PodRecord]) -> None:
        for record in pods:
            del self.gone[record.key.uid]
            self.scratch.observe(record)

    def fits(self) -> bool:
        answer = choose.choose(
            self.scratch.snapshot(with_claims=False),
            self.node,
            self.wish,
            self.books.defaults,
            allowances=self._allowances(),
        )
        return isinstance(answer, allocation.Allocation) and self.opens(self.node, self.gone)

    def _allowances(self) -> quota.Allowances:
        """Return what the pod's namespace may take: more where pods of its own are gone."""
        if not self.standing.limits:
            return quota.NO_LIMITS
        used = dict(self.standing.used)
        for record in self.gone.values():
            held = self.books.ledger.holding(record.key.uid)
            if held is None or record.key.namespace != self.wish.pod.namespace:
                continue
            for vendor, amount in held.against_quota.items():
                used[vendor] = used.get(vendor, quota.NOTHING) - amount
        return quota.Standing(limits=self.standing.limits, used=used).allowances


def _estimate(books: Books, wish: request.PodRequest, node: str) -> float:
    """Return about how many pods would have to go; infinite where it has no card for it.

    Per card the largest holders leave until one share fits; the cheapest cards are taken.
    """
    total = 0.0
    cordoned = books.nodes[node].cordoned if node in books.nodes else frozenset()
    policies = wish.card_policies or books.defaults.card_policies
    unused_only = policy.CardPolicy.MUTEX in policies
    shares: dict[tuple[str, str], list[allocation.DeviceShare]] = {}
    for holder in books.ledger.holders(node):
        shares.setdefault((holder.vendor, holder.share.card_id), []).append(holder.share)
    for container in wish.containers:
        for asked in container.devices:
            selection = wish.selection(asked.vendor)
            costs = sorted(
                _card_cost(
                    usage,
                    asked,
                    shares.get((asked.vendor, usage.device.id), ()),
                    emptied=unused_only,
                )
                for usage in books.ledger.usage(node, asked.vendor)
                if usage.device.healthy
                and usage.device.id not in cordoned
                and masks.selected(usage.device, selection)
            )
            if len(costs) < asked.count:
                return math.inf
            total += sum(costs[: asked.count])
    return total


def _card_cost(
    usage: ledger_nodes.CardUsage,
    asked: request.DeviceRequest,
    shares: Sequence[allocation.DeviceShare],
    *,
    emptied: bool,
) -> float:
    """Return how many of a card's shares go; infinite where it is too small for the wish.

    Args:
        usage: a card that could serve were it empty.
        asked: what is asked of it.
        shares: what pods hold of it.
        emptied: nobody may keep a share.
    """
    card = usage.device
    memory_mib = asked.memory_on(card.memory_mib) - (card.memory_mib - usage.used_memory_mib)
    cores = asked.cores_percent - (card.cores_percent - usage.used_cores_percent)
    slots = 1 - (card.slots - usage.used_slots)
    emptied = emptied or asked.cores_percent >= masks.WHOLE_CARD == card.cores_percent
    cost = 0.0
    for share in sorted(shares, key=lambda one: (-one.memory_mib, -one.cores_percent)):
        if memory_mib <= 0 and cores <= 0 and slots <= 0 and not emptied:
            break
        memory_mib -= share.memory_mib
        cores -= share.cores_percent
        slots -= 1
        cost += 1
    return cost if memory_mib <= 0 and cores <= 0 and slots <= 0 else math.inf
