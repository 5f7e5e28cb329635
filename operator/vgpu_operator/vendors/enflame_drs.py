"""Enflame, hard partitions: a container gets one partition of one card.

A node offers *profiles*, each so many slices and so much memory. A container
asks for a number of slices (direct), or for memory and cores, of which the
smallest profile that has both is given. Source: HAMi v2.10.0,
``pkg/device/enflame/device.go``. Whole cards are ``enflame``.

A ``DeviceRequest`` of this vendor holds in ``memory_mib`` the slices, or the
memory as it was written (GB or MiB, which only a node's profiles can tell);
``memory_percent`` says which of the two, as in HAMi.
"""

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vgpu_operator.model import allocation, device, errors, fitting, quota, reason, request
from vgpu_operator.model.vendor_settings.enflame import EnflameSettings
from vgpu_operator.vendors import amounts, base, charges, walk
from vgpu_operator.wire import clock_text, fields, gcu_capacity, node_register, quantity

KEYWORD: Final = "Enflame"
REGISTER_KEY: Final = "enflame.com/gcu-drs-capacity"

WHOLE_CARD: Final = 100

_SURELY_MIB: Final = 256
"""More GB than twice what any card has, which ``Menu.for_wish`` reads as MiB."""

DIRECT: Final = 0
BY_SPEC: Final = -1
"""``memory_percent`` of a request for slices, and for memory and cores."""

