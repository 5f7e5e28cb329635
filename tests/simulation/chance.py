"""Dice that depend on nothing but the seed and the name of the throw.

Two runs of one seed throw the same numbers for the same names, even where one
of them has left out a step in between: that is what makes a story shrink.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


class Chance:
    """Named dice.

    >>> Chance(7).number("lag", 1) == Chance(7).number("lag", 1)
    True
    >>> Chance(7).number("lag", 1) == Chance(8).number("lag", 1)
    False
    """

    def __init__(self, seed: int) -> None:
        self._key = str(seed).encode()

    def number(self, *name: object) -> float:
        """Return a number from 0 up to, not including, 1."""
        text = "\x1f".join(map(str, name)).encode()
        digest = hashlib.blake2b(text, digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest) >> 11) / 2**53

    def between(self, low: float, high: float, *name: object) -> float:
        """Return a number between two others."""
        return low + (high - low) * self.number(*name)

    def happens(self, probability: float, *name: object) -> bool:
        """Say whether something of that probability happens."""
        return probability > 0 and self.number(*name) < probability

    def integer(self, low: int, high: int, *name: object) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + int(self.number(*name) * (high - low + 1))

    def one_of(self, items: Sequence[_Item], *name: object) -> _Item:
        """Return one item of several."""
        return items[int(self.number(*name) * len(items))]
