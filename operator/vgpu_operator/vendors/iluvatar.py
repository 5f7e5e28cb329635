"""Iluvatar: four chips, each a vendor of its own, under the common rules.

Source: HAMi v2.10.0, ``pkg/device/iluvatar/device.go``. HAMi cuts counts and
cores above 32 bits to their low bits and lets a pod with a fractional amount
go anywhere; here both are refused with a sentence.
"""

from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import request
from vgpu_operator.model.vendor_settings import iluvatar
from vgpu_operator.vendors import amounts, base, walk
from vgpu_operator.wire import fields, lock_kinds, shape

MEMORY_UNIT_MIB: Final = 256

NAME_ENV: Final = "SOL_CONTINER_NAME"
"""Spelt as Iluvatar's runtime reads it."""


class Iluvatar(base.Common):
    """One Iluvatar chip under the names of its settings."""

    def __init__(self, chip: iluvatar.IluvatarChip) -> None:
        word = chip.common_word
        self.spec = base.VendorSpec(
            keyword=word,
            id=f"iluvatar-{word.lower()}",
            register_key=f"hami.io/node-{word}-register",
            handshake_key=f"hami.io/node-handshake-{word}",
            to_allocate_key=f"hami.io/{word}-devices-to-allocate",
            allocated_key=f"hami.io/{word}-devices-allocated",
            lock=lock_kinds.NODE_LOCK,
            count_resource=chip.resource_count_name,
            memory_resource=chip.resource_memory_name or None,
            memory_unit_mib=MEMORY_UNIT_MIB,
            cores_resource=chip.resource_core_name or None,
            use_id_key=f"hami.io/use-{word}-uuid",
            avoid_id_key=f"hami.io/no-use-{word}-uuid",
        )

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what one container asks for; None when it needs no card.

        Cores that are no whole number are ignored, as in HAMi; memory of 0
        and none both mean the whole card.
        """
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        memory_mib = self._memory_mib(limits, requests)
        cores = self._cores(limits, requests, skip_fractions=True) or 0
        return request.DeviceRequest(
            vendor=self.spec.keyword,
            count=count,
            memory_mib=memory_mib,
            memory_percent=None if memory_mib else 100,
            cores_percent=min(cores, walk.WHOLE_CARD),
        )

    def admit(
        self,
        container: Mapping[str, Any],
        pod: Mapping[str, Any],
    ) -> base.ContainerChanges:
        """Return what the common admission does, and what Iluvatar adds.

        A container with several cards is to name all their cores; each card
        is then given whole.
        """
        usual = super().admit(container, pod)
        limits, requests = amounts.quantities(container)
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not usual.asks or not count:
            return usual
        cores = self._cores(limits, requests) or 0
        resources = dict(usual.resources)
        if count > 1 and self.spec.cores_resource:
            resources[self.spec.cores_resource] = str(count * walk.WHOLE_CARD)
        name = shape.text(container.get("name"))
        return base.ContainerChanges(
            asks=True,
            resources=resources,
            env={NAME_ENV: name} if name else {},
            warnings=amounts.above_whole(self.spec.cores_resource, cores) if count == 1 else (),
        )

    def _memory_mib(self, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int:
        units = amounts.amount(
            self.spec.memory_resource,
            limits,
            requests,
            at_most=fields.INT32_MAX // MEMORY_UNIT_MIB,
            hint=f"write units of {MEMORY_UNIT_MIB} MiB as a plain number, such as 16",
        )
        return (units or 0) * MEMORY_UNIT_MIB

    def _cores(
        self,
        limits: Mapping[str, Any],
        requests: Mapping[str, Any],
        *,
        skip_fractions: bool = False,
    ) -> int | None:
        return amounts.cores_percent(
            self.spec.cores_resource, limits, requests, skip_fractions=skip_fractions
        )


def backends(section: iluvatar.IluvatarSettings) -> tuple[base.Vendor, ...]:
    """Return a vendor for each chip that has a resource; none while Iluvatar is switched off."""
    if not section.enabled:
        return ()
    return tuple(Iluvatar(chip) for chip in section.chips if chip.resource_count_name)
