"""Which of the cards that can serve is taken first.

HAMi sorts a node's cards and walks from the end of the list. Here a card has
a preference, higher is taken first, and a rank that breaks ties. After
the policy HAMi compares NUMA nodes (not in a chain of words) and then keeps
the order of the register text, which a real plugin writes in random order.
Ours goes by the card's index, higher first, and only then by the text.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns
from vgpu_operator.model import policy, request
from vgpu_operator.scheduling import cards

_SORT_WORDS: Final = (policy.CardPolicy.BINPACK, policy.CardPolicy.SPREAD, policy.CardPolicy.NUMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOrder:
    """How one pod wants its cards ordered.

    ``topology-aware`` without pair scores has every combination equal: the
    cards are ordered as under ``spread``. ``mutex`` leaves unused cards only,
    so it needs no order of its own.

    Attributes:
        words: what is compared, most important first.
        numa_breaks_ties: equal cards: the higher NUMA node first.
        least_used_first: under ``mutex`` alone; counts for vendors that let
            used cards pass.
        lowest_numa_first: with numa-bind the NUMA nodes are walked from the
            lowest up, which HAMi does under a plain ``binpack`` only.
        weights: of the parts of a card's score.
    """

    words: tuple[policy.CardPolicy, ...]
    numa_breaks_ties: bool
    least_used_first: bool
    lowest_numa_first: bool
    weights: policy.ScoringWeights


def card_order(
    policies: tuple[policy.CardPolicy, ...], weights: policy.ScoringWeights
) -> CardOrder:
    """Return the order that a chain of policy words means.

    A chain that names no order is ``spread``.
    """
    words = tuple(word for word in policies if word in _SORT_WORDS)
    if not words and policies != (policy.CardPolicy.MUTEX,):
        words = (policy.CardPolicy.SPREAD,)
    return CardOrder(
        words=words,
        numa_breaks_ties=len(policies) == 1,
        least_used_first=policies == (policy.CardPolicy.MUTEX,),
        lowest_numa_first=policies == (policy.CardPolicy.BINPACK,),
        weights=weights,
    )


def pick(
    board: cards.Board,
    eligible: columns.BoolArray,
    wish: request.DeviceRequest,
    order: CardOrder,
) -> npt.NDArray[np.intp]:
    """Return the columns of the ``wish.count`` best cards, best first.

    Shape ``(n_lanes, count)``. Lanes with fewer eligible cards get columns
    that mean nothing.
    """
    return ranking(board, eligible, wish, order)[:, : wish.count]


def ranking(
    board: cards.Board,
    among: columns.BoolArray,
    wish: request.DeviceRequest,
    order: CardOrder,
    *,
    by_numa: bool = False,
) -> npt.NDArray[np.intp]:
    """Return the columns of all cards in the order in which they are tried.

    Shape ``(n_lanes, n_cards)``; those ``among`` come first.

    Args:
        board: the cards.
        among: which of them count.
        wish: what is asked.
        order: of the pod's policies.
        by_numa: NUMA node after NUMA node, as under numa-bind.
    """
    rank = board.numa_rank if order.numa_breaks_ties else board.index_rank
    # np.lexsort's last key is its most important one.
    sort_keys: list[npt.NDArray[np.generic]] = [rank]
    if order.least_used_first:
        sort_keys.append(-board.used_slots)
    for word in reversed(order.words):
        if word is policy.CardPolicy.NUMA:
            sort_keys.append(board.numa)
        else:
            score = card_scores(board, wish, order.weights)
            sort_keys.append(score if word is policy.CardPolicy.BINPACK else -score)
    if by_numa:
        sort_keys.append(numa_places(board, order))
    sort_keys[-1] = np.where(among, sort_keys[-1], -np.inf)
    return np.lexsort(sort_keys, axis=-1)[:, ::-1]


def numa_places(board: cards.Board, order: CardOrder) -> columns.IntArray:
    """Return per card the place of its NUMA node, higher is walked first under numa-bind."""
    return -board.numa if order.lowest_numa_first else board.numa


def card_scores(
    board: cards.Board, wish: request.DeviceRequest, weights: policy.ScoringWeights
) -> npt.NDArray[np.float64]:
    """Return how full each card is, higher is fuller; shape ``(n_lanes, n_cards)``.

    10 x (weighted used slots / slots + cores / cores + memory / memory), 0
    where a total is 0. What the pod itself asks is added only on cards whose
    registered type is the vendor's keyword to the letter: with the model
    names that real NVIDIA plugins register it never is. From 0 to 30 with
    weights of 1, on cards that are not promised beyond their totals.
    """
    own = np.array([card_type == wish.vendor for card_type, _ in board.view.kinds] or [False])
    used_slots, used_cores, used_memory = board.used_slots, board.used_cores, board.used_memory_mib
    if own.any():
        mine = own[board.kind]
        used_slots = used_slots + wish.count * mine
        used_cores = used_cores + wish.cores_percent * mine
        used_memory = used_memory + _memory(board, wish) * mine
    known = (board.total_slots > 0) & (board.total_cores > 0) & (board.total_memory_mib > 0)
    score = 10 * (
        weights.slot * (used_slots / np.where(known, board.total_slots, 1))
        + weights.core * (used_cores / np.where(known, board.total_cores, 1))
        + weights.memory * (used_memory / np.where(known, board.total_memory_mib, 1))
    )
    return np.where(known, score, 0.0)


def _memory(board: cards.Board, wish: request.DeviceRequest) -> int | columns.IntArray:
    if wish.memory_mib > 0 or wish.memory_percent is None:
        return wish.memory_mib
    return board.total_memory_mib * wish.memory_percent // 100
