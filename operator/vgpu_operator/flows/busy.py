"""Nodes whose lock is taken or wanted: a burst spreads over locks, not over cards.

One pod at a time may be between its binding and its Allocate on a node. Where
binpack prefers one node, all pods of a burst would stand in line there while
the locks of others are free. So a node counts as busy for as many pods as
stand between it and the asking pod, and comes just behind the last of those
that are less busy: the fullest free node comes first, and as soon as a node is
free again it is preferred again. The step is small, so that kube-scheduler's
own preferences (affinity, spreading) still decide where they have any.
"""

from collections.abc import Iterator, Mapping, Sequence

from vgpu_operator.flows.books import Books
from vgpu_operator.model import request

BAND_PARTS = 10
"""One part in so many of the scores' range is for nodes that are busy."""


def scores(
    books: Books, wish: request.PodRequest, nodes: Sequence[str], plain: Sequence[int]
) -> Sequence[int]:
    """Return the scores of nodes with the busy ones behind those that are free.

    All are as they were where every node is as busy. Otherwise the least busy
    keep their order above ``band``, and each other one comes below all of
    them, by one for each pod more in its line.

    Args:
        books: what is known.
        wish: the asking pod; one that needs no lock meets no line.
        nodes: which.
        plain: their scores, 0 to ``scoring.maxScore``.
    """
    if not books.settings.scoring.avoid_busy_nodes:
        return plain
    lines = lines_at(books, wish)
    depths = [lines.get(node, 0) for node in nodes] if lines else []
    least = min(depths, default=0)
    if max(depths, default=0) == least:
        return plain
    top = books.settings.scoring.max_score
    band = max(1, top // BAND_PARTS)
    moved = [band + score * (top - band) // top for score in plain]
    last_free = min(score for score, depth in zip(moved, depths, strict=True) if depth == least)
    return [
        score if depth == least else max(0, min(score, last_free - (depth - least)))
        for score, depth in zip(moved, depths, strict=True)
    ]


def lines_at(books: Books, wish: request.PodRequest) -> Mapping[str, int]:
    """Return how many pods stand between a new one and each node's lock, where any do.

    Counted are pods that need one of its locks and are expected there
    (claims), wait for the lock or hold it, or are bound and not served yet.
    """
    found: dict[str, int] = {}
    for node, other in _in_line(books, besides=wish.pod.uid):
        if not set(books.lock_keys(wish, node)).isdisjoint(books.lock_keys(other, node)):
            found[node] = found.get(node, 0) + 1
    return found


def _in_line(books: Books, *, besides: str) -> Iterator[tuple[str, request.PodRequest]]:
    """Yield the pods that stand somewhere in a line, and where."""
    ledger = books.ledger
    seen = {besides}
    for node, uids in (*books.turns.lines(), *books.awaited.items()):
        for uid in uids:
            record = ledger.record(uid)
            if uid not in seen and record is not None:
                seen.add(uid)
                yield node, record.request
    for uid in books.bound:
        # Our Binding has been answered, and the watch has not shown it yet.
        held, record = ledger.holding(uid), ledger.record(uid)
        if uid not in seen and held is not None and record is not None:
            yield held.node, record.request
    for node, wish in ledger.claimed(besides=besides):
        yield node, wish
