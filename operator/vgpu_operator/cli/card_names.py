"""How a card is named on a command line: by its id, or by node and index."""

from dataclasses import dataclass

from vgpu_operator.cli import cluster_view
from vgpu_operator.model import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A card and where it is."""

    node: str
    card: str


def find(view: cluster_view.ClusterView, name: str, *, gone_too: bool = False) -> Place:
    """Return the card of that name: its id (``GPU-…``), ``NODE/INDEX`` or ``NODE/ID``.

    Args:
        view: the cluster.
        name: as somebody typed it.
        gone_too: also cards that only a node's cordon list still names.

    Raises:
        SettingsError: there is none, or several nodes have one of that id.
    """
    found = [
        Place(node=node, card=usage.device.id)
        for node in sorted(view.nodes)
        for vendor in view.vendors
        for usage in view.ledger.usage(node, vendor)
        if name in (usage.device.id, f"{node}/{usage.device.index}", f"{node}/{usage.device.id}")
    ]
    if not found and gone_too:
        found = [
            Place(node=node, card=card)
            for node, record in sorted(view.nodes.items())
            for card in sorted(record.cordoned)
            if name in (card, f"{node}/{card}")
        ]
    if not found:
        raise errors.SettingsError(
            f"no node has registered a card {name!r}; name it by its id, or as NODE/INDEX"
            " (vgpu nodes lists both)"
        )
    if len(found) > 1:
        places = ", ".join(f"{place.node}/{place.card}" for place in found[:5])
        raise errors.SettingsError(
            f"{name!r} names {len(found)} cards ({places}); name one of them"
        )
    return found[0]
