"""Enflame, whole cards: a card has one user; memory and cores are a constant 100.

Source: HAMi v2.10.0, ``pkg/device/enflame/gcu.go``. Partitions of a card are
``enflame_drs``.
"""

from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import device, fitting, reason, request
from vgpu_operator.model.vendor_settings.enflame import EnflameSettings
from vgpu_operator.vendors import amounts, base, capacity, walk
from vgpu_operator.wire import node_register

KEYWORD: Final = "GCU"

ALL: Final = 100
"""Memory and cores of a card, and of every request."""


def unused(card: fitting.CardState, _: fitting.Ask) -> str | None:
    """Nobody uses the card."""
    return None if card.unused else reason.Reason.EXCLUSIVE_CONFLICT.value


CHECKS: Final = (walk.healthy, walk.not_cordoned, unused)


class Enflame(base.Common):
    """Whole cards under the names of Enflame's settings."""

    vectorised = False

    def __init__(self, settings: EnflameSettings) -> None:
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="enflame-gcu",
            register_key=None,
            handshake_key=None,
            to_allocate_key="hami.io/enflame-gcu-devices-to-allocate",
            allocated_key="hami.io/enflame-gcu-devices-allocated",
            lock=None,
            count_resource=settings.resource_name_gcu,
        )

    def register_text(self, node: base.NodeTexts) -> str | None:
        """Return the node's number of cards."""
        return capacity.text_of(node.capacity, self.spec.count_resource)

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Return that many cards."""
        card = device.Device(
            id=f"{node}-GCU",
            index=0,
            type=KEYWORD,
            slots=1,
            memory_mib=ALL,
            cores_percent=ALL,
            healthy=True,
        )
        return capacity.whole_cards(text, self.spec.count_resource, card)

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return how many whole cards one container asks for."""
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        return request.DeviceRequest(
            vendor=KEYWORD, count=count, memory_mib=ALL, memory_percent=ALL, cores_percent=ALL
        )

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first healthy cards that nobody uses."""
        return walk.first_fitting(node, ask, CHECKS)


def backends(settings: EnflameSettings) -> tuple[base.Vendor, ...]:
    """Return the back end for whole cards; none while it is off."""
    return (Enflame(settings),) if settings.enabled else ()
