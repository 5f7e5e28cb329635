"""What the state page and its API say of pods: who holds what, who waits and why."""

import datetime
import itertools
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from vgpu_operator.flows.books import Books, Refusal
from vgpu_operator.ledger import residents
from vgpu_operator.model import reason, records, request
from vgpu_operator.scheduling import explain
from vgpu_operator.wire import clock_text

Json: TypeAlias = dict[str, Any]

_PHASES: Final = {
    records.BindPhase.ALLOCATING: "allocating",
    records.BindPhase.SUCCESS: "allocated",
    records.BindPhase.FAILED: "failed",
    None: "bound",
}


def on_node(books: Books, node: str) -> Iterator[Json]:
    """Yield the pods that hold anything on a node, sorted, with what each container has."""
    by_pod = itertools.groupby(books.ledger.holders(node), key=lambda holder: holder.pod)
    for pod, holders in by_pod:
        record = books.ledger.record(pod.uid)
        yield {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "node": node,
            "phase": _phase(record),
            "since": _since(record),
            "shares": [_share(record, holder) for holder in holders],
        }


def _phase(record: records.PodRecord | None) -> str:
    if record is None or not record.node:
        return "reserved"
    return "ended" if record.ended else _PHASES[record.bind_phase]


def _since(record: records.PodRecord | None) -> str | None:
    """Return when the pod was bound; None where nobody has written it down."""
    if record is None or not record.node or record.bind_time_s is None:
        return None
    try:
        return moment(datetime.datetime.fromtimestamp(record.bind_time_s, datetime.UTC))
    except (OverflowError, OSError, ValueError):  # anybody can write the annotation
        return None


def _share(record: records.PodRecord | None, holder: residents.Holder) -> Json:
    containers = record.request.containers if record is not None else ()
    known = holder.container < len(containers)
    return {
        "container": containers[holder.container].name if known else f"#{holder.container}",
        "vendor": holder.vendor,
        "card": holder.share.card_id,
        "memoryMiB": holder.share.memory_mib,
        "cores": holder.share.cores_percent,
    }


def waiting(books: Books, uid: str) -> Json | None:
    """Return one pod that has no node yet; None once it has one or is gone."""
    record = books.ledger.record(uid)
    if record is None or record.node or record.ended:
        return None
    refusal = books.refused.get(uid)
    groups = refusal.groups if refusal is not None else ()
    return {
        "namespace": record.key.namespace,
        "name": record.key.name,
        "uid": uid,
        "created": moment(record.created),
        "state": _state_of_waiting(books, record, refusal),
        "asks": [_ask(one, wish) for one in record.request.containers for wish in one.devices],
        "nodes": len(refusal.nodes) if refusal is not None else 0,
        "reasons": reasons_of(groups),
        "nearest": _nearest(groups),
    }


def _state_of_waiting(books: Books, record: records.PodRecord, refusal: Refusal | None) -> str:
    if record.key.uid in books.binding:
        return "binding"
    return "refused" if refusal is not None or record.refused else "waiting"


def _ask(container: request.ContainerRequest, wish: request.DeviceRequest) -> Json:
    return {
        "container": container.name,
        "vendor": wish.vendor,
        "cards": wish.count,
        "memoryMiB": wish.memory_mib or None,
        "memoryPercent": wish.memory_percent if not wish.memory_mib else None,
        "cores": wish.cores_percent,
    }


def reasons_of(groups: tuple[explain.Group, ...]) -> list[Json]:
    """Return each word with the nodes and cards that it kept off, most nodes first."""
    found: dict[str, Json] = {}
    for group in groups:
        for word, cards in _words(group.rejection):
            entry = found.setdefault(word, {"word": word, "nodes": 0, "cards": 0})
            entry["nodes"] += group.nodes
            entry["cards"] += cards * group.nodes
    return sorted(found.values(), key=lambda entry: (-entry["nodes"], entry["word"]))


def _words(rejection: reason.NodeRejection) -> Iterator[tuple[str, int]]:
    if not rejection.counts:
        yield rejection.detail, 0
    for count in rejection.counts:
        yield str(count.reason), count.cards


def _nearest(groups: tuple[explain.Group, ...]) -> Json | None:
    """Return the node where least is missing, of those whose reasons are kept."""
    if not groups:
        return None
    nearest = min(groups, key=lambda group: _distance(group.rejection))
    return {"node": nearest.example, "nodes": nearest.nodes, "text": nearest.rejection.text}


def _distance(rejection: reason.NodeRejection) -> tuple[bool, float, int]:
    """Return how far a node is from taking the pod: room first, then cards that would do."""
    would_do = sum(
        count.cards / max(1, count.candidates)
        for count in rejection.counts
        if count.reason == reason.Reason.TOO_FEW_FREE_CARDS
    )
    return not rejection.resolvable, -would_do, len(rejection.counts)


def moment(time: datetime.datetime | None) -> str | None:
    """Return a time as JSON has it, in UTC and whole seconds."""
    if time is None:
        return None
    return clock_text.encode_rfc3339(time)
