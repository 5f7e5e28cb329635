"""The largest request of a pod that fits, found by asking the scheduling code again and again.

The amounts in the pod's own limits are changed and read anew, so every vendor's units,
steps and defaults hold for what is proposed, as they will for the pod that asks so.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.books import Books
from vgpu_operator.model import errors
from vgpu_operator.vendors import base, requests
from vgpu_operator.wire import quantity, shape

Json: TypeAlias = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Smaller:
    """One amount that is lower than the pod asks, in the unit of its resource.

    Attributes:
        resource: which limit.
        asked: the most that a container asks now; None where none names it.
        most: the most that any container may ask.
        given_up: which part of what the pod gets now that is; of the largest card where
            none is named.
    """

    resource: str
    asked: int | None
    most: int
    given_up: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Limits with which the pod fits, and where."""

    amounts: tuple[Smaller, ...]
    nodes: tuple[str, ...]

    @property
    def given_up(self) -> float:
        """The largest part of one amount that the pod would do without."""
        return max((amount.given_up for amount in self.amounts), default=0.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Knob:
    """One resource that can be asked less of.

    Attributes:
        counted_by: the vendor's count resource: who asks for a card asks this too.
        asked: as in ``Smaller``.
        top: where the search begins, one above the highest try.
    """

    resource: str
    counted_by: str
    asked: int | None
    top: int


def largest(
    books: Books, pod: Json, nodes: Sequence[str], *, priority: int = 0
) -> tuple[Change, ...]:
    """Return how much less the pod could ask to fit on one of the nodes, each way by itself.

    Where no single amount is enough, one way that lowers several; none where nothing is.

    Args:
        books: what is known.
        pod: a Pod that fits on none of the nodes now.
        nodes: where it may go.
        priority: of the pod.
    """
    knobs = [knob for vendor in books.vendors for knob in _knobs(books, pod, vendor, nodes)]
    search = _Search(books=books, pod=pod, nodes=nodes, priority=priority)
    singles = []
    for knob in knobs:
        most = search.most(knob, {})
        if most:
            singles.append(search.change([knob], {knob.resource: most}))
    if singles or len(knobs) < 2:
        return tuple(singles)
    caps = {knob.resource: 1 for knob in knobs}
    if not search.fits(knobs, caps):
        return ()
    for knob in knobs:
        caps[knob.resource] = search.most(knob, caps, others=knobs) or 1
    return (search.change(knobs, caps),)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Search:
    books: Books
    pod: Json
    nodes: Sequence[str]
    priority: int

    def most(
        self, knob: _Knob, caps: Mapping[str, int], *, others: Sequence[_Knob] = ()
    ) -> int | None:
        """Return the highest cap of one amount with which the pod fits; None where none does."""
        knobs = others or (knob,)

        def fits(most: int) -> bool:
            return self.fits(knobs, {**caps, knob.resource: most})

        return _highest(fits, below=knob.top)

    def fits(self, knobs: Sequence[_Knob], caps: Mapping[str, int]) -> bool:
        return bool(self._fitting(knobs, caps))

    def change(self, knobs: Sequence[_Knob], caps: Mapping[str, int]) -> Change:
        """Return the change in words of the pod's author; what is not lowered is left out."""
        return Change(
            amounts=tuple(
                Smaller(
                    resource=knob.resource,
                    asked=knob.asked,
                    most=caps[knob.resource],
                    given_up=1 - caps[knob.resource] / (knob.asked or knob.top - 1),
                )
                for knob in knobs
                if caps[knob.resource] < knob.top - 1 or knob.asked != caps[knob.resource]
            ),
            nodes=self._fitting(knobs, caps),
        )

    def _fitting(self, knobs: Sequence[_Knob], caps: Mapping[str, int]) -> tuple[str, ...]:
        changed = self.pod
        for knob in knobs:
            changed = _capped(changed, knob, caps[knob.resource])
        aliases = self.books.settings.resource_aliases
        try:
            wish = requests.pod_request(changed, self.books.vendors, aliases=aliases)
        except errors.RequestError:
            return ()
        if not wish.wants_devices:
            return ()
        placement = flow_filter.place(self.books, wish, self.nodes, priority=self.priority)
        return placement.fitting


def _highest(holds: Callable[[int], bool], *, below: int) -> int | None:
    """Return the highest number from 1 that holds, given that all lower ones do too.

    >>> _highest(lambda n: n <= 7, below=100), _highest(lambda n: False, below=100)
    (7, None)
    """
    low, high = 0, below
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low or None


def _knobs(books: Books, pod: Json, vendor: base.Vendor, nodes: Sequence[str]) -> list[_Knob]:
    """Return what of one vendor the pod could ask less of, the number of cards first."""
    spec = vendor.spec
    asking = [limits for limits in map(_amounts, _containers(pod)) if spec.count_resource in limits]
    if not asking:
        return []
    found = []

    def knob(resource: str | None, top: int | None = None) -> None:
        if resource is None:
            return
        asked = max((_whole(limits.get(resource)) or 0 for limits in asking), default=0) or None
        most = top if asked is None else asked
        if most is not None and most > 1:
            found.append(
                _Knob(
                    resource=resource,
                    counted_by=spec.count_resource,
                    asked=asked,
                    top=most + (asked is None),
                )
            )

    knob(spec.count_resource)
    percent = spec.memory_percent_resource
    if percent is not None and any(percent in limits for limits in asking):
        knob(percent)
    else:
        largest_mib = max(
            (
                card.memory_mib
                for node in nodes
                for card in books.ledger.devices(node, spec.keyword)
            ),
            default=0,
        )
        knob(spec.memory_resource, largest_mib // spec.memory_unit_mib)
    knob(spec.cores_resource)
    return found


def _capped(pod: Json, knob: _Knob, most: int) -> Json:
    """Return the pod with no container asking more; one that names no amount names this one."""
    spec = dict(shape.mapping(pod.get("spec")))
    for field in ("initContainers", "containers"):
        if field in spec:
            spec[field] = [_capped_one(one, knob, most) for one in shape.mappings(spec[field])]
    return {**pod, "spec": spec}


def _capped_one(container: Json, knob: _Knob, most: int) -> Json:
    amounts = _amounts(container)
    if knob.counted_by not in amounts:
        return container
    asked = _whole(amounts.get(knob.resource))
    if asked is not None and 0 < asked <= most:
        return container
    if asked is None and knob.asked is not None:
        return container
    resources = dict(shape.mapping(container.get("resources")))
    resources["limits"] = {**shape.mapping(resources.get("limits")), knob.resource: str(most)}
    if "requests" in resources:
        resources["requests"] = {**shape.mapping(resources["requests"]), knob.resource: str(most)}
    return {**container, "resources": resources}


def _containers(pod: Json) -> list[Json]:
    return [container for _, _, container in shape.containers(pod)]


def _amounts(container: Json) -> Json:
    resources = shape.mapping(container.get("resources"))
    return {**shape.mapping(resources.get("requests")), **shape.mapping(resources.get("limits"))}


def _whole(value: object) -> int | None:
    try:
        return quantity.decode_integer(value)
    except errors.DecodeError:
        return None
