"""One mask per reason why a card cannot serve a container, named as the fact.

A mask is True where the fact holds, of shape ``(n_lanes, n_cards)``; None
says that it can hold nowhere. ``ORDER`` is the order in which HAMi v2.10.0
checks them for NVIDIA cards (``pkg/device/nvidia/device.go``): a card counts
under the first fact that holds, because users read and compare the counts.

Masks of padding mean nothing: ``bits`` rules padding out first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns
from vgpu_operator.model import device, reason, request
from vgpu_operator.scheduling import cards

Bits: TypeAlias = npt.NDArray[np.uint16]
"""Per card one bit per mask of ``ORDER`` that holds; 0 is a card that can serve."""

WHOLE_CARD: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one container asks of each card of one vendor.

    Attributes:
        vendor: the vendor's keyword.
        count: how many different cards.
        cores_percent: 0 to 100.
        memory_mib: one number, or one per card when a percentage was asked.
        percent_asked: the memory was asked as a percentage.
        selection: which cards the pod's author allows.
        unused_only: the card policy is ``mutex``.
    """

    vendor: str
    count: int
    cores_percent: int
    memory_mib: int | columns.IntArray
    percent_asked: bool
    selection: request.CardSelection
    unused_only: bool


def ask_of(
    board: cards.Board,
    wish: request.DeviceRequest,
    selection: request.CardSelection,
    *,
    unused_only: bool,
) -> Ask:
    """Return the wish with its memory worked out for these cards."""
    percent_asked = wish.memory_mib <= 0 and wish.memory_percent is not None
    memory_mib: int | columns.IntArray = max(0, wish.memory_mib)
    if percent_asked:
        memory_mib = board.total_memory_mib * (wish.memory_percent or 0) // 100
    return Ask(
        vendor=wish.vendor,
        count=wish.count,
        cores_percent=min(wish.cores_percent, WHOLE_CARD),
        memory_mib=memory_mib,
        percent_asked=percent_asked,
        selection=selection,
        unused_only=unused_only,
    )


