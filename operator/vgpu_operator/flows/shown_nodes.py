"""What the state page and its API say of nodes and cards: books in, plain JSON values out."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from vgpu_operator.flows import shown_pods
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.wire import handshake

Json: TypeAlias = dict[str, Any]

CARD_FIELDS: Final = (
    "id",
    "vendor",
    "type",
    "index",
    "state",
    "slots",
    "usedSlots",
    "memoryMiB",
    "usedMemoryMiB",
    "cores",
    "usedCores",
)
"""The columns of a card in ``card_rows``: a map of 40,000 cards is sent without their names."""


def card_rows(books: Books, node: str) -> list[list[Any]] | None:
    """Return a node's cards, one list each; None where nothing has ever registered there.

    A node whose cards have left keeps its place, empty: that is what to look at.
    """
    if node not in books.nodes:
        return None
    rows = [
        _row(card_state(books, node, vendor, usage), vendor, usage)
        for vendor in _registered(books, node)
        for usage in books.ledger.usage(node, vendor)
    ]
    return rows if rows or any(_registered(books, node)) else None


def summary(books: Books, node: str) -> Json | None:
    """Return one node's sums; None for a node that is not known."""
    return _summary(books, node, list(_cards(books, node))) if node in books.nodes else None


def _summary(books: Books, node: str, cards: list[Json]) -> Json:
    return {
        "name": node,
        "cards": len(cards),
        "usableCards": sum(not card["state"] for card in cards),
        "pods": len({holder.pod.uid for holder in books.ledger.holders(node)}),
        "slots": _sums(cards, "slots", "usedSlots"),
        "memoryMiB": _sums(cards, "memoryMiB", "usedMemoryMiB"),
        "cores": _sums(cards, "cores", "usedCores"),
    }


def details(books: Books, node: str) -> Json | None:
    """Return all that is known of one node: cards, who holds them, registrations, locks."""
    record = books.nodes.get(node)
    if record is None:
        return None
    cards = list(_cards(books, node))
    return {
        "node": _summary(books, node, cards),
        "cards": cards,
        "pods": list(shown_pods.on_node(books, node)),
        "registrations": list(_registrations(books, node)),
        "locks": [{"key": key, "text": text} for key, text in sorted(record.locks.items())],
    }


def _registered(books: Books, node: str) -> Iterator[str]:
    """Yield the vendors that have ever registered there."""
    registrations = books.registrations
    return (keyword for keyword in books.by_keyword if (node, keyword) in registrations)


def _cards(books: Books, node: str) -> Iterator[Json]:
    for vendor in _registered(books, node):
        for usage in books.ledger.usage(node, vendor):
            row = _row(card_state(books, node, vendor, usage), vendor, usage)
            more = {"numa": usage.device.numa, "mode": usage.device.mode}
            yield dict(zip(CARD_FIELDS, row, strict=True)) | more


def card_state(books: Books, node: str, vendor: str, usage: ledger_nodes.CardUsage) -> str:
    """Return why no new pod gets the card, whatever is free; empty when some may."""
    if not usage.device.healthy:
        return "unhealthy"
    record = books.nodes[node]
    if usage.device.id in record.cordoned:
        return "cordoned"
    if not record.allocatable.get(vendor) or books.ledger.blocked(node, vendor):
        return "closed"
    return ""


def _row(state: str, vendor: str, usage: ledger_nodes.CardUsage) -> list[Any]:
    """Return one card's values, as ``CARD_FIELDS`` names them."""
    card = usage.device
    return [
        card.id,
        vendor,
        card.type,
        card.index,
        state,
        card.slots,
        usage.used_slots,
        card.memory_mib,
        usage.used_memory_mib,
        card.cores_percent,
        usage.used_cores_percent,
    ]


def _sums(cards: list[Json], total: str, used: str) -> Json:
    return {
        "used": sum(card[used] for card in cards),
        "total": sum(card[total] for card in cards),
    }


def _registrations(books: Books, node: str) -> Iterator[Json]:
    record = books.nodes[node]
    for keyword in _registered(books, node):
        read = handshake.decode_handshake(books.registrations[node, keyword].handshake)
        yield {
            "vendor": keyword,
            "dialect": books.dialect_of(node, keyword).name,
            "allocatable": record.allocatable.get(keyword),
            "handshake": {"state": read.state.value, "time": shown_pods.moment(read.time)},
            "problem": _problem(books, node, keyword),
        }


def _problem(books: Books, node: str, keyword: str) -> str:
    """Return a sentence on what is wrong with a vendor's cards there; empty when nothing is."""
    found = books.registrations[node, keyword]
    if found.unreadable:
        return found.unreadable
    if found.expired:
        return "the handshake has expired and nothing is allocatable: the cards have left"
    if books.ledger.blocked(node, keyword):
        return "what a pod there holds cannot be read: no new pod until it ends"
    if not books.nodes[node].allocatable.get(keyword):
        return "the kubelet offers none: no device plugin is running"
    return ""
