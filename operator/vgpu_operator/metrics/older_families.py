"""The same series under the names and labels that they had before HAMi 2.9.

Source: HAMi v2.10.0, ``cmd/scheduler/metrics.go``, behind its ``--legacy-metrics``.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_operator.metrics import families
from vgpu_operator.metrics.card_families import MIB, memory_ratio
from vgpu_operator.metrics.families import Family
from vgpu_operator.metrics.rows import Card, Instance, Share

CARD_LABELS: Final = ("zone", "nodeid", "deviceuuid", "deviceidx", "devicetype")
SHARE_LABELS: Final = (
    *("zone", "podnamespace", "nodename", "podname", "containeridx", "deviceuuid"),
)


def _older_with_type(card: Card) -> str:
    return f'{card.older_labels},devicetype="{card.type}"'


def _older_with_cores(card: Card) -> str:
    return f'{_older_with_type(card)},devicecores="{card.cores}"'


def _older_with_totals(card: Card) -> str:
    return f'{_older_with_cores(card)},devicememorylimit="{card.memory_mib}"'


CARDS: Final[Sequence[Family[Card]]] = (
    Family(
        name="GPUDeviceMemoryLimit",
        help="Earlier name of hami_gpu_memory_limit_bytes.",
        labels=CARD_LABELS,
        text=_older_with_type,
        value=lambda card: card.memory_mib * MIB,
    ),
    Family(
        name="GPUDeviceCoreLimit",
        help="Earlier name of hami_gpu_core_limit_ratio, in the vendor's own unit.",
        labels=CARD_LABELS,
        text=_older_with_type,
        value=lambda card: card.cores,
    ),
    Family(
        name="GPUDeviceMemoryAllocated",
        help="Earlier name of hami_gpu_memory_allocated_bytes.",
        labels=(*CARD_LABELS, "devicecores"),
        text=_older_with_cores,
        value=lambda card: card.used_memory_mib * MIB,
    ),
    Family(
        name="GPUDeviceCoreAllocated",
        help="Earlier name of hami_gpu_core_allocated_ratio, in the vendor's own unit.",
        labels=CARD_LABELS,
        text=_older_with_type,
        value=lambda card: card.used_cores,
    ),
    Family(
        name="GPUDeviceSharedNum",
        help="Earlier name of hami_gpu_shared_count.",
        labels=CARD_LABELS,
        text=_older_with_type,
        value=lambda card: card.used_slots,
    ),
    Family(
        name="nodeGPUOverview",
        help="Earlier name of hami_node_gpu_overview.",
        labels=(*CARD_LABELS, "devicecores", "devicememorylimit"),
        text=_older_with_totals,
        value=lambda card: card.used_memory_mib * MIB,
    ),
    Family(
        name="nodeGPUMemoryPercentage",
        help="Earlier name of hami_node_gpu_memory_allocated_ratio.",
        labels=CARD_LABELS[:-1],
        text=lambda card: card.older_labels,
        value=memory_ratio,
    ),
)

SHARES: Final[Sequence[Family[Share]]] = (
    Family(
        name="vGPUMemoryAllocated",
        help="Earlier name of hami_vgpu_memory_allocated_bytes.",
        labels=SHARE_LABELS,
        text=lambda share: share.older_labels,
        value=lambda share: share.memory_mib * MIB,
    ),
    Family(
        name="vGPUCoreAllocated",
        help="Earlier name of hami_vgpu_core_allocated_ratio, in the vendor's own unit.",
        labels=SHARE_LABELS,
        text=lambda share: share.older_labels,
        value=lambda share: share.cores,
    ),
)

INSTANCES: Final[Sequence[Family[Instance]]] = (
    Family(
        name="nodeGPUMigInstance",
        help="Earlier name of hami_node_gpu_mig_instance_info.",
        labels=(*CARD_LABELS[:-1], "migname"),
        text=lambda instance: instance.older_labels,
        value=lambda _: 1,
    ),
)

QUOTA_USED: Final = families.numbered(
    "QuotaUsed",
    "Earlier name of hami_resource_quota_used.",
    *("zone", "quotanamespace", "quotaName", "limit"),
)
