"""The series of HAMi-WebUI's exporter that follow from what nodes register and pods hold.

Source: HAMi-WebUI 1.2.0. What its back end reads from the cards themselves (temperature,
power, what is really used) no scheduler knows.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_operator.metrics import families
from vgpu_operator.metrics.families import Family
from vgpu_operator.metrics.rows import WHOLE_CARD, Card, Share

CARD_LABELS: Final = (
    *("node", "provider", "devicetype", "deviceuuid", "device_type", "device_uuid"),
    *("driver_version", "device_no"),
)
SHARE_LABELS: Final = (
    *CARD_LABELS[:-2],
    *("pod_name", "container_name", "namespace_name", "container_pod_uuid"),
)

CARDS: Final[Sequence[Family[Card]]] = (
    Family(
        name="hami_vgpu_count",
        help="Containers that may share the card.",
        labels=CARD_LABELS,
        text=lambda card: card.web_labels,
        value=lambda card: card.slots,
    ),
    Family(
        name="hami_vmemory_size",
        help="Schedulable memory of the card in MiB.",
        labels=CARD_LABELS,
        text=lambda card: card.web_labels,
        value=lambda card: card.memory_mib,
    ),
    Family(
        name="hami_vcore_size",
        help="Schedulable cores in percent of one card.",
        labels=CARD_LABELS,
        text=lambda card: card.web_labels,
        value=lambda card: card.cores_percent,
    ),
    Family(
        name="hami_vmemory_scaling",
        # How far a plugin stretches its cards' memory is not in what it registers.
        help="Schedulable by registered memory: 1 for every card that has any.",
        labels=CARD_LABELS,
        text=lambda card: card.web_labels,
        value=lambda card: 1 if card.memory_mib > 0 else None,
    ),
    Family(
        name="hami_vcore_scaling",
        help="Schedulable by physical cores.",
        labels=CARD_LABELS,
        text=lambda card: card.web_labels,
        value=lambda card: card.cores_percent / WHOLE_CARD,
    ),
    Family(
        name="hami_core_size",
        help="Physical cores: 100 percent of the card.",
        labels=CARD_LABELS,
        text=lambda card: card.web_labels,
        value=lambda _: WHOLE_CARD,
    ),
    Family(
        name="hami_memory_size",
        help="Memory of the card in MiB as its plugin registers it, scaled where that scales it.",
        labels=CARD_LABELS,
        text=lambda card: card.web_labels,
        value=lambda card: card.memory_mib,
    ),
)

SHARES: Final[Sequence[Family[Share]]] = (
    Family(
        name="hami_container_vgpu_allocated",
        help="Shares of the card that a container holds.",
        labels=SHARE_LABELS,
        text=lambda share: share.web_labels,
        value=lambda share: share.count,
    ),
    Family(
        name="hami_container_vmemory_allocated",
        help="Memory of the card that a container holds, in MiB.",
        labels=SHARE_LABELS,
        text=lambda share: share.web_labels,
        value=lambda share: share.memory_mib,
    ),
    Family(
        name="hami_container_vcore_allocated",
        help="Cores of the card that a container holds, in percent of one card.",
        labels=SHARE_LABELS,
        text=lambda share: share.web_labels,
        value=lambda share: share.cores_percent,
    ),
)

POOLS: Final = tuple(
    families.numbered(name, help_text, "pool")
    for name, help_text in (
        ("hami_pool_vgpu_count", "Containers that may share the cards of one vendor."),
        ("hami_pool_vmemory_size", "Schedulable memory of one vendor's cards in MiB."),
        ("hami_pool_vcore_size", "Schedulable cores of one vendor's cards, 100 a card."),
    )
)
