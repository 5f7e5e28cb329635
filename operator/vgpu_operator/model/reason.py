"""Why a node was refused, in HAMi's words."""

import enum
import re
from dataclasses import dataclass


class Reason(enum.StrEnum):
    """A fact about a card (or node) that keeps a pod off it.

    The words are HAMi's (``pkg/device/common/common.go``, v2.10.0): people
    search for them.
    """

    CARD_NOT_HEALTHY = "CardNotHealth"
    CARD_CORDONED = "CardCordoned"
    CARD_TYPE_MISMATCH = "CardTypeMismatch"
    NUMA_NOT_FIT = "NumaNotFit"
    CARD_UUID_MISMATCH = "CardUuidMismatch"
    SLOTS_EXHAUSTED = "CardTimeSlicingExhausted"
    EXCLUSIVE_CONFLICT = "ExclusiveDeviceAllocateConflict"
    QUOTA_NOT_FIT = "ResourceQuotaNotFit"
    INSUFFICIENT_MEMORY = "CardInsufficientMemory"
    INSUFFICIENT_CORES = "CardInsufficientCore"
    CORES_EXHAUSTED = "CardComputeUnitsExhausted"
    MIG_INFEASIBLE = "CardMigTopologyInfeasible"
    CUSTOM_RULE = "CardNotFoundCustomFilterRule"
    MODE_NOT_FIT = "ModeNotFit"
    TOO_FEW_CARDS = "NodeInsufficientDevice"
    TOO_FEW_FREE_CARDS = "AllocatedCardsInsufficientRequest"
    NODE_UNREGISTERED = "node unregistered"


_COUNTED = re.compile(r"(\d{1,9})/\d+ (\w+)", re.ASCII)


def counts_in(text: str) -> dict[str, int]:
    """Return how many cards each reason of a node's text kept off; bare reasons are left out.

    >>> counts_in("1/4 CardInsufficientMemory, 2/4 CardNotHealth")
    {'CardInsufficientMemory': 1, 'CardNotHealth': 2}
    """
    return {word: int(cards) for cards, word in _COUNTED.findall(text)}


EVICTION_CANNOT_HELP = frozenset(
    {
        Reason.CARD_NOT_HEALTHY,
        Reason.CARD_CORDONED,
        Reason.CARD_TYPE_MISMATCH,
        Reason.CARD_UUID_MISMATCH,
        Reason.MODE_NOT_FIT,
        Reason.TOO_FEW_CARDS,
        Reason.NODE_UNREGISTERED,
    }
)
"""Facts that stay when every pod leaves the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCount:
    """That many of the node's candidate cards were kept off by one reason.

    ``reason`` is a word of ``Reason`` or one of a vendor's own. Where both
    numbers are 0 it is a fact about the node and written bare.
    """

    reason: str
    cards: int
    candidates: int

    def __str__(self) -> str:
        bare = self.reason in (Reason.TOO_FEW_CARDS, Reason.NODE_UNREGISTERED)
        if bare or (not self.cards and not self.candidates):
            return str(self.reason)
        return f"{self.cards}/{self.candidates} {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRejection:
    """Why one node cannot take the pod.

    Attributes:
        counts: per reason how many cards it kept off.
        detail: a sentence that adds what the counts cannot say (which
            condition of "node unregistered" failed, say); may be empty.
        resolvable: False when no eviction on that node could make the pod fit.
    """

    counts: tuple[CardCount, ...] = ()
    detail: str = ""
    resolvable: bool = True

    @property
    def text(self) -> str:
        """HAMi's text for ``failedNodes``: counts sorted as text, then the detail.

        >>> str(NodeRejection(counts=(
        ...     CardCount(reason=Reason.CARD_NOT_HEALTHY, cards=2, candidates=4),
        ...     CardCount(reason=Reason.CARD_TYPE_MISMATCH, cards=1, candidates=4),
        ...     CardCount(reason=Reason.INSUFFICIENT_MEMORY, cards=1, candidates=4))))
        '1/4 CardInsufficientMemory, 1/4 CardTypeMismatch, 2/4 CardNotHealth'
        """
        words = ", ".join(sorted(str(count) for count in self.counts))
        if self.detail and words:
            return f"{words}: {self.detail}"
        return words or self.detail

    @property
    def reasons(self) -> tuple[str, ...]:
        """Each reason without its numbers, the detail behind the one that it adds to.

        >>> NodeRejection(counts=(
        ...     CardCount(reason=Reason.CARD_NOT_HEALTHY, cards=2, candidates=3),
        ...     CardCount(reason=Reason.INSUFFICIENT_MEMORY, cards=1, candidates=3))).reasons
        ('CardNotHealth', 'CardInsufficientMemory')
        """
        words = tuple(str(count.reason) for count in self.counts)
        if not self.detail:
            return words
        return (f"{words[0]}: {self.detail}", *words[1:]) if words else (self.detail,)

    def __str__(self) -> str:
        return self.text
