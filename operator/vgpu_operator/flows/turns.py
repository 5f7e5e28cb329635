"""Whose turn it is at a node's lock: first come, first served, groups together.

    joins ──► [ w1 w2 w3 … ] ──► leaves (bound, gone, given up, replaced)
                └ may try when no earlier waiter wants one of its lock keys

Members of one pod group stand side by side, behind the first of them, so that
a gang does not wait for strangers in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """One bind that waits for the locks of one node."""

    uid: str
    keys: tuple[str, ...]
    group: str = ""


@dataclass(slots=True)
class Turns:
    """The queues of all nodes."""

    _queues: dict[str, list[Waiter]] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def join(self, node: str, waiter: Waiter) -> None:
        """Add a waiter; one that waits already elsewhere leaves there first.

        One that waits there keeps its place, also when it wants other locks now.
        """
        if self._nodes.get(waiter.uid) == node:
            queue = self._queues[node]
            if waiter not in queue:
                queue[:] = [waiter if other.uid == waiter.uid else other for other in queue]
            return
        self.leave(waiter.uid)
        queue = self._queues.setdefault(node, [])
        place = len(queue)
        if waiter.group:
            mates = [i for i, other in enumerate(queue) if other.group == waiter.group]
            if mates:
                place = mates[-1] + 1
        queue.insert(place, waiter)
        self._nodes[waiter.uid] = node

    def leave(self, uid: str) -> str | None:
        """Remove a waiter; return the node whose queue it left, None when it waited nowhere."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return None
        queue = self._queues[node]
        queue[:] = [waiter for waiter in queue if waiter.uid != uid]
        if not queue:
            del self._queues[node]
        return node

    def may_try(self, node: str, uid: str) -> bool:
        """Whether no earlier waiter of that node wants one of this one's locks."""
        taken: set[str] = set()
        for waiter in self._queues.get(node, ()):
            if waiter.uid == uid:
                return taken.isdisjoint(waiter.keys)
            taken.update(waiter.keys)
        return False

    def heads(self, node: str) -> tuple[str, ...]:
        """Return the UIDs that ``may_try`` there, first come first."""
        taken: set[str] = set()
        found = []
        for waiter in self._queues.get(node, ()):
            if taken.isdisjoint(waiter.keys):
                found.append(waiter.uid)
            taken.update(waiter.keys)
        return tuple(found)

    def first(self, node: str, key: str) -> Waiter | None:
        """Return the waiter that is next for that lock, None when nobody waits."""
        return next((w for w in self._queues.get(node, ()) if key in w.keys), None)

    def waiting_at(self, node: str) -> tuple[str, ...]:
        """Return the UIDs that wait at a node, first come first."""
        return tuple(waiter.uid for waiter in self._queues.get(node, ()))

    def lines(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each node that anybody waits at, and the UIDs, first come first."""
        return ((node, [waiter.uid for waiter in queue]) for node, queue in self._queues.items())

    def nodes(self) -> frozenset[str]:
        """Return the nodes that anybody waits at."""
        return frozenset(self._queues)

    def node_of(self, uid: str) -> str | None:
        """Return where a pod waits."""
        return self._nodes.get(uid)

    def __len__(self) -> int:
        return len(self._nodes)
