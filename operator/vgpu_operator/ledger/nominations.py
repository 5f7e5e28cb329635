"""Nominated claims: cards that are kept for a pod while others leave them.

Unlike a tentative claim one is decided on at bind too: pods of its priority or a lower one
do not see what is kept, pods of a higher one see it as if it were not. So what counts
depends on who asks, and it is no part of the columns: a snapshot adds what counts for one
priority to what is held. As those who leave are charged until they have left, held and kept
together may be more than a card has.

Of pods of one priority the one that was nominated first goes first: on the cards that are
kept for it, it does not see what is kept for those that came after it. So two that share a
card never keep each other off it while one of the pods that are to leave stays longer.
"""

import bisect
import dataclasses
import itertools
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
        self._aside: dict[str, tuple[Nomination, int]] = {}
        self._place: dict[str, int] = {}
        self._places = itertools.count()

    def put(self, nomination: Nomination) -> None:
        """Keep cards for a pod in place of what was kept for it before."""
        uid = nomination.pod.uid
        earlier = self._kept.get(uid)
        if (
            earlier is not None
            and earlier.holding == nomination.holding
            and earlier.priority == nomination.priority
        ):
            self._kept[uid] = nomination
            return
        outranks = earlier is not None and nomination.priority >= earlier.priority
        place = self._place.get(uid)
        self.end(uid, instead=nomination.holding if outranks else None)
        self._add(nomination, next(self._places) if place is None else place)

    def _add(self, nomination: Nomination, place: int) -> None:
        uid, node = nomination.pod.uid, nomination.node
        self._kept[uid] = nomination
        self._place[uid] = place
        self._on.setdefault(node, {})[uid] = None
        bisect.insort(self._priorities, nomination.priority)
        self._on_change(node, False)

    def end(self, uid: str, *, instead: charges.Holding | None = None) -> Nomination | None:
        """Keep nothing more for a pod; return what was kept, None when nothing was.

        Args:
            uid: the pod.
            instead: what it holds from now on; what that covers does not become free.
        """
        self._aside.pop(uid, None)
        nomination = self._kept.pop(uid, None)
        if nomination is None:
            return None
        node = nomination.node
        del self._place[uid]
        del self._on[node][uid]
        if not self._on[node]:
            del self._on[node]
        del self._priorities[bisect.bisect_left(self._priorities, nomination.priority)]
        self._on_change(node, instead is None or not instead.covers(nomination.holding))
        return nomination

    def set_aside(self, uid: str, *, instead: charges.Holding) -> None:
        """Keep nothing for a pod while it holds cards that it may have to give back.

        Args:
            uid: the pod.
            instead: what it holds meanwhile; what that covers does not become free.
        """
        aside, place = self._aside.get(uid), self._place.get(uid)
        nomination = self.end(uid, instead=instead)
        if nomination is not None and place is not None:
            aside = nomination, place
        if aside is not None:
            self._aside[uid] = aside

    def resume(self, uid: str) -> None:
        """Keep for a pod again what was set aside."""
        aside = self._aside.pop(uid, None)
        if aside is not None:
            self._add(*aside)

    def forget_node(self, node: str) -> None:
        """Keep nothing more on a node."""
        for kept in tuple(self.on(node)):
            self.end(kept.pod.uid)
        self._aside = {uid: one for uid, one in self._aside.items() if one[0].node != node}

    def get(self, uid: str) -> Nomination | None:
        """Return what is kept for the pod."""
        return self._kept.get(uid)

    def all(self) -> tuple[Nomination, ...]:
        """Return everything that is kept, oldest first."""
        return tuple(sorted(self._kept.values(), key=self._came))

    def on(self, node: str) -> Iterator[Nomination]:
        """Yield what is kept on a node, oldest first."""
        return iter(sorted((self._kept[uid] for uid in self._on.get(node, ())), key=self._came))

    def against(self, priority: int, *, besides: str | None = None) -> tuple[Nomination, ...]:
        """Return what is kept from a pod of that priority.

        Args:
            priority: of the pod.
            besides: its UID: what is kept for itself is left out, and on the same cards what
                is kept for those of its priority that came after it.
        """
        if not self.n_against(priority):
            return ()
        own = self._kept.get(besides) if besides is not None else None
        return tuple(
            _without_cards(nomination, own.holding)
            if own is not None and self._is_behind(nomination, own)
            else nomination
            for nomination in self._all_from(priority, besides)
        )

    def ahead_of(self, priority: int, uid: str) -> tuple[Nomination, ...]:
        """Return the nominations that a pod of that priority has to wait for."""
        own = self._kept.get(uid)
        return tuple(
            nomination
            for nomination in self._all_from(priority, uid)
            if own is None or not self._is_behind(nomination, own)
        )

    def _came(self, nomination: Nomination) -> int:
        return self._place[nomination.pod.uid]

    def _all_from(self, priority: int, besides: str | None) -> Iterator[Nomination]:
        return (
            nomination
            for uid, nomination in self._kept.items()
            if nomination.priority >= priority and uid != besides
        )

    def _is_behind(self, nomination: Nomination, own: Nomination) -> bool:
        """Whether a nomination is of the same priority as another one, and came after it."""
        return (
            nomination.priority == own.priority
            and self._place[nomination.pod.uid] > self._place[own.pod.uid]
        )

    def n_against(self, priority: int) -> int:
        """Return how many are kept from a pod of that priority."""
        return len(self._priorities) - bisect.bisect_left(self._priorities, priority)

    def expire(self, now: datetime) -> tuple[Nomination, ...]:
        """End every nomination that ends at ``now`` or before; return what was kept."""
        self._aside = {uid: one for uid, one in self._aside.items() if one[0].until > now}
        due = [uid for uid, kept in self._kept.items() if kept.until <= now]
        ended = (self.end(uid) for uid in due)
        return tuple(one for one in ended if one is not None)


def _without_cards(nomination: Nomination, holding: charges.Holding) -> Nomination:
    """Return what is kept on other cards than those of a holding."""
    if nomination.node != holding.node:
        return nomination
    kept = nomination.holding
    own = {vendor: frozenset(cards) for vendor, cards in holding.charges.items()}
    left = {
        vendor: others
        for vendor, cards in kept.charges.items()
        if (others := {i: one for i, one in cards.items() if i not in own.get(vendor, ())})
    }
    shares = {
        vendor: tuple(
            tuple(one for one in entry if one.device_id not in own.get(vendor, ()))
            for entry in entries
        )
        for vendor, entries in kept.shares.items()
    }
    reduced = dataclasses.replace(kept, charges=left, shares=shares)
    return dataclasses.replace(nomination, holding=reduced)