ASSIGNED_KEY: Final = "enflame.com/gcu-assigned"
TIME_KEY: Final = "enflame.com/gcu-assigned-time"
INDEX_KEY: Final = "enflame.com/gcu-assigned-index"
ID_KEY: Final = "enflame.com/gcu-assigned-id"
MINOR_KEY: Final = "enflame.com/gcu-assigned-minor"
SIZE_KEY: Final = "enflame.com/gcu-request-size"
CONTAINERS_KEY: Final = "assigned-containers"
"""Pod annotations that Enflame's plugin reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """All profiles of a node, small ones first."""

    profiles: tuple[gcu_capacity.Profile, ...]

    def cores_percent(self, profile: gcu_capacity.Profile) -> int:
        """Return the profile's part of a card, rounded up."""
        return -(-profile.slices * WHOLE_CARD // self.profiles[-1].slices)

    def for_wish(self, wish: request.DeviceRequest) -> gcu_capacity.Profile | None:
        """Return the profile that such a request is given; None when none does."""
        if wish.memory_percent == DIRECT:
            fits = (p for p in self.profiles if p.slices == wish.memory_mib)
            return next(fits, None)
        largest_gb = max((p.memory_gb for p in self.profiles), default=0)
        memory_gb = wish.memory_mib
        if memory_gb > 2 * largest_gb:
            memory_gb = -(-memory_gb // gcu_capacity.MIB_PER_GB)
        fits = (
            p
            for p in self.profiles
            if p.memory_gb >= memory_gb and self.cores_percent(p) >= wish.cores_percent
        )
        return next(fits, None)

    def of_share(self, share: allocation.DeviceShare) -> gcu_capacity.Profile | None:
        """Return the profile that a share on a pod was cut by; None when no longer known."""
        return next((p for p in self.profiles if p.memory_mib == share.memory_mib), None)


def menu(cards: Iterable[device.Device]) -> Menu:
    """Return the profiles of these cards; of equal names the last one counts."""
    named: dict[str, gcu_capacity.Profile] = {}
    for card in cards:
        for name, number in card.custom_info.get("profiles", {}).items():
            profile = gcu_capacity.decode_profile(name, number)
            if profile is not None:
                named[name] = profile
    return Menu(profiles=tuple(sorted(named.values())))


class EnflameDrs(base.Common):
    """Partitions under the names of Enflame's settings."""

    vectorised = False

    def __init__(self, settings: EnflameSettings) -> None:
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="enflame-drs",
            register_key=REGISTER_KEY,
            handshake_key=None,
            to_allocate_key=None,
            allocated_key="hami.io/enflame-vgpu-devices-allocated",
            more_pod_keys=(
                ASSIGNED_KEY,
                TIME_KEY,
                INDEX_KEY,
                ID_KEY,
                MINOR_KEY,
                SIZE_KEY,
                CONTAINERS_KEY,
            ),
            lock=None,
            count_resource=settings.slices_resource,
            memory_resource=settings.resource_name_gcu_memory or None,
            cores_resource=settings.resource_name_gcu_core or None,
            use_id_key="enflame.com/use-gpuuuid",
            avoid_id_key="enflame.com/nouse-gpuuuid",
        )

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Read the node's capacity annotation."""
        return gcu_capacity.decode_capacity(text, node=node, word=KEYWORD, key=REGISTER_KEY)

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return the one partition that a container asks for; slices win over amounts."""
        slices = amounts.amount(
            self.spec.count_resource, limits, requests, hint="write slices of one card, such as 1"
        )
        if slices:
            return _wish(slices, cores=0, way=DIRECT)
        spec = self.spec
        memory = _rounded_up(spec.memory_resource, limits, requests, hint="write GB or MiB")
        cores = _rounded_up(
            spec.cores_resource, limits, requests, hint=_CORES_HINT, at_most=WHOLE_CARD
        )
        if not memory and not cores:
            return None
        return _wish(memory or 0, cores=cores or 0, way=BY_SPEC)

    def admit(
        self,
        container: Mapping[str, Any],
        pod: Mapping[str, Any],  # noqa: ARG002
    ) -> base.ContainerChanges:
        """Claim a container that asks for slices, memory or cores, in limits or requests."""
        limits, requests = amounts.quantities(container)
        spec = self.spec
        by_slices = amounts.asked(spec.count_resource, limits, requests) is not None
        names = (spec.count_resource,) if by_slices else (spec.memory_resource, spec.cores_resource)
        named = {
            name: raw
            for name in names
            if name and (raw := amounts.asked(name, limits, requests)) is not None
        }
        if not named:
            return base.ContainerChanges(asks=False)
        wish = self.derive(limits, requests)
        for name, raw in named.items():
            if wish is None or quantity.decode_rounded_up(raw) <= 0:
                raise errors.RequestError(
                    f"{name}: {fields.shown(raw)} is nothing; write 1 or more"
                )
        missing = amounts.only_in_requests(named, limits, requests)
        others = (spec.memory_resource, spec.cores_resource) if by_slices else ()
        return base.ContainerChanges(
            asks=True,
            resources=missing,
            warnings=(
                *amounts.passed_over(container, others, beside=spec.count_resource),
                *amounts.fraction_warnings(container, _roundings(named)),
            ),
        )

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Cut the first card that has room for the profile."""
        if not node.cards:
            return fitting.Refused(counts={reason.Reason.TOO_FEW_CARDS.value: 0})
        offered = menu(card.device for card in _by_index(node.cards))
        profile = offered.for_wish(ask.wish)
        if profile is None:
            return fitting.Refused(counts={reason.Reason.MODE_NOT_FIT.value: 1})
        memory_mib, cores = profile.memory_mib, offered.cores_percent(profile)

        def has_memory(card: fitting.CardState, _: fitting.Ask) -> str | None:
            short = card.device.memory_mib - card.used_memory_mib < memory_mib
            return reason.Reason.INSUFFICIENT_MEMORY.value if short else None

        def has_cores(card: fitting.CardState, _: fitting.Ask) -> str | None:
            short = card.device.cores_percent - card.used_cores < cores
            return reason.Reason.INSUFFICIENT_CORES.value if short else None

        answer = walk.first_fitting(node, ask, (*walk.BY_SLOTS, has_memory, has_cores))
        if isinstance(answer, fitting.Refused):
            return answer
        return tuple(
            fitting.Pick(card=pick.card, memory_mib=memory_mib, cores=cores, slots=profile.slices)
            for pick in answer
        )

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,
    ) -> allocation.DeviceShare:
        """Cut to the profile that the request is given on that card."""
        offered = menu(() if card is None else (card,))
        profile = offered.for_wish(asked)
        if profile is None:
            return super().cap(asked, share, card)
        return charges.cut(share, profile.memory_mib, offered.cores_percent(profile))

    def slots_of(self, share: allocation.DeviceShare, card: device.Device | None) -> int:
        """Return the slices of the share's profile; 1 when it is not known."""
        profile = None if card is None else menu((card,)).of_share(share)
        return 1 if profile is None else profile.slices

    def quota_amount(
        self,
        share: allocation.DeviceShare,
        card: device.Device | None,  # noqa: ARG002
    ) -> quota.Amount:
        """Return GB, the unit of the memory resource, and percent."""
        memory_gb = -(-share.memory_mib // gcu_capacity.MIB_PER_GB)
        return quota.Amount(memory_mib=memory_gb, cores=share.cores_percent)

    def least_cost(
        self,
        asked: request.DeviceRequest,
        notes: Mapping[str, str],  # noqa: ARG002
    ) -> quota.Amount:
        """Return GB and percent; of slices only that they are something."""
        if asked.memory_percent == DIRECT:
            return quota.Amount(memory_mib=1, cores=1)
        memory_gb = asked.memory_mib
        if memory_gb > _SURELY_MIB:
            memory_gb = -(-memory_gb // gcu_capacity.MIB_PER_GB)
        return quota.Amount(memory_mib=memory_gb, cores=asked.cores_percent)

    def more_annotations(self, grant: base.Grant, now: datetime.datetime) -> Mapping[str, str]:
        """Return what Enflame's plugin reads: the first partition, and one entry a container."""
        texts = {ASSIGNED_KEY: "false", TIME_KEY: clock_text.encode_unix_ns(now)}
        offered = menu(sorted(grant.devices.values(), key=lambda card: card.index))
        entries: dict[str, dict[str, object]] = {}
        for index, entry in enumerate(grant.shares):
            wish = grant.request.containers[index].of(KEYWORD)
            card = grant.devices.get(entry[0].device_id) if entry else None
            profile = None if wish is None else offered.for_wish(wish)
            if card is None or profile is None:
                continue
            if not entries:
                texts[INDEX_KEY] = texts[ID_KEY] = str(card.custom_info.get("index", card.index))
                texts[MINOR_KEY] = str(card.custom_info.get("minor", card.index))
                texts[SIZE_KEY] = str(profile.slices)
            entries[grant.containers[index]] = {
                "allocated": False,
                "request": profile.slices,
                "profileID": profile.id,
                "profileName": profile.name,
            }
        if entries:
            ordered = dict(sorted(entries.items()))
            texts[CONTAINERS_KEY] = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
        return texts


_CORES_HINT: Final = "write percent of one card, 1 to 100"


def _wish(amount: int, *, cores: int, way: int) -> request.DeviceRequest:
    return request.DeviceRequest(
        vendor=KEYWORD,
        count=1,
        memory_mib=amount,
        memory_percent=way,
        cores_percent=cores,
        memory_by_default=True,
        cores_by_default=True,
    )


def _roundings(named: Mapping[str, Any]) -> Mapping[str | None, str]:
    """Say what each amount counts as."""
    return {name: f"it counts as {quantity.decode_rounded_up(raw)}" for name, raw in named.items()}


def _rounded_up(
    name: str | None,
    limits: Mapping[str, Any],
    requests: Mapping[str, Any],
    *,
    hint: str,
    at_most: int = fields.INT32_MAX,
) -> int | None:
    """Return an amount rounded up to a whole number; None when nobody sets it."""
    raw = amounts.asked(name, limits, requests)
    if raw is None:
        return None
    try:
        value = quantity.decode_rounded_up(raw)
    except errors.DecodeError as fault:
        raise errors.RequestError(f"{name}: {fields.shown(raw)} is no number; {hint}") from fault
    if value < 0:
        raise errors.RequestError(f"{name}: {fields.shown(raw)} is negative; {hint}")
    if value > at_most:
        raise errors.RequestError(f"{name}: {fields.shown(raw)} is more than {at_most}; {hint}")
    return value


def _by_index(cards: Sequence[fitting.CardState]) -> list[fitting.CardState]:
    return sorted(cards, key=lambda card: card.device.index)


def backends(settings: EnflameSettings) -> tuple[base.Vendor, ...]:
    """Return the back end for partitions; none while it is off."""
    return (EnflameDrs(settings),) if settings.enabled else ()
