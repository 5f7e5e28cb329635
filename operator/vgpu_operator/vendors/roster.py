"""The vendors that are served, findable by what stands on a node or a pod.

There are two dozen vendors and most objects name one or none of them: whoever
reads thousands of objects looks up what is there instead of asking every vendor.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence

from vgpu_operator.vendors import base


class Roster(tuple[base.Vendor, ...]):
    """Vendors in HAMi's order of registration, with indexes."""

    @functools.cached_property
    def by_keyword(self) -> Mapping[str, base.Vendor]:
        """The vendors by keyword."""
        return {vendor.spec.keyword: vendor for vendor in self}

    @functools.cached_property
    def _by_resource(self) -> Mapping[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for place, vendor in enumerate(self):
            for name in vendor.spec.resources:
                found[name] = (*found.get(name, ()), place)
        return found

    def asked(self, names: Iterable[str]) -> Sequence[base.Vendor]:
        """Return the vendors with a resource among ``names``, in their order."""
        index = self._by_resource
        places = {place for name in names for place in index.get(name, ())}
        return [self[place] for place in sorted(places)]


def of(vendors: Sequence[base.Vendor]) -> Roster:
    """Return the vendors as a roster; one that is a roster already keeps its indexes."""
    return vendors if isinstance(vendors, Roster) else Roster(vendors)
