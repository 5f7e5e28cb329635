"""Kunlun, slices of a card (vXPU): a quarter, a half or the whole of it.

All users of a card have slices of the same size. Source: HAMi v2.10.0,
``pkg/device/kunlun/vdevice.go``.
"""

from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import allocation, device, fitting, reason, request
from vgpu_operator.model.vendor_settings import kunlun as kunlun_settings
from vgpu_operator.vendors import amounts, base, charges, kunlun_topology, walk
from vgpu_operator.wire import fields, lock_kinds

KEYWORD: Final = "XPU"

SLICES_MIB: Final = (24576, 49152, 98304)
"""What a slice may be; a larger request gets the whole card."""

CARD_MEMORY_MIB: Final = SLICES_MIB[-1]

_MEMORY_HINT: Final = "write MiB as a plain number without a suffix, such as 24576"


class KunlunVxpu(base.Common):
    """Kunlun's slices under the names of its settings."""

    vectorised = False

    def __init__(self, settings: kunlun_settings.KunlunSettings) -> None:
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="kunlun-vxpu",
            register_key="hami.io/node-register-xpu",
            handshake_key="hami.io/node-handshake-xpu",
            to_allocate_key="hami.io/xpu-devices-to-allocate",
            allocated_key="hami.io/xpu-devices-allocated",
            lock=lock_kinds.NODE_LOCK,
            count_resource=settings.resource_v_count_name,
            memory_resource=settings.resource_v_memory_name or None,
        )

    def selection(self, annotations: Mapping[str, Any]) -> request.CardSelection:
        """Return the rules of both spellings of the id lists."""
        return kunlun_topology.selection(annotations)

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return that many slices of the smallest size that is large enough."""
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        asked = self._memory_mib(limits, requests)
        memory_mib = CARD_MEMORY_MIB if asked is None else slice_mib(asked)
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_mib=memory_mib,
            memory_percent=100 if asked is None else 0,
            cores_percent=memory_mib * 100 // CARD_MEMORY_MIB,
            memory_by_default=asked is None,
            cores_by_default=asked is None,
        )

    def admit(self, container: Mapping[str, Any], pod: Mapping[str, Any]) -> base.ContainerChanges:
        """Write the slice's size where a memory is asked."""
        changes = super().admit(container, pod)
        limits, requests = amounts.quantities(container)
        asked = self._memory_mib(limits, requests)
        if not changes.asks or not self.spec.memory_resource or asked is None:
            return changes
        warnings: tuple[str, ...] = ()
        if asked > CARD_MEMORY_MIB:
            warnings = (
                f"{self.spec.memory_resource}: {asked} MiB is more than a card has; "
                f"it counts as a whole card, {CARD_MEMORY_MIB}",
            )
        size = {self.spec.memory_resource: str(slice_mib(asked))}
        return base.ContainerChanges(
            asks=True, resources={**changes.resources, **size}, warnings=warnings
        )

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,  # noqa: ARG002  # a slice's size does not depend on the card
    ) -> allocation.DeviceShare:
        """Cut to the slice asked."""
        return charges.cut(share, asked.memory_mib, asked.cores_percent)

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take cards that are linked and have room for a slice of this size."""
        if len(node.cards) < ask.wish.count:
            return fitting.Refused(counts={reason.Reason.TOO_FEW_CARDS.value: 0})
        cards = kunlun_topology.by_place(node.cards)
        roomy = {place for place, index in cards.items() if _has_room(node.cards[index], ask)}
        usable = {
            place for place in roomy if not ask.unused_only or node.cards[cards[place]].unused
        }
        places = kunlun_topology.choose(usable, ask.wish.count)
        if places:
            return tuple(
                fitting.Pick(
                    card=cards[place],
                    memory_mib=ask.wish.memory_mib,
                    cores=ask.wish.cores_percent,
                )
                for place in places
            )
        conflicts = len(roomy) - len(usable)
        if conflicts:
            return fitting.Refused(counts={reason.Reason.EXCLUSIVE_CONFLICT.value: conflicts})
        return kunlun_topology.refused(node, ask)

    def _memory_mib(self, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int | None:
        return amounts.amount(
            self.spec.memory_resource,
            limits,
            requests,
            at_most=fields.INT64_MAX,
            hint=_MEMORY_HINT,
        )


def backends(section: kunlun_settings.KunlunSettings) -> tuple[base.Vendor, ...]:
    """Return Kunlun's slices; none when it is off or their resource has no name."""
    return (KunlunVxpu(section),) if section.enabled and section.resource_v_count_name else ()


def slice_mib(asked_mib: int) -> int:
    """Return the smallest slice that holds so much; the whole card for more than it has.

    >>> slice_mib(0), slice_mib(24576), slice_mib(24577), slice_mib(200000)
    (24576, 24576, 49152, 98304)
    """
    return next((size for size in SLICES_MIB if asked_mib <= size), CARD_MEMORY_MIB)


def _has_room(card: fitting.CardState, ask: fitting.Ask) -> bool:
    """Whether the card may serve, the policy ``mutex`` apart."""
    checks = (walk.healthy, walk.not_cordoned, walk.id_allowed)
    if any(check(card, ask) is not None for check in checks):
        return False
    size = ask.wish.memory_mib
    if card.used_memory_mib + size > card.device.memory_mib:
        return False
    return card.unused or card.used_memory_mib // card.used_slots == size
