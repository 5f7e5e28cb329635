"""Who holds a share of which card, as vendors' own rules want to see it."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from vgpu_operator.ledger import charges
from vgpu_operator.model import fitting, request

Cards: TypeAlias = Mapping[str, tuple[fitting.Tenant, ...]]
"""Per card id who holds it, by pod and container."""

NOBODY: Final[Cards] = MappingProxyType({})

Occupant: TypeAlias = tuple[request.PodKey, Mapping[str, str], charges.Holding]
"""A pod, its notes, and what it holds."""


def of(occupants: Iterable[Occupant]) -> dict[str, dict[str, tuple[fitting.Tenant, ...]]]:
    """Return per vendor and card the containers that hold shares now.

    Init containers that are done hold nothing any more but a slot, which is
    counted elsewhere.
    """
    found: dict[str, dict[str, list[fitting.Tenant]]] = {}
    for pod, notes, holding in sorted(occupants, key=lambda occupant: occupant[0]):
        for vendor, shares in holding.shares.items():
            for container, entry in enumerate(shares):
                if container in holding.done:
                    continue
                for share in entry:
                    found.setdefault(vendor, {}).setdefault(share.card_id, []).append(
                        fitting.Tenant(pod=pod, container=container, share=share, notes=notes)
                    )
    return {
        vendor: {card: tuple(tenants) for card, tenants in cards.items()}
        for vendor, cards in found.items()
    }


def joined(one: Cards, other: Cards) -> Cards:
    """Return the tenants of both."""
    if not one or not other:
        return one or other
    return {card: one.get(card, ()) + other.get(card, ()) for card in {**one, **other}}


def without(held: Cards, uids: Collection[str]) -> Cards:
    """Return the tenants that are none of these pods."""
    if not uids or not held:
        return held
    return {
        card: tuple(tenant for tenant in tenants if tenant.pod.uid not in uids)
        for card, tenants in held.items()
    }


class Noted:
    """Which nodes have a pod whose texts some vendor's rules must read.

    Those are the pods with annotations that a vendor asked to see, and those
    whose promise names an instance of a card.
    """

    def __init__(self) -> None:
        self._where: dict[str, str] = {}
        self._pods: dict[str, int] = {}

    def put(self, uid: str, node: str | None) -> None:
        """Note where that pod is; None: it is nowhere, or nothing has to be read."""
        before = self._where.pop(uid, None)
        if before is not None:
            self._pods[before] -= 1
            if not self._pods[before]:
                del self._pods[before]
        if node is not None:
            self._where[uid] = node
            self._pods[node] = self._pods.get(node, 0) + 1

    @property
    def nodes(self) -> Collection[str]:
        """Their names."""
        return self._pods.keys()


def must_be_read(notes: Mapping[str, str], holding: charges.Holding) -> bool:
    """Whether the numbers of a pod's shares do not tell all that it holds."""
    return any(notes.values()) or any(
        share.names_instance
        for shares in holding.shares.values()
        for entry in shares
        for share in entry
    )


class Index:
    """The tenants of each node, worked out when asked for and kept until a pod there changes."""

    def __init__(self) -> None:
        self._kept: dict[str, Mapping[str, Cards]] = {}

    def changed(self, node: str) -> None:
        """Some pod on the node holds something else now."""
        self._kept.pop(node, None)

    def get(self, node: str) -> Mapping[str, Cards] | None:
        """Return what is kept of the node, None when it has to be worked out."""
        return self._kept.get(node)

    def keep(self, node: str, by_vendor: Mapping[str, Cards]) -> Mapping[str, Cards]:
        """Keep and return the node's tenants."""
        self._kept[node] = by_vendor
        return by_vendor
