"""Kunlun, whole cards (XPU): one, two, four or eight that are linked.

Source: HAMi v2.10.0, ``pkg/device/kunlun/device.go``.
"""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from vgpu_operator.model import device, fitting, policy, reason, request
from vgpu_operator.model.vendor_settings import kunlun as kunlun_settings
from vgpu_operator.vendors import amounts, base, capacity, kunlun_topology, walk
from vgpu_operator.wire import node_register

KEYWORD: Final = "kunlun"

CARD_MEMORY_MIB: Final = 98304
WHOLE_CARD_PERCENT: Final = 100
SLOTS: Final = 100

INDEXES_KEY: Final = "BAIDU_COM_DEVICE_IDX"
"""Pod annotation: the indexes of the cards of the last container that has any."""

_SCORES: Final = {-1: 3000.0, 0: 2000.0, 1: 1000.0, 2: 0.0}
"""By how much more broken the wings are than before; anything else gives 1000."""


class Kunlun(base.Common):
    """Kunlun's whole cards under the names of its settings."""

    vectorised = False

    def __init__(self, settings: kunlun_settings.KunlunSettings) -> None:
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="kunlun-xpu",
            register_key=None,
            handshake_key=None,
            to_allocate_key=None,
            allocated_key="hami.io/kunlun-allocated",
            more_pod_keys=(INDEXES_KEY,),
            lock=None,
            count_resource=settings.resource_count_name,
        )

    def register_text(self, node: base.NodeTexts) -> str | None:
        """Return the count of cards."""
        return capacity.text_of(node.capacity, self.spec.count_resource)

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Return as many cards as the node counts, half of them on each NUMA node."""
        card = device.Device(
            id=f"{node}-kunlun",
            index=0,
            type=KEYWORD,
            slots=SLOTS,
            memory_mib=CARD_MEMORY_MIB,
            cores_percent=WHOLE_CARD_PERCENT,
            healthy=True,
        )
        cards = capacity.whole_cards(text, self.spec.count_resource, card).devices
        half = len(cards) // 2
        return node_register.RegisterText(
            devices=tuple(dataclasses.replace(card, numa=int(card.index >= half)) for card in cards)
        )

    def selection(self, annotations: Mapping[str, Any]) -> request.CardSelection:
        """Return the rules of both spellings of the id lists."""
        return kunlun_topology.selection(annotations)

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return that many whole cards; cores are not asked, all are charged."""
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_percent=100,
            memory_by_default=True,
            cores_by_default=True,
        )

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take unused cards that are linked; the whole card is charged."""
        if len(node.cards) < ask.wish.count:
            return fitting.Refused(counts={reason.Reason.TOO_FEW_CARDS.value: 0})
        cards = kunlun_topology.by_place(node.cards)
        usable = {place for place, index in cards.items() if _usable(node.cards[index], ask)}
        places = kunlun_topology.choose(usable, ask.wish.count)
        if not places:
            return kunlun_topology.refused(node, ask)
        return tuple(
            fitting.Pick(
                card=cards[place],
                memory_mib=node.cards[cards[place]].device.memory_mib,
                cores=node.cards[cards[place]].device.cores_percent,
            )
            for place in places
        )

    def node_score(
        self,
        node: fitting.NodeState,
        grant: base.Grant,
        node_policy: policy.NodePolicy,  # noqa: ARG002  # the same under both
    ) -> float:
        """Return more where the chosen cards leave fewer broken wings than are there now."""
        used = {card.device.index for card in node.cards if not card.unused}
        chosen = {
            grant.devices[share.device_id].index
            for entry in grant.shares
            for share in entry
            if share.device_id in grant.devices
        }
        before = kunlun_topology.fragmentation(used)
        return _SCORES.get(kunlun_topology.fragmentation(chosen) - before, 1000.0)

    def more_annotations(
        self,
        grant: base.Grant,
        now: datetime,  # noqa: ARG002
    ) -> Mapping[str, str]:
        """Return the indexes of the cards of the last container that has any."""
        entry = next((entry for entry in reversed(grant.shares) if entry), ())
        indexes = (str(grant.devices[share.device_id].index) for share in entry)
        return {INDEXES_KEY: ",".join(indexes)} if entry else {}


def backends(section: kunlun_settings.KunlunSettings) -> tuple[base.Vendor, ...]:
    """Return Kunlun's whole cards; none when it is off or their resource has no name."""
    return (Kunlun(section),) if section.enabled and section.resource_count_name else ()


def _usable(card: fitting.CardState, ask: fitting.Ask) -> bool:
    checks = (walk.healthy, walk.not_cordoned, walk.id_allowed)
    return card.unused and all(check(card, ask) is None for check in checks)
