"""One node's part of the books as a ledger of its own: who asks "what if" changes that one."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from vgpu_operator.flows import quotas
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import ledger
from vgpu_operator.model import allocation, device, reason, records, request
from vgpu_operator.scheduling import choose

Change: TypeAlias = Callable[[str, device.Device], device.Device | None]
"""(vendor, card) -> the card as it would be, or None to take it off."""


def _as_it_is(_vendor: str, card: device.Device) -> device.Device:
    return card


def copied(
    books: Books,
    node: str,
    *,
    change: Change = _as_it_is,
    uncordoned: Collection[str] = (),
) -> ledger.Ledger:
    """Return a ledger that holds that node alone, with its pods and what is kept for others.

    Args:
        books: what is known; nothing in it changes.
        node: a known node.
        change: what its cards would be.
        uncordoned: cards as if they were not on the cordon list.
    """
    record = books.nodes[node]
    scratch = ledger.Ledger(
        vendors=tuple(books.by_keyword),
        trust=books.settings.ledger.trust,
        rules=books.by_keyword,
    )
    for keyword in books.by_keyword:
        if (node, keyword) not in books.registrations:
            continue
        cards = (change(keyword, card) for card in books.ledger.devices(node, keyword))
        scratch.set_devices(node, keyword, [card for card in cards if card is not None])
        scratch.set_allocatable(node, keyword, record.allocatable.get(keyword))
    scratch.set_cordoned(node, record.cordoned.difference(uncordoned))
    scratch.set_notes(node, record.notes)
    for pod in _holding(books, node):
        held = books.ledger.holding(pod.key.uid)
        if pod.node == node:
            scratch.observe(pod)
        elif held is not None:  # its Binding is under way
            scratch.assume(pod.request, allocation.Allocation(node=node, shares=held.shares))
    for kept in books.ledger.nominations(node):
        shares = allocation.Allocation(node=node, shares=kept.holding.shares)
        scratch.nominate(kept.wish, kept.priority, shares, kept.until)
    return scratch


def judged(
    books: Books,
    scratch: ledger.Ledger,
    node: str,
    wish: request.PodRequest,
    *,
    priority: int | None,
) -> allocation.Allocation | reason.NodeRejection:
    """Return what the scheduling code says of a pod on such a ledger, quotas as they are.

    Args:
        books: what is known.
        scratch: a ledger of that node.
        node: its name.
        wish: of the pod.
        priority: of the pod; None = nothing is kept from it.
    """
    return choose.choose(
        scratch.snapshot(with_claims=False, without_claim_of=wish.pod.uid, for_priority=priority),
        node,
        wish,
        books.defaults,
        allowances=quotas.allowances(books, wish.pod),
    )


def pods_on(books: Books, node: str) -> tuple[records.PodRecord, ...]:
    """Return the bound pods that hold a card of the node, sorted."""
    return tuple(record for record in _holding(books, node) if record.node == node)


def _holding(books: Books, node: str) -> Iterator[records.PodRecord]:
    seen = dict.fromkeys(holder.pod for holder in books.ledger.holders(node))
    found = (books.ledger.record(pod.uid) for pod in sorted(seen))
    return (record for record in found if record is not None)
