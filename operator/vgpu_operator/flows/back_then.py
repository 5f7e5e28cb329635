"""What a node looked like at an earlier moment, as far as today's objects tell.

A bound pod says when it came. A pod that has left is not there to say anything: what
stood on the cards then was what is returned here, or more.
"""

import dataclasses
import datetime

from vgpu_operator.flows import one_node
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.model import reason, records, request


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BackThen:
    """A node at an earlier moment.

    Attributes:
        came: pods that hold cards there and were bound since.
        stayed: those that were bound before.
        usage: by vendor every card, the ones that came left out.
        rejection: what the scheduling code says of that; None when the pod would have fitted.
    """

    came: tuple[records.PodRecord, ...]
    stayed: tuple[records.PodRecord, ...]
    usage: dict[str, tuple[ledger_nodes.CardUsage, ...]]
    rejection: reason.NodeRejection | None


def look_back(
    books: Books, wish: request.PodRequest, node: str, moment: datetime.datetime
) -> BackThen:
    """Return the node without the pods that were bound after that moment."""
    there = one_node.pods_on(books, node)
    came = tuple(record for record in there if came_at(record) > moment)
    scratch = one_node.copied(books, node)
    for record in came:
        scratch.forget(record.key.uid)
    answer = one_node.judged(books, scratch, node, wish, priority=None)
    return BackThen(
        came=came,
        stayed=tuple(record for record in there if record not in came),
        usage={keyword: scratch.usage(node, keyword) for keyword in wish.vendors},
        rejection=answer if isinstance(answer, reason.NodeRejection) else None,
    )


def came_at(record: records.PodRecord) -> datetime.datetime:
    """Return when a bound pod took its cards; long ago when it does not say."""
    if record.bind_time_s is not None:
        return datetime.datetime.fromtimestamp(record.bind_time_s, datetime.UTC)
    return record.created or datetime.datetime.min.replace(tzinfo=datetime.UTC)
