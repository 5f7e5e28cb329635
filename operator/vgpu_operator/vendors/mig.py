"""NVIDIA cards in MIG mode: which instance a share gets, and how that is written.

A card in MIG mode is cut into instances. A *profile* is a kind of instance
(``1g.5gb``) with memory and cores of its own, a *placement* is where one may
lie on the card (start and size, in memory slices). A share is served by the
smallest allowed profile that is large enough and has a free placement, and is
charged that profile's amounts.

Source of the rules and of the text: HAMi v2.10.0
(``pkg/device/nvidia/mig_topology.go``, ``mig_allocations.go``, ``device.go``).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from vgpu_operator.model import allocation, device, errors, fitting, request
from vgpu_operator.wire import fields, json_members, register_json

MODE: Final = "mig"
"""The mode that the plugin registers for such a card."""

ALLOCATIONS_KEY: Final = "hami.io/vgpu-mig-allocations"
"""Pod annotation: JSON list of the instances that the pod's shares get."""

_FROM_THE_END: Final = ("1g.", "3g.")
"""Profiles that are laid from the end of the card, to keep room for larger ones."""

AllowList: TypeAlias = Sequence[tuple[Sequence[str], Sequence[str]]]
"""(parts of model texts, profile names); the first entry that names a model counts."""

