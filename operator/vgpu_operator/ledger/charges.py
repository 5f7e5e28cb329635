"""What one pod's shares cost each card: trust, init containers, sidecars.

Pure arithmetic on values; the columns and the books of the ledger follow it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from vgpu_operator.model import allocation, device, quota, records, request, settings
from vgpu_operator.vendors import base

FindCard: TypeAlias = Callable[[str, str], device.Device | None]
"""(vendor, card id) -> the card as registered; None when it is absent just now."""

Rules: TypeAlias = Mapping[str, base.Charging]
"""How shares are charged, by vendor keyword; the common way where missing."""

_COMMON: Final[base.Charging] = base.Common()

_LIMIT: Final = 2**40
"""No share is charged more: a forged number must not overflow a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one pod costs one card; cores in the unit that the vendor registers."""

    slots: int = 0
    memory_mib: int = 0
    cores_percent: int = 0

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
        done: init containers that have ended: they hold slots and nothing else.
        against_quota: per vendor what counts against the namespace's quota: the most
            that the containers need at any one time, over all cards.
    """

    node: str
    shares: Mapping[str, allocation.PodShares]
    charges: Mapping[str, CardCharges]
    surplus: tuple[Surplus, ...] = ()
    blocks: frozenset[str] = field(default_factory=frozenset)
    done: frozenset[int] = field(default_factory=frozenset)
    against_quota: quota.Used = field(default_factory=lambda: MappingProxyType({}))

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
    vendors: Collection[str],
    trust: settings.Trust,
    find_card: FindCard,
    rules: Rules,
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
    for vendor, promised in record.promised.items():
        if not promised or vendor not in vendors:
            continue
        aligned = _aligned(promised, containers, vendor)
        if trust is settings.Trust.REQUESTS:
            aligned, ignored = _capped(aligned, containers, vendor, find_card, rules)
            surplus.extend(ignored)
        shares[vendor] = aligned
    blocks = frozenset(
        vendor
        for vendor in record.faults
        if vendor in vendors
        and (trust is settings.Trust.ANNOTATIONS or vendor in record.request.vendors)
    )
    if not any(any(entry) for pod in shares.values() for entry in pod) and not (blocks or surplus):
        return None
    counted = _Counting(containers=containers, init_done=record.init_done, find_card=find_card)
    return Holding(
        node=record.node,
        shares=shares,
        charges=counted.by_card(shares, rules),
        surplus=tuple(surplus),
        blocks=blocks,
        done=counted.done,
        against_quota=counted.for_quota(shares, rules),
    )


def of_allocation(
    wish: request.PodRequest, chosen: allocation.Allocation, *, find_card: FindCard, rules: Rules
) -> Holding:
    """Return what a pod will hold when its binding succeeds."""
    counted = _Counting(containers=wish.containers, init_done=False, find_card=find_card)
    return Holding(
        node=chosen.node,
        shares=chosen.shares,
        charges=counted.by_card(chosen.shares, rules),
        against_quota=counted.for_quota(chosen.shares, rules),
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
    find_card: FindCard,
    rules: Rules,
) -> tuple[allocation.PodShares, list[Surplus]]:
    """Return the shares cut down to what each container asks for, and the rest."""
    capped: list[allocation.ContainerShares] = []
    surplus: list[Surplus] = []
    rule = rules.get(vendor, _COMMON)
    for index, entry in enumerate(shares):
        asked = containers[index].of(vendor) if index < len(containers) else None
        kept: list[allocation.DeviceShare] = []
        for share in entry:
            within = asked is not None and len(kept) < asked.count
            memory_mib, cores_percent = 0, 0
            if asked is not None and within:
                cut = rule.cap(asked, share, find_card(vendor, share.card_id))
                memory_mib, cores_percent = cut.memory_mib, cut.cores_percent
                kept.append(cut)
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


