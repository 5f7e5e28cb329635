"""The autoscaler's question: would the pod fit on such a node?

Judged from the given Node objects alone, with no pod on them and whatever the
handshake says; nothing is kept, claimed or written. A pod that its namespace's
quota holds back fits on none: more nodes would not help it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from vgpu_operator.flows import quotas, unregistered
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.filter import FilterResult
from vgpu_operator.ledger import ledger
from vgpu_operator.model import errors, records
from vgpu_operator.scheduling import fit
from vgpu_operator.vendors import records as vendor_records


def filter_objects(
    books: Books, pod: records.PodRecord, nodes: Sequence[Mapping[str, Any]]
) -> FilterResult:
    """Answer which of the given Node objects could take the pod if they were empty."""
    names = [str(node["metadata"]["name"]) for node in nodes]
    if not pod.request.wants_devices:
        return FilterResult(fitting=tuple(names))
    scratch = ledger.Ledger(
        vendors=tuple(vendor.spec.keyword for vendor in books.vendors),
        trust=books.settings.ledger.trust,
        rules=books.by_keyword,
    )
    why: dict[tuple[str, str], str] = {}
    for raw in nodes:
        why |= _register(books, scratch, vendor_records.node_record(raw, books.vendors))
    view = scratch.snapshot(with_claims=False)
    by_keyword = books.by_keyword
    defaults = dataclasses.replace(
        books.defaults,
        why_no_cards=lambda node, vendor: (
            why.get((node, vendor)) or unregistered.never(by_keyword[vendor].spec)
        ),
    )
    allowances = quotas.allowances(books, pod.key)
    placement = fit.place(view, names, pod.request, defaults, allowances=allowances)
    return FilterResult(fitting=placement.fitting, rejections=placement.rejections)


def _register(
    books: Books, scratch: ledger.Ledger, node: records.NodeRecord
) -> dict[tuple[str, str], str]:
    """Put one Node's readable cards into the scratch ledger; say what is wrong with its texts.

    A template that does not list the count resource is judged by its cards:
    the kubelet of the real node will list it.
    """
    why: dict[tuple[str, str], str] = {}
    for vendor in books.vendors:
        keyword = vendor.spec.keyword
        text = node.registers.get(keyword)
        if text is None:
            continue
        decoded, unreadable = None, ""
        try:
            decoded = vendor_records.decode_register(node, vendor, text)
        except errors.DecodeError as fault:
            unreadable = fault.reason
        why[node.name, keyword] = unregistered.by_text(
            vendor.spec, vendor.spec.register_key, text=text, fault=unreadable
        )
        if decoded is None:
            continue
        scratch.set_devices(node.name, keyword, decoded.devices)
        count = node.allocatable.get(keyword)
        scratch.set_allocatable(node.name, keyword, 1 if count is None else count)
    scratch.set_cordoned(node.name, node.cordoned)
    scratch.set_notes(node.name, node.notes)
    return why
