"""Nodes whose lock is taken or wanted: a burst spreads over locks, not over cards.

One pod at a time may be between its binding and its Allocate on a node. Where
binpack prefers one node, all pods of a burst would stand in line there while
the locks of others are free. So a node counts as busy for as many pods as
stand between it and the asking pod, and each of them costs it as much as the
whole range of scores: the fullest node that is free comes first, and as soon
as a node is free again it is preferred again.
"""

from collections.abc import Mapping, Sequence

from vgpu_operator.flows.books import Books
from vgpu_operator.model import request

DEEPEST = 10
"""More pods than that in a line make no difference."""


def scores(
    books: Books, wish: request.PodRequest, nodes: Sequence[str], plain: Sequence[int]
) -> Sequence[int]:
    """Return the scores of nodes with the busy ones behind those that are free.

    Free nodes keep theirs; all are as they were where every node is as busy.

    Args:
        books: what is known.
        wish: the asking pod; one that needs no lock meets no line.
        nodes: which.
        plain: their scores, 0 to ``scoring.maxScore``.
    """
    if not books.settings.scoring.avoid_busy_nodes or not _needs_lock(books, wish):
        return plain
    lines = lines_at(books, besides=wish.pod.uid)
    if not lines:
        return plain
    depths = [min(lines.get(node, 0), DEEPEST) for node in nodes]
    least = min(depths, default=0)
    step = books.settings.scoring.max_score
    return [score - step * (depth - least) for score, depth in zip(plain, depths, strict=True)]


def lines_at(books: Books, *, besides: str) -> Mapping[str, int]:
    """Return how many pods stand between a new one and each node's lock, where any do.

    Counted are pods that are expected there (claims), that wait for the lock or
    hold it, and that are bound and not served yet.
    """
    found: dict[str, int] = {}
    for node, waiting in books.turns.lengths():
        found[node] = found.get(node, 0) + waiting
    for node, uids in books.awaited.items():
        found[node] = found.get(node, 0) + len(uids)
    for uid in books.bound:
        held = books.ledger.holding(uid)
        if held is not None:
            found[held.node] = found.get(held.node, 0) + 1
    for node, claims in books.ledger.claims_on(besides=besides):
        found[node] = found.get(node, 0) + claims
    return found


def _needs_lock(books: Books, wish: request.PodRequest) -> bool:
    return any(books.by_keyword[word].spec.lock is not None for word in wish.vendors)
