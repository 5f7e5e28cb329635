"""Hygon: shared cards by the common rules, with a selection by type.

Source: HAMi v2.10.0, ``pkg/device/hygon/device.go``. Where a value cannot be
meant, HAMi lets the pod through without a card; here it is refused.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import request
from vgpu_operator.model.vendor_settings.hygon import HygonSettings
from vgpu_operator.vendors import amounts, base
from vgpu_operator.wire import fields, lock_kinds

KEYWORD: Final = "DCU"

WHOLE_CARD: Final = 100


class Hygon(base.Common):
    """Hygon under the names and defaults of its settings."""

    def __init__(self, settings: HygonSettings) -> None:
        self._settings = settings
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="hygon-dcu",
            register_key="hami.io/node-dcu-register",
            handshake_key="hami.io/node-handshake-dcu",
            to_allocate_key="hami.io/dcu-devices-to-allocate",
            allocated_key="hami.io/dcu-devices-allocated",
            lock=lock_kinds.NODE_LOCK,
            count_resource=settings.resource_count_name,
            memory_resource=settings.resource_memory_name or None,
            memory_unit_mib=settings.memory_factor,
            cores_resource=settings.resource_core_name or None,
            use_type_key="hygon.com/use-dcutype",
            avoid_type_key="hygon.com/nouse-dcutype",
            use_id_key="hygon.com/use-gpuuuid",
            avoid_id_key="hygon.com/nouse-gpuuuid",
        )

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what one container asks for: all cores unless it says less.

        Memory or cores that are no whole number are passed over, as in HAMi.
        """
        spec = self.spec
        count = amounts.card_count(spec.count_resource, limits, requests)
        if not count:
            return None
        unit_mib = spec.memory_unit_mib
        units = amounts.amount(
            spec.memory_resource,
            limits,
            requests,
            at_most=fields.INT32_MAX // unit_mib,
            hint=(
                f"write {'MiB' if unit_mib == 1 else f'units of {unit_mib} MiB'} "
                "as a plain number without a suffix"
            ),
            skip_fractions=True,
        )
        cores = amounts.cores_percent(spec.cores_resource, limits, requests, skip_fractions=True)
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_mib=(units or 0) * unit_mib,
            memory_percent=0 if units else 100,
            cores_percent=WHOLE_CARD if cores is None else cores,
        )

    def admit(self, container: Mapping[str, Any], pod: Mapping[str, Any]) -> base.ContainerChanges:
        """Claim a container whose limits hold the count; warn of values that are passed over."""
        changes = super().admit(container, pod)
        if not changes.asks:
            return changes
        instead = {
            self.spec.memory_resource: "the container gets all memory of its cards",
            self.spec.cores_resource: "the container gets all cores of its cards",
        }
        limits, requests = amounts.quantities(container)
        cores = amounts.cores_percent(
            self.spec.cores_resource, limits, requests, skip_fractions=True
        )
        warnings = (
            *amounts.fraction_warnings(container, instead),
            *amounts.above_whole(self.spec.cores_resource, cores or 0),
        )
        return dataclasses.replace(changes, warnings=warnings)


def backends(settings: HygonSettings) -> tuple[base.Vendor, ...]:
    """Return Hygon's one back end."""
    return (Hygon(settings),)
