"""The common rules where a namespace quota may run out: cards one step at a time.

Whether a card passes depends on what was taken before it, so the cards of all
lanes are tried in their order, the first of every lane, then the second, …
A quota that covers the worst case needs none of this.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns
from vgpu_operator.model import reason
from vgpu_operator.scheduling import cards, masks

_QUOTA: Final = masks.bit_of(reason.Reason.QUOTA_NOT_FIT)
_BEFORE_QUOTA: Final = (_QUOTA - 1) | masks.NOT_A_CANDIDATE


@dataclass(slots=True)
class Left:
    """What the pod's namespace may still take of one vendor, after the earlier containers.

    int64 arrays of shape ``(n_lanes,)``, because earlier containers may have
    taken more on one node than on another; None is no limit.
    """

    memory_mib: columns.IntArray | None
    cores: columns.IntArray | None

    def covers(self, ask: masks.Ask) -> bool:
        """Whether every card of every lane could be taken."""
        most = ask.memory_mib if isinstance(ask.memory_mib, int) else ask.memory_mib.max(initial=0)
        return _all_cover(self.memory_mib, ask.count * int(most)) and _all_cover(
            self.cores, ask.count * ask.cores_percent
        )

    def take(
        self, chosen: npt.NDArray[np.intp], ask: masks.Ask, lanes: npt.NDArray[np.intp]
    ) -> None:
        """Take off what these lanes' cards cost."""
        if self.memory_mib is not None:
            if isinstance(ask.memory_mib, int):
                self.memory_mib[lanes] -= ask.count * ask.memory_mib
            else:
                self.memory_mib[lanes] -= ask.memory_mib[lanes[:, None], chosen[lanes]].sum(axis=1)
        if self.cores is not None:
            self.cores[lanes] -= ask.count * ask.cores_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What the walk over the cards found; see ``stages.Verdict``."""

    bits: masks.Bits
    chosen: npt.NDArray[np.intp]
    fits: columns.BoolArray
    kept: npt.NDArray[np.intp]
    dropped: npt.NDArray[np.intp]


def walk(
    board: cards.Board,
    bits: masks.Bits,
    ask: masks.Ask,
    ranking: npt.NDArray[np.intp],
    left: Left,
) -> Walked:
    """Take cards in the order of ``ranking`` until there are enough, as HAMi's loop does.

    With numa-bind what is held is let go whenever the NUMA node changes.
    """
    bits = bits.copy()
    n_lanes, n_cards = bits.shape
    lanes = np.arange(n_lanes)
    chosen = np.zeros((n_lanes, min(ask.count, n_cards)), dtype=np.intp)
    held, dropped = np.zeros(n_lanes, dtype=np.intp), np.zeros(n_lanes, dtype=np.intp)
    memory_mib, cores = np.zeros(n_lanes, dtype=np.int64), np.zeros(n_lanes, dtype=np.int64)
    numa = np.full(n_lanes, np.iinfo(np.int64).min)
    done = np.zeros(n_lanes, dtype=np.bool_)
    for step in range(n_cards):
        column = ranking[:, step]
        facts = bits[lanes, column]
        if ask.selection.numa_bind:
            here = board.numa[lanes, column]
            reached = (facts & (masks.BEFORE_NUMA | masks.NOT_A_CANDIDATE)) == 0
            changed = ~done & reached & (here != numa)
            dropped += np.where(changed, held, 0)
            for amount in (held, memory_mib, cores):
                amount[changed] = 0
            numa = np.where(changed, here, numa)
        need = ask.memory_mib if isinstance(ask.memory_mib, int) else ask.memory_mib[lanes, column]
        over = ~done & ((facts & _BEFORE_QUOTA) == 0)
        over &= _beyond(left.memory_mib, memory_mib, need) | _beyond(
            left.cores, cores, ask.cores_percent
        )
        bits[lanes[over], column[over]] |= np.uint16(_QUOTA)
        takes = ~done & (facts == 0) & ~over
        chosen[lanes[takes], held[takes]] = column[takes]
        held += takes
        memory_mib += np.where(takes, need, 0)
        cores += np.where(takes, ask.cores_percent, 0)
        done |= held == ask.count
    return Walked(bits=bits, chosen=chosen, fits=done, kept=held, dropped=dropped)


def _beyond(
    left: columns.IntArray | None, taken: columns.IntArray, need: int | columns.IntArray
) -> columns.BoolArray:
    if left is None:
        return np.zeros(len(taken), dtype=np.bool_)
    beyond: columns.BoolArray = (np.asarray(need) > 0) & (taken + need > left)
    return beyond


def _all_cover(left: columns.IntArray | None, most: int) -> bool:
    return left is None or most <= 0 or bool((left >= most).all())
