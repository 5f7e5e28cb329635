"""What a pod's annotations promise it, in whichever dialect of the protocol they are written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from vgpu_operator.model import allocation, errors, records, request
from vgpu_operator.vendors import base, roster
from vgpu_operator.wire import bind_phase, clock_text, dialects, fields, pod_devices, shape
from vgpu_operator.wire import shared_devices as shared

_Shares: TypeAlias = dict[str, allocation.PodShares]
_Faults: TypeAlias = dict[str, errors.DecodeError]


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A pod's promise; the fields are those of ``records.PodRecord``."""

    node: str = ""
    shares: Mapping[str, allocation.PodShares] = field(default_factory=_nothing)
    faults: Mapping[str, errors.DecodeError] = field(default_factory=_nothing)
    to_allocate: frozenset[str] = frozenset()
    bind_phase: records.BindPhase | None = None
    bind_time_s: int | None = None
    carried: frozenset[str] = frozenset()


NO_PROMISE = Promise()


def read(
    annotations: Mapping[str, Any],
    vendors: Sequence[base.Vendor],
    wish: request.PodRequest,
    *,
    node: str,
    admitted: bool = False,
) -> Promise:
    """Return what the annotations of a pod say; what cannot be read becomes a fault.

    Cards are found in every dialect, whichever the pod's node speaks today: a
    node that moves from one to another keeps its pods' cards charged. The bind
    phase and what is left to allocate come from the pod's own dialect.
    """
    served = roster.of(vendors)
    written = served.pod_keys.intersection(annotations)
    if not written:
        return NO_PROMISE
    spoken = dialects.written_on(annotations, node=node) or (dialects.HAMI,)
    shares: _Shares = {}
    faults: _Faults = {}
    to_allocate: set[str] = set()
    for dialect in dict.fromkeys((*spoken, *dialects.ALL)):
        if dialect.allocated is not None and dialect.allocated not in written:
            continue
        for keyword, promised, fault in _allocated(annotations, served, wish, dialect):
            if keyword in shares:
                continue
            shares[keyword] = promised
            if fault is not None:
                faults[keyword] = fault
    for dialect in spoken:
        to_allocate |= _left(annotations, served, dialect, admitted=admitted)
    return Promise(
        node=shape.text(annotations.get(spoken[0].assigned_node)),
        shares=shares,
        faults=faults,
        to_allocate=frozenset(to_allocate),
        bind_phase=_phase(annotations, spoken),
        bind_time_s=clock_text.decode_unix_s(shape.text(annotations.get(spoken[0].bind_time))),
        carried=frozenset(key for key in written if annotations[key]),
    )


_Found: TypeAlias = Iterator[tuple[str, allocation.PodShares, errors.DecodeError | None]]
"""Keyword, readable shares, and the first fault of a vendor's part."""


def _allocated(
    annotations: Mapping[str, Any],
    vendors: roster.Roster,
    wish: request.PodRequest,
    dialect: dialects.Dialect,
) -> _Found:
    """Yield what one dialect's keys promise of each vendor."""
    if dialect.allocated is not None:
        text = shape.text(annotations.get(dialect.allocated))
        if text:
            yield from _of_shared(text, vendors, wish, dialect)
        return
    for vendor in vendors.allocated(annotations):
        key = vendor.spec.allocated_key
        text = shape.text(annotations.get(key)) if key else ""
        if not key or not text:
            continue
        devices = pod_devices.decode_pod_devices(text, key=key, containers=len(wish.containers))
        fault = devices.faults[0] if devices.faults else None
        yield vendor.spec.keyword, devices.shares, fault


def _of_shared(
    text: str,
    vendors: Sequence[base.Vendor],
    wish: request.PodRequest,
    dialect: dialects.Dialect,
) -> _Found:
    """Yield each vendor's part of a text that is one for all vendors.

    What is unreadable names nobody for sure, so it is the fault of every
    vendor that the pod asks, or of the first where it asks none.
    """
    known = _known(vendors, dialect)
    if not known:
        return
    read_text = shared.decode(
        text, key=dialect.allocated or "", asked=_asked(wish, known), n_init=n_init(wish)
    )
    words = {share.vendor_word for of_container in read_text.shares for share in of_container}
    fault = read_text.faults[0] if read_text.faults else _unknown(words - set(known), dialect)
    asked = [keyword for keyword in wish.vendors if keyword in known] or known[:1]
    for keyword in known:
        at_fault = fault if keyword in asked else None
        if keyword not in words and at_fault is None:
            continue
        yield (
            keyword,
            tuple(
                tuple(share for share in of_container if share.vendor_word == keyword)
                for of_container in read_text.shares
            ),
            at_fault,
        )


def _known(vendors: Sequence[base.Vendor], dialect: dialects.Dialect) -> list[str]:
    """Return the keywords of the vendors that a dialect has keys for."""
    return [v.spec.keyword for v in vendors if v.spec.keyword in dialect.node_keys]


def _unknown(words: set[str], dialect: dialects.Dialect) -> errors.DecodeError | None:
    if not words:
        return None
    return errors.DecodeError(
        f"the word {fields.shown(min(words))} names no vendor of this dialect",
        key=dialect.allocated or "",
    )


def _asked(wish: request.PodRequest, known: Sequence[str]) -> list[int]:
    """Return how many devices of these vendors each container asks for."""
    return [
        sum(device.count for device in container.devices if device.vendor in known)
        for container in wish.containers
    ]


def n_init(wish: request.PodRequest) -> int:
    """Return how many init containers a pod has; they come first."""
    return sum(1 for c in wish.containers if c.kind is not request.ContainerKind.APP)


def _left(
    annotations: Mapping[str, Any],
    vendors: roster.Roster,
    dialect: dialects.Dialect,
    *,
    admitted: bool,
) -> set[str]:
    """Return the vendors that still have something to allocate.

    Where a vendor's plugin uses no lock, nobody waits for it to say so; where
    it never says so, the kubelet's admission does.
    """
    if dialect.to_allocate is None:
        return {
            vendor.spec.keyword
            for vendor in vendors.to_allocate(annotations)
            if vendor.spec.lock is not None
            and (vendor.spec.lock.reported or not admitted)
            and not pod_devices.is_served(
                shape.text(annotations.get(vendor.spec.to_allocate_key or ""))
            )
        }
    left = [
        entry.split(",")
        for segment in pod_devices.split_entries(shape.text(annotations.get(dialect.to_allocate)))
        for _, entry in segment
    ]
    known = _known(vendors, dialect)
    words = {entry[1] if len(entry) > 1 else "" for entry in left}
    # An entry that names none of them is left all the same.
    return {word if word in known else next(iter(known), word) for word in words}


def _phase(
    annotations: Mapping[str, Any], spoken: Sequence[dialects.Dialect]
) -> records.BindPhase | None:
    """Return the bind phase; of a pod in two dialects the one that is furthest from success."""
    if len(spoken) == 1:
        return bind_phase.decode_bind_phase(shape.text(annotations.get(spoken[0].bind_phase)))
    found = {
        bind_phase.decode_bind_phase(shape.text(annotations.get(dialect.bind_phase)))
        for dialect in spoken
    } - {None}
    for phase in (
        records.BindPhase.FAILED,
        records.BindPhase.ALLOCATING,
        records.BindPhase.SUCCESS,
    ):
        if phase in found:
            return phase
    return None
