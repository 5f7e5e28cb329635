"""All cards of a container from one NUMA node."""

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns
from vgpu_operator.scheduling import cards, masks, order


def bind(
    board: cards.Board, ask: masks.Ask, bits: masks.Bits, card_order: order.CardOrder
) -> tuple[columns.BoolArray, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Keep only the cards of the first NUMA node that has enough of them.

    NUMA nodes are walked from the highest down, or from the lowest up if the
    order says so. HAMi's walk lets go what it held whenever the NUMA node
    changes; one that finds no NUMA node ends with what the last one holds.

    Returns:
        The cards that may be chosen; how many cards a walk that fails holds
        at its end, and how many it let go.
    """
    eligible = bits == 0
    place = order.numa_places(board, card_order)
    same = place[:, :, None] == place[:, None, :]
    enough = eligible & (np.count_nonzero(same & eligible[:, None, :], axis=2) >= ask.count)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    first = np.where(enough, place, least).max(axis=1, initial=least)
    reached = (bits & (masks.BEFORE_NUMA | masks.NOT_A_CANDIDATE)) == 0
    last = np.where(reached, place, most).min(axis=1, initial=most)
    kept = np.count_nonzero(eligible & (place == last[:, None]), axis=1)
    dropped = np.count_nonzero(eligible, axis=1) - kept
    return enough & (place == first[:, None]), kept, dropped
