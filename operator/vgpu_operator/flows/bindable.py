"""Whether a pod can still be bound, and why not."""

from vgpu_operator.flows.books import Books
from vgpu_operator.model import records, request


def hopeless(record: records.PodRecord) -> str:
    """Return why a pod can no longer be bound, empty while it can."""
    if record.node:
        return f"pod {record.key} is bound to {record.node} already"
    if record.ended:
        return f"pod {record.key} has ended"
    if record.deleting:
        return f"pod {record.key} is being deleted"
    return ""


def lost_sense(books: Books, pod: request.PodKey, node: str) -> str:
    """Return why there is nothing left to bind, empty while there is."""
    record = books.ledger.record(pod.uid)
    if record is None:
        return f"pod {pod} is gone"
    if node not in books.nodes:
        return f"node {node} is gone"
    return hopeless(record)
