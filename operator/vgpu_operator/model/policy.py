"""How nodes and cards are ordered."""

import enum
import functools
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import pydantic


class NodePolicy(enum.StrEnum):
    """Which of the nodes that fit is preferred."""

    BINPACK = "binpack"
    SPREAD = "spread"


class CardPolicy(enum.StrEnum):
    """Which of the cards that fit is preferred; several words form a chain."""

    BINPACK = "binpack"
    SPREAD = "spread"
    NUMA = "numa"
    TOPOLOGY_AWARE = "topology-aware"
    MUTEX = "mutex"


_WORD: Final = f"({'|'.join(CardPolicy)})"

CardChain: TypeAlias = Annotated[str, pydantic.Field(pattern=f"^{_WORD}( *, *{_WORD})*$")]
"""One word of ``CardPolicy``, or several with commas."""


@functools.cache
def chain(text: str) -> tuple[CardPolicy, ...]:
    """Return the words of a ``CardChain``, first word first; settings hold few, so all are kept.

    >>> chain("mutex, binpack")
    (<CardPolicy.MUTEX: 'mutex'>, <CardPolicy.BINPACK: 'binpack'>)
    """
    return tuple(CardPolicy(word.strip()) for word in text.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringWeights:
    """How much slots, cores and memory count in a card's score."""

    slot: int = 1
    core: int = 1
    memory: int = 1
