"""What each pod holds of each card, as columns: for questions about who would have to go.

The columns of the cards hold sums. Whoever takes pods off in thought needs the summands,
for thousands of nodes at once, so they are kept up with every change.
"""

import collections
import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from vgpu_operator.ledger import charges, columns, nodes, pods
from vgpu_operator.model import records

NOBODY: Final = 0
"""The number of no pod: blank entries have it."""

NOT_STARTED: Final = 2**62
"""Start of a pod that no kubelet has seen: later than any other, as kube-scheduler has it."""

NEVER_SAID: Final = 2**61
"""End of the grace period of a pod that is being deleted and does not say it."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_FIELDS: Final = 6


class Entries:
    """One vendor's cards and who holds something of them; one entry for each pod and card.

    Arrays of int64, shape ``(n_entries,)``: ``row`` and ``column`` of the card, the amounts
    in the units of ``columns``, and ``pod``, the pod's number. A blank entry is ``NOBODY``'s.
    """

    def __init__(self) -> None:
        self._of: dict[int, list[int]] = {}
        self._blank: list[int] = []
        self._end = 0
        self._cells: columns.IntArray = np.zeros((_FIELDS, 64), dtype=np.int64)

    def of(self, pod: int) -> Sequence[int]:
        """Return where that pod's entries are."""
        return self._of.get(pod, ())

    def put(self, pod: int, amounts: Iterable[tuple[columns.Place, charges.Charge]]) -> None:
        """Replace the pod's entries."""
        for at in self._of.pop(pod, ()):
            self._cells[:, at] = 0
            self._blank.append(at)
        for (row, column), amount in amounts:
            at = self._blank.pop() if self._blank else self._end
            if at == self._end:
                self._end += 1
                if self._end > self._cells.shape[1]:
                    self._cells = np.concatenate((self._cells, np.zeros_like(self._cells)), axis=1)
            self._cells[:, at] = (
                row,
                column,
                amount.slots,
                amount.memory_mib,
                amount.cores_percent,
                pod,
            )
            self._of.setdefault(pod, []).append(at)

    @property
    def row(self) -> columns.IntArray:
        """Row of the card."""
        return self._cells[0, : self._end]

    @property
    def column(self) -> columns.IntArray:
        """Column of the card."""
        return self._cells[1, : self._end]

    @property
    def slots(self) -> columns.IntArray:
        """Slots that are held."""
        return self._cells[2, : self._end]

    @property
    def memory_mib(self) -> columns.IntArray:
        """Memory that is held."""
        return self._cells[3, : self._end]

    @property
    def cores(self) -> columns.IntArray:
        """Cores that are held."""
        return self._cells[4, : self._end]

    @property
    def pod(self) -> columns.IntArray:
        """Whose entry it is."""
        return self._cells[5, : self._end]


