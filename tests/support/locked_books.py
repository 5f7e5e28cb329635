"""Books with a lock on node-a, and binds that meet it."""

from support.dialogue import Dialogue
from support.operator_books import NOW, bind_args, open_books, put_node
from vgpu_operator.flows import bind, books
from vgpu_operator.model import records

EXPIRED = "2026-01-15T09:54:59Z"
"""Five minutes and a second before ten o'clock."""


def locked(*pods: records.PodRecord, lock: str, version: str = "10") -> books.Books:
    """Return books with node-a locked that way, trusted before, and these pods."""
    held = open_books()
    held.trusted_nodes.add("node-a")
    put_node(held, lock=lock, version=version)
    for pod in pods:
        held.ledger.observe(pod)
    return held


def started(held: books.Books, pod: records.PodRecord) -> Dialogue:
    """Return the bind of that pod to node-a, at its first effect."""
    held.ledger.observe(pod)
    return Dialogue(bind.bind(held, bind_args(pod), NOW))
