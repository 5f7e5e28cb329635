"""Nodes whose lock is taken or wanted: a burst spreads over locks, not over cards.

One pod at a time may be between its binding and its Allocate on a node. Where
binpack prefers one node, all pods of a burst would stand in line there while
the locks of others are free. So a node counts as busy for as many pods as
stand between it and the asking pod, and comes just behind the last of those
that are less busy: the fullest free node comes first, and as soon as a node is
free again it is preferred again. The step is small, so that kube-scheduler's
own preferences (affinity, spreading) still decide where they have any.
"""

from collections.abc import Iterator, Mapping

from vgpu_operator.flows.books import Books
from vgpu_operator.model import request


def lines_at(books: Books, wish: request.PodRequest) -> Mapping[str, int]:
    """Return how many pods stand between a new one and each node's lock, where any do.

    Counted are pods that need one of its locks and are expected there
    (claims), wait for the lock or hold it, or are bound and not served yet.
    None are where ``scoring.avoidBusyNodes`` is off.
    """
    if not books.settings.scoring.avoid_busy_nodes:
        return {}
    found: dict[str, int] = {}
    meeting: dict[tuple[tuple[str, ...], str], bool] = {}
    for node, other in _in_line(books, besides=wish.pod.uid):
        # Which locks they use depends on the node only where an older dialect is spoken.
        alike = other.vendors, node if node in books.forerunners else ""
        if alike not in meeting:
            wanted, others = (books.locks_of(pod.vendors, node) for pod in (wish, other))
            meeting[alike] = not wanted.isdisjoint(others)
        if meeting[alike]:
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
