"""The common walk over one node's cards: checks in order, first that fails counts.

The same rules as ``scheduling.masks``, card by card, for vendors that add to
them or leave some out. Source: HAMi v2.10.0, common order of all back ends
(reference: vendors' rules, section 1.5).
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from vgpu_operator.model import fitting, reason

Check: TypeAlias = Callable[[fitting.CardState, fitting.Ask], "str | None"]
"""Returns the word of the reason that keeps the card off, None when none does."""

WHOLE_CARD: Final = 100


def healthy(card: fitting.CardState, _: fitting.Ask) -> str | None:
    """The plugin calls the card healthy."""
    return None if card.device.healthy else reason.Reason.CARD_NOT_HEALTHY.value


def not_cordoned(card: fitting.CardState, _: fitting.Ask) -> str | None:
    """The node's cordon list leaves the card out."""
    return reason.Reason.CARD_CORDONED.value if card.cordoned else None


def type_allowed(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """The pod's type words and mode allow the card's kind."""
    rules, kind = ask.selection, card.device.type.lower()
    mismatch = reason.Reason.CARD_TYPE_MISMATCH.value
    if rules.mode is not None and card.device.mode not in rules.mode:
        return mismatch
    if any(word.lower() in kind for word in rules.avoid_types):
        return mismatch
    if rules.use_types and not any(word.lower() in kind for word in rules.use_types):
        return mismatch
    return None


def id_allowed(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """The pod's id lists allow the card."""
    rules = ask.selection
    allowed = not rules.use_ids or card.device.id in rules.use_ids
    if allowed and card.device.id not in rules.avoid_ids:
        return None
    return reason.Reason.CARD_UUID_MISMATCH.value


def slots_left(card: fitting.CardState, _: fitting.Ask) -> str | None:
    """The card can carry one more share."""
    if card.device.slots > card.used_slots:
        return None
    return reason.Reason.SLOTS_EXHAUSTED.value


def unused_if_mutex(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """Under the policy ``mutex`` nobody uses the card."""
    if ask.unused_only and not card.unused:
        return reason.Reason.EXCLUSIVE_CONFLICT.value
    return None


def memory_left(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """As much memory is free as asked; a percentage of no memory is never there."""
    total_mib = card.device.memory_mib
    short = total_mib - card.used_memory_mib < ask.wish.memory_on(total_mib)
    nothing = ask.wish.memory_mib <= 0 and ask.wish.memory_percent is not None and total_mib == 0
    return reason.Reason.INSUFFICIENT_MEMORY.value if short or nothing else None


def cores_left(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """As many cores are free as asked."""
    asked = min(ask.wish.cores_percent, WHOLE_CARD)
    if card.device.cores_percent - card.used_cores >= asked:
        return None
    return reason.Reason.INSUFFICIENT_CORES.value


def unused_if_whole(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """Whoever asks all cores of an unscaled card gets one that nobody uses."""
    whole = card.device.cores_percent == WHOLE_CARD and ask.wish.cores_percent >= WHOLE_CARD
    return reason.Reason.EXCLUSIVE_CONFLICT.value if whole and not card.unused else None


def some_cores_left(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """Whoever asks for no cores still needs a card that has some left."""
    total = card.device.cores_percent
    if total != 0 and card.used_cores >= total and ask.wish.cores_percent == 0:
        return reason.Reason.CORES_EXHAUSTED.value
    return None


COMMON: Final[tuple[Check, ...]] = (
    healthy,
    not_cordoned,
    type_allowed,
    id_allowed,
    slots_left,
    unused_if_mutex,
    memory_left,
    cores_left,
    unused_if_whole,
    some_cores_left,
)


BY_SLOTS: Final[tuple[Check, ...]] = (
    healthy,
    not_cordoned,
    id_allowed,
    slots_left,
    unused_if_mutex,
)
"""For vendors whose memory and cores are not kept account of, or otherwise."""


def first_fault(checks: Sequence[Check], card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """Return the reason of the first check that a card does not pass; None when it passes all."""
    return next((word for check in checks if (word := check(card, ask))), None)


def usable(
    node: fitting.NodeState, ask: fitting.Ask, checks: Sequence[Check]
) -> tuple[list[int], dict[str, int]]:
    """Return the indexes of all cards that pass every check, and who failed what."""
    passed: list[int] = []
    counts: dict[str, int] = {}
    for index, card in enumerate(node.cards):
        word = first_fault(checks, card, ask)
        if word is None:
            passed.append(index)
        else:
            counts[word] = counts.get(word, 0) + 1
    return passed, counts


def first_fitting(
    node: fitting.NodeState, ask: fitting.Ask, checks: Sequence[Check] = COMMON
) -> fitting.Answer:
    """Take the first cards that pass, as HAMi's common loop does.

    Fewer candidates than asked is refused bare; fewer usable ones than asked
    adds ``AllocatedCardsInsufficientRequest`` for those that were usable.
    """
    if len(node.cards) < ask.wish.count:
        return fitting.Refused(counts={reason.Reason.TOO_FEW_CARDS.value: 0})
    passed, counts = usable(node, ask, checks)
    if len(passed) < ask.wish.count:
        if passed:
            counts[reason.Reason.TOO_FEW_FREE_CARDS.value] = len(passed)
        return fitting.Refused(counts=counts)
    return tuple(pick(node, ask, index) for index in passed[: ask.wish.count])


def pick(node: fitting.NodeState, ask: fitting.Ask, index: int) -> fitting.Pick:
    """Return the share that the wish takes on that card, by the common rules."""
    return fitting.Pick(
        card=index,
        memory_mib=ask.wish.memory_on(node.cards[index].device.memory_mib),
        cores=min(ask.wish.cores_percent, WHOLE_CARD),
    )
