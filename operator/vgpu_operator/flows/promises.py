"""What is written on a pod when it is bound."""

import datetime
import re

from vgpu_operator.flows.books import Books
from vgpu_operator.model import allocation, records
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
    return texts


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
