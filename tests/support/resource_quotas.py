"""ResourceQuotas as the API serves them, and a way to have the books see them."""

from collections.abc import Mapping
from typing import Any

from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import quotas
from vgpu_operator.model import records
from vgpu_operator.vendors import quotas as vendor_quotas

Json = dict[str, Any]

MEMORY = "limits.nvidia.com/gpumem"
CORES = "limits.nvidia.com/gpucores"


def resource_quota(
    hard: Mapping[str, object],
    *,
    name: str = "cards",
    namespace: str = "team-a",
    version: str = "1",
    **spec: Any,
) -> Json:
    """Return a ResourceQuota; further keywords become fields of its spec."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "resourceVersion": version,
        },
        "spec": {"hard": {key: str(value) for key, value in hard.items()}, **spec},
    }


def record(
    books: flow_books.Books, hard: Mapping[str, object], **fields: Any
) -> records.QuotaRecord:
    """Return a ResourceQuota as these books keep it."""
    raw = resource_quota(hard, **fields)
    aliases = books.settings.resource_aliases
    return vendor_quotas.quota_record(raw, books.vendors, aliases=aliases)


def limit(books: flow_books.Books, hard: Mapping[str, object], **fields: Any) -> tuple[str, ...]:
    """Have the books see a ResourceQuota; return what is newly wrong with it."""
    return quotas.quota_seen(books, record(books, hard, **fields))
