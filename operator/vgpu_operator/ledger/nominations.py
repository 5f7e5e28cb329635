"""Nominated claims: cards that are kept for a pod while others leave them.

Unlike a tentative claim one is decided on at bind too: pods of its priority or a lower one
do not see what is kept, pods of a higher one see it as if it were not. So what counts
depends on who asks, and it is no part of the columns: a snapshot adds what counts for one
priority to what is held. As those who leave are charged until they have left, held and kept
together may be more than a card has.
"""

import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from vgpu_operator.ledger import charges
from vgpu_operator.model import request


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """What is kept for one pod on one node.

    Attributes:
        wish: what the pod asks for.
        priority: its priority.
        holding: what it would hold.
        until: when it ends by itself.
    """

    wish: request.PodRequest
    priority: int
    holding: charges.Holding
    until: datetime

    @property
    def pod(self) -> request.PodKey:
        """Whose it is."""
        return self.wish.pod

    @property
    def node(self) -> str:
        """Where it is."""
        return self.holding.node


class Nominations:
    """At most one nomination per pod.

    Args:
        on_change: called with a node's name, and whether anything became
            available there, whenever an answer could change.
    """

    def __init__(self, on_change: Callable[[str, bool], None]) -> None:
        self._on_change = on_change
        self._kept: dict[str, Nomination] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._priorities: list[int] = []

    def put(self, nomination: Nomination) -> None:
        """Keep cards for a pod in place of what was kept for it before."""
        uid, node = nomination.pod.uid, nomination.node
        earlier = self._kept.get(uid)
        if (
            earlier is not None
            and earlier.holding == nomination.holding
            and earlier.priority == nomination.priority
        ):
            self._kept[uid] = nomination
            return
        outranks = earlier is not None and nomination.priority >= earlier.priority
        self.end(uid, instead=nomination.holding if outranks else None)
        self._kept[uid] = nomination
        self._on.setdefault(node, {})[uid] = None
        bisect.insort(self._priorities, nomination.priority)
        self._on_change(node, False)

    def end(self, uid: str, *, instead: charges.Holding | None = None) -> Nomination | None:
        """Keep nothing more for a pod; return what was kept, None when nothing was.

        Args:
            uid: the pod.
            instead: what it holds from now on; what that covers does not become free.
        """
        nomination = self._kept.pop(uid, None)
        if nomination is None:
            return None
        node = nomination.node
        del self._on[node][uid]
        if not self._on[node]:
            del self._on[node]
        del self._priorities[bisect.bisect_left(self._priorities, nomination.priority)]
        self._on_change(node, instead is None or not instead.covers(nomination.holding))
        return nomination

    def get(self, uid: str) -> Nomination | None:
        """Return what is kept for the pod."""
        return self._kept.get(uid)

    def all(self) -> tuple[Nomination, ...]:
        """Return everything that is kept, oldest first."""
        return tuple(self._kept.values())

    def on(self, node: str) -> Iterator[Nomination]:
        """Yield what is kept on a node."""
        return (self._kept[uid] for uid in self._on.get(node, ()))

    def against(self, priority: int, *, besides: str | None = None) -> tuple[Nomination, ...]:
        """Return what is kept from a pod of that priority, that of one pod left out."""
        if not self.n_against(priority):
            return ()
        return tuple(
            nomination
            for uid, nomination in self._kept.items()
            if nomination.priority >= priority and uid != besides
        )

    def n_against(self, priority: int) -> int:
        """Return how many are kept from a pod of that priority."""
        return len(self._priorities) - bisect.bisect_left(self._priorities, priority)

    def due(self, now: datetime) -> tuple[str, ...]:
        """Return the pods whose nominations end at ``now`` or before."""
        return tuple(uid for uid, kept in self._kept.items() if kept.until <= now)