Found: TypeAlias = tuple[device.MigProfile, device.MigPlacement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One share's instance, as the scheduler reserved it.

    Attributes:
        container: index of the container, init containers first.
        share: index of the share among the container's shares.
        device_id: the card's id.
        identity: the plugin's own names of the instance once it has made it:
            MIG UUID, GPU instance and compute instance.
    """

    container: int
    share: int
    device_id: str
    profile: str
    placement: device.MigPlacement
    identity: tuple[str, int, int] | None = None


def decode_allocations(text: str) -> tuple[Instance, ...]:
    """Read a pod's MIG allocations.

    >>> decode_allocations('[{"gpuUUID":"GPU-a0","profile":"1g.5gb",'
    ...                    '"placement":{"start":6,"size":1}}]')[0].placement
    MigPlacement(start=6, size=1)

    Raises:
        DecodeError: not all of it can be read: half a layout is none.
    """
    if text.strip() in ("", "null"):
        return ()
    found: dict[tuple[int, int], Instance] = {}
    for segment, (offset, element) in enumerate(
        register_json.split_list(text, key=ALLOCATIONS_KEY)
    ):
        try:
            instance = _decode_instance(element)
            reason = (
                ""
                if (instance.container, instance.share) not in found
                else "the same share came before"
            )
        except errors.DecodeError as fault:
            reason = fault.reason
        if reason:
            raise errors.DecodeError(reason, key=ALLOCATIONS_KEY, segment=segment, offset=offset)
        found[instance.container, instance.share] = instance
    return tuple(found.values())


def encode_allocations(instances: Iterable[Instance]) -> str:
    """Write a pod's MIG allocations, members in HAMi's order, nothing that is absent."""
    return json.dumps([_members(one) for one in instances], separators=(",", ":"))


def allowed(card: device.Device, allow_list: AllowList) -> tuple[device.MigProfile, ...]:
    """Return the profiles that may be used on a card: of its registered ones, those allowed.

    A model that no entry names may use all: its plugin registers only what
    its own list allows.
    """
    for models, names in allow_list:
        if any(model in card.type for model in models):
            return tuple(profile for profile in card.mig_profiles if profile.name in names)
    return card.mig_profiles


def pick(
    profiles: Sequence[device.MigProfile],
    occupied: Sequence[device.MigPlacement],
    *,
    memory_mib: int,
    cores_percent: int,
) -> Found | None:
    """Return the smallest profile that is large enough and where it lies; None when none is free.

    >>> small = device.MigProfile(name="1g.5gb", memory_mib=4864, cores_percent=14, slice_count=1,
    ...     placements=(device.MigPlacement(start=0, size=1), device.MigPlacement(start=6, size=1)))
    >>> pick([small], [], memory_mib=4864, cores_percent=0)[1].start
    6
    >>> pick([small], [], memory_mib=4865, cores_percent=0) is None
    True
    """
    for profile in sorted(profiles, key=lambda one: (one.memory_mib, one.slice_count)):
        if profile.memory_mib < memory_mib or profile.cores_percent < cores_percent:
            continue
        from_the_end = profile.name.startswith(_FROM_THE_END)
        for place in sorted(profile.placements, key=lambda one: one.start, reverse=from_the_end):
            if not any(_overlap(place, other) for other in occupied):
                return profile, place
    return None


def held_by_others(
    cards: Sequence[fitting.CardState], card: fitting.CardState
) -> list[device.MigPlacement] | None:
    """Return the placements that other pods hold on one of a node's cards.

    None when it cannot be known: a pod holds a card in MIG mode without
    saying where, its text cannot be read or names a card that is not here, or
    it says (there or by the id of its share) that it holds an instance of a
    card that is not in MIG mode. Such a card must take nobody else.
    """
    found: list[device.MigPlacement] = []
    for tenants in _by_pod(card.tenants).values():
        if card.device.mode != MODE and any(one.share.names_instance for one in tenants):
            return None
        try:
            instances = decode_allocations(tenants[0].notes.get(ALLOCATIONS_KEY, ""))
        except errors.DecodeError:
            return None if card.device.mode == MODE else found
        mine = [one for one in instances if one.device_id == card.device.id]
        if card.device.mode != MODE:
            if mine:
                return None
            continue
        here = {one.device.id for one in cards}
        if any(one.device_id not in here for one in instances):
            return None
        for container in {tenant.container for tenant in tenants}:
            shares = sum(tenant.container == container for tenant in tenants)
            if shares > sum(one.container == container for one in mine):
                return None
        found.extend(one.placement for one in mine)
    return found


def laid_out(
    profiles: Sequence[device.MigProfile],
    occupied: Iterable[device.MigPlacement],
    shares: Iterable[allocation.DeviceShare],
) -> list[device.MigPlacement]:
    """Return what is occupied once these shares of one card have been placed, in order.

    A share is charged its profile's amounts, so the same picks come out again.
    """
    taken = list(occupied)
    for share in shares:
        found = pick(
            profiles,
            taken,
            memory_mib=share.memory_mib,
            cores_percent=share.cores_percent,
        )
        if found is not None:
            taken.append(found[1])
    return taken


def instances(
    shares: allocation.PodShares,
    kinds: Sequence[request.ContainerKind],
    profiles: Mapping[str, Sequence[device.MigProfile]],
    held: Callable[[str], Iterable[device.MigPlacement]],
) -> tuple[Instance, ...]:
    """Return the instances of a pod's shares on cards in MIG mode.

    An ordinary init container has ended when the next container starts, so it
    lies where the lasting containers may lie too.

    Args:
        shares: by container, init containers first.
        kinds: of the containers, in the same order.
        profiles: allowed ones by the id of each card in MIG mode.
        held: returns what other pods hold on a card.
    """
    lasting: dict[str, list[device.MigPlacement]] = {}
    found = []
    for container, (entry, kind) in enumerate(zip(shares, kinds, strict=True)):
        taken = {card: list(places) for card, places in lasting.items()}
        for index, share in enumerate(entry):
            if share.device_id not in profiles:
                continue
            occupied = taken.setdefault(share.device_id, list(held(share.device_id)))
            picked = pick(
                profiles[share.device_id],
                occupied,
                memory_mib=share.memory_mib,
                cores_percent=share.cores_percent,
            )
            if picked is None:
                continue
            occupied.append(picked[1])
            found.append(
                Instance(
                    container=container,
                    share=index,
                    device_id=share.device_id,
                    profile=picked[0].name,
                    placement=picked[1],
                )
            )
        if kind is not request.ContainerKind.INIT:
            lasting = taken
    return tuple(found)


def _overlap(one: device.MigPlacement, other: device.MigPlacement) -> bool:
    return one.start < other.start + other.size and other.start < one.start + one.size


def _by_pod(tenants: Iterable[fitting.Tenant]) -> dict[request.PodKey, list[fitting.Tenant]]:
    found: dict[request.PodKey, list[fitting.Tenant]] = {}
    for tenant in tenants:
        found.setdefault(tenant.pod, []).append(tenant)
    return found


def _decode_instance(element: object) -> Instance:
    members = json_members.members(element, name="a MIG allocation")
    place = json_members.members(members.get("placement") or {}, name="placement")
    device_id = json_members.text(members, "gpuuuid")
    profile = json_members.text(members, "profile")
    placement = device.MigPlacement(
        start=json_members.integer(place, "start", low=0),
        size=json_members.integer(place, "size", low=0),
    )
    if not device_id or not profile or not placement.size:
        raise errors.DecodeError("the card, the profile or the placement is missing")
    return Instance(
        container=json_members.integer(members, "containerindex", low=0),
        share=json_members.integer(members, "deviceindex", low=0),
        device_id=device_id,
        profile=profile,
        placement=placement,
        identity=_identity(members),
    )


def _identity(members: Mapping[str, object]) -> tuple[str, int, int] | None:
    uuid = json_members.text(members, "miguuid")
    given = [members.get(name) is not None for name in ("gpuinstanceid", "computeinstanceid")]
    if not uuid and not any(given):
        return None
    if not uuid or not all(given):
        raise errors.DecodeError("migUUID, gpuInstanceID and computeInstanceID go together")
    return (
        uuid,
        json_members.integer(members, "gpuinstanceid", low=0, high=fields.INT64_MAX),
        json_members.integer(members, "computeinstanceid", low=0, high=fields.INT64_MAX),
    )


def _members(instance: Instance) -> dict[str, object]:
    found: dict[str, object] = {
        "containerIndex": instance.container,
        "deviceIndex": instance.share,
        "gpuUUID": instance.device_id,
        "profile": instance.profile,
        "placement": {"start": instance.placement.start, "size": instance.placement.size},
    }
    if instance.identity is not None:
        names = ("migUUID", "gpuInstanceID", "computeInstanceID")
        found |= dict(zip(names, instance.identity, strict=True))
    return found
