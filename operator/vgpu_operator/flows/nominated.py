"""Nominations that have lost their sense: others have got the cards, or the cards are gone.

A pod of higher priority takes what is kept for a lower one, another scheduler binds where it
likes, a card breaks. Whoever is still to leave would leave for nothing then.
"""

import dataclasses
from collections.abc import Collection, Iterable

from vgpu_operator.flows import one_node
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.preemption import plan
from vgpu_operator.ledger import nominations
from vgpu_operator.model import allocation, device, reason, records
from vgpu_operator.scheduling import choose


def review(books: Books, nodes: Iterable[str]) -> tuple[nominations.Nomination, ...]:
    """End the nominations on these nodes that make no sense any more; return those.

    Where only other cards of the node are left for the pod, those are kept from now on.
    Nobody has to act on what is returned: ``ledger.nomination`` shows it, and nothing is
    evicted without one.
    """
    void = []
    for node in nodes:
        # The highest goes first, as the lower ones have to do with what it leaves; of equals
        # the one that came last: it came although the others were there.
        latest_first = reversed(books.ledger.nominations(node))
        for kept in sorted(latest_first, key=lambda one: -one.priority):
            found = would_get(books, kept)
            if found is None:
                books.ledger.end_nomination(kept.pod.uid)
                void.append(kept)
            else:
                books.ledger.nominate(kept.wish, kept.priority, found, kept.until)
    return tuple(void)


def review_changed(books: Books) -> tuple[nominations.Nomination, ...]:
    """Do the same on every node that has changed since the last time."""
    since, books.nominations_reviewed = books.nominations_reviewed, books.ledger.revision
    where = dict.fromkeys(kept.node for kept in books.ledger.nominations())
    if not where:
        return ()
    changed = books.ledger.seen_since(since)
    return review(books, where if changed is None else [node for node in changed if node in where])


def would_get(books: Books, kept: nominations.Nomination) -> allocation.Allocation | None:
    """Return what the pod gets on its node once everybody has left who is to leave for it.

    That is what is kept where it can still be had, else other cards; None where it does not
    fit. Who is to leave for those that go before it leaves too: what they are to get counts
    already. Its namespace's quota is not looked at, for nothing is kept of that.
    """
    found = _chosen(books, kept, of_cards=_cards(kept))
    if not isinstance(found, allocation.Allocation):
        found = _chosen(books, kept)
    return found if isinstance(found, allocation.Allocation) else None


def _cards(kept: nominations.Nomination) -> frozenset[tuple[str, str]]:
    """Return the cards that are kept, by vendor and id."""
    charged = kept.holding.charges
    return frozenset((vendor, card) for vendor, cards in charged.items() for card in cards)


def _chosen(
    books: Books,
    kept: nominations.Nomination,
    *,
    of_cards: Collection[tuple[str, str]] | None = None,
) -> allocation.Allocation | reason.NodeRejection | None:
    """Return what the scheduling code chooses on the node without those who are to leave."""
    node = kept.node
    if node not in books.nodes:
        return None

    def change(vendor: str, card: device.Device) -> device.Device | None:
        return card if of_cards is None or (vendor, card.id) in of_cards else None

    scratch = one_node.copied(books, node, change=change)
    promised = plan.promised(books, kept.pod.uid, kept.priority)
    for record in one_node.pods_on(books, node):
        if record.key.uid in promised or _is_to_leave(books, kept, record):
            scratch.observe(dataclasses.replace(record, phase=records.FINISHED[0]))
    view = scratch.snapshot(
        with_claims=False, without_claim_of=kept.pod.uid, for_priority=kept.priority
    )
    return choose.choose(view, node, kept.wish, books.defaults)


def _is_to_leave(books: Books, kept: nominations.Nomination, record: records.PodRecord) -> bool:
    """Whether a pod is leaving, or is to leave for this one; where nobody says, any lower one."""
    if record.deleting:
        return True
    attempt = books.preemption.attempts.get(kept.pod.uid)
    if attempt is None:
        return record.priority < kept.priority
    return record.key in attempt.victims
