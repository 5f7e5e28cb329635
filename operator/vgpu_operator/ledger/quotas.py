"""What each namespace may hold and holds of each vendor.

Follows the pods' holdings one by one, so it costs nothing to ask.
"""

from collections.abc import Collection
from types import MappingProxyType
from typing import Final

from vgpu_operator.ledger import freed
from vgpu_operator.model import quota

_NONE: Final[quota.Used] = MappingProxyType({})


class Account:
    """Per namespace its limits, and by vendor the sum over its pods; what is nothing is dropped."""

    def __init__(self) -> None:
        self._used: dict[str, dict[str, quota.Amount]] = {}
        self._limits: dict[str, quota.Limits] = {}
        self._freed = freed.FreedLog()

    def set_limits(self, namespace: str, limits: quota.Limits, generation: int) -> bool:
        """Replace a namespace's limits; return whether they are other ones now."""
        before = self._limits.pop(namespace, quota.NO_LIMITS)
        if limits:
            self._limits[namespace] = MappingProxyType(dict(limits))
        if before == limits:
            return False
        if not all(
            limits.get(vendor, quota.UNLIMITED).is_within(limit) for vendor, limit in before.items()
        ):
            self._freed.note(namespace, generation)
        return True

    def move(self, namespace: str, before: quota.Used, after: quota.Used, generation: int) -> None:
        """Put what a pod holds from that generation on in place of what it held."""
        has_freed = False
        for vendor in {**before, **after}:
            was, now = before.get(vendor, quota.NOTHING), after.get(vendor, quota.NOTHING)
            if was == now:
                continue
            has_freed |= now.memory_mib < was.memory_mib or now.cores < was.cores
            of_vendor = self._used.setdefault(namespace, {})
            of_vendor[vendor] = of_vendor.get(vendor, quota.NOTHING) + (now - was)
            if of_vendor[vendor] == quota.NOTHING:
                del of_vendor[vendor]
            if not of_vendor:
                del self._used[namespace]
        # Where nothing is limited nobody waits for it.
        if has_freed and namespace in self._limits:
            self._freed.note(namespace, generation)

    def standing(self, namespace: str, *, without: quota.Used = _NONE) -> quota.Standing:
        """Return the limits, and what the namespace's pods hold less ``without``."""
        used = dict(self._used.get(namespace, _NONE))
        for vendor, amount in without.items():
            used[vendor] = used.get(vendor, quota.NOTHING) - amount
        return quota.Standing(
            limits=self._limits.get(namespace, quota.NO_LIMITS), used=MappingProxyType(used)
        )

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that hold anything or are limited, sorted."""
        return tuple(sorted({*self._used, *self._limits}))

    def forget_freed(self, *, waiting: Collection[str]) -> None:
        """Forget what became available where nothing is limited and nobody waits."""
        self._freed.keep(lambda namespace: namespace in self._limits or namespace in waiting)

    @property
    def newest_freed(self) -> int:
        """The last generation in which a namespace might take more; -1 when never."""
        return self._freed.newest

    def freed_since(self, generation: int) -> frozenset[str]:
        """Return the namespaces that may take more than at that generation."""
        return self._freed.since(generation)
