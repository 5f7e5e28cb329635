"""HAMi's series of cards, shares, MIG instances and quotas: names, labels, units.

Source: HAMi v2.10.0, ``cmd/scheduler/metrics.go``. What a share's container is called is
ours: HAMi gives only a place in the pod.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_operator.metrics import families
from vgpu_operator.metrics.families import Family
from vgpu_operator.metrics.rows import Card, Instance, Share

MIB: Final = 1024 * 1024

CARD_LABELS: Final = ("zone", "node", "device_uuid", "device_index", "device_type")
SHARE_LABELS: Final = (
    "zone",
    "namespace",
    "node",
    "pod",
    "container_index",
    "container",
    "device_uuid",
)
INSTANCE_LABELS: Final = (
    *("zone", "node", "device_uuid", "device_index", "mig_uuid", "profile"),
    *("gpu_instance_id", "compute_instance_id", "placement_start", "placement_size"),
)
QUOTA_LABELS: Final = ("zone", "namespace", "quota_name")


def memory_ratio(card: Card) -> float | None:
    """Return promised by schedulable memory; None for a card without any."""
    return card.used_memory_mib / card.memory_mib if card.memory_mib > 0 else None


def _with_cores(card: Card) -> str:
    return f'{card.labels},device_cores="{card.cores}"'


def _with_totals(card: Card) -> str:
    return f'{_with_cores(card)},device_memory_limit="{card.memory_mib}"'


CARDS: Final[Sequence[Family[Card]]] = (
    Family(
        name="hami_gpu_memory_limit_bytes",
        help="Schedulable memory of the card.",
        labels=CARD_LABELS,
        text=lambda card: card.labels,
        value=lambda card: card.memory_mib * MIB,
    ),
    Family(
        name="hami_gpu_core_limit_ratio",
        help="Schedulable cores in percent of one card.",
        labels=CARD_LABELS,
        text=lambda card: card.labels,
        value=lambda card: card.cores_percent,
    ),
    Family(
        name="hami_gpu_memory_allocated_bytes",
        help="Memory promised to pods.",
        labels=(*CARD_LABELS, "device_cores"),
        text=_with_cores,
        value=lambda card: card.used_memory_mib * MIB,
    ),
    Family(
        name="hami_gpu_core_allocated_ratio",
        help="Cores promised to pods, in percent of one card.",
        labels=CARD_LABELS,
        text=lambda card: card.labels,
        value=lambda card: card.used_cores_percent,
    ),
    Family(
        name="hami_gpu_shared_count",
        help="Containers that share the card.",
        labels=CARD_LABELS,
        text=lambda card: card.labels,
        value=lambda card: card.used_slots,
    ),
    Family(
        name="hami_node_gpu_overview",
        help="Memory promised to pods in bytes; the card's totals stand in labels, memory in MiB.",
        labels=(*CARD_LABELS, "device_cores", "device_memory_limit"),
        text=_with_totals,
        value=lambda card: card.used_memory_mib * MIB,
    ),
    Family(
        name="hami_node_gpu_memory_allocated_ratio",
        help="Promised by schedulable memory, 0 to 1.",
        labels=CARD_LABELS,
        text=lambda card: card.labels,
        value=memory_ratio,
    ),
)

SHARES: Final[Sequence[Family[Share]]] = (
    Family(
        name="hami_vgpu_memory_allocated_bytes",
        help="Memory promised to a container on a card.",
        labels=SHARE_LABELS,
        text=lambda share: share.labels,
        value=lambda share: share.memory_mib * MIB,
    ),
    Family(
        name="hami_vgpu_core_allocated_ratio",
        help="Cores promised to a container on a card, in percent of one card.",
        labels=SHARE_LABELS,
        text=lambda share: share.labels,
        value=lambda share: share.cores_percent,
    ),
)

INSTANCES: Final[Sequence[Family[Instance]]] = (
    Family(
        name="hami_node_gpu_mig_instance_info",
        help="1 for each MIG instance that the device plugin has made for a pod.",
        labels=INSTANCE_LABELS,
        text=lambda instance: instance.labels,
        value=lambda _: 1,
    ),
)

QUOTA_USED: Final = families.numbered(
    "hami_resource_quota_used",
    "What a namespace's pods hold, in units of the resource; the limit is 0 where there is none.",
    *QUOTA_LABELS,
    "limit",
)
QUOTA_LIMIT: Final = families.numbered(
    "hami_resource_quota_limit",
    "What a namespace may hold, in units of the resource.",
    *QUOTA_LABELS,
)