def not_healthy(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """The plugin calls the card unhealthy."""
    del ask
    return ~board.healthy


def cordoned(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """The node's cordon list names the card."""
    del ask
    return board.cordoned


def type_mismatch(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """The pod's type words or mode rule the card's kind out."""
    rules = ask.selection
    if not rules.use_types and not rules.avoid_types and rules.mode is None:
        return None
    return _of_kinds(board, [not _kind_allowed(kind, rules) for kind in board.view.kinds])


def id_mismatch(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """The pod names other cards, or names this one to be avoided."""
    rules = ask.selection
    if not rules.use_ids and not rules.avoid_ids:
        return None
    view = board.view
    mismatch = np.full(view.present.shape, bool(rules.use_ids))
    for card_id in rules.use_ids:
        for place in view.places.get(card_id, ()):
            mismatch[place] = False
    for card_id in rules.avoid_ids:
        for place in view.places.get(card_id, ()):
            mismatch[place] = True
    return mismatch[board.lanes]


def slots_exhausted(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """As many shares as the card can carry are given away."""
    del ask
    full: columns.BoolArray = board.used_slots >= board.total_slots
    return full


def used_though_mutex(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """The pod wants unused cards only."""
    used: columns.BoolArray = board.used_slots > 0
    return used if ask.unused_only else None


def beyond_quota(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """The namespace's quota does not cover the card.

    That depends on the cards taken before it: ``greedy`` finds it out.
    """
    del board, ask
    return None


def memory_exhausted(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """Less memory is free than asked; a percentage of no memory is never there."""
    short: columns.BoolArray = board.total_memory_mib - board.used_memory_mib < ask.memory_mib
    if ask.percent_asked:
        short |= board.total_memory_mib == 0
    return short


def cores_insufficient(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """Fewer cores are free than asked.

    Also a card whose cores are promised beyond its total, when none is asked:
    HAMi compares the same way.
    """
    short: columns.BoolArray = board.total_cores - board.used_cores < ask.cores_percent
    return short


def used_though_whole_card(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """All cores of an unscaled card are asked, and somebody uses the card."""
    if ask.cores_percent != WHOLE_CARD:
        return None
    used: columns.BoolArray = (board.total_cores == WHOLE_CARD) & (board.used_slots > 0)
    return used


def cores_exhausted(board: cards.Board, ask: Ask) -> columns.BoolArray | None:
    """No cores are asked, and all of the card's are given away."""
    if ask.cores_percent != 0:
        return None
    gone: columns.BoolArray = (board.total_cores != 0) & (board.used_cores >= board.total_cores)
    return gone


Mask: TypeAlias = Callable[[cards.Board, Ask], "columns.BoolArray | None"]

ORDER: Final[tuple[tuple[reason.Reason, Mask], ...]] = (
    (reason.Reason.CARD_NOT_HEALTHY, not_healthy),
    (reason.Reason.CARD_CORDONED, cordoned),
    (reason.Reason.CARD_TYPE_MISMATCH, type_mismatch),
    (reason.Reason.CARD_UUID_MISMATCH, id_mismatch),
    (reason.Reason.SLOTS_EXHAUSTED, slots_exhausted),
    (reason.Reason.EXCLUSIVE_CONFLICT, used_though_mutex),
    (reason.Reason.QUOTA_NOT_FIT, beyond_quota),
    (reason.Reason.INSUFFICIENT_MEMORY, memory_exhausted),
    (reason.Reason.INSUFFICIENT_CORES, cores_insufficient),
    (reason.Reason.EXCLUSIVE_CONFLICT, used_though_whole_card),
    (reason.Reason.CORES_EXHAUSTED, cores_exhausted),
)

BEFORE_NUMA: Final = 0b111
"""Masks that HAMi checks before it looks at a card's NUMA node."""

NOT_A_CANDIDATE: Final = 1 << 15
"""Padding, or a card whose type does not hold the vendor's keyword."""


def bit_of(why: reason.Reason) -> int:
    """Return the bit of the first mask that stands for that reason."""
    return 1 << [word for word, _ in ORDER].index(why)


def candidates(board: cards.Board, vendor: str) -> columns.BoolArray:
    """Return which cards' registered type holds the vendor's keyword."""
    return ~_no_candidate(board, vendor)


def bits(board: cards.Board, ask: Ask) -> Bits:
    """Return for every card which facts keep it off, shape ``(n_lanes, n_cards)``."""
    found = np.multiply(_no_candidate(board, ask.vendor), NOT_A_CANDIDATE, dtype=np.uint16)
    for bit, (_, mask) in enumerate(ORDER):
        holds = mask(board, ask)
        if holds is not None:
            found |= np.left_shift(holds, bit, dtype=np.uint16)
    return found


def selected(card: device.Device, rules: request.CardSelection) -> bool:
    """Whether the pod's words about types, modes and ids leave that card."""
    named = not rules.use_ids or card.id in rules.use_ids
    return named and card.id not in rules.avoid_ids and _kind_allowed((card.type, card.mode), rules)


def _no_candidate(board: cards.Board, vendor: str) -> columns.BoolArray:
    word = vendor.lower()
    foreign = [word not in card_type.lower() for card_type, _ in board.view.kinds]
    if not any(foreign):
        return ~board.present
    return ~board.present | _of_kinds(board, foreign)


def _of_kinds(board: cards.Board, values: list[bool]) -> columns.BoolArray:
    if not any(values):
        return np.zeros(board.kind.shape, dtype=np.bool_)
    return np.array(values, dtype=np.bool_)[board.kind]


def _kind_allowed(kind: tuple[str, str], rules: request.CardSelection) -> bool:
    card_type, mode = kind[0].lower(), kind[1]
    if rules.mode is not None and mode not in rules.mode:
        return False
    if any(word.lower() in card_type for word in rules.avoid_types):
        return False
    return not rules.use_types or any(word.lower() in card_type for word in rules.use_types)
