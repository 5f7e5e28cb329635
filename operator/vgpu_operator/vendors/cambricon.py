"""Cambricon: shared cards that a node offers as amounts of cores and memory.

Source: HAMi v2.10.0, ``pkg/device/cambricon/device.go``. Where a value cannot
be meant, HAMi lets the pod through without a card; here it is refused.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import device, request
from vgpu_operator.model.vendor_settings.cambricon import CambriconSettings
from vgpu_operator.vendors import amounts, base, capacity
from vgpu_operator.wire import fields, lock_kinds, node_register

KEYWORD: Final = "MLU"

CORES_PER_CARD: Final = 100
MEMORY_UNIT_MIB: Final = 256
SLOTS: Final = 100

ASSIGNED_KEY: Final = "CAMBRICON_DSMLU_ASSIGNED"
"""Pod annotation: ``false`` until the plugin has served the pod."""

PROFILE_KEY: Final = "CAMBRICON_DSMLU_PROFILE"
"""Pod annotation: ``<card index>_<cores>_<memory units>`` of the pod's first share."""


LOCK: Final = lock_kinds.LockKind(
    key="cambricon.com/dsmlu.lock",
    style=lock_kinds.LockStyle.BARE,
    expiry_s=120.0,
    reported=False,
)
"""The plugin is Cambricon's own: it finds its pod by the annotations above and knows no phase."""


class Cambricon(base.Common):
    """Cambricon under the names of its settings; the common rules place it."""

    def __init__(self, settings: CambriconSettings) -> None:
        self._cores = settings.resource_core_name
        self._memory = settings.resource_memory_name
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="cambricon-mlu",
            register_key=None,
            handshake_key=None,
            to_allocate_key="hami.io/cambricon-mlu-devices-to-allocate",
            allocated_key="hami.io/cambricon-mlu-devices-allocated",
            more_pod_keys=(ASSIGNED_KEY, PROFILE_KEY),
            lock=LOCK,
            count_resource=settings.resource_count_name,
            memory_resource=self._memory or None,
            memory_unit_mib=MEMORY_UNIT_MIB,
            cores_resource=self._cores or None,
            use_id_key="cambricon.com/use-gpuuuid",
            avoid_id_key="cambricon.com/nouse-gpuuuid",
            supply_resource=self._cores or None,
        )

    def register_text(self, node: base.NodeTexts) -> str | None:
        """Return the node's cores and memory."""
        return capacity.text_of(node.capacity, self._cores, self._memory)

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Return a card per 100 cores begun, each with its part of the memory."""
        card = device.Device(
            id=f"{node}-cambricon-mlu",
            index=0,
            type=KEYWORD,
            slots=SLOTS,
            memory_mib=0,
            cores_percent=CORES_PER_CARD,
            healthy=True,
        )
        return capacity.parts(text, self._cores, self._memory, card, unit_mib=MEMORY_UNIT_MIB)

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what one container asks for: all cores unless it says less.

        Cores that are no whole number are passed over, as in HAMi.
        """
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        units = amounts.amount(
            self._memory,
            limits,
            requests,
            at_most=fields.INT32_MAX // MEMORY_UNIT_MIB,
            hint=f"write units of {MEMORY_UNIT_MIB} MiB as a plain number, such as 16",
        )
        cores = amounts.cores_percent(self._cores, limits, requests, skip_fractions=True)
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_mib=(units or 0) * MEMORY_UNIT_MIB,
            memory_percent=0 if units else 100,
            cores_percent=CORES_PER_CARD if cores is None else cores,
        )

    def admit(self, container: Mapping[str, Any], pod: Mapping[str, Any]) -> base.ContainerChanges:
        """Claim a container whose limits hold the count; warn of a value that is passed over."""
        changes = super().admit(container, pod)
        if not changes.asks:
            return changes
        limits, requests = amounts.quantities(container)
        cores = amounts.cores_percent(self._cores, limits, requests, skip_fractions=True)
        warnings = (
            *amounts.fraction_warnings(container, {self._cores: "the container gets all cores"}),
            *amounts.above_whole(self._cores, cores or 0),
        )
        return dataclasses.replace(changes, warnings=warnings)

    def more_annotations(
        self,
        grant: base.Grant,
        now: datetime.datetime,  # noqa: ARG002
    ) -> Mapping[str, str]:
        """Return what Cambricon's plugin reads: one profile for the whole pod."""
        texts = {ASSIGNED_KEY: "false"}
        first = next((share for entry in grant.shares for share in entry), None)
        if first is not None and first.device_id in grant.devices:
            card = grant.devices[first.device_id]
            units = first.memory_mib // MEMORY_UNIT_MIB
            texts[PROFILE_KEY] = f"{card.index}_{first.cores_percent}_{units}"
        return texts


def backends(settings: CambriconSettings) -> tuple[base.Vendor, ...]:
    """Return Cambricon's one back end."""
    return (Cambricon(settings),)
