"""The operator's books with a few nodes and pods in them, written shortly.

Cards are A10s of 24,576 MiB unless a test says otherwise; ten o'clock is now.
"""

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from support import clusters
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import pod_events, reconcile, register
from vgpu_operator.model import records, request, settings
from vgpu_operator.vendors import registry
from vgpu_operator.wire import extender

NOW = datetime.datetime(2026, 1, 15, 10, 0, tzinfo=datetime.UTC)
NVIDIA = "NVIDIA"
LOCK = "hami.io/mutex.lock"
HANDSHAKE = "hami.io/node-handshake"
FRESH_STAMP = "Requesting_2026-01-15 09:59:50"
OLD_STAMP = "Requesting_2026-01-15 09:58:00"


def later(seconds: float) -> datetime.datetime:
    """Return the time that many seconds after ten o'clock."""
    return NOW + datetime.timedelta(seconds=seconds)


def open_books(**values: Any) -> flow_books.Books:
    """Return empty books of a synced leader; keywords are settings as in the file."""
    configured = settings.build(values)
    books = flow_books.open_books(configured, registry.build(configured))
    books.leader = books.synced = True
    return books


def register_text(*cards: tuple[str, int], count: int = 10) -> str:
    """Return a register text with A10s of that id and memory."""
    return json.dumps(
        [
            {
                "id": card_id,
                "index": index,
                "count": count,
                "devmem": memory_mib,
                "devcore": 100,
                "type": "NVIDIA-NVIDIA A10",
                "mode": "hami-core",
                "health": True,
            }
            for index, (card_id, memory_mib) in enumerate(cards)
        ]
    )


ONE_CARD = register_text(("GPU-a0", 24576))
TWO_CARDS = register_text(("GPU-a0", 24576), ("GPU-a1", 24576))


def node(
    name: str = "node-a",
    *,
    version: str = "10",
    uid: str = "",
    register: str | None = ONE_CARD,
    handshake: str | None = FRESH_STAMP,
    allocatable: int | None = 10,
    lock: str | None = None,
    cordoned: Sequence[str] = (),
    woken: str = "",
) -> records.NodeRecord:
    """Return a healthy node with one card unless told otherwise."""

    def known(value: Any, key: str = NVIDIA) -> Mapping[str, Any]:
        return {} if value is None else {key: value}

    return records.NodeRecord(
        name=name,
        uid=uid or f"uid-of-{name}",
        resource_version=version,
        registers=known(register),
        handshakes=known(handshake),
        allocatable=known(allocatable),
        locks=known(lock, LOCK),
        cordoned=frozenset(cordoned),
        woken=woken,
    )


def put_node(books: flow_books.Books, *args: Any, **kinds: Any) -> records.NodeRecord:
    """Let the books see a node now and return it."""
    record = node(*args, **kinds)
    register.node_seen(books, record, NOW)
    return record


def pending(
    name: str = "p1",
    *wanted: request.DeviceRequest | request.ContainerRequest,
    uid: str = "",
    version: str = "5",
    **fields: Any,
) -> records.PodRecord:
    """Return an unbound pod that asks for 1000 MiB of one card unless told otherwise."""
    wish = clusters.wish(
        *(wanted or (clusters.asks(memory_mib=1000),)), uid=uid or f"uid-of-{name}", name=name
    )
    record = clusters.pod(wish, node_name="", phase="Pending", version=version)
    return dataclasses.replace(record, **fields)


def plain(name: str = "p1", **fields: Any) -> records.PodRecord:
    """Return an unbound pod that asks for no device."""
    return pending(name, clusters.container(), **fields)


def bound(
    record: records.PodRecord,
    node_name: str = "node-a",
    *,
    card: str = "GPU-a0",
    memory_mib: int = 1000,
    phase: records.BindPhase | None = records.BindPhase.ALLOCATING,
    version: str = "20",
    **fields: Any,
) -> records.PodRecord:
    """Return the pod as it is once our Binding has happened."""
    served = phase is not records.BindPhase.ALLOCATING
    known: dict[str, Any] = {
        "node": node_name,
        "promised_node": node_name,
        "promised": {NVIDIA: ((clusters.share(card, memory_mib),),)},
        "to_allocate": frozenset() if served else frozenset({NVIDIA}),
        "bind_phase": phase,
        "bind_time_s": int(NOW.timestamp()),
        "resource_version": version,
    }
    return dataclasses.replace(record, **(known | fields))


def list_in(
    books: flow_books.Books,
    *,
    nodes: Sequence[records.NodeRecord],
    pods: Sequence[records.PodRecord],
    version: str = "100",
    now: datetime.datetime = NOW,
) -> None:
    """Let the books take in one complete list, as a sync does."""
    for node_record in nodes:
        register.node_seen(books, node_record, now)
    reconcile.nodes_listed(books, names={each.name for each in nodes}, version=version)
    for pod_record in pods:
        pod_events.pod_seen(books, pod_record)
    reconcile.pods_listed(books, uids={each.key.uid for each in pods}, version=version)
    reconcile.synced(books)


def bind_args(record: records.PodRecord, node_name: str = "node-a") -> extender.BindArgs:
    """Return what kube-scheduler asks to bind that pod there."""
    return extender.BindArgs(
        namespace=record.key.namespace,
        name=record.key.name,
        uid=record.key.uid,
        node=node_name,
    )


def lock_of(name: str, *, at: str = "2026-01-15T09:59:30Z") -> str:
    """Return a lock text that names pod ``team-a/<name>``."""
    return f"{at},team-a,{name}"


def used_mib(books: flow_books.Books, node_name: str = "node-a") -> dict[str, int]:
    """Return what pods hold of each card's memory."""
    return {card.device.id: card.used_memory_mib for card in books.ledger.usage(node_name, NVIDIA)}
