"""What one pod's shares cost each card: trust, init containers, sidecars.

Pure arithmetic on values; the columns and the books of the ledger follow it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from vgpu_operator.model import allocation, records, request, settings

CardMemory: TypeAlias = Callable[[str, str], int | None]
"""(vendor, card id) -> registered MiB; None when the card is absent just now."""

WHOLE_CARD_PERCENT: Final = 100

_LIMIT: Final = 2**40
"""No share is charged more: a forged number must not overflow a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one pod costs one card."""

    slots: int = 0
    memory_mib: int = 0
    cores_percent: int = 0

    def __add__(self, other: "Charge") -> "Charge":
        return Charge(
            slots=self.slots + other.slots,
            memory_mib=self.memory_mib + other.memory_mib,
            cores_percent=self.cores_percent + other.cores_percent,
        )

    def covers(self, other: "Charge") -> bool:
        """Whether nothing of ``other`` is larger."""
        return (
            self.slots >= other.slots
            and self.memory_mib >= other.memory_mib
            and self.cores_percent >= other.cores_percent
        )


NOTHING: Final = Charge()

CardCharges: TypeAlias = Mapping[str, Charge]
"""Per card id what a pod costs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surplus:
    """What a pod's annotation promises beyond what its container asks for.

    The ledger ignores it; events and ``doctor`` report it. ``slots`` is 1 when
    the whole share is ignored.
    """

    vendor: str
    container: int
    device_id: str
    slots: int
    memory_mib: int
    cores_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Everything that one pod holds on one node.

    Attributes:
        shares: per vendor one entry per container, as they are charged.
        charges: per vendor and card the sum of it.
        surplus: what was promised and not charged.
        blocks: vendors of which some entry is unreadable.
    """

    node: str
    shares: Mapping[str, allocation.PodShares]
    charges: Mapping[str, CardCharges]
    surplus: tuple[Surplus, ...] = ()
    blocks: frozenset[str] = field(default_factory=frozenset)

    def covers(self, other: "Holding") -> bool:
        """Whether ``other`` sets nothing free that this one holds, and blocks as much."""
        return (
            self.node == other.node
            and self.blocks >= other.blocks
            and all(
                self.charges.get(vendor, MappingProxyType({})).get(card, NOTHING).covers(amount)
                for vendor, cards in other.charges.items()
                for card, amount in cards.items()
            )
        )


def of_record(
    record: records.PodRecord,
    *,
    vendors: Sequence[str],
    trust: settings.Trust,
    card_memory: CardMemory,
) -> Holding | None:
    """Return what a pod holds by its annotations; None when they promise nothing.

    A promise counts when it names the node that the pod is bound to and the
    pod has not ended. A deleting pod still holds its cards.
    """
    if not record.node or record.promised_node != record.node or record.ended:
        return None
    containers = record.request.containers
    shares: dict[str, allocation.PodShares] = {}
    surplus: list[Surplus] = []
    for vendor in vendors:
        promised = record.promised.get(vendor)
        if not promised:
            continue
        aligned = _aligned(promised, containers, vendor)
        if trust is settings.Trust.REQUESTS:
            aligned, ignored = _capped(aligned, containers, vendor, card_memory)
            surplus.extend(ignored)
        shares[vendor] = aligned
    blocks = frozenset(
        vendor
        for vendor in vendors
        if vendor in record.faults
        and (trust is settings.Trust.ANNOTATIONS or vendor in record.request.vendors)
    )
    if not any(any(entry) for pod in shares.values() for entry in pod) and not (blocks or surplus):
        return None
    return Holding(
        node=record.node,
        shares=shares,
        charges=_summed(shares, containers, init_done=record.init_done),
        surplus=tuple(surplus),
        blocks=blocks,
    )


def of_allocation(wish: request.PodRequest, chosen: allocation.Allocation) -> Holding:
    """Return what a pod will hold when its binding succeeds."""
    return Holding(
        node=chosen.node,
        shares=chosen.shares,
        charges=_summed(chosen.shares, wish.containers, init_done=False),
    )


def _aligned(
    promised: allocation.PodShares,
    containers: Sequence[request.ContainerRequest],
    vendor: str,
) -> allocation.PodShares:
    """Return the shares with one entry per container.

    HAMi v2.10.0 leaves out the entry of every container without a device when
    the registered type is not the vendor's keyword. A text of another length
    whose entries do not stand at containers that ask is therefore read as the
    list of those that do ask, in order. Entries that find no container follow
    at the end.
    """
    wanted = len(containers)
    while len(promised) > wanted and not promised[-1]:
        promised = promised[:-1]
    asking = [i for i, container in enumerate(containers) if container.of(vendor)]
    filled = [i for i, entry in enumerate(promised) if entry]
    if len(promised) == wanted or not asking or set(filled) <= set(asking):
        return promised + ((),) * (wanted - len(promised))
    entries: list[allocation.ContainerShares] = [()] * wanted
    rest = [promised[i] for i in filled]
    for container, entry in zip(asking, rest, strict=False):
        entries[container] = entry
    return (*entries, *rest[len(asking) :])


def _capped(
    shares: allocation.PodShares,
    containers: Sequence[request.ContainerRequest],
    vendor: str,
    card_memory: CardMemory,
) -> tuple[allocation.PodShares, list[Surplus]]:
    """Return the shares cut down to what each container asks for, and the rest."""
    capped: list[allocation.ContainerShares] = []
    surplus: list[Surplus] = []
    for index, entry in enumerate(shares):
        asked = containers[index].of(vendor) if index < len(containers) else None
        kept: list[allocation.DeviceShare] = []
        for share in entry:
            within = asked is not None and len(kept) < asked.count
            memory_mib, cores_percent = 0, 0
            if asked is not None and within:
                memory_mib = min(
                    share.memory_mib,
                    _memory_cap(asked, share, card_memory(vendor, share.device_id)),
                )
                cores_percent = min(share.cores_percent, _cores_cap(asked))
                kept.append(
                    allocation.DeviceShare(
                        device_id=share.device_id,
                        vendor_word=share.vendor_word,
                        memory_mib=memory_mib,
                        cores_percent=cores_percent,
                    )
                )
            over = Surplus(
                vendor=vendor,
                container=index,
                device_id=share.device_id,
                slots=0 if within else 1,
                memory_mib=share.memory_mib - memory_mib,
                cores_percent=share.cores_percent - cores_percent,
            )
            if over.slots or over.memory_mib > 0 or over.cores_percent > 0:
                surplus.append(over)
        capped.append(tuple(kept))
    return tuple(capped), surplus


def _cores_cap(asked: request.DeviceRequest) -> int:
    """Return the cores that a container may hold; what it does not name may have been all."""
    return WHOLE_CARD_PERCENT if asked.cores_by_default else min(asked.cores_percent, 100)


def _memory_cap(
    asked: request.DeviceRequest, share: allocation.DeviceShare, card_memory_mib: int | None
) -> int:
    if asked.memory_by_default:
        return share.memory_mib if card_memory_mib is None else card_memory_mib
    if card_memory_mib is not None:
        return asked.memory_on(card_memory_mib)
    if asked.memory_mib == 0 and asked.memory_percent is not None:
        return share.memory_mib
    return asked.memory_mib


def _summed(
    shares: Mapping[str, allocation.PodShares],
    containers: Sequence[request.ContainerRequest],
    *,
    init_done: bool,
) -> dict[str, CardCharges]:
    kinds = [container.kind for container in containers]
    return {
        vendor: charges
        for vendor, pod in shares.items()
        if (charges := _card_charges(pod, kinds, init_done=init_done))
    }


def _card_charges(
    shares: allocation.PodShares, kinds: Sequence[request.ContainerKind], *, init_done: bool
) -> CardCharges:
    """Return per card what the containers need at most at any one time.

    An ordinary init container runs beside the sidecars declared before it;
    apps and sidecars run together. Once the init containers are done memory
    and cores shrink to what still runs; slots do not, because kubelet keeps
    the device ids of the pod.
    """
    lasting: dict[str, Charge] = {}
    peak: dict[str, Charge] = {}
    for index, entry in enumerate(shares):
        kind = kinds[index] if index < len(kinds) else request.ContainerKind.APP
        own: dict[str, Charge] = {}
        for share in entry:
            own[share.device_id] = own.get(share.device_id, NOTHING) + _charge(share)
        if kind is request.ContainerKind.INIT:
            for card, amount in own.items():
                together = amount + lasting.get(card, NOTHING)
                peak[card] = _larger(peak.get(card, NOTHING), together)
        else:
            for card, amount in own.items():
                lasting[card] = lasting.get(card, NOTHING) + amount
    charges: dict[str, Charge] = {}
    for card in (*lasting, *(card for card in peak if card not in lasting)):
        now = lasting.get(card, NOTHING)
        most = _larger(peak.get(card, NOTHING), now)
        charges[card] = (
            Charge(slots=most.slots, memory_mib=now.memory_mib, cores_percent=now.cores_percent)
            if init_done
            else most
        )
    return charges


def _charge(share: allocation.DeviceShare) -> Charge:
    return Charge(
        slots=1,
        memory_mib=max(0, min(share.memory_mib, _LIMIT)),
        cores_percent=max(0, min(share.cores_percent, _LIMIT)),
    )


def _larger(one: Charge, other: Charge) -> Charge:
    return Charge(
        slots=max(one.slots, other.slots),
        memory_mib=max(one.memory_mib, other.memory_mib),
        cores_percent=max(one.cores_percent, other.cores_percent),
    )