class Stakes:
    """The pods that hold anything, by number, and their entries by vendor.

    A number is a pod's as long as it holds anything. Arrays of shape ``(n_pods,)``, by number:
    ``priority``; ``started`` in microseconds, ``NOT_STARTED`` where no kubelet has seen it;
    ``stays`` (bound and not being deleted) and ``going`` (being deleted): a pod whose binding
    is under way is neither; ``leaves_by``, the end of its grace period in microseconds;
    ``kind``, the number of its kind: pods of one kind have the same namespace, labels and
    PriorityClass, and are alike in whether they are pending, and ready.

    Args:
        book: the nodes whose cards are held.
    """

    def __init__(self, book: nodes.Nodes) -> None:
        self._book = book
        self.entries = {vendor: Entries() for vendor in book.cells}
        self._pods: list[pods.Pod | None] = [None]
        self._numbers: dict[str, int] = {}
        self._on: dict[str, dict[int, None]] = {}
        self._where: dict[int, str] = {}
        self._blank: list[int] = []
        self._priority: columns.IntArray = np.zeros(64, dtype=np.int64)
        self._started: columns.IntArray = np.zeros(64, dtype=np.int64)
        self._stays: columns.BoolArray = np.zeros(64, dtype=np.bool_)
        self._going: columns.BoolArray = np.zeros(64, dtype=np.bool_)
        self._leaves_by: columns.IntArray = np.zeros(64, dtype=np.int64)
        self._kind: columns.IntArray = np.zeros(64, dtype=np.int64)
        self._kinds = _Kinds()
        self._priorities: collections.Counter[int] = collections.Counter()
        self._counted: dict[int, int] = {}
        self._changes = 0

    def put(self, pod: pods.Pod) -> None:
        """Take in what a pod holds now."""
        uid, held = pod.key.uid, pod.holding
        number = self._numbers.get(uid)
        if held is None:
            if number is not None:
                self._drop(uid, number)
            return
        if number is None:
            number = self._number(pod)
        node = self._where.get(number)
        if node != held.node:
            self._leave(number)
            self._where[number] = held.node
            self._on.setdefault(held.node, {})[number] = None
        places = self._book.places(held.node, held.charges)
        for vendor, entries in self.entries.items():
            entries.put(number, places.get(vendor, ()))
        self.note(pod)

    def note(self, pod: pods.Pod) -> None:
        """Take in how a pod stands whose holding is as before."""
        number = self._numbers.get(pod.key.uid)
        if number is None:
            return
        record, held = pod.record, pod.holding
        kind = self._kinds.move(int(self._kind[number]), record)
        if kind != self._kind[number]:
            self._kind[number] = kind
            self._changes += 1
        is_bound = record is not None and held is not None and record.node == held.node
        is_going = record is not None and record.deleting
        stands = (
            record.priority if record is not None else 0,
            _started(record),
            is_bound and not is_going,
            is_bound and is_going,
            _leaves_by(record),
        )
        before = (
            int(self._priority[number]),
            int(self._started[number]),
            bool(self._stays[number]),
            bool(self._going[number]),
            int(self._leaves_by[number]),
        )
        if stands != before:
            self._changes += 1
            (
                self._priority[number],
                self._started[number],
                self._stays[number],
                self._going[number],
                self._leaves_by[number],
            ) = stands
        self._count(number, None if is_going else stands[0])

    def record(self, number: int) -> records.PodRecord | None:
        """Return the pod of that number as last observed."""
        pod = self._pods[number]
        return pod.record if pod is not None else None

    @property
    def nobody(self) -> columns.BoolArray:
        """Return by number what holds of no pod."""
        return np.zeros(len(self._pods), dtype=np.bool_)

    def of_kinds(self, holds: Callable[[records.PodRecord], bool]) -> columns.BoolArray:
        """Return by number what holds of each pod; asked once of each kind."""
        of_kind = (one is not None and holds(one) for one in self._kinds.examples)
        return np.fromiter(of_kind, dtype=np.bool_)[self._kind[: len(self._pods)]]

    def holding(self, number: int) -> charges.Holding | None:
        """Return what the pod of that number holds."""
        pod = self._pods[number]
        return pod.holding if pod is not None else None

    def in_namespace(self, namespace: str) -> Iterator[tuple[int, charges.Holding]]:
        """Yield number and holding of the pods of one namespace."""
        for number, pod in enumerate(self._pods):
            if pod is not None and pod.key.namespace == namespace and pod.holding is not None:
                yield number, pod.holding

    def uid(self, number: int) -> str:
        """Return the UID of the pod of that number."""
        pod = self._pods[number]
        return pod.key.uid if pod is not None else ""

    def on(self, node: str) -> Collection[int]:
        """Return the numbers of the pods that hold anything on a node."""
        return self._on.get(node, {}).keys()

    @property
    def priority(self) -> columns.IntArray:
        """Priorities."""
        return self._priority[: len(self._pods)]

    @property
    def started(self) -> columns.IntArray:
        """When kubelet saw the pods first."""
        return self._started[: len(self._pods)]

    @property
    def stays(self) -> columns.BoolArray:
        """Whether a pod is bound and nobody has deleted it."""
        return self._stays[: len(self._pods)]

    @property
    def going(self) -> columns.BoolArray:
        """Whether a pod is bound and being deleted."""
        return self._going[: len(self._pods)]

    @property
    def leaves_by(self) -> columns.IntArray:
        """When the grace period of a pod ends that is being deleted."""
        return self._leaves_by[: len(self._pods)]

    @property
    def changes(self) -> int:
        """Grows whenever a pod stands otherwise; what it holds is the ledger's to count."""
        return self._changes

    def numbers(self, uids: Iterable[str]) -> list[int]:
        """Return the numbers of those of the pods that hold anything."""
        found = (self._numbers.get(uid) for uid in uids)
        return [number for number in found if number is not None]

    def lowest_priority(self) -> int | None:
        """Return the lowest priority of the pods that nobody has deleted; None without any.

        Those whose binding is under way count: a moment later they are bound.
        """
        return min(self._priorities, default=None)

    def _count(self, number: int, priority: int | None) -> None:
        """Count a pod's priority in place of the one that it was counted with; None: no more."""
        before = self._counted.pop(number, None)
        if before is not None:
            self._priorities[before] -= 1
            if not self._priorities[before]:
                del self._priorities[before]
        if priority is not None:
            self._counted[number] = priority
            self._priorities[priority] += 1

    def _number(self, pod: pods.Pod) -> int:
        if self._blank:
            number = self._blank.pop()
            self._pods[number] = pod
        else:
            number = len(self._pods)
            self._pods.append(pod)
            if number >= len(self._priority):
                for name in ("_priority", "_started", "_stays", "_going", "_leaves_by", "_kind"):
                    held = getattr(self, name)
                    setattr(self, name, np.concatenate((held, np.zeros_like(held))))
        self._numbers[pod.key.uid] = number
        return number

    def _drop(self, uid: str, number: int) -> None:
        for entries in self.entries.values():
            entries.put(number, ())
        self._leave(number)
        self._pods[number] = None
        self._kind[number] = self._kinds.move(int(self._kind[number]), None)
        self._stays[number] = self._going[number] = False
        self._changes += 1
        self._count(number, None)
        self._blank.append(number)
        del self._numbers[uid]

    def _leave(self, number: int) -> None:
        node = self._where.pop(number, None)
        if node is None:
            return
        del self._on[node][number]
        if not self._on[node]:
            del self._on[node]


