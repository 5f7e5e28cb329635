"""Moore Threads: shared cards of 16 cores; all containers of a pod on the same card.

The pod carries the card's index once, so a pod cannot use one card in one
container and another card in the next. Source: HAMi v2.10.0,
``pkg/device/mthreads/device.go``.
"""

import datetime
from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import allocation, device, errors, fitting, reason, request
from vgpu_operator.model.vendor_settings.mthreads import MthreadsSettings
from vgpu_operator.vendors import amounts, base, capacity, charges, walk
from vgpu_operator.wire import clock_text, fields, node_register

KEYWORD: Final = "Mthreads"

CORES_PER_CARD: Final = 16
MEMORY_UNIT_MIB: Final = 512
SLOTS: Final = 100

UNITS_PER_CARD: Final = 96
"""Memory units of a whole card, whatever the card really has."""

LEGAL_UNITS: Final = (2, 4, 8, 16, 32, 64, 96)
"""What a share of one card may take."""

INDEX_KEY: Final = "mthreads.com/gpu-index"
"""Pod annotation: indexes of the cards of the last container that has some."""

TIME_KEY: Final = "mthreads.com/predicate-time"
"""Pod annotation: Unix nanoseconds."""

NODE_KEY: Final = "mthreads.com/predicate-node"
COUNT_KEY: Final = "mthreads.com/request-gpu-num"
"""Pod annotation, written at admission: cards of a container that asks for several."""


def same_card(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """The pod's earlier containers hold this card and no other, or none at all."""
    held = {share.device_id for entry in ask.earlier for share in entry}
    return reason.Reason.CUSTOM_RULE.value if held - {card.device.id} else None


CHECKS: Final = (*walk.COMMON, same_card)


class Mthreads(base.Common):
    """Moore Threads under the names of its settings."""

    vectorised = False

    def __init__(self, settings: MthreadsSettings) -> None:
        self._cores = settings.resource_core_name
        self._memory = settings.resource_memory_name
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="mthreads",
            register_key=None,
            handshake_key=None,
            to_allocate_key=None,
            allocated_key="hami.io/mthreads-vgpu-devices-allocated",
            more_pod_keys=(INDEX_KEY, TIME_KEY, NODE_KEY),
            lock=None,
            count_resource=settings.resource_count_name,
            memory_resource=self._memory or None,
            memory_unit_mib=MEMORY_UNIT_MIB,
            cores_resource=self._cores or None,
            use_id_key="mthreads.ai/use-gpuuuid",
            avoid_id_key="mthreads.ai/nouse-gpuuuid",
            supply_resource=self._cores or None,
        )

    def register_text(self, node: base.NodeTexts) -> str | None:
        """Return the node's cores and memory."""
        return capacity.text_of(node.capacity, self._cores, self._memory)

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Return a card per 16 cores begun, each with its part of the memory."""
        card = device.Device(
            id=f"{node}-mthreads",
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
        """Return what one container asks for; amounts are shared by its cards."""
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        units = self._units(limits, requests) or 0
        cores = amounts.amount(
            self._cores,
            limits,
            requests,
            hint=f"write sixteenths of a card as a whole number, 0 to {CORES_PER_CARD}",
        )
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_mib=units * MEMORY_UNIT_MIB // count,
            memory_percent=0 if units else 100,
            cores_percent=(cores or 0) // count,
        )

    def admit(
        self,
        container: Mapping[str, Any],
        pod: Mapping[str, Any],  # noqa: ARG002
    ) -> base.ContainerChanges:
        """Give whole cards to who asks for several, or for one without memory."""
        limits, requests = amounts.quantities(container)
        name = self.spec.count_resource
        count = amounts.card_count(name, limits, requests)
        if count is None:
            return base.ContainerChanges(asks=False)
        if count == 0:
            raise errors.RequestError(f"{name}: 0 cards cannot be asked for; write 1 or more")
        self.derive(limits, requests)
        missing = amounts.only_in_requests(self.spec.resources, limits, requests)
        if count == 1 and amounts.asked(self._memory, limits, requests) is not None:
            units = self._units(limits, requests)
            if units not in LEGAL_UNITS:
                raise errors.RequestError(
                    f"{self._memory}: {units} is no size of a share; {_legal()}"
                )
            return base.ContainerChanges(asks=True, resources=missing)
        whole = {self._cores: CORES_PER_CARD * count, self._memory: UNITS_PER_CARD * count}
        for resource, total in whole.items():
            if total > fields.INT32_MAX // MEMORY_UNIT_MIB:
                raise errors.RequestError(
                    f"{name}: {count} cards are more than {resource} can say; ask for fewer"
                )
        return base.ContainerChanges(
            asks=True,
            resources=missing | {resource: str(total) for resource, total in whole.items()},
            annotations={COUNT_KEY: str(count)} if count > 1 else {},
        )

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first cards that pass the common checks and the pod's own card."""
        return walk.first_fitting(node, ask, CHECKS)

    def more_annotations(self, grant: base.Grant, now: datetime.datetime) -> Mapping[str, str]:
        """Return the cards' indexes, and when and where they were chosen."""
        texts = {TIME_KEY: clock_text.encode_unix_ns(now), NODE_KEY: grant.node}
        last = next((entry for entry in reversed(grant.shares) if entry), ())
        indexes = [
            str(grant.devices[share.device_id].index)
            for share in last
            if share.device_id in grant.devices
        ]
        return texts | ({INDEX_KEY: ",".join(indexes)} if indexes else {})

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,
    ) -> allocation.DeviceShare:
        """Cut to the amounts asked."""
        memory_mib = share.memory_mib if card is None else card.memory_mib
        return charges.cut(share, asked.memory_on(memory_mib), asked.cores_percent)

    def _units(self, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int | None:
        return amounts.amount(
            self._memory,
            limits,
            requests,
            at_most=fields.INT32_MAX // MEMORY_UNIT_MIB,
            hint=_legal(),
        )


def _legal() -> str:
    words = ", ".join(str(units) for units in LEGAL_UNITS)
    return f"write units of {MEMORY_UNIT_MIB} MiB: one of {words}"


def backends(settings: MthreadsSettings) -> tuple[base.Vendor, ...]:
    """Return Moore Threads' one back end; none while it is off."""
    return (Mthreads(settings),) if settings.enabled else ()
