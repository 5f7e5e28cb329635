"""What is written on a pod when it is bound."""

import datetime
import re
from collections.abc import Mapping, Sequence

from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import charges
from vgpu_operator.model import allocation, fitting, records
from vgpu_operator.vendors import base, promised
from vgpu_operator.wire import clock_text, dialects, keys, pod_devices, shared_devices

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def annotations(
    books: Books,
    record: records.PodRecord,
    granted: allocation.Allocation,
    now: datetime.datetime,
) -> dict[str, str]:
    """Return the annotations that go with the Binding.

    They are written in the dialect that the vendors' plugins speak on that
    node. Protocol keys that the pod carries for vendors it gets nothing from,
    or in another dialect, are overwritten with the empty text: a Binding
    cannot delete.
    """
    texts = dict.fromkeys(record.carried, "")
    spoken: dict[str, dialects.Dialect] = {}
    shared: dict[str, list[allocation.PodShares]] = {}
    for vendor in books.vendors:
        shares = granted.shares.get(vendor.spec.keyword)
        if shares is None:
            continue
        dialect = books.dialect_of(granted.node, vendor.spec.keyword)
        spoken[dialect.name] = dialect
        if dialect.allocated is not None:
            shared.setdefault(dialect.name, []).append(shares)
            continue
        text = pod_devices.encode_pod_devices(shares)
        for key in (vendor.spec.to_allocate_key, vendor.spec.allocated_key):
            if key:
                texts[key] = text
        texts |= vendor.more_annotations(_grant(books, record, granted, vendor), now)
    for name, dialect in (spoken or {dialects.HAMI.name: dialects.HAMI}).items():
        texts |= _of_dialect(books, record, granted.node, dialect, shared.get(name, ()), now)
    return texts


def _of_dialect(
    books: Books,
    record: records.PodRecord,
    node: str,
    dialect: dialects.Dialect,
    shared: Sequence[allocation.PodShares],
    now: datetime.datetime,
) -> dict[str, str]:
    """Return the annotations that a dialect has for all vendors together."""
    stamp = clock_text.encode_unix_s(now)
    texts = {
        dialect.assigned_node: node,
        dialect.assigned_time: stamp,
        dialect.bind_time: stamp,
        dialect.bind_phase: records.BindPhase.ALLOCATING.value,
    }
    together = tuple(
        tuple(share for of_container in of_vendors for share in of_container)
        for of_vendors in zip(*shared, strict=True)
    )
    for key in (dialect.to_allocate, dialect.allocated):
        if key:
            texts[key] = shared_devices.encode(
                together,
                n_init=promised.n_init(record.request),
                separator=books.settings.dialects.forerunner.container_separator.value,
            )
    return texts


def _grant(
    books: Books,
    record: records.PodRecord,
    granted: allocation.Allocation,
    vendor: base.Vendor,
) -> base.Grant:
    """Return what the vendor needs to know for its own texts."""
    keyword, node = vendor.spec.keyword, books.nodes.get(granted.node)
    cards = _cards_before(books, record, granted.node, keyword)
    return base.Grant(
        shares=granted.shares[keyword],
        containers=tuple(container.name for container in record.request.containers),
        devices={card.device.id: card.device for card in cards},
        node=granted.node,
        node_notes={} if node is None else node.notes,
        pod_notes=record.request.notes,
        request=record.request,
        cards=cards,
    )


def _cards_before(
    books: Books, record: records.PodRecord, node: str, keyword: str
) -> tuple[fitting.CardState, ...]:
    """Return the node's cards as they are without this pod.

    Among the tenants are the pods that cards are kept for, as when its own were chosen.
    """
    held = books.ledger.holding(record.key.uid)
    own = held.charges.get(keyword, {}) if held is not None and held.node == node else {}
    view = books.ledger.snapshot(
        with_claims=False, without_claim_of=record.key.uid, for_priority=record.priority
    )
    tenants = view.tenants(node, keyword)
    nothing = charges.NOTHING
    return tuple(
        fitting.CardState(
            device=card.device,
            used_slots=card.used_slots - own.get(card.device.id, nothing).slots,
            used_memory_mib=card.used_memory_mib - own.get(card.device.id, nothing).memory_mib,
            used_cores=card.used_cores_percent - own.get(card.device.id, nothing).cores_percent,
            tenants=tuple(
                tenant
                for tenant in tenants.get(card.device.id, ())
                if tenant.pod.uid != record.key.uid
            ),
        )
        for card in books.ledger.usage(node, keyword)
    )


def labels(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that go with a Binding of these annotations.

    Only today's dialect has one. A node name that is no valid label value gets
    none: an invalid label would make every later update of the pod fail.

    >>> labels({"hami.io/vgpu-node": "node-a"})
    {'hami.io/vgpu-node': 'node-a'}
    >>> labels({"hami.io/vgpu-node": "n" * 64}), labels({"4pd.io/vgpu-node": "node-a"})
    ({}, {})
    """
    node = texts.get(keys.ASSIGNED_NODE, "")
    return {keys.ASSIGNED_NODE: node} if _LABEL_VALUE.fullmatch(node) else {}
