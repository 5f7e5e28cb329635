"""The cards of all nodes as numpy columns, and per node the sums over its cards.

Every node has one row, the same row for all vendors; a vendor's cards of that
node fill columns 0, 1, … of that row, the rest of the row is padding. In the
tables below ``n_rows`` is the number of rows ever in use (rows of forgotten
nodes are blank until another node takes them) and ``n_cards`` the largest
number of cards that any node has had. Arrays are longer than ``n_rows``
(capacity doubles); readers cut them.

Cells, shape ``(n_rows, n_cards)``:

================== ======= ================================================
name               dtype   meaning
================== ======= ================================================
present            bool    a registered card is here (False: padding)
healthy            bool    the plugin calls the card healthy
cordoned           bool    the node's cordon list names the card
kind               int64   index into ``kinds``: the card's (type, mode)
numa               int64   NUMA node
numa_rank          int64   place of the card when the node's cards are put in
                           rising order of (numa, index, place in the text)
index_rank         int64   the same for (index, place in the text)
total_slots        int64   shares that the card can carry
total_memory_mib   int64   MiB
total_cores        int64   in the unit that the vendor registers (percent of a
                           card mostly; compute units, bits of a mask)
used_slots         int64   slots that pods hold (assumed and confirmed)
used_memory_mib    int64   MiB
used_cores         int64   in the unit of total_cores
taken_slots        int64   used and tentatively claimed slots together
taken_memory_mib   int64   MiB
taken_cores        int64   in the unit of total_cores
================== ======= ================================================

Rows, shape ``(n_rows,)``, all bool: ``registered`` (the node has cards of the
vendor), ``allocatable`` (kubelet offers more than 0 of the vendor's count
resource), ``blocked`` (a pod there holds something unreadable).
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import charges, marks
from vgpu_operator.model import device

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Place: TypeAlias = tuple[int, int]
"""Row and column of a card."""

_BOOL_CELLS: Final = ("present", "healthy", "cordoned")
_INT_CELLS: Final = (
    "kind",
    "numa",
    "numa_rank",
    "index_rank",
    "total_slots",
    "total_memory_mib",
    "total_cores",
    "used_slots",
    "used_memory_mib",
    "used_cores",
    "taken_slots",
    "taken_memory_mib",
    "taken_cores",
)
_ROW_FLAGS: Final = ("registered", "allocatable", "blocked")
_SUMS: Final = tuple(
    f"{what}_{resource}"
    for what in ("total", "used", "taken")
    for resource in ("slots", "memory_mib", "cores")
)
_LIMIT: Final = 2**40
"""No amount of a card is larger: sums over a node then stay inside 64 bits."""


def _bounded(amount: int) -> int:
    return max(0, min(amount, _LIMIT))


class Kinds:
    """Interned (type, mode) pairs: a rule about texts is judged once per kind."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []
        self._ids: dict[tuple[str, str], int] = {}

    def id_of(self, card: device.Device) -> int:
        """Return the kind's number; a new kind gets the next one."""
        pair = (card.type, card.mode)
        if pair not in self._ids:
            self._ids[pair] = len(self.pairs)
            self.pairs.append(pair)
        return self._ids[pair]