class _Counting:
    """One pod's shares added up: what its containers need at most at any one time.

    An ordinary init container runs beside the sidecars declared before it;
    apps and sidecars run together. Once the init containers are done memory
    and cores shrink to what still runs; slots do not, because kubelet keeps
    the device ids of the pod.
    """

    def __init__(
        self,
        *,
        containers: Sequence[request.ContainerRequest],
        init_done: bool,
        find_card: FindCard,
    ) -> None:
        self._is_init = [one.kind is request.ContainerKind.INIT for one in containers]
        self._init_done = init_done
        self._find_card = find_card

    @property
    def done(self) -> frozenset[int]:
        """Init containers that have ended."""
        ended = enumerate(self._is_init) if self._init_done else ()
        return frozenset(index for index, is_init in ended if is_init)

    def by_card(
        self, shares: Mapping[str, allocation.PodShares], rules: Rules
    ) -> dict[str, CardCharges]:
        """Return per vendor and card what the pod costs it."""
        return {
            vendor: charges
            for vendor, pod in shares.items()
            if (charges := self._card_charges(vendor, pod, rules.get(vendor, _COMMON)))
        }

    def _card_charges(
        self, vendor: str, shares: allocation.PodShares, rule: base.Charging
    ) -> CardCharges:
        is_mask = rule.mask_cores
        lasting: dict[str, Charge] = {}
        peak: dict[str, Charge] = {}
        for index, entry in enumerate(shares):
            if not entry:
                continue
            own: dict[str, Charge] = {}
            for share in entry:
                card = share.card_id
                amount = _charge(share, rule, self._find_card(vendor, card))
                own[card] = _together(own.get(card), amount, is_mask=is_mask)
            if index < len(self._is_init) and self._is_init[index]:
                for card, amount in own.items():
                    beside = _together(lasting.get(card), amount, is_mask=is_mask)
                    peak[card] = _larger(peak.get(card), beside, is_mask=is_mask)
            else:
                for card, amount in own.items():
                    lasting[card] = _together(lasting.get(card), amount, is_mask=is_mask)
        if not peak:
            return lasting
        charges: dict[str, Charge] = {}
        for card in (*lasting, *(card for card in peak if card not in lasting)):
            now = lasting.get(card, NOTHING)
            most = _larger(peak.get(card), now, is_mask=is_mask)
            charges[card] = (
                Charge(slots=most.slots, memory_mib=now.memory_mib, cores_percent=now.cores_percent)
                if self._init_done
                else most
            )
        return charges

    def for_quota(self, shares: Mapping[str, allocation.PodShares], rules: Rules) -> quota.Used:
        """Return per vendor what counts against a quota."""
        found = {
            vendor: self._most_at_once(vendor, pod, rules.get(vendor, _COMMON))
            for vendor, pod in shares.items()
        }
        return {vendor: amount for vendor, amount in found.items() if amount != quota.NOTHING}

    def _most_at_once(
        self, vendor: str, shares: allocation.PodShares, rule: base.Charging
    ) -> quota.Amount:
        lasting, peak = quota.NOTHING, quota.NOTHING
        for index, entry in enumerate(shares):
            if not entry:
                continue
            own = quota.NOTHING
            for share in entry:
                amount = rule.quota_amount(share, self._find_card(vendor, share.card_id))
                own += quota.Amount(
                    memory_mib=_bounded(amount.memory_mib), cores=_bounded(amount.cores)
                )
            if index < len(self._is_init) and self._is_init[index]:
                peak = peak.larger(own + lasting)
            else:
                lasting += own
        return lasting if self._init_done else peak.larger(lasting)


def _bounded(amount: int) -> int:
    return max(0, min(amount, _LIMIT))


def _charge(
    share: allocation.DeviceShare, rule: base.Charging, card: device.Device | None
) -> Charge:
    return Charge(
        slots=_bounded(rule.slots_of(share, card)),
        memory_mib=_bounded(share.memory_mib),
        cores_percent=_bounded(share.cores_percent),
    )


def _together(one: Charge | None, other: Charge, *, is_mask: bool) -> Charge:
    """Return what both cost at once; bits of a mask are joined, never carried."""
    if one is None:
        return other
    cores = one.cores_percent, other.cores_percent
    return Charge(
        slots=one.slots + other.slots,
        memory_mib=one.memory_mib + other.memory_mib,
        cores_percent=cores[0] | cores[1] if is_mask else sum(cores),
    )


def _larger(one: Charge | None, other: Charge, *, is_mask: bool) -> Charge:
    """Return what covers either; of masks that is every bit that one of them has."""
    if one is None:
        return other
    cores = one.cores_percent, other.cores_percent
    return Charge(
        slots=max(one.slots, other.slots),
        memory_mib=max(one.memory_mib, other.memory_mib),
        cores_percent=cores[0] | cores[1] if is_mask else max(cores),
    )
