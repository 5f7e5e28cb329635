"""Which pods would be evicted so that one of higher priority fits: a plan, nothing is done.

::

    nodes that refused the pod ─► one takes it once the pods are gone that are on their way?
                                    yes ─► Waits
                                  pods of lower priority whose leaving would help
                                    none ─► NoPlan
                                    some, breaking no budget ─► Plan
                                    each set breaks one ─► Blocked

Between nodes kube-scheduler's order decides: the lowest highest priority, the lowest sum of
priorities, the fewest pods, the latest start; on one node the fewest pods come first.
"""

import dataclasses
import datetime
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from vgpu_operator.flows import leaving, locks
from vgpu_operator.flows.books import Books
from vgpu_operator.model import allocation, quota, records, request
from vgpu_operator.model.budgets import Budget

LATE: Final = datetime.timedelta(seconds=30)
"""How long after its grace period a pod may still be expected to go: its node kills it then. One
that stays longer is stuck, by a finalizer or by a process that cannot be killed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod that has to go.

    Attributes:
        budgets_broken: namespaces and names; empty in a plan.
    """

    key: request.PodKey
    priority: int
    budgets_broken: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Pods to evict.

    Attributes:
        victims: the least important first; without any one of them the pod does not fit.
        allocation: what the pod gets once they are gone.
        exact: nothing was left untried that could cost less.
    """

    node: str
    victims: tuple[Victim, ...]
    allocation: allocation.Allocation
    exact: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Nobody has to be evicted.

    Attributes:
        pods: being deleted already, and the pod fits once they are gone; empty where it fits.
        allocation: what it gets then.
    """

    node: str
    pods: tuple[request.PodKey, ...]
    allocation: allocation.Allocation


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Every set of pods whose leaving would help breaks a budget.

    Attributes:
        node: where the fewest budgets are in the way.
        victims: who would have to go there.
        budgets: those in the way, by name.
    """

    node: str
    victims: tuple[Victim, ...]
    budgets: tuple[Budget, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NoPlan:
    """No pod's leaving would help; ``sentence`` says why."""

    sentence: str


Answer: TypeAlias = Plan | Waits | Blocked | NoPlan


def plan(
    books: Books,
    wish: request.PodRequest,
    *,
    priority: int,
    nodes: Sequence[str],
    budgets: Collection[Budget],
    may_go: Callable[[records.PodRecord], bool],
    now: datetime.datetime,
    min_gap: int = 1,
    lingering: Collection[str] = (),
    exempt: Callable[[records.PodRecord], bool] | None = None,
) -> Answer:
    """Return who is to be evicted for a pod.

    What other pods claim or are nominated for counts as used, that of lower priority
    excepted, and who is to leave for those others counts as on its way. Nodes whose lock is
    stuck are left out: no eviction helps there.

    Args:
        books: what is known; nothing in it changes.
        wish: the pod.
        priority: of the pod.
        nodes: those that kube-scheduler offered.
        budgets: all PodDisruptionBudgets.
        may_go: which pods may be evicted besides.
        now: the time.
        min_gap: how much lower the priority of an evicted pod is at least.
        lingering: UIDs of pods that were waited for in vain.
        exempt: see ``leaving.Question``; None = not known beforehand.
    """
    limit = datetime.timedelta(seconds=books.settings.preemption.time_limit_s)
    closed = locks.closed_to(books, wish, now)
    view = books.ledger.snapshot(without_claim_of=wish.pod.uid, for_priority=priority)
    found = leaving.cheapest(
        books,
        view,
        leaving.Question(
            wish=wish,
            nodes=[node for node in nodes if node not in closed] if closed else nodes,
            highest=priority - max(1, min_gap),
            may_go=may_go,
            exempt=exempt,
            budgets=budgets,
            going_between=(now - LATE, now + limit),
            promised=promised(books, wish.pod.uid, priority),
            lingering=lingering,
            reserved=reserved(books, wish.pod, priority),
        ),
    )
    match found:
        case leaving.Room():
            return Waits(node=found.node, pods=found.pods, allocation=found.allocation)
        case leaving.Leaving() if found.broken:
            forbidding = {str(one): one for broken in found.broken.values() for one in broken}
            return Blocked(
                node=found.node,
                victims=_victims(found),
                budgets=tuple(forbidding[name] for name in sorted(forbidding)),
            )
        case leaving.Leaving():
            return Plan(
                node=found.node,
                victims=_victims(found),
                allocation=found.allocation,
                exact=found.exact,
            )
        case _:
            return NoPlan(
                sentence=f"on no node it would fit without the pods of a priority below {priority}"
                " that may be evicted"
            )


def promised(books: Books, uid: str, priority: int) -> frozenset[str]:
    """Return the UIDs of those who leave for the nominations that a pod has to wait for."""
    attempts = books.preemption.attempts
    return frozenset(
        victim.uid
        for kept in books.ledger.nominations_ahead(priority, uid)
        if kept.pod.uid in attempts
        for victim in attempts[kept.pod.uid].victims
    )


def reserved(books: Books, pod: request.PodKey, priority: int) -> quota.Used:
    """Return what those that a pod has to wait for will take of the quota of its namespace."""
    found: dict[str, quota.Amount] = {}
    for kept in books.ledger.nominations_ahead(priority, pod.uid):
        if kept.pod.namespace == pod.namespace:
            for vendor, amount in kept.holding.against_quota.items():
                found[vendor] = found.get(vendor, quota.NOTHING) + amount
    return found


def _victims(found: leaving.Leaving) -> tuple[Victim, ...]:
    return tuple(
        Victim(
            key=record.key,
            priority=record.priority,
            budgets_broken=tuple(map(str, found.broken.get(record.key.uid, ()))),
        )
        for record in found.pods
    )
