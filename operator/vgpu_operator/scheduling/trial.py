"""Nodes as they would be without some of their pods: the walk judges, nothing is copied."""

import datetime
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, snapshot, stakes
from vgpu_operator.model import allocation, quota, request
from vgpu_operator.scheduling import cards, grants, stages, walk

AT_ONCE: Final = 8192
"""Lanes that are laid out together: about 10 MiB for eight cards each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """What each pod leaves of one vendor's quota of the namespace, by its number; 0 elsewhere."""

    memory_mib: columns.IntArray
    cores: columns.IntArray


@dataclass(slots=True, kw_only=True)
class Trial:
    """One pod's question, asked of nodes from which other pods are gone.

    Attributes:
        view: the ledger.
        held: what each pod holds of each card, of the same moment.
        rules: of the pod.
        wish: of the pod.
        is_going_counted: pods that are being deleted hold what they hold, like others.
        going_between: pods that are being deleted go by themselves where their grace period
            ends between these times; None = all do.
        promised: UIDs of pods that are about to be deleted: they go like those.
        lingering: UIDs of pods that are not counted on, though they are being deleted.
        going: by number, the pods that are counted nowhere, because they go by themselves.
        staying: by number, the other pods that are bound.
        returns: by vendor what pods of its namespace leave it, where that is limited.
        tries: lanes that were judged.
    """

    view: snapshot.Snapshot
    held: stakes.Stakes
    rules: stages.Rules
    wish: request.PodRequest
    is_going_counted: bool = False
    going_between: tuple[datetime.datetime, datetime.datetime] | None = None
    promised: Collection[str] = ()
    lingering: Collection[str] = ()
    going: columns.BoolArray = field(init=False)
    staying: columns.BoolArray = field(init=False)
    returns: dict[str, Returns] = field(default_factory=dict)
    tries: int = 0

    def __post_init__(self) -> None:
        self.going, self.staying = self._leavers()
        for keyword in self.wish.vendors:
            if self.rules.allowances.get(keyword, quota.UNLIMITED) != quota.UNLIMITED:
                self.returns[keyword] = self._returns(keyword)

    def _leavers(self) -> tuple[columns.BoolArray, columns.BoolArray]:
        """Return who goes by itself, and who stays unless somebody sends it away."""
        held = self.held
        if self.is_going_counted:
            return np.zeros_like(held.going), held.stays | held.going
        going, staying = held.going, held.stays
        if self.going_between is not None:
            first, last = map(stakes.microseconds, self.going_between)
            is_said = held.leaves_by != stakes.NEVER_SAID
            going = going & ~(is_said & ((held.leaves_by < first) | (held.leaves_by > last)))
        if self.promised or self.lingering:
            going, staying = going.copy(), staying.copy()
            promised = held.numbers(self.promised)
            going[promised] = held.stays[promised] | going[promised]
            staying[promised] = False
            going[held.numbers(self.lingering)] = False
        return going, staying

    def without(
        self, pods: columns.BoolArray, lanes: cards.Lanes, lane_of_row: npt.NDArray[np.intp]
    ) -> cards.Gone:
        """Return those pods taken off wherever they are.

        Args:
            pods: by number.
            lanes: the rows.
            lane_of_row: -1 for rows that are not among them.
        """
        amounts = {}
        for keyword in self.wish.vendors:
            entries = self.held.entries.get(keyword)
            if entries is not None:
                at = np.flatnonzero(pods[entries.pod])
                lane = lane_of_row[entries.row[at]]
                amounts[keyword] = _amounts(entries, at[lane >= 0], lane[lane >= 0])
        rows = np.arange(self.view.n_rows)[lanes]
        memory_mib, cores = {}, {}
        for keyword, returns in self.returns.items():
            numbers = np.flatnonzero(pods & ((returns.memory_mib != 0) | (returns.cores != 0)))
            lane = lane_of_row[self._rows_of(numbers)]
            numbers, lane = numbers[lane >= 0], lane[lane >= 0]
            memory_mib[keyword] = _summed(lane, returns.memory_mib[numbers], len(rows))
            cores[keyword] = _summed(lane, returns.cores[numbers], len(rows))

        def gone(lane: int) -> Collection[str]:
            there = self.held.on(self.view.name(int(rows[lane])))
            return {self.held.uid(number) for number in there if pods[number]}

        return cards.Gone(amounts=amounts, memory_mib=memory_mib, cores=cores, pods=gone)

    def fits(
        self,
        rows: npt.NDArray[np.intp],
        lane_of_pod: npt.NDArray[np.intp],
        pods: npt.NDArray[np.intp],
    ) -> columns.BoolArray:
        """Return whether the pod fits on each lane without some pods; shape ``(n_lanes,)``.

        Those that go by themselves are not there either.

        Args:
            rows: the nodes; one may come many times.
            lane_of_pod: from which lane each of ``pods`` is taken off, rising.
            pods: numbers.
        """
        found = []
        for start in range(0, len(rows), AT_ONCE):
            first, end = np.searchsorted(lane_of_pod, (start, start + AT_ONCE))
            gone = self._off(
                rows[start : start + AT_ONCE], lane_of_pod[first:end] - start, pods[first:end]
            )
            found.append(self._walk(rows[start : start + AT_ONCE], gone, choosing=False).fits)
        return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)

    def allocation(self, row: int, gone: Sequence[int]) -> allocation.Allocation | None:
        """Return what the pod would get on that node without those pods; None if nothing."""
        rows, pods = np.array([row], dtype=np.intp), np.array(gone, dtype=np.intp)
        off = self._off(rows, np.zeros(len(pods), dtype=np.intp), pods)
        outcome = self._walk(rows, off, choosing=True)
        if not outcome.fits[0]:
            return None
        shares = grants.shares_on(self.view, row, 0, outcome, self.rules, self.wish)
        return allocation.Allocation(node=self.view.name(row), shares=shares)

    def _walk(
        self, rows: npt.NDArray[np.intp], gone: cards.Gone, *, choosing: bool
    ) -> stages.Outcome:
        self.tries += len(rows)
        alive = np.ones(len(rows), dtype=np.bool_)
        return walk.walk(self.view, rows, self.rules, alive, choosing=choosing, gone=gone)

    def _off(
        self,
        rows: npt.NDArray[np.intp],
        lane_of_pod: npt.NDArray[np.intp],
        pods: npt.NDArray[np.intp],
    ) -> cards.Gone:
        """Return the pods that are taken off each lane, those that are going by themselves too."""
        if self.going.any():
            lane_of_pod, pods = self._with_going(rows, lane_of_pod, pods)

        def gone(lane: int) -> Collection[str]:
            return {self.held.uid(number) for number in pods[lane_of_pod == lane].tolist()}

        return cards.Gone(
            amounts={
                keyword: self._amounts_of(keyword, lane_of_pod, pods)
                for keyword in self.wish.vendors
                if keyword in self.held.entries
            },
            memory_mib={
                keyword: _summed(lane_of_pod, returns.memory_mib[pods], len(rows))
                for keyword, returns in self.returns.items()
            },
            cores={
                keyword: _summed(lane_of_pod, returns.cores[pods], len(rows))
                for keyword, returns in self.returns.items()
            },
            pods=gone,
        )

    def _with_going(
        self,
        rows: npt.NDArray[np.intp],
        lane_of_pod: npt.NDArray[np.intp],
        pods: npt.NDArray[np.intp],
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        different, which = np.unique(rows, return_inverse=True)
        there = [
            [number for number in self.held.on(self.view.name(row)) if self.going[number]]
            for row in different.tolist()
        ]
        more = [(lane, number) for lane, of in enumerate(which.tolist()) for number in there[of]]
        added = np.array(more, dtype=np.intp).reshape(-1, 2)
        return (
            np.concatenate((lane_of_pod, added[:, 0])),
            np.concatenate((pods, added[:, 1])),
        )

    def _amounts_of(
        self, keyword: str, lane_of_pod: npt.NDArray[np.intp], pods: npt.NDArray[np.intp]
    ) -> cards.Amounts:
        """Return what these pods hold of one vendor's cards, each on its lane."""
        entries = self.held.entries[keyword]
        different, which = np.unique(pods, return_inverse=True)
        places = [entries.of(number) for number in different.tolist()]
        many = np.fromiter(map(len, places), dtype=np.intp, count=len(places))
        flat = np.fromiter((at for of in places for at in of), dtype=np.intp, count=many.sum())
        first = np.cumsum(many) - many
        times = many[which]
        within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        return _amounts(
            entries, flat[np.repeat(first[which], times) + within], np.repeat(lane_of_pod, times)
        )

    def _rows_of(self, numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        found = []
        for number in numbers.tolist():
            held = self.held.holding(number)
            row = self.view.row(held.node) if held is not None else None
            found.append(-1 if row is None else row)
        return np.array(found, dtype=np.intp)

    def _returns(self, keyword: str) -> Returns:
        memory_mib = np.zeros(len(self.held.priority), dtype=np.int64)
        cores = np.zeros_like(memory_mib)
        for number, held in self.held.in_namespace(self.wish.pod.namespace):
            amount = held.against_quota.get(keyword, quota.NOTHING)
            memory_mib[number], cores[number] = amount.memory_mib, amount.cores
        return Returns(memory_mib=memory_mib, cores=cores)


def _amounts(
    entries: stakes.Entries, at: npt.NDArray[np.intp], lane: npt.NDArray[np.intp]
) -> cards.Amounts:
    return cards.Amounts(
        lane=lane,
        column=entries.column[at],
        slots=entries.slots[at],
        memory_mib=entries.memory_mib[at],
        cores=entries.cores[at],
    )


def _summed(
    lane: npt.NDArray[np.intp], amounts: columns.IntArray, n_lanes: int
) -> columns.IntArray:
    total = np.zeros(n_lanes, dtype=np.int64)
    np.add.at(total, lane, amounts)
    return total
