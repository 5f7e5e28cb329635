"""Which pods would have to leave a node so that another one fits: as few as possible.

The scheduling code judges every try (``scheduling.preempt``, ``scheduling.victims``). Which
pods may go, which budgets are kept, and what else a node needs is the caller's to say.
"""

import dataclasses
import datetime
import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from vgpu_operator.flows import disruption, quotas
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import columns, snapshot
from vgpu_operator.model import allocation, quota, records, request
from vgpu_operator.model.budgets import Budget
from vgpu_operator.scheduling import preempt, trial, victims

MOST_NODES: Final = 128
"""Nodes on which sets are looked for once some node has one. Where more of them might do as
well, the others would differ in the start of their pods only, or in what no bound shows."""

MOST_BY_HAND: Final = 16
"""The same of nodes that vendors judge by rules of their own, the likeliest first."""

MOST_TRIES: Final = 100_000
"""Sets that are tried on all nodes together; on further nodes pods come back one by one."""

MOST_BLOCKED: Final = 16
"""Nodes on which it is looked which budgets are in the way, the likeliest first."""

_FIRST_NODES: Final = 8
_TOGETHER: Final = 128

HIGHEST_PRIORITY: Final = 2**31 - 1


def _always(_record: records.PodRecord) -> bool:
    return True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """For whom room is to be made, and at whose cost.

    Attributes:
        wish: the pod that is to fit.
        nodes: names.
        highest: the highest priority of a pod that may go.
        may_go: which pods may go besides.
        exempt: which pods may not go for what all pods of their kind have in common, as
            ``ledger.stakes`` tells kinds apart; ``may_go`` says the same of them.
        budgets: that are not to be broken.
        opens: whether a node takes the pod, its cards aside, without the pods of those UIDs;
            None: every node does.
        prefer: what counts first between nodes.
        even_going: pods that are being deleted already are asked to go like others.
        going_between: of those that are being deleted, only the ones go by themselves whose
            grace period ends between these times; None = all do.
        promised: UIDs of pods that are about to be deleted for somebody else.
        lingering: UIDs of pods that are being deleted and that nobody counts on.
        reserved: what others take first of the quota of the pod's namespace, by vendor.
    """

    wish: request.PodRequest
    nodes: Sequence[str]
    highest: int = HIGHEST_PRIORITY
    may_go: Callable[[records.PodRecord], bool] = _always
    exempt: Callable[[records.PodRecord], bool] | None = None
    budgets: Collection[Budget] = ()
    opens: Callable[[str, Collection[str]], bool] | None = None
    prefer: preempt.Prefer = preempt.Prefer.LEAST_IMPORTANT
    even_going: bool = False
    going_between: tuple[datetime.datetime, datetime.datetime] | None = None
    promised: Collection[str] = ()
    lingering: Collection[str] = ()
    reserved: quota.Used = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A node that takes the pod once those are gone that are being deleted already.

    Attributes:
        pods: those; empty where it takes the pod as things are.
    """

    node: str
    pods: tuple[request.PodKey, ...]
    allocation: allocation.Allocation


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """Pods that would have to leave one node.

    Attributes:
        pods: the least important first.
        allocation: what the other one gets then.
        broken: which budgets that breaks.
        exact: no smaller set that may go does, on this node or, where few count first, on any.
    """

    node: str
    pods: tuple[records.PodRecord, ...]
    allocation: allocation.Allocation
    broken: disruption.Broken
    exact: bool

    @property
    def highest_priority(self) -> int:
        """Of the pods."""
        return max(record.priority for record in self.pods)


def cheapest(books: Books, view: snapshot.Snapshot, question: Question) -> Room | Leaving | None:
    """Return who would have to leave which node; None where nobody's leaving would help.

    On each node the fewest, then the least important; between the nodes as preferred. Sets
    that break a budget are answered only where all do.

    Args:
        books: what is known.
        view: of its ledger, with what is not to be counted on.
        question: who asks.
    """
    wish = question.wish
    if wish.impossible or not wish.wants_devices:
        return None
    allowances = quotas.allowances(books, wish.pod)
    left = {
        vendor: allowance.less(question.reserved.get(vendor, quota.NOTHING))
        for vendor, allowance in allowances.items()
    }
    rules = books.defaults.rules(wish, left)
    asked = trial.Trial(
        view=view,
        held=books.ledger.stakes,
        rules=rules,
        wish=wish,
        is_going_counted=question.even_going,
        going_between=question.going_between,
        promised=question.promised,
        lingering=question.lingering,
    )
    limits = disruption.limits_of(question.budgets)
    nobody = asked.held.nobody
    exempt = asked.held.of_kinds(question.exempt) if question.exempt is not None else nobody
    kept = _kept(books, limits) if question.budgets else nobody

    def search(kept: columns.BoolArray) -> _Search:
        survey = preempt.survey(
            asked,
            question.nodes,
            highest=question.highest,
            prefer=question.prefer,
            even_fitting=question.opens is not None,
            kept=kept,
        )
        return _Search(asked=asked, survey=survey, question=question, limits=limits)

    first = search(exempt | kept)
    if first.survey.fitting:
        return _room(asked, first.survey.fitting)
    found = first.unbroken()
    if found is not None or not question.budgets:
        return found
    return (search(exempt) if kept.any() else first).breaking()


def _kept(books: Books, limits: disruption.Limits) -> columns.BoolArray:
    """Return by number whether a pod's eviction breaks a budget whoever else goes."""
    held = books.ledger.stakes
    kept = held.of_kinds(limits.keeps_alike)
    for namespace, name in limits.disrupted():
        record = books.ledger.record_of(namespace, name)
        if record is not None:
            kept[held.numbers((record.key.uid,))] = limits.keeps(record)
    return kept


