"""The fewest pods of one node whose leaving makes room, for many nodes in the same steps.

Sets are tried by size, all of one size together, as lanes of one walk. Where there are too
many of them it is done as kube-scheduler does it: all leave, then each comes back that can.
"""

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, stakes
from vgpu_operator.scheduling import preempt, trial

MOST_TRIES: Final = 2000
"""Sets that are tried on one node: up to two of 60 pods, up to four of 16."""

MOST_BY_HAND: Final = 200
"""The same where a vendor judges the node by rules of its own, which takes 100 times as long."""

Places: TypeAlias = tuple[int, ...]
"""Candidates of one task, by their places among them, rising."""

_Sets: TypeAlias = npt.NDArray[np.intp]
"""Sets of one size, by place, each rising; shape ``(n_sets, size)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One node.

    Attributes:
        prospect: the node.
        numbers: of the candidates, those who may go, the least important first.
        permits: whether a set may go; what is part of one that may go may go too.
        opens: whether the node takes the pod without a set, its cards aside.
        reluctant: candidates that come back first, where not all sets are tried.
        most_tries: sets that are tried.
    """

    prospect: preempt.Prospect
    numbers: Sequence[int]
    permits: Callable[[Places], bool] | None = None
    opens: Callable[[Places], bool] | None = None
    reluctant: frozenset[int] = frozenset()
    most_tries: int = MOST_TRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A set of pods.

    Attributes:
        places: who goes; nobody where the node takes the pod as it is.
        cost: to be compared with that of other nodes.
        exact: no smaller set does.
    """

    places: Places
    cost: preempt.Cost
    exact: bool


class _Work:
    """A task that is worked on."""

    def __init__(self, asked: trial.Trial, task: Task) -> None:
        self.task = task
        self.size = 0 if task.prospect.by_hand else task.prospect.fewest
        self.tries = 0
        self.found: Found | None = None
        self.groups = tuple(_groups(asked, task))
        self.numbers = np.array(task.numbers, dtype=np.intp)
        self._priority = asked.held.priority[self.numbers]
        self._started = asked.held.started[self.numbers]

    @property
    def everybody(self) -> _Sets:
        """All candidates, as the only set."""
        return np.arange(len(self.numbers))[None, :]

    def sets(self) -> _Sets | None:
        """Return the next sets, all of one size; none where all were tried, None if too many."""
        largest = max(map(len, self.groups), default=0)
        while self.size <= largest:
            self.tries += sum(math.comb(len(group), self.size) for group in self.groups)
            if self.tries > self.task.most_tries:
                return None
            drawn = [group[_combinations(len(group), self.size)] for group in self.groups]
            self.size += 1
            allowed = self.allowed(np.concatenate(drawn))
            if len(allowed):
                return allowed
        return self.everybody[:0]

    def allowed(self, sets: _Sets) -> _Sets:
        """Return those sets that may go and open the node."""
        tests = [test for test in (self.task.permits, self.task.opens) if test is not None]
        if not tests:
            return sets
        allowed = [all(test(tuple(one)) for test in tests) for one in sets.tolist()]
        return sets[np.array(allowed, dtype=np.bool_)]

    def opens(self, places: Iterable[int]) -> bool:
        """Whether the node takes the pod without that set, its cards aside."""
        return self.task.opens is None or self.task.opens(tuple(sorted(places)))

    def settle(self, survey: preempt.Survey, sets: _Sets, *, exact: bool) -> None:
        """Keep the best of sets of one size that all do."""
        if not len(sets):
            return
        if not sets.shape[1]:
            nobody = preempt.cost(
                survey.prefer,
                size=0,
                highest=preempt.LEAST_PRIORITY,
                total=0,
                earliest=stakes.NOT_STARTED,
                node=self.task.prospect.node,
            )
            self.found = Found(places=(), cost=nobody, exact=True)
            return
        priorities = self._priority[sets]
        highest = priorities.max(axis=1)
        total = (priorities - preempt.LEAST_PRIORITY).sum(axis=1)
        leads = priorities == highest[:, None]
        earliest = np.where(leads, self._started[sets], stakes.NOT_STARTED).min(axis=1)
        ties = sets.T[::-1]
        best = np.lexsort((*ties, -earliest, total, highest))[0]
        self.found = Found(
            places=tuple(sets[best].tolist()),
            cost=preempt.cost(
                survey.prefer,
                size=sets.shape[1],
                highest=int(highest[best]),
                total=int(total[best]),
                earliest=int(earliest[best]),
                node=self.task.prospect.node,
            ),
            exact=exact,
        )


def smallest(
    asked: trial.Trial, survey: preempt.Survey, tasks: Sequence[Task]
) -> list[Found | None]:
    """Return for each task the cheapest of its smallest sets; None where none was found.

    Of sets of one size that with the lowest highest priority, then the lowest sum, then
    the latest start, then the one that comes first.

    Args:
        asked: the pod's question.
        survey: of the nodes.
        tasks: nodes, each once.
    """
    works = [_Work(asked, task) for task in tasks]
    fits = _judged(asked, [(work, work.everybody) for work in works])
    left = [work for work, does in zip(works, fits, strict=True) if does[0]]
    given_up: list[_Work] = []
    while left:
        drawn = [(work, work.sets()) for work in left]
        given_up += (work for work, sets in drawn if sets is None)
        rounds = [(work, sets) for work, sets in drawn if sets is not None and len(sets)]
        for (work, sets), does in zip(rounds, _judged(asked, rounds), strict=True):
            work.settle(survey, sets[does], exact=True)
        left = [work for work, _ in rounds if work.found is None]
    _reprieve(asked, survey, given_up)
    return [work.found for work in works]


def _groups(asked: trial.Trial, task: Task) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the pods of each card where one card is what is needed, else all together."""
    if not task.prospect.one_card or task.opens is not None:
        yield np.arange(len(task.numbers))
        return
    by_card: dict[int, list[int]] = {}
    (keyword,) = asked.wish.vendors
    entries = asked.held.entries[keyword]
    for place, number in enumerate(task.numbers):
        for at in entries.of(number):
            by_card.setdefault(int(entries.column[at]), []).append(place)
    for column in sorted(by_card):
        yield np.array(by_card[column], dtype=np.intp)


