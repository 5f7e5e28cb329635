"""Refused pods and who leaves for them, on values only."""

import dataclasses
import datetime
from typing import Any

from support import clusters, operator_books
from support.operator_books import NOW, bound, pending, put_node, register_text
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows import pod_events
from vgpu_operator.flows.preemption import attempts, candidates
from vgpu_operator.flows.preemption import look as looks
from vgpu_operator.model import budgets, records

HIGH, LOW = 1000, 100
RUNNING: dict[str, Any] = {"phase": records.BindPhase.SUCCESS}
SECOND = datetime.timedelta(seconds=1)


def open_books(*nodes: str, **preemption: Any) -> flow_books.Books:
    """Return books with these nodes, one card each."""
    books = operator_books.open_books(preemption=preemption)
    for name in nodes or ("node-a",):
        put_node(books, name, register=register_text((f"GPU-{name}", 24576)))
    return books


def run(
    books: flow_books.Books,
    name: str,
    node: str = "node-a",
    *,
    priority: int = LOW,
    memory_mib: int = 24000,
    **fields: Any,
) -> records.PodRecord:
    """Let a running pod be seen on that node's card."""
    asked = pending(name, clusters.asks(memory_mib=memory_mib), priority=priority, **fields)
    record = bound(asked, node, card=f"GPU-{node}", memory_mib=memory_mib, **RUNNING)
    record = dataclasses.replace(record, phase="Running")
    pod_events.pod_seen(books, record)
    return record


def ask(
    books: flow_books.Books,
    name: str = "high",
    *,
    priority: int = HIGH,
    memory_mib: int = 24000,
    now: datetime.datetime = NOW,
    nodes: tuple[str, ...] = (),
    **fields: Any,
) -> records.PodRecord:
    """Let a pod be seen and filtered."""
    record = pending(name, clusters.asks(memory_mib=memory_mib), priority=priority, **fields)
    pod_events.pod_seen(books, record)
    filtered(books, record, now=now, nodes=nodes)
    return record


def filtered(
    books: flow_books.Books,
    record: records.PodRecord,
    *,
    now: datetime.datetime = NOW,
    nodes: tuple[str, ...] = (),
) -> bool:
    """Ask the filter; return whether the pod is refused."""
    result = flow_filter.filter_nodes(books, record, nodes or tuple(books.nodes), now)
    if result.refused:
        candidates.note_refusal(books, record, now)
    return result.refused


def look(
    books: flow_books.Books,
    record: records.PodRecord,
    *kept: budgets.Budget,
    now: datetime.datetime = NOW,
) -> looks.Look:
    """Look at one candidate."""
    return looks.look(books, books.preemption.candidates[record.key.uid], kept, now)


def begin(books: flow_books.Books, record: records.PodRecord, **kinds: Any) -> attempts.Attempt:
    """Look, and return the attempt that this begins."""
    attempt = look(books, record, **kinds).attempt
    assert attempt is not None
    return attempt


def names(keys: Any) -> list[str]:
    """Return the names of pods."""
    return [key.name for key in keys]