class VendorColumns:
    """All cards of one vendor; see the module for the arrays."""

    present: BoolArray
    healthy: BoolArray
    cordoned: BoolArray
    kind: IntArray
    numa: IntArray
    numa_rank: IntArray
    index_rank: IntArray
    total_slots: IntArray
    total_memory_mib: IntArray
    total_cores: IntArray
    used_slots: IntArray
    used_memory_mib: IntArray
    used_cores: IntArray
    taken_slots: IntArray
    taken_memory_mib: IntArray
    taken_cores: IntArray
    registered: BoolArray
    allocatable: BoolArray
    blocked: BoolArray

    def __init__(self) -> None:
        self.kinds = Kinds()
        self.cards: dict[int, tuple[device.Device, ...]] = {}
        """Per row its cards in column order."""
        self.places: dict[str, list[Place]] = {}
        """Per card id where it is; more than one place when two nodes register one id."""
        self.marks = marks.Marks()
        self._columns: dict[int, dict[str, int]] = {}
        self._allocate(rows=0, width=0)

    @property
    def capacity(self) -> int:
        """Rows that the arrays hold now."""
        return int(self.present.shape[0])

    @property
    def width(self) -> int:
        """Cards that a row holds now."""
        return int(self.present.shape[1])

    def column(self, row: int, card_id: str) -> int | None:
        """Return where on that row the card is, None when it is absent."""
        return self._columns.get(row, {}).get(card_id)

    def ensure(self, *, rows: int, width: int = 0) -> None:
        """Make room for that many rows and cards; keeps what is there."""
        if rows <= self.capacity and width <= self.width:
            return
        larger = self.capacity if rows <= self.capacity else max(64, rows, 2 * self.capacity)
        self._allocate(rows=larger, width=max(width, self.width))

    def put_row(
        self, row: int, cards: Sequence[device.Device], *, cordoned: frozenset[str]
    ) -> None:
        """Replace the row's cards; nothing on them is used or claimed afterwards.

        Of two cards with one id only the first is taken: nobody could say
        which of them a promise means.
        """
        self.clear_row(row)
        distinct = tuple({card.id: card for card in reversed(cards)}.values())[::-1]
        if not distinct:
            return
        self.ensure(rows=row + 1, width=len(distinct))
        self.cards[row] = distinct
        self._columns[row] = {card.id: column for column, card in enumerate(distinct)}
        self.registered[row] = True
        for column, card in enumerate(distinct):
            self.places.setdefault(card.id, []).append((row, column))
            self.present[row, column] = True
            self.healthy[row, column] = card.healthy
            self.cordoned[row, column] = card.id in cordoned
            self.kind[row, column] = self.kinds.id_of(card)
            self.numa[row, column] = card.numa
            self.total_slots[row, column] = _bounded(card.slots)
            self.total_memory_mib[row, column] = _bounded(card.memory_mib)
            self.total_cores[row, column] = _bounded(card.cores_percent)
        by_index = sorted(range(len(distinct)), key=lambda c: (distinct[c].index, c))
        by_numa = sorted(by_index, key=lambda c: distinct[c].numa)
        self.index_rank[row, by_index] = range(len(distinct))
        self.numa_rank[row, by_numa] = range(len(distinct))

    def clear_row(self, row: int) -> None:
        """Take all cards off the row; ``allocatable`` and ``blocked`` stay."""
        for card in self.cards.pop(row, ()):
            places = [place for place in self.places[card.id] if place[0] != row]
            if places:
                self.places[card.id] = places
            else:
                del self.places[card.id]
        self._columns.pop(row, None)
        self.marks.changed(row)
        self.registered[row] = False
        for name in (*_BOOL_CELLS, *_INT_CELLS):
            getattr(self, name)[row] = 0

    def set_cordoned(self, row: int, ids: frozenset[str]) -> None:
        """Mark exactly these of the row's cards as cordoned."""
        for card_id, column in self._columns.get(row, {}).items():
            self.cordoned[row, column] = card_id in ids

    def charge(self, place: Place, amount: charges.Charge, sign: int) -> None:
        """Add (sign 1) or take back (sign -1) what a pod holds on a card."""
        self.claim(place, amount, sign)
        self.used_slots[place] += sign * amount.slots
        self.used_memory_mib[place] += sign * amount.memory_mib
        self.used_cores[place] += sign * amount.cores_percent

    def claim(self, place: Place, amount: charges.Charge, sign: int) -> None:
        """Add or take back what a tentative claim holds on a card."""
        self.taken_slots[place] += sign * amount.slots
        self.taken_memory_mib[place] += sign * amount.memory_mib
        self.taken_cores[place] += sign * amount.cores_percent

    def _allocate(self, *, rows: int, width: int) -> None:
        for names, dtype in ((_BOOL_CELLS, np.bool_), (_INT_CELLS, np.int64)):
            for name in names:
                larger = np.zeros((rows, width), dtype=dtype)
                if hasattr(self, name):
                    old = getattr(self, name)
                    larger[: old.shape[0], : old.shape[1]] = old
                setattr(self, name, larger)
        for name in _ROW_FLAGS:
            flags = np.zeros(rows, dtype=np.bool_)
            if hasattr(self, name):
                flags[: len(getattr(self, name))] = getattr(self, name)
            setattr(self, name, flags)


class NodeSums:
    """Per node the sums over all cards of all vendors, for the node's score.

    Arrays of int64, shape ``(n_rows,)``: ``total_``, ``used_`` and ``taken_``
    with ``slots``, ``memory_mib``, ``cores``, in the units of the cells.
    """

    total_slots: IntArray
    total_memory_mib: IntArray
    total_cores: IntArray
    used_slots: IntArray
    used_memory_mib: IntArray
    used_cores: IntArray
    taken_slots: IntArray
    taken_memory_mib: IntArray
    taken_cores: IntArray

    def __init__(self) -> None:
        for name in _SUMS:
            setattr(self, name, np.zeros(0, dtype=np.int64))

    def ensure(self, rows: int) -> None:
        """Make room for that many rows; keeps what is there."""
        capacity = len(self.total_slots)
        if rows <= capacity:
            return
        for name in _SUMS:
            larger = np.zeros(max(64, rows, 2 * capacity), dtype=np.int64)
            larger[:capacity] = getattr(self, name)
            setattr(self, name, larger)

    def add_row(self, row: int, cells: VendorColumns, sign: int) -> None:
        """Add (1) or take back (-1) everything that stands on the vendor's row."""
        for name in _SUMS:
            getattr(self, name)[row] += sign * int(getattr(cells, name)[row].sum())

    def charge(self, row: int, amount: charges.Charge, sign: int) -> None:
        """Follow ``VendorColumns.charge``."""
        self.claim(row, amount, sign)
        self.used_slots[row] += sign * amount.slots
        self.used_memory_mib[row] += sign * amount.memory_mib
        self.used_cores[row] += sign * amount.cores_percent

    def claim(self, row: int, amount: charges.Charge, sign: int) -> None:
        """Follow ``VendorColumns.claim``."""
        self.taken_slots[row] += sign * amount.slots
        self.taken_memory_mib[row] += sign * amount.memory_mib
        self.taken_cores[row] += sign * amount.cores_percent