@functools.lru_cache(maxsize=128)
def _combinations(among: int, size: int) -> _Sets:
    """Return all sets of that size of so many places, each rising; shape ``(n_sets, size)``."""
    drawn = list(itertools.combinations(range(among), size))
    return np.array(drawn, dtype=np.intp).reshape(len(drawn), size)


def _judged(asked: trial.Trial, rounds: Sequence[tuple[_Work, _Sets]]) -> list[columns.BoolArray]:
    """Return whether the pod fits without each of the sets, for each work."""
    if not rounds:
        return []
    many = np.array([len(sets) for _, sets in rounds], dtype=np.intp)
    rows = np.repeat([work.task.prospect.row for work, _ in rounds], many)
    sizes = np.repeat([sets.shape[1] for _, sets in rounds], many)
    pods = np.concatenate([work.numbers[sets].reshape(-1) for work, sets in rounds])
    fits = asked.fits(rows, np.repeat(np.arange(len(rows)), sizes), pods)
    return np.split(fits, np.cumsum(many)[:-1])


def _reprieve(asked: trial.Trial, survey: preempt.Survey, works: Sequence[_Work]) -> None:
    """Let all candidates leave, then each come back that can.

    Twice: in kube-scheduler's order, and with those first that share their cards with many.
    A set that comes out of it has no smaller part that does.
    """
    jobs = [
        (work, order, set(order))
        for work in works
        for order in (_by_importance(work), _by_crowd(work, survey))
    ]
    for step in range(max((len(order) for _, order, _ in jobs), default=0)):
        tried = [(work, order[step], gone) for work, order, gone in jobs if step < len(order)]
        fits = _judged(asked, [(work, _set(gone - {back})) for work, back, gone in tried])
        for (work, back, gone), does in zip(tried, fits, strict=True):
            if does[0] and work.opens(gone - {back}):
                gone.discard(back)
    for work, _, gone in jobs:
        _spare(asked, work, gone)
    for work in works:
        kept = [_set(gone) for one, _, gone in jobs if one is work]
        allowed = [sets for sets in kept if len(work.allowed(sets))]
        fewest = min((sets.shape[1] for sets in allowed), default=0)
        alike = [sets for sets in allowed if sets.shape[1] == fewest]
        prospect = work.task.prospect
        if alike:
            is_bound = not prospect.by_hand and fewest == prospect.fewest
            work.settle(survey, np.concatenate(alike), exact=is_bound)


def _set(places: Collection[int]) -> _Sets:
    return np.array(sorted(places), dtype=np.intp)[None, :]


def _spare(asked: trial.Trial, work: _Work, gone: set[int]) -> None:
    """Take out of a set, one after another, who need not go.

    After a reprieve that is nobody, unless less room somewhere made the walk choose better.
    """
    while gone:
        backs = [place for place in sorted(gone, reverse=True) if work.opens(gone - {place})]
        if not backs:
            return
        sets = np.concatenate([_set(gone - {back}) for back in backs])
        (fits,) = _judged(asked, [(work, sets)])
        if not fits.any():
            return
        gone.discard(backs[int(fits.argmax())])


def _by_importance(work: _Work) -> list[int]:
    """Return who comes back first: whose leaving is worst, then the most important."""
    task = work.task
    places = range(len(task.numbers))
    return sorted(places, key=lambda place: (place not in task.reluctant, -place))


def _by_crowd(work: _Work, survey: preempt.Survey) -> list[int]:
    """Return the same with pods first that share each of their cards with many others."""
    task = work.task
    crowds = survey.crowd[work.numbers].tolist()
    return sorted(
        range(len(crowds)),
        key=lambda place: (place not in task.reluctant, -crowds[place], -place),
    )
