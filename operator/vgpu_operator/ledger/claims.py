"""Tentative claims: what a filter expects kube-scheduler to bind next.

They guide other filters only; nothing that is decided at bind looks at them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from vgpu_operator.ledger import charges, nodes
from vgpu_operator.model import request


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One pod's expected holding, and when the expectation ends by itself."""

    wish: request.PodRequest
    holding: charges.Holding
    until: datetime


class Claims:
    """At most one claim per pod, charged apart from what pods hold.

    Args:
        book: the nodes whose cards are charged.
        on_change: called with a node's name, and whether anything became
            available there, whenever an answer could change.
    """

    def __init__(self, book: nodes.Nodes, on_change: Callable[[str, bool], None]) -> None:
        self._book = book
        self._on_change = on_change
        self._claims: dict[str, Claim] = {}
        self._on: dict[str, set[str]] = {}

    def put(self, claim: Claim) -> None:
        """Hold a claim in place of an earlier one of the same pod."""
        uid, node = claim.wish.pod.uid, claim.holding.node
        earlier = self._claims.get(uid)
        if earlier is not None and earlier.holding == claim.holding:
            self._claims[uid] = claim
            return
        self.drop(uid, instead=claim.holding)
        self._claims[uid] = claim
        self._on.setdefault(node, set()).add(uid)
        self._book.charge(node, claim.holding.charges, 1, claimed=True)
        self._on_change(node, False)

    def drop(self, uid: str, *, instead: charges.Holding | None = None) -> None:
        """End a pod's claim; nothing happens when there is none.

        Args:
            uid: the pod.
            instead: what it holds from now on; what that covers does not become free.
        """
        claim = self._claims.pop(uid, None)
        if claim is None:
            return
        node = claim.holding.node
        self._on[node].discard(uid)
        if not self._on[node]:
            del self._on[node]
        self._book.charge(node, claim.holding.charges, -1, claimed=True)
        self._on_change(node, instead is None or not instead.covers(claim.holding))

    def charge_again(self, node: str, vendor: str) -> None:
        """Charge a vendor's cards of a node anew, once they have been replaced."""
        for claim in self.on(node):
            cards = claim.holding.charges.get(vendor, {})
            self._book.charge_vendor(node, vendor, cards, 1, claimed=True)

    def expire(self, now: datetime) -> None:
        """End every claim that ends at ``now`` or before."""
        for uid in [uid for uid, claim in self._claims.items() if claim.until <= now]:
            self.drop(uid)

    def get(self, uid: str) -> Claim | None:
        """Return the pod's claim."""
        return self._claims.get(uid)

    def on(self, node: str) -> Iterator[Claim]:
        """Yield the claims on a node."""
        return (self._claims[uid] for uid in self._on.get(node, ()))

    def others(self, *, besides: str) -> Iterator[Claim]:
        """Yield all claims but that of one pod."""
        return (claim for uid, claim in self._claims.items() if uid != besides)
