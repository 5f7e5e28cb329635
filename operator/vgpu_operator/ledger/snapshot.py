"""What scheduling reads: read-only views of the columns at one generation.

No array is copied, unless one pod's claim has to be left out or cards are kept
for nominated pods. A snapshot is valid until the ledger changes next: take one,
decide, let it go.
"""

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import charges, columns, marks, nodes, tenants
from vgpu_operator.model import device

Amounts: TypeAlias = Mapping[str, Sequence[tuple[columns.Place, charges.Charge]]]
"""Per vendor what stands where."""

FindTenants: TypeAlias = Callable[[str, str], tenants.Cards]
"""(node, vendor) -> who holds its cards."""

_Scalar = TypeVar("_Scalar", bound=np.generic)

_FEW: Final = 64
"""Names that are looked up one by one."""

_RESOURCES: Final = ("slots", "memory_mib", "cores")

_NOTHING: Final[Amounts] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorView:
    """One vendor's cards; ``columns`` documents the arrays.

    ``used_*`` holds the claims and what is kept for nominated pods too when the
    snapshot was asked for them; it may be more than ``total_*`` then.
    ``kinds`` lists the (type, mode) pairs that ``kind`` points into; ``places``
    maps a card id to where it is; ``cards`` maps a row to its cards in column
    order.
    """

    kept: marks.Marks
    kinds: Sequence[tuple[str, str]]
    places: Mapping[str, Sequence[columns.Place]]
    cards: Mapping[int, tuple[device.Device, ...]]
    registered: columns.BoolArray
    allocatable: columns.BoolArray
    blocked: columns.BoolArray
    present: columns.BoolArray
    healthy: columns.BoolArray
    cordoned: columns.BoolArray
    kind: columns.IntArray
    numa: columns.IntArray
    numa_rank: columns.IntArray
    index_rank: columns.IntArray
    total_slots: columns.IntArray
    total_memory_mib: columns.IntArray
    total_cores: columns.IntArray
    used_slots: columns.IntArray
    used_memory_mib: columns.IntArray
    used_cores: columns.IntArray

    def marked(self, question: Hashable, judge: marks.Judge) -> columns.BoolArray:
        """Return per row what the judge says of its cards; asked once while they stay."""
        return self.kept.of(question, judge, cards=self.cards, n_rows=len(self.registered))


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsView:
    """Per node the sums over all cards of all vendors, shape ``(n_rows,)``."""

    total_slots: columns.IntArray
    total_memory_mib: columns.IntArray
    total_cores: columns.IntArray
    used_slots: columns.IntArray
    used_memory_mib: columns.IntArray
    used_cores: columns.IntArray


class RowFinder:
    """Turns thousands of node names into rows.

    By the names' hashes, in two arrays: a dictionary touches four places of
    memory for each name, which costs three times as much when a question comes
    out of the blue. Python's hashes of texts have 64 bits and a secret key, so
    that two names have the same once in 10^11 clusters of 20,000 nodes; such a
    cluster is served by the dictionary. A name of no node that has a node's hash
    is not expected before the sun goes out.
    """

    def __init__(self) -> None:
        self._epoch = -1
        self._is_ambiguous = False
        self._hashes: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._rows: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)

    def find(self, book: nodes.Nodes, names: Sequence[str]) -> npt.NDArray[np.intp]:
        """Return one row per name, -1 where the name is unknown; shape ``(n_names,)``."""
        if self._epoch != book.rows_epoch and len(names) >= _FEW:
            self._learn(book)
        if len(names) < _FEW or self._is_ambiguous:
            found = map(book.rows.get, names, itertools.repeat(-1))
            return np.fromiter(found, dtype=np.intp, count=len(names))
        asked = np.fromiter(map(hash, names), dtype=np.int64, count=len(names))
        places = np.searchsorted(self._hashes[:-1], asked)
        return np.where(self._hashes[places] == asked, self._rows[places], -1)

    def _learn(self, book: nodes.Nodes) -> None:
        hashes = np.fromiter(map(hash, book.rows), dtype=np.int64, count=len(book.rows))
        rows = np.fromiter(book.rows.values(), dtype=np.intp, count=len(book.rows))
        order = np.argsort(hashes)
        self._is_ambiguous = len(np.unique(hashes)) < len(hashes)
        # A last one that is no node's, for names that are behind all of them.
        self._hashes = np.append(hashes[order], 0)
        self._rows = np.append(rows[order], -1)
        self._epoch = book.rows_epoch


