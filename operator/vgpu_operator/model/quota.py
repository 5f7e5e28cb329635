"""What a namespace may still take of one vendor, and what it holds.

A ResourceQuota limits memory and cores over all containers of a namespace.
Amounts are in the unit that pods ask in: MiB, and the vendor's unit of cores
(percent of a card, sixteenths, NeuronCores), summed over cards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Memory and cores of one vendor, summed over cards and containers."""

    memory_mib: int = 0
    cores: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(memory_mib=self.memory_mib + other.memory_mib, cores=self.cores + other.cores)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(memory_mib=self.memory_mib - other.memory_mib, cores=self.cores - other.cores)

    def larger(self, other: "Amount") -> "Amount":
        """Return the larger of each.

        >>> Amount(memory_mib=1, cores=9).larger(Amount(memory_mib=2, cores=3))
        Amount(memory_mib=2, cores=9)
        """
        return Amount(
            memory_mib=max(self.memory_mib, other.memory_mib), cores=max(self.cores, other.cores)
        )


NOTHING: Final = Amount()

Used: TypeAlias = Mapping[str, Amount]
"""What a namespace holds, by vendor keyword; absent is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a namespace may still take of one vendor.

    None is no limit; 0 and less let nothing more in.
    """

    memory_mib: int | None = None
    cores: int | None = None

    def covers(self, amount: Amount) -> bool:
        """Whether that much may be taken; what is not asked is never too much.

        >>> Allowance(memory_mib=100).covers(Amount(memory_mib=100, cores=500))
        True
        >>> Allowance(memory_mib=0).covers(Amount(memory_mib=1))
        False
        >>> Allowance(cores=-10).covers(Amount(memory_mib=1))
        True
        """
        return _within(amount.memory_mib, self.memory_mib) and _within(amount.cores, self.cores)

    def less(self, amount: Amount) -> "Allowance":
        """Return what is left after that much was taken."""
        return Allowance(
            memory_mib=None if self.memory_mib is None else self.memory_mib - amount.memory_mib,
            cores=None if self.cores is None else self.cores - amount.cores,
        )


UNLIMITED: Final = Allowance()

Allowances: TypeAlias = Mapping[str, Allowance]
"""What a pod's namespace may still take, by vendor keyword; absent is no limit.

The pod's own share, where it holds or is assumed to hold one, is not taken off.
"""

NO_LIMITS: Final[Allowances] = MappingProxyType({})


def _within(asked: int, left: int | None) -> bool:
    return asked <= 0 or left is None or asked <= left
