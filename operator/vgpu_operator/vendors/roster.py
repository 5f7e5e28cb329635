"""The vendors that are served, findable by what stands on a node or a pod.

There are two dozen vendors and most objects name one or none of them: whoever
reads thousands of objects looks up what is there instead of asking every vendor.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from vgpu_operator.model import request
from vgpu_operator.vendors import base
from vgpu_operator.wire import dialects, lock_kinds

_Places = Mapping[str, tuple[int, ...]]

_REMEMBERED = 4096
"""Containers whose request is remembered: pods of one workload all ask alike."""


class Roster(tuple[base.Vendor, ...]):
    """Vendors in HAMi's order of registration, with indexes."""

    @functools.cached_property
    def by_keyword(self) -> Mapping[str, base.Vendor]:
        """The vendors by keyword."""
        return {vendor.spec.keyword: vendor for vendor in self}

    @functools.cached_property
    def pod_keys(self) -> frozenset[str]:
        """Every pod annotation that only the protocol writes."""
        own = (key for vendor in self for key in vendor.spec.pod_keys)
        return frozenset((*own, *dialects.POD_KEYS))

    @functools.cached_property
    def locks(self) -> Mapping[str, lock_kinds.LockKind]:
        """Every lock that some vendor or dialect uses, by its annotation, sorted."""
        own = [vendor.spec.lock for vendor in self if vendor.spec.lock is not None]
        of_dialects = [dialect.lock for dialect in dialects.ALL if dialect.lock is not None]
        kinds = {kind.key: kind for kind in (*own, *of_dialects)}
        return dict(sorted(kinds.items()))

    @functools.cached_property
    def resources(self) -> frozenset[str]:
        """Every resource that some vendor counts."""
        return frozenset(self._by_resource)

    @functools.cached_property
    def requests(self) -> dict[object, request.ContainerRequest]:
        """What containers ask for, by what they are made of; see ``remember``."""
        return {}

    def locks_of(self, keywords: tuple[str, ...]) -> frozenset[str]:
        """Return the locks that these vendors' plugins use today."""
        known = self._locks_of.get(keywords)
        if known is None:
            served = (self.by_keyword.get(word) for word in keywords)
            locks = (vendor.spec.lock_key for vendor in served if vendor is not None)
            known = self._locks_of[keywords] = frozenset(filter(None, locks))
        return known

    @functools.cached_property
    def _locks_of(self) -> dict[tuple[str, ...], frozenset[str]]:
        return {}

    def remember(self, of: object, asked: request.ContainerRequest) -> None:
        """Keep what a container asks for, the last few thousand of them."""
        if len(self.requests) >= _REMEMBERED:
            self.requests.clear()
        self.requests[of] = asked

    def asked(self, names: Iterable[str]) -> Sequence[base.Vendor]:
        """Return the vendors with a resource among ``names``, in their order."""
        return self._found(self._by_resource, names)

    def on_node(self, names: Iterable[str]) -> Sequence[base.Vendor]:
        """Return the vendors of which anything stands on a node, in their order.

        Args:
            names: the node's annotations, labels and resources.
        """
        return self._found(self._by_node_name, names)

    def allocated(self, keys: Iterable[str]) -> Sequence[base.Vendor]:
        """Return the vendors whose allocated key is among ``keys``, in their order."""
        return self._found(self._by_allocated_key, keys)

    def to_allocate(self, keys: Iterable[str]) -> Sequence[base.Vendor]:
        """Return the vendors whose to-allocate key is among ``keys``, in their order."""
        return self._found(self._by_to_allocate_key, keys)

    @functools.cached_property
    def _by_resource(self) -> _Places:
        return self._index(lambda spec: spec.resources)

    @functools.cached_property
    def _by_node_name(self) -> _Places:
        return self._index(_node_names)

    @functools.cached_property
    def _by_allocated_key(self) -> _Places:
        return self._index(lambda spec: (spec.allocated_key or "",))

    @functools.cached_property
    def _by_to_allocate_key(self) -> _Places:
        return self._index(lambda spec: (spec.to_allocate_key or "",))

    def _index(self, names: Callable[[base.VendorSpec], Iterable[str]]) -> _Places:
        found: dict[str, tuple[int, ...]] = {}
        for place, vendor in enumerate(self):
            for name in filter(None, names(vendor.spec)):
                found[name] = (*found.get(name, ()), place)
        return found

    def _found(self, index: _Places, names: Iterable[str]) -> Sequence[base.Vendor]:
        places = {place for name in names for place in index.get(name, ())}
        return [self[place] for place in sorted(places)]


def _node_names(spec: base.VendorSpec) -> Iterable[str]:
    """Yield whatever a vendor reads on a node, its lock apart: that is shared by most."""
    yield from (
        spec.register_key or "",
        spec.handshake_key or "",
        spec.supply_resource or "",
        *spec.resources,
        *spec.node_note_keys,
    )
    for dialect in dialects.ALL:
        for places in dialect.node_keys.get(spec.keyword, ()):
            yield from (places.register, places.handshake)


def of(vendors: Sequence[base.Vendor]) -> Roster:
    """Return the vendors as a roster; one that is a roster already keeps its indexes."""
    return vendors if isinstance(vendors, Roster) else Roster(vendors)