class Snapshot:
    """The whole ledger as scheduling may see it.

    Attributes:
        generation: the ledger's generation when the snapshot was taken.
        n_rows: how many rows there are; some may belong to no node.
    """

    def __init__(
        self,
        *,
        generation: int,
        book: nodes.Nodes,
        finder: RowFinder,
        with_claims: bool,
        find_tenants: FindTenants,
        excluded: Amounts = _NOTHING,
        added: Amounts = _NOTHING,
        noted: Collection[str] = (),
    ) -> None:
        self.generation = generation
        self.n_rows = book.n_rows
        self._book = book
        self._finder = finder
        self._with_claims = with_claims
        self._signed = ((-1, excluded), (1, added))
        self._differs = bool(excluded or added)
        self._find_tenants = find_tenants
        self._noted = noted
        self._views: dict[str, VendorView] = {}
        self._sums: SumsView | None = None

    def rows(self, names: Sequence[str]) -> npt.NDArray[np.intp]:
        """Return the names' rows, -1 where the ledger knows no such node."""
        return self._finder.find(self._book, names)

    def row(self, name: str) -> int | None:
        """Return one name's row, None when the ledger knows no such node."""
        return self._book.rows.get(name)

    def name(self, row: int) -> str:
        """Return the name of the node whose row that is."""
        return self._book.names[row]

    def notes(self, node: str) -> Mapping[str, str]:
        """Return the node's texts that vendors' rules read."""
        return self._book.notes(node)

    def noted(self) -> columns.BoolArray:
        """Return the rows where a pod's texts have to be read, shape ``(n_rows,)``."""
        found = np.zeros(self.n_rows, dtype=np.bool_)
        rows = (self._book.rows.get(name) for name in self._noted)
        found[[row for row in rows if row is not None]] = True
        return found

    def tenants(self, node: str, vendor: str) -> tenants.Cards:
        """Return per card who holds a share of it, or is to, as the snapshot was asked to."""
        return self._find_tenants(node, vendor)

    def vendor(self, keyword: str) -> VendorView | None:
        """Return the vendor's cards; None when the ledger does not serve that vendor."""
        view = self._views.get(keyword)
        if view is None:
            cells = self._book.cells.get(keyword)
            if cells is None:
                return None
            view = self._views[keyword] = self._view(keyword, cells)
        return view

    @property
    def sums(self) -> SumsView:
        """The nodes' sums, counted as the snapshot was asked to."""
        if self._sums is None:
            self._sums = self._view_sums()
        return self._sums

    def _view(self, keyword: str, cells: columns.VendorColumns) -> VendorView:
        used = self._used(cells)
        if any(keyword in amounts for _, amounts in self._signed):
            used = {name: array.copy() for name, array in used.items()}
            for sign, amounts in self._signed:
                for place, amount in amounts.get(keyword, ()):
                    used["slots"][place] += sign * amount.slots
                    used["memory_mib"][place] += sign * amount.memory_mib
                    used["cores"][place] += sign * amount.cores_percent

        def view(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
            return _read_only(array[: self.n_rows])

        return VendorView(
            kept=cells.marks,
            kinds=cells.kinds.pairs,
            places=cells.places,
            cards=cells.cards,
            registered=view(cells.registered),
            allocatable=view(cells.allocatable),
            blocked=view(cells.blocked),
            present=view(cells.present),
            healthy=view(cells.healthy),
            cordoned=view(cells.cordoned),
            kind=view(cells.kind),
            numa=view(cells.numa),
            numa_rank=view(cells.numa_rank),
            index_rank=view(cells.index_rank),
            total_slots=view(cells.total_slots),
            total_memory_mib=view(cells.total_memory_mib),
            total_cores=view(cells.total_cores),
            used_slots=_read_only(used["slots"]),
            used_memory_mib=_read_only(used["memory_mib"]),
            used_cores=_read_only(used["cores"]),
        )

    def _used(self, held: columns.VendorColumns | columns.NodeSums) -> dict[str, columns.IntArray]:
        word = "taken" if self._with_claims else "used"
        return {name: getattr(held, f"{word}_{name}")[: self.n_rows] for name in _RESOURCES}

    def _view_sums(self) -> SumsView:
        sums = self._book.sums
        used = self._used(sums)
        if self._differs:
            used = {name: array.copy() for name, array in used.items()}
            for sign, by_vendor in self._signed:
                for (row, _), amount in itertools.chain.from_iterable(by_vendor.values()):
                    used["slots"][row] += sign * amount.slots
                    used["memory_mib"][row] += sign * amount.memory_mib
                    used["cores"][row] += sign * amount.cores_percent
        return SumsView(
            total_slots=_read_only(sums.total_slots[: self.n_rows]),
            total_memory_mib=_read_only(sums.total_memory_mib[: self.n_rows]),
            total_cores=_read_only(sums.total_cores[: self.n_rows]),
            used_slots=_read_only(used["slots"]),
            used_memory_mib=_read_only(used["memory_mib"]),
            used_cores=_read_only(used["cores"]),
        )


def _read_only(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    view = array.view()
    view.flags.writeable = False
    return view
