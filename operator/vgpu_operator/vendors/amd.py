"""AMD: shared cards; cores are asked in percent and given in compute units.

Source: HAMi v2.10.0, ``pkg/device/amd/device.go``. Where a value cannot be
meant, HAMi lets the pod through without a card; here it is refused.
"""

from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import allocation, device, errors, fitting, quota, reason, request
from vgpu_operator.model.vendor_settings.amd import AmdSettings
from vgpu_operator.vendors import amounts, base, charges, walk
from vgpu_operator.wire import lock_kinds

KEYWORD: Final = "AMD"

WHOLE_CARD: Final = 100

_CORES_HINT: Final = "write percent of one card as a whole number, 1 to 100"


def compute_units(percent: int, card_units: int) -> int:
    """Return how many of a card's compute units a percentage is; at least 1.

    >>> compute_units(25, 304), compute_units(1, 7), compute_units(100, 304)
    (76, 1, 304)
    """
    return min(max(card_units * percent // 100, 1), card_units)


def memory_on(wish: request.DeviceRequest, card: device.Device) -> int:
    """Return the MiB that the container takes of that card: all of it unless it says less."""
    return wish.memory_mib or card.memory_mib


def memory_left(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """As much memory is free as asked."""
    short = card.device.memory_mib - card.used_memory_mib < memory_on(ask.wish, card.device)
    return reason.Reason.INSUFFICIENT_MEMORY.value if short else None


def units_left(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """As many compute units are free as asked, and the card has some at all."""
    total = card.device.cores_percent
    enough = total > 0 and total - card.used_cores >= compute_units(ask.wish.cores_percent, total)
    return None if enough else reason.Reason.INSUFFICIENT_CORES.value


CHECKS: Final = (
    walk.healthy,
    walk.not_cordoned,
    walk.type_allowed,
    walk.id_allowed,
    walk.slots_left,
    walk.unused_if_mutex,
    memory_left,
    units_left,
)


class Amd(base.Common):
    """AMD under the names of its settings."""

    vectorised = False

    def __init__(self, settings: AmdSettings) -> None:
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="amd",
            register_key="hami.io/node-amd-register",
            handshake_key=None,
            to_allocate_key="hami.io/amd-devices-to-allocate",
            allocated_key="hami.io/amd-devices-allocated",
            lock=lock_kinds.NODE_LOCK,
            count_resource=settings.resource_count_name,
            memory_resource=settings.resource_memory_name or None,
            cores_resource=settings.resource_core_name or None,
            cores_in_units=True,
            use_type_key="amd.com/use-gputype",
            avoid_type_key="amd.com/nouse-gputype",
            use_id_key="amd.com/use-gpu-uuid",
            avoid_id_key="amd.com/nouse-gpu-uuid",
        )

    def derive(
        self,
        limits: Mapping[str, Any],
        requests: Mapping[str, Any],  # noqa: ARG002  # only limits count
    ) -> request.DeviceRequest | None:
        """Return what one container's limits ask for.

        ``cores_percent`` is percent; what is granted is compute units.
        """
        spec = self.spec
        count = amounts.card_count(spec.count_resource, limits, {})
        if not count:
            self._refuse_amounts_alone(count, limits)
            return None
        memory_mib = amounts.amount(
            spec.memory_resource,
            limits,
            {},
            hint="write MiB as a plain number without a suffix, such as 16384",
        )
        cores = amounts.amount(
            spec.cores_resource, limits, {}, hint=_CORES_HINT, at_most=WHOLE_CARD
        )
        if cores == 0:
            raise errors.RequestError(f"{spec.cores_resource}: 0 is no share; {_CORES_HINT}")
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_mib=memory_mib or 0,
            memory_percent=0,
            cores_percent=WHOLE_CARD if cores is None else cores,
            memory_by_default=not memory_mib,
            cores_by_default=cores is None,
        )

    def admit(
        self,
        container: Mapping[str, Any],
        pod: Mapping[str, Any],  # noqa: ARG002
    ) -> base.ContainerChanges:
        """Claim a container whose limits ask for cards; nothing is changed."""
        limits, _ = amounts.quantities(container)
        return base.ContainerChanges(asks=self.derive(limits, {}) is not None)

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first cards with enough memory and compute units."""
        answer = walk.first_fitting(node, ask, CHECKS)
        if isinstance(answer, fitting.Refused):
            return answer
        cards = [(pick.card, node.cards[pick.card].device) for pick in answer]
        return tuple(
            fitting.Pick(
                card=index,
                memory_mib=memory_on(ask.wish, card),
                cores=compute_units(ask.wish.cores_percent, card.cores_percent),
            )
            for index, card in cards
        )

    def share_word(self, card: device.Device) -> str:
        """Return the product name."""
        return card.type

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,
    ) -> allocation.DeviceShare:
        """Cut to the memory asked and to the compute units of the percentage asked."""
        if card is None:
            return share
        units = compute_units(asked.cores_percent, card.cores_percent)
        return charges.cut(share, memory_on(asked, card), units)

    def quota_amount(
        self, share: allocation.DeviceShare, card: device.Device | None
    ) -> quota.Amount:
        """Return MiB and percent, rounded up; compute units while the card is absent."""
        cores = share.cores_percent
        if card is not None and card.cores_percent > 0:
            cores = -(-cores * WHOLE_CARD // card.cores_percent)
        return quota.Amount(memory_mib=share.memory_mib, cores=cores)

    def _refuse_amounts_alone(self, count: int | None, limits: Mapping[str, Any]) -> None:
        """Refuse memory or cores without a count; HAMi runs such a pod without a card."""
        if count is not None:
            return
        for name in (self.spec.memory_resource, self.spec.cores_resource):
            if name and limits.get(name) is not None:
                raise errors.RequestError(
                    f"{name} alone asks for no card; add {self.spec.count_resource}, such as 1"
                )


def backends(settings: AmdSettings) -> tuple[base.Vendor, ...]:
    """Return AMD's one back end."""
    return (Amd(settings),)
