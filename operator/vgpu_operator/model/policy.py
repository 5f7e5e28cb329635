"""How nodes and cards are ordered."""

import enum
from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringWeights:
    """How much slots, cores and memory count in a card's score."""

    slot: int = 1
    core: int = 1
    memory: int = 1
