"""The cards of all candidate nodes as one board, which a pod's containers fill up.

A *lane* is one candidate node: one line of every array here. Shapes are
``(n_lanes, n_cards)`` and ``(n_lanes,)``; the arrays' meanings, dtypes and
units are those of ``ledger.columns``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, snapshot

Lanes: TypeAlias = slice | npt.NDArray[np.intp]
"""Which rows of the ledger are on the board, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What is taken off cards: one value for each pod and card, a card may come twice.

    Shape of all: ``(n_amounts,)``; ``lane`` and ``column`` say of which card.
    """

    lane: npt.NDArray[np.intp]
    column: npt.NDArray[np.intp]
    slots: columns.IntArray
    memory_mib: columns.IntArray
    cores: columns.IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Pods that are taken off in thought, on each lane others.

    Attributes:
        amounts: by vendor what they hold of the lanes' cards.
        memory_mib, cores: by vendor, per lane what the quota of the pod's namespace gets
            back; absent where nothing is limited.
        pods: UIDs of those taken off a lane.
    """

    amounts: Mapping[str, Amounts]
    memory_mib: Mapping[str, columns.IntArray]
    cores: Mapping[str, columns.IntArray]
    pods: Callable[[int], Collection[str]]


_CELLS: Final = (
    "present",
    "healthy",
    "cordoned",
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
)


@dataclass(slots=True, kw_only=True)
class Board:
    """One vendor's cards on all lanes; only charging changes anything.

    The first charge copies the used columns, so the ledger's stay as they
    are.
    """

    view: snapshot.VendorView
    lanes: Lanes
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
    owned: bool = False

    def charge(
        self,
        on: npt.NDArray[np.intp],
        chosen: npt.NDArray[np.intp],
        memory_mib: int | columns.IntArray,
        cores_percent: int,
    ) -> None:
        """Put one share on each chosen card of some lanes.

        Args:
            on: the lanes.
            chosen: columns, shape ``(n_lanes, count)``, distinct within a lane.
            memory_mib: what a share takes; an array has one value per card.
            cores_percent: what a share takes.
        """
        self._own()
        at = (on[:, None], chosen[on])
        self.used_slots[at] += 1
        self.used_memory_mib[at] += memory_mib if isinstance(memory_mib, int) else memory_mib[at]
        self.used_cores[at] += cores_percent

    def charge_one(self, place: columns.Place, slots: int, memory_mib: int, cores: int) -> None:
        """Put amounts on one card of one lane."""
        self._own()
        self.used_slots[place] += slots
        self.used_memory_mib[place] += memory_mib
        self.used_cores[place] += cores

    def _own(self) -> None:
        if not self.owned:
            self.used_slots = self.used_slots.copy()
            self.used_memory_mib = self.used_memory_mib.copy()
            self.used_cores = self.used_cores.copy()
            self.owned = True


def lay_out(
    view: snapshot.VendorView,
    lanes: Lanes,
    *,
    empty: bool = False,
    without: Amounts | None = None,
) -> Board:
    """Return the board of these rows.

    Args:
        view: the vendor's cards.
        lanes: which rows.
        empty: show it as if all pods had left.
        without: show it as if what is held were less by so much.
    """
    cells = {name: getattr(view, name)[lanes] for name in _CELLS}
    if empty:
        for name in ("used_slots", "used_memory_mib", "used_cores"):
            cells[name] = np.zeros_like(cells[name])
    elif without is not None:
        at = without.lane * cells["present"].shape[1] + without.column
        for name, amounts in (
            ("used_slots", without.slots),
            ("used_memory_mib", without.memory_mib),
            ("used_cores", without.cores),
        ):
            left = cells[name].copy()
            np.subtract.at(left.reshape(-1), at, amounts)
            cells[name] = left
    return Board(view=view, lanes=lanes, owned=empty or without is not None, **cells)
