"""A raw Pod becomes a record: what it asks for, and whether it shows that it passed no webhook."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from vgpu_operator.flows import admit
from vgpu_operator.flows.books import Books
from vgpu_operator.model import records
from vgpu_operator.model.settings import Settings
from vgpu_operator.vendors import base
from vgpu_operator.vendors import records as vendor_records


def decode_pod(books: Books, raw: Mapping[str, Any]) -> records.PodRecord:
    """Return what we keep of a raw Pod."""
    aliases = books.settings.resource_aliases
    record = vendor_records.pod_record(raw, books.vendors, aliases=aliases)
    known = books.ledger.record(record.key.uid)
    if known is None:
        return judged(record, raw, settings=books.settings, vendors=books.vendors)
    passed_by = known.passed_by  # what it asks for never changes
    return dataclasses.replace(record, passed_by=passed_by) if passed_by else record


def judged(
    record: records.PodRecord,
    raw: Mapping[str, Any],
    *,
    settings: Settings,
    vendors: Sequence[base.Vendor],
) -> records.PodRecord:
    """Return the record with what shows that the pod never passed the webhook.

    One that is bound or has ended is not judged: it may have been admitted by another
    release, with other rules.
    """
    if record.node or record.ended:
        return record
    passed_by = admit.passed_by(raw, settings=settings, vendors=vendors)
    return dataclasses.replace(record, passed_by=passed_by) if passed_by else record