class _Kinds:
    """What pods have in common that are alike; the number of pods that nobody has seen is 0.

    Attributes:
        examples: a pod of each kind, by the kind's number; None where no pod has that number.
    """

    def __init__(self) -> None:
        self.examples: list[records.PodRecord | None] = [None]
        self._numbers: dict[tuple[object, ...], int] = {}
        self._many: list[int] = [0]
        self._blank: list[int] = []

    def move(self, before: int, record: records.PodRecord | None) -> int:
        """Count a pod of that kind as what it is now, and return the number of that."""
        example = self.examples[before]
        if record is not None and example is not None and _kind(record) == _kind(example):
            return before
        if record is None and example is None:
            return before
        if example is not None:
            self._many[before] -= 1
            if not self._many[before]:
                del self._numbers[_kind(example)]
                self.examples[before] = None
                self._blank.append(before)
        return 0 if record is None else self._add(record)

    def _add(self, record: records.PodRecord) -> int:
        number = self._numbers.get(_kind(record))
        if number is None:
            if self._blank:
                number = self._blank.pop()
                self.examples[number] = record
            else:
                number = len(self.examples)
                self.examples.append(record)
                self._many.append(0)
            self._numbers[_kind(record)] = number
        self._many[number] += 1
        return number


def _kind(record: records.PodRecord) -> tuple[object, ...]:
    """Return what decides of the kind; equal labels are one object, which the example keeps."""
    waits = record.phase == "Pending"
    return record.key.namespace, id(record.labels), record.priority_class, waits, record.ready


def _started(record: records.PodRecord | None) -> int:
    """Return when kubelet saw a pod first, in microseconds; ``NOT_STARTED`` if it has not."""
    if record is None or record.started is None:
        return NOT_STARTED
    return microseconds(record.started)


def microseconds(time: datetime.datetime) -> int:
    """Return a time as the columns hold it."""
    return (time - _EPOCH) // _MICROSECOND


def _leaves_by(record: records.PodRecord | None) -> int:
    if record is None or record.leaves_by is None:
        return NEVER_SAID
    return microseconds(record.leaves_by)