def _room(asked: trial.Trial, nodes: Iterable[str]) -> Room | None:
    """Return the first of the nodes on which the fewest pods are on their way out."""
    held = asked.held

    def going(node: str) -> list[request.PodKey]:
        there = (held.record(number) for number in held.on(node) if asked.going[number])
        return sorted(record.key for record in there if record is not None)

    _, node = min((len(going(node)), node) for node in nodes)
    row = asked.view.row(node)
    granted = asked.allocation(row, ()) if row is not None else None
    if granted is None:
        return None
    return Room(node=node, pods=tuple(going(node)), allocation=granted)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Here:
    """One node with the pods that may go there, the least important first.

    Attributes:
        numbers: of the pods, as ``ledger.stakes`` counts them.
    """

    prospect: preempt.Prospect
    numbers: tuple[int, ...]
    pods: tuple[records.PodRecord, ...]

    def chosen(self, found: victims.Found) -> tuple[records.PodRecord, ...]:
        """Return the pods of a set."""
        return tuple(self.pods[place] for place in found.places)


_Set: TypeAlias = tuple[_Here, victims.Found]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """One search, node after node."""

    asked: trial.Trial
    survey: preempt.Survey
    question: Question
    limits: disruption.Limits

    def unbroken(self) -> Room | Leaving | None:
        """Return the cheapest set that breaks no budget, or a node that needs none."""
        best: _Set | None = None
        looked_at, is_complete = 0, True
        for prospects in _batches(self.survey.prospects(by_hand=False)):
            better = [one for one in prospects if best is None or one.bound < best[1].cost]
            if not better:  # nor is any of those that follow
                break
            if best is not None and (looked_at >= MOST_NODES or self.asked.tries >= MOST_TRIES):
                is_complete = False
                break
            best = self._cheaper(best, better)
            looked_at += len(better)
        alone = list(itertools.islice(self.survey.prospects(by_hand=True), MOST_BY_HAND + 1))
        is_complete &= len(alone) <= MOST_BY_HAND
        for prospect in alone[:MOST_BY_HAND]:
            best = self._cheaper(best, [prospect])
        return None if best is None else self._answer(best, is_complete=is_complete)

    def breaking(self) -> Leaving | None:
        """Return the set that breaks the fewest budgets, then the cheapest."""
        alone = itertools.islice(self.survey.prospects(by_hand=True), MOST_BY_HAND)
        together = itertools.islice(self.survey.prospects(by_hand=False), MOST_BLOCKED)
        heres = [self._here(one, unbroken=False) for one in itertools.chain(together, alone)]
        found = self._sets(heres, unbroken=False)
        if not found:
            return None
        best = min(found, key=lambda one: (len(self._broken(one)), one[1].cost))
        answer = self._answer(best, is_complete=False)
        return answer if isinstance(answer, Leaving) else None

    def _cheaper(self, best: _Set | None, prospects: Sequence[preempt.Prospect]) -> _Set | None:
        heres = [self._here(prospect, unbroken=True) for prospect in prospects]
        found = self._sets(heres, unbroken=True)
        if best is not None:
            found.append(best)
        return min(found, key=lambda one: one[1].cost, default=None)

    def _sets(self, heres: Sequence[_Here], *, unbroken: bool) -> list[_Set]:
        """Return the best set of each node that has one."""
        heres = [here for here in heres if here.pods or here.prospect.by_hand]
        tasks = [self._task(here, unbroken=unbroken) for here in heres]
        found = victims.smallest(self.asked, self.survey, tasks)
        return [(here, one) for here, one in zip(heres, found, strict=True) if one is not None]

    def _here(self, prospect: preempt.Prospect, *, unbroken: bool) -> _Here:
        """Return who may go; ``unbroken``: without those whose leaving breaks a budget."""
        held, question = self.asked.held, self.question
        is_closed = question.opens is not None and not question.opens(prospect.node, ())
        found = []
        for number in held.on(prospect.node):
            if not self.asked.staying[number] or held.priority[number] > question.highest:
                continue
            record = held.record(number)
            if record is None or not (is_closed or self.survey.useful[number]):
                continue
            if question.may_go(record) and not (unbroken and self.limits.keeps(record)):
                turn = record.priority, -held.started[number], record.key, number
                found.append((turn, number, record))
        found.sort(key=operator.itemgetter(0))
        return _Here(
            prospect=prospect,
            numbers=tuple(number for _, number, _ in found),
            pods=tuple(record for *_, record in found),
        )

    def _task(self, here: _Here, *, unbroken: bool) -> victims.Task:
        opens = self.question.opens
        limits, node = self.limits, here.prospect.node
        broken = limits.broken(reversed(here.pods))
        most = victims.MOST_BY_HAND if here.prospect.by_hand else victims.MOST_TRIES
        if not unbroken or self.asked.tries >= MOST_TRIES:
            most = 0

        def permits(places: victims.Places) -> bool:
            return not limits.broken(here.pods[place] for place in places)

        def opened(places: victims.Places) -> bool:
            gone = {here.pods[place].key.uid for place in places}
            return opens is None or opens(node, gone)

        return victims.Task(
            prospect=here.prospect,
            numbers=here.numbers,
            permits=permits if broken and unbroken else None,
            opens=None if opens is None else opened,
            reluctant=frozenset(
                place for place, record in enumerate(here.pods) if record.key.uid in broken
            ),
            most_tries=most,
        )

    def _broken(self, one: _Set) -> disruption.Broken:
        here, found = one
        return self.limits.broken(reversed(here.chosen(found)))

    def _answer(self, one: _Set, *, is_complete: bool) -> Room | Leaving | None:
        here, found = one
        numbers = [here.numbers[place] for place in found.places]
        if not numbers:
            return _room(self.asked, (here.prospect.node,))
        granted = self.asked.allocation(here.prospect.row, numbers)
        if granted is None:
            return None
        is_one = len(numbers) == 1 and self.question.prefer is preempt.Prefer.FEWEST
        return Leaving(
            node=here.prospect.node,
            pods=here.chosen(found),
            allocation=granted,
            broken=self._broken(one),
            exact=found.exact and (is_complete or is_one),
        )


def _batches(prospects: Iterator[preempt.Prospect]) -> Iterator[list[preempt.Prospect]]:
    """Yield a few at first, more and more later."""
    size = _FIRST_NODES
    while batch := list(itertools.islice(prospects, size)):
        yield batch
        size = min(2 * size, _TOGETHER)
