"""What each namespace holds of each vendor, for namespace quotas.

Follows the pods' holdings one by one, so it costs nothing to ask.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from vgpu_operator.model import quota

_NONE: Final[quota.Used] = MappingProxyType({})


class Account:
    """Per namespace and vendor the sum over its pods; what is nothing is dropped."""

    def __init__(self) -> None:
        self._used: dict[str, dict[str, quota.Amount]] = {}

    def move(self, namespace: str, before: quota.Used, after: quota.Used) -> bool:
        """Put what a pod holds now in place of what it held; return whether something got free."""
        freed = False
        for vendor in {**before, **after}:
            was, now = before.get(vendor, quota.NOTHING), after.get(vendor, quota.NOTHING)
            if was == now:
                continue
            freed |= now.memory_mib < was.memory_mib or now.cores < was.cores
            of_vendor = self._used.setdefault(namespace, {})
            of_vendor[vendor] = of_vendor.get(vendor, quota.NOTHING) + (now - was)
            if of_vendor[vendor] == quota.NOTHING:
                del of_vendor[vendor]
            if not of_vendor:
                del self._used[namespace]
        return freed

    def used(self, namespace: str) -> Mapping[str, quota.Amount]:
        """Return what the namespace's pods hold, by vendor."""
        return MappingProxyType(dict(self._used.get(namespace, _NONE)))
