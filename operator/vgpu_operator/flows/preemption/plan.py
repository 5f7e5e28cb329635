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
from typing import TypeAlias

from vgpu_operator.flows import leaving, locks
from vgpu_operator.flows.books import Books
from vgpu_operator.model import allocation, records, request
from vgpu_operator.model.budgets import Budget


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
) -> Answer:
    """Return who is to be evicted for a pod.

    What other pods claim or are nominated for counts as used, that of lower priority
    excepted. Nodes whose lock is stuck are left out: no eviction helps there.

    Args:
        books: what is known; nothing in it changes.
        wish: the pod.
        priority: of the pod.
        nodes: those that kube-scheduler offered.
        budgets: all PodDisruptionBudgets.
        may_go: which pods may be evicted besides.
        now: the time.
        min_gap: how much lower the priority of an evicted pod is at least.
    """
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
            budgets=budgets,
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


def _victims(found: leaving.Leaving) -> tuple[Victim, ...]:
    return tuple(
        Victim(
            key=record.key,
            priority=record.priority,
            budgets_broken=tuple(map(str, found.broken.get(record.key.uid, ()))),
        )
        for record in found.pods
    )
