"""The node side of the books: rows, registered cards, allocatable, cordons, blocks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from vgpu_operator.ledger import charges, columns
from vgpu_operator.model import device


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an event did: nothing, something, or something that sets cards free."""

    happened: bool
    freed: bool = False


NO_CHANGE: Final = Change(happened=False)

_NO_NOTES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUsage:
    """One card and what pods hold of it, claims not counted.

    Cores are in the unit that the vendor registers.
    """

    device: device.Device
    used_slots: int
    used_memory_mib: int
    used_cores_percent: int


@dataclass(slots=True, kw_only=True)
class _Node:
    row: int
    devices: dict[str, tuple[device.Device, ...]] = field(default_factory=dict)
    allocatable: set[str] = field(default_factory=set)
    cordoned: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=lambda: _NO_NOTES)


class Nodes:
    """All known nodes, each with one row in every vendor's columns.

    ``rows_epoch`` grows whenever some name gets, loses or changes its row.
    """

    def __init__(self, vendors: Sequence[str]) -> None:
        self.cells = {vendor: columns.VendorColumns() for vendor in vendors}
        self.sums = columns.NodeSums()
        self.rows: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.rows_epoch = 0
        self.n_rows = 0
        self._nodes: dict[str, _Node] = {}
        self._free_rows: list[int] = []
        self._blockers: dict[tuple[str, str], set[str]] = {}

    def set_devices(self, name: str, vendor: str, devices: Sequence[device.Device]) -> Change:
        """Replace the vendor's cards; on a change nothing is used or claimed there.

        A list that only changes its order is no news and keeps the earlier
        order.
        """
        held = self.devices(name, vendor)
        if (
            name in self.rows
            and len(held) == len(devices)
            and _in_order(held) == _in_order(devices)
        ):
            return NO_CHANGE
        node = self._known(name)
        cells = self.cells[vendor]
        self.sums.add_row(node.row, cells, -1)
        cells.put_row(node.row, devices, cordoned=node.cordoned)
        self.sums.add_row(node.row, cells, 1)
        if devices:
            node.devices[vendor] = tuple(devices)
        else:
            node.devices.pop(vendor, None)
        return Change(happened=True, freed=_gained(held, devices))

    def set_allocatable(self, name: str, vendor: str, count: int | None) -> Change:
        """Note how many of the count resource kubelet offers; only "any" counts."""
        usable = count is not None and count > 0
        if name in self.rows and usable == (vendor in self._nodes[name].allocatable):
            return NO_CHANGE
        node = self._known(name)
        if usable:
            node.allocatable.add(vendor)
        else:
            node.allocatable.discard(vendor)
        self.cells[vendor].allocatable[node.row] = usable
        return Change(happened=True, freed=usable)

    def set_cordoned(self, name: str, ids: frozenset[str]) -> Change:
        """Replace the node's cordon list, whichever vendor the cards are of."""
        is_new = name not in self.rows
        node = self._known(name)
        before, node.cordoned = node.cordoned, ids
        here: set[str] = set()
        for vendor, cards in node.devices.items():
            self.cells[vendor].set_cordoned(node.row, ids)
            here.update(card.id for card in cards)
        return Change(
            happened=is_new or bool((ids ^ before) & here), freed=bool((before - ids) & here)
        )

    def set_notes(self, name: str, notes: Mapping[str, str]) -> Change:
        """Replace the node's texts that vendors' rules read."""
        if self.notes(name) == notes:
            return NO_CHANGE
        self._known(name).notes = MappingProxyType(dict(notes))
        return Change(happened=True, freed=True)

    def notes(self, name: str) -> Mapping[str, str]:
        """Return the node's texts that vendors' rules read."""
        node = self._nodes.get(name)
        return node.notes if node is not None else _NO_NOTES

    def forget(self, name: str) -> Change:
        """Drop all that is known of the node; its row serves another one later."""
        node = self._nodes.pop(name, None)
        if node is None:
            return NO_CHANGE
        for cells in self.cells.values():
            self.sums.add_row(node.row, cells, -1)
            cells.clear_row(node.row)
            cells.allocatable[node.row] = False
            cells.blocked[node.row] = False
        del self.rows[name], self.names[node.row]
        self._free_rows.append(node.row)
        self.rows_epoch += 1
        return Change(happened=True)

    def devices(self, name: str, vendor: str) -> tuple[device.Device, ...]:
        """Return the vendor's cards in the order of the text that came first."""
        node = self._nodes.get(name)
        return node.devices.get(vendor, ()) if node is not None else ()

    def card(self, name: str, vendor: str, card_id: str) -> device.Device | None:
        """Return a card as it is registered; None when it is absent."""
        place = self._place(name, vendor, card_id)
        return None if place is None else self.cells[vendor].cards[place[0]][place[1]]

    def usage(self, name: str, vendor: str) -> tuple[CardUsage, ...]:
        """Return each of the vendor's cards on a node with what pods hold of it."""
        row, cells = self.rows.get(name), self.cells.get(vendor)
        if row is None or cells is None:
            return ()
        return tuple(
            CardUsage(
                device=card,
                used_slots=int(cells.used_slots[row, column]),
                used_memory_mib=int(cells.used_memory_mib[row, column]),
                used_cores_percent=int(cells.used_cores[row, column]),
            )
            for column, card in enumerate(cells.cards.get(row, ()))
        )

    def charge(
        self, name: str, held: Mapping[str, charges.CardCharges], sign: int, *, claimed: bool
    ) -> None:
        """Add or take back amounts on those of the cards that are here."""
        for vendor, cards in held.items():
            self.charge_vendor(name, vendor, cards, sign, claimed=claimed)

    def charge_vendor(
        self, name: str, vendor: str, cards: charges.CardCharges, sign: int, *, claimed: bool
    ) -> None:
        """Do the same for one vendor."""
        for card_id, amount in cards.items():
            place = self._place(name, vendor, card_id)
            if place is None:
                continue
            cells = self.cells[vendor]
            if claimed:
                cells.claim(place, amount, sign)
                self.sums.claim(place[0], amount, sign)
            else:
                cells.charge(place, amount, sign)
                self.sums.charge(place[0], amount, sign)

    def set_blocked(self, name: str, vendor: str, uid: str, *, blocked: bool) -> None:
        """Note that a pod keeps new pods of the vendor off the node, or no longer does.

        This outlives the node: it is a fact about the pod.
        """
        blockers = self._blockers.setdefault((name, vendor), set())
        if blocked:
            blockers.add(uid)
        else:
            blockers.discard(uid)
        if not blockers:
            del self._blockers[name, vendor]
        row = self.rows.get(name)
        if row is not None:
            self.cells[vendor].blocked[row] = bool(blockers)

    def is_blocked(self, name: str, vendor: str) -> bool:
        """Whether a pod there holds something unreadable of that vendor."""
        return (name, vendor) in self._blockers

    def places(
        self, name: str, held: Mapping[str, charges.CardCharges]
    ) -> dict[str, tuple[tuple[columns.Place, charges.Charge], ...]]:
        """Return per vendor where amounts stand, absent cards left out."""
        found = {
            vendor: tuple(
                (place, amount)
                for card_id, amount in cards.items()
                if (place := self._place(name, vendor, card_id)) is not None
            )
            for vendor, cards in held.items()
        }
        return {vendor: places for vendor, places in found.items() if places}

    def places_of(
        self, holdings: Iterable[charges.Holding]
    ) -> dict[str, tuple[tuple[columns.Place, charges.Charge], ...]]:
        """Return the same of several holdings, a card as often as they have it."""
        found: dict[str, tuple[tuple[columns.Place, charges.Charge], ...]] = {}
        for holding in holdings:
            for vendor, places in self.places(holding.node, holding.charges).items():
                found[vendor] = found.get(vendor, ()) + places
        return found

    def _place(self, name: str, vendor: str, card_id: str) -> columns.Place | None:
        row = self.rows.get(name)
        cells = self.cells.get(vendor)
        if row is None or cells is None:
            return None
        column = cells.column(row, card_id)
        return None if column is None else (row, column)

    def _known(self, name: str) -> _Node:
        node = self._nodes.get(name)
        if node is not None:
            return node
        row = self._free_rows.pop() if self._free_rows else self.n_rows
        self.n_rows = max(self.n_rows, row + 1)
        self.sums.ensure(self.n_rows)
        for vendor, cells in self.cells.items():
            cells.ensure(rows=self.n_rows)
            cells.blocked[row] = self.is_blocked(name, vendor)
        self.rows[name] = row
        self.names[row] = name
        self.rows_epoch += 1
        self._nodes[name] = _Node(row=row)
        return self._nodes[name]


def _in_order(devices: Sequence[device.Device]) -> list[device.Device]:
    return sorted(devices, key=lambda card: (card.id, card.index, card.type))


def _gained(before: Sequence[device.Device], after: Sequence[device.Device]) -> bool:
    """Whether some card is new, larger, healthy again, or of another kind."""
    held = {card.id: card for card in before}
    for card in after:
        old = held.get(card.id)
        if (
            old is None
            or card.slots > old.slots
            or card.memory_mib > old.memory_mib
            or card.cores_percent != old.cores_percent
            or card.healthy > old.healthy
            or (card.type, card.mode, card.numa) != (old.type, old.mode, old.numa)
            or (card.mig_profiles, card.custom_info) != (old.mig_profiles, old.custom_info)
        ):
            return True
    return False
