"""The Binding: create it once, and find out what happened when nobody answers."""

from collections.abc import Generator
from typing import Any

from vgpu_operator.flows import bindable, effects, pod_events
from vgpu_operator.flows.books import Books
from vgpu_operator.model import records

BINDING_TRIES = 5
"""How often a Binding is tried again when only the pod's version had moved."""


def create(
    books: Books,
    record: records.PodRecord,
    node: str,
    texts: dict[str, str],
    marks: dict[str, str],
    *,
    fence: str = "",
) -> Generator[effects.Effect, Any, str]:
    """Create the Binding; read the pod and decide again when its version has moved.

    Args:
        fence: the fence that the pod carried when its lock was taken. Another
            one means that the lock was taken over since.

    Raises:
        effects.Doubtful: some Binding may have happened or may still happen.
    """
    doubt: effects.Doubtful | None = None
    for _ in range(BINDING_TRIES):
        if record.fenced != fence:
            return (
                f"the lock of {node} was taken over from {record.key}; kube-scheduler tries again"
            )
        try:
            yield effects.BindPod(
                pod=record.key,
                node=node,
                resource_version=record.resource_version,
                annotations=texts,
                labels=marks,
            )
        except (effects.Conflict, effects.Missing, effects.Doubtful) as fault:
            if isinstance(fault, effects.Doubtful):
                doubt = fault
                if not books.ledger.gone(record.key.uid):
                    books.in_doubt[record.key.uid] = record.resource_version
            fresh = yield from _reread(record, fault)
        except effects.EffectFailed as fault:
            if doubt is not None:
                raise doubt from fault
            return f"{record.key} cannot be bound to {node}: {fault}"
        else:
            seen = books.ledger.record(record.key.uid)
            if seen is not None and not seen.node:
                # Otherwise the watch was faster than the answer, and has no more to show.
                books.bound.add(record.key.uid)
            return ""
        if fresh is not None:
            yield from pod_events.take_in(books, fresh)
        if fresh is None or fresh.key.uid != record.key.uid:
            yield from pod_events.lose(books, record.key)
            return f"pod {record.key} is gone"
        if fresh.node == node and fresh.promised_node == (node if texts else ""):
            return ""
        problem = bindable.hopeless(fresh)
        if problem:
            return problem
        if fresh.resource_version != record.resource_version:
            doubt = None  # what was on its way fails by its version now
        record = fresh
    if doubt is not None:
        raise doubt
    return f"{record.key} kept changing while it was bound to {node}; kube-scheduler tries again"


def _reread(
    record: records.PodRecord, fault: effects.EffectFailed
) -> Generator[effects.Effect, Any, records.PodRecord | None]:
    """Read the pod after a Binding that failed or may have happened."""
    try:
        fresh: records.PodRecord | None = yield effects.ReadPod(
            namespace=record.key.namespace, name=record.key.name
        )
    except effects.EffectFailed as second:
        raise effects.Doubtful(f"{fault}; reading it again failed too: {second}") from second
    return fresh
