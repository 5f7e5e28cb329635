"""What a namespace may hold of one vendor in all, what it holds, what it may still take.

A ResourceQuota limits memory and cores over all containers of a namespace.
Amounts are in the unit that pods ask in: MiB (GB for Enflame's partitions), and
the vendor's unit of cores (percent of a card, sixteenths, NeuronCores), summed
over cards.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias


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

    def tighter(self, other: "Allowance") -> "Allowance":
        """Return the smaller of each.

        >>> Allowance(memory_mib=5, cores=1).tighter(Allowance(memory_mib=3))
        Allowance(memory_mib=3, cores=1)
        """
        return Allowance(
            memory_mib=_smaller(self.memory_mib, other.memory_mib),
            cores=_smaller(self.cores, other.cores),
        )

    def is_within(self, other: "Allowance") -> bool:
        """Whether nothing may be taken here that may not be taken there.

        >>> Allowance(memory_mib=1).is_within(Allowance(memory_mib=2))
        True
        >>> Allowance().is_within(Allowance(cores=2))
        False
        """
        return self.tighter(other) == self


UNLIMITED: Final = Allowance()

Limits: TypeAlias = Mapping[str, Allowance]
"""What a namespace may hold in all, by vendor keyword; absent is no limit."""

Allowances: TypeAlias = Mapping[str, Allowance]
"""What a pod's namespace may still take, by vendor keyword; absent is no limit.

The pod's own share, where it holds or is assumed to hold one, is not taken off.
"""

NO_LIMITS: Final[Allowances] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one namespace stands: its limits, and what its pods hold."""

    limits: Limits = field(default_factory=_nothing)
    used: Used = field(default_factory=_nothing)

    @property
    def allowances(self) -> Allowances:
        """What may still be taken, of the vendors that are limited."""
        return {
            vendor: limit.less(self.used.get(vendor, NOTHING))
            for vendor, limit in self.limits.items()
        }


UNBOUNDED: Final = Standing()
"""A namespace without limits."""


def tightest(many: Iterable[Limits]) -> Limits:
    """Return the limits that hold where all of these do."""
    memory: dict[str, int | None] = {}
    cores: dict[str, int | None] = {}
    for limits in many:
        for vendor, limit in limits.items():
            memory[vendor] = _smaller(memory.get(vendor), limit.memory_mib)
            cores[vendor] = _smaller(cores.get(vendor), limit.cores)
    return {
        vendor: Allowance(memory_mib=most, cores=cores[vendor]) for vendor, most in memory.items()
    }


def _smaller(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return one if one <= other else other


def _within(asked: int, left: int | None) -> bool:
    return asked <= 0 or left is None or asked <= left
