"""Tentative claims: what a filter expects kube-scheduler to bind next.

They guide other filters only; nothing that is decided at bind looks at them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from vgpu_operator.ledger import charges
from vgpu_operator.model import request


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One pod's expected holding, and when the expectation ends by itself."""

    wish: request.PodRequest
    holding: charges.Holding
    until: datetime


class Claims:
    """At most one claim per pod."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._on: dict[str, set[str]] = {}

    def put(self, uid: str, claim: Claim) -> None:
        """Hold a claim in place of an earlier one of the same pod."""
        self.take(uid)
        self._claims[uid] = claim
        self._on.setdefault(claim.holding.node, set()).add(uid)

    def take(self, uid: str) -> Claim | None:
        """Remove and return the pod's claim."""
        claim = self._claims.pop(uid, None)
        if claim is not None:
            node = claim.holding.node
            self._on[node].discard(uid)
            if not self._on[node]:
                del self._on[node]
        return claim

    def get(self, uid: str) -> Claim | None:
        """Return the pod's claim."""
        return self._claims.get(uid)

    def on(self, node: str) -> Iterator[Claim]:
        """Yield the claims on a node."""
        return (self._claims[uid] for uid in self._on.get(node, ()))

    def others(self, *, besides: str) -> Iterator[Claim]:
        """Yield all claims but that of one pod."""
        return (claim for uid, claim in self._claims.items() if uid != besides)

    def ended_by(self, now: datetime) -> tuple[str, ...]:
        """Return the pods whose claims end at ``now`` or before."""
        return tuple(uid for uid, claim in self._claims.items() if claim.until <= now)
