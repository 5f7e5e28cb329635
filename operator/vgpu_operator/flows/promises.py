"""What is written on a pod when it is bound."""

import datetime
import re

from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import charges
from vgpu_operator.model import allocation, fitting, records
from vgpu_operator.vendors import base
from vgpu_operator.wire import clock_text, keys, pod_devices

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def annotations(
    books: Books,
    record: records.PodRecord,
    granted: allocation.Allocation,
    now: datetime.datetime,
) -> dict[str, str]:
    """Return the annotations that go with the Binding.

    Protocol keys that the pod carries for vendors it gets nothing from are
    overwritten with the empty text: a Binding cannot delete.
    """
    stamp = clock_text.encode_unix_s(now)
    texts = dict.fromkeys(record.carried, "")
    texts |= {
        keys.ASSIGNED_NODE: granted.node,
        keys.ASSIGNED_TIME: stamp,
        keys.BIND_TIME: stamp,
        keys.BIND_PHASE: records.BindPhase.ALLOCATING.value,
    }
    for vendor in books.vendors:
        shares = granted.shares.get(vendor.spec.keyword)
        if shares is None:
            continue
        text = pod_devices.encode_pod_devices(shares)
        for key in (vendor.spec.to_allocate_key, vendor.spec.allocated_key):
            if key:
                texts[key] = text
        texts |= vendor.more_annotations(_grant(books, record, granted, vendor), now)
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
    """Return the node's cards as they are without this pod."""
    held = books.ledger.holding(record.key.uid)
    own = held.charges.get(keyword, {}) if held is not None and held.node == node else {}
    tenants = books.ledger.snapshot(with_claims=False).tenants(node, keyword)
    nothing = charges.Charge()
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


def labels(node: str) -> dict[str, str]:
    """Return the labels that go with the Binding.

    A node name that is no valid label value gets none: an invalid label would
    make every later update of the pod fail.

    >>> labels("node-a")
    {'hami.io/vgpu-node': 'node-a'}
    >>> labels("n" * 64)
    {}
    """
    return {keys.ASSIGNED_NODE: node} if _LABEL_VALUE.fullmatch(node) else {}
