"""A raw ResourceQuota becomes a record: which vendors' memory and cores it limits.

Only ``limits.<memory resource>`` and ``limits.<cores resource>`` of
``spec.hard`` count. Quantities mean what Kubernetes says, in the unit of the
resource: ``20Gi`` of a resource in MiB is 21,474,836,480 MiB.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vgpu_operator.model import errors, quota, records
from vgpu_operator.vendors import base
from vgpu_operator.wire import fields, quantity, shape

LIMITS: Final = "limits."
REQUESTS: Final = "requests."

_MOST: Final = 2**53
"""Limits above are counted as this one, and below its negative as that: no cluster has so
much, and sums of it fit 64 bits."""


def quota_record(
    raw: Mapping[str, Any],
    vendors: Sequence[base.Vendor],
    *,
    aliases: Mapping[str, Sequence[str]],
) -> records.QuotaRecord:
    """Return what counts of a ResourceQuota; an entry that cannot be read limits nothing.

    Args:
        raw: as the API serves it.
        vendors: as ``registry.build`` returns them.
        aliases: earlier names of a resource by today's name; they limit it too.
    """
    metadata = shape.mapping(raw.get("metadata"))
    spec = shape.mapping(raw.get("spec"))
    hard = shape.mapping(spec.get("hard"))
    found: list[quota.Limits] = []
    ignored: list[str] = []
    for vendor in vendors:
        for key, is_memory in _keys(vendor.spec, aliases):
            if key not in hard:
                continue
            read = vendor.quota_memory if is_memory else quantity.decode_plain_integer
            try:
                amount = max(-_MOST, min(read(hard[key]), _MOST))
            except errors.DecodeError:
                ignored.append(
                    f"{key}: {fields.shown(hard[key])} is no whole number, so it limits nothing; "
                    "write one without a fraction"
                )
                continue
            limit = {"memory_mib" if is_memory else "cores": amount}
            found.append({vendor.spec.keyword: quota.Allowance(**limit)})
        ignored += _requests_keys(vendor.spec, hard)
    if found and (spec.get("scopes") or spec.get("scopeSelector")):
        ignored.append("its scopes are not looked at: it limits every pod of the namespace")
    return records.QuotaRecord(
        namespace=shape.text(metadata.get("namespace")) or "default",
        name=shape.text(metadata.get("name")),
        uid=shape.text(metadata.get("uid")),
        resource_version=shape.text(metadata.get("resourceVersion")),
        limits=quota.tightest(found),
        ignored=tuple(ignored),
    )


def _keys(
    spec: base.VendorSpec, aliases: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, bool]]:
    """Yield the keys that limit a vendor, and whether that is of memory."""
    for today, is_memory in ((spec.memory_resource, True), (spec.cores_resource, False)):
        for name in (today, *aliases.get(today or "", ())):
            if name:
                yield f"{LIMITS}{name}", is_memory


def _requests_keys(spec: base.VendorSpec, hard: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each key that people take for a limit of ours."""
    for name in (spec.memory_resource, spec.cores_resource):
        if name and f"{REQUESTS}{name}" in hard:
            yield (
                f"{REQUESTS}{name} is counted by the API server alone, per container and not per "
                f"card; write {LIMITS}{name} for what the cards hold"
            )
