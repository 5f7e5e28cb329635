"""Acme: shared cards, some of them cooled by water. An example: there is no such maker."""

from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import fitting, request
from vgpu_operator.vendors import amounts, base, walk
from vgpu_operator.wire import lock_kinds

KEYWORD: Final = "Acme"

COOLING: Final = "acme.example/cooling"
"""Pod annotation: ``water`` asks for a card that is cooled so."""


def cooled(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """The card is cooled as the pod wants."""
    wanted = ask.notes.get(COOLING)
    return None if wanted in (None, card.device.custom_info.get("Cooling")) else "CardTooWarm"


class Acme(base.Common):
    """Acme's cards: the common rules, and one of their own."""

    vectorised = False  # because of that one
    spec = base.VendorSpec(
        keyword=KEYWORD,
        id="acme",
        register_key="hami.io/node-acme-register",
        handshake_key="hami.io/node-handshake-acme",
        to_allocate_key="hami.io/acme-devices-to-allocate",
        allocated_key="hami.io/acme-devices-allocated",
        lock=lock_kinds.NODE_LOCK,
        count_resource="acme.example/card",
        memory_resource="acme.example/memory",
        use_id_key="acme.example/use-id",
        avoid_id_key="acme.example/avoid-id",
        pod_note_keys=(COOLING,),
    )

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what one container asks for; without memory, the whole card's."""
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        memory_mib = amounts.amount(
            self.spec.memory_resource, limits, requests, hint="write MiB, such as 4000"
        )
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_mib=memory_mib or 0,
            memory_percent=None if memory_mib else 100,
        )

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first cards that pass the common checks and are cooled as wanted."""
        return walk.first_fitting(node, ask, (*walk.COMMON, cooled))


def backends() -> tuple[base.Vendor, ...]:
    """Return Acme's one back end."""
    return (Acme(),)
