"""MetaX, whole cards: the common rules, on cards made up from the node's capacity.

Source: HAMi v2.10.0, ``pkg/device/metax/device.go``. HAMi also gives a pod's
later containers only the card of the first one; as a card has one slot, a pod
with two containers that ask for a card could never be placed. Here each gets
its own.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import device, fitting, policy, request
from vgpu_operator.model.vendor_settings import metax as metax_settings
from vgpu_operator.vendors import amounts, base, capacity
from vgpu_operator.wire import node_register

KEYWORD: Final = "Metax-GPU"

CARD_MEMORY_MIB: Final = 65536
WHOLE_CARD_PERCENT: Final = 100

LOSSES_KEY: Final = "metax-tech.com/gpu.topology.losses"
"""Node annotation: by the number of cards, what links would be lost (``binpack``)."""

SCORES_KEY: Final = "metax-tech.com/gpu.topology.scores"
"""Node annotation: by the number of cards, how well they are linked (``spread``)."""

_BEST_SCORE: Final = 2000


class Metax(base.Common):
    """MetaX's whole cards under the names of its settings."""

    def __init__(self, settings: metax_settings.MetaxSettings) -> None:
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="metax-gpu",
            register_key=None,
            handshake_key=None,
            to_allocate_key="hami.io/metax-gpu-devices-to-allocate",
            allocated_key="hami.io/metax-gpu-devices-allocated",
            lock=None,
            count_resource=settings.resource_count_name,
            node_note_keys=(LOSSES_KEY, SCORES_KEY),
        )

    def register_text(self, node: base.NodeTexts) -> str | None:
        """Return the count of cards."""
        return capacity.text_of(node.capacity, self.spec.count_resource)

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Return as many cards as the node counts."""
        card = device.Device(
            id=f"{node}-metax",
            index=0,
            type=KEYWORD,
            slots=1,
            memory_mib=CARD_MEMORY_MIB,
            cores_percent=WHOLE_CARD_PERCENT,
            healthy=True,
        )
        return capacity.whole_cards(text, self.spec.count_resource, card)

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return that many whole cards."""
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_percent=100,
            cores_percent=WHOLE_CARD_PERCENT,
            memory_by_default=True,
            cores_by_default=True,
        )

    def node_score(
        self,
        node: fitting.NodeState,  # noqa: ARG002  # the plugin's tables say it all
        grant: base.Grant,
        node_policy: policy.NodePolicy,
    ) -> float:
        """Return what the plugin's table says of that many cards; 0 without a table.

        The lower the table's number, the higher the score, under both policies.
        """
        key = LOSSES_KEY if node_policy is policy.NodePolicy.BINPACK else SCORES_KEY
        text = grant.node_notes.get(key)
        if text is None:
            return 0.0
        cards = sum(len(entry) for entry in grant.shares)
        return float(_BEST_SCORE - _table(text).get(str(cards), 0))


def backends(section: metax_settings.MetaxSettings) -> tuple[base.Vendor, ...]:
    """Return MetaX's whole cards; none when their resource has no name."""
    return (Metax(section),) if section.resource_count_name else ()


def _table(text: str) -> Mapping[str, int]:
    """Return a table by number of cards; empty when it cannot be read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or not all(type(value) is int for value in found.values()):
        return {}
    return found
