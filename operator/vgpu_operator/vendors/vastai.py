"""Vastai: whole devices, or dies that are kept together by physical card.

Memory and cores are not accounted. In die mode a register entry is one die,
and ``custominfo.AIC`` says which physical card it sits on. Source: HAMi
v2.10.0, ``pkg/device/vastai/device.go``.
"""

import collections
from collections.abc import Sequence

from vgpu_operator.model import device, fitting, policy, reason
from vgpu_operator.model.vendor_settings.vastai import VastaiSettings
from vgpu_operator.vendors import base, unaccounted, walk


class Vastai(unaccounted.Unaccounted):
    """Vastai under the names of its settings."""

    def __init__(self, settings: VastaiSettings) -> None:
        self.spec = unaccounted.spec(
            "Vastai",
            node_word="va",
            domain="vastaitech.com",
            count_resource=settings.resource_count_name,
        )

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first devices with a slot left, dies of one physical card together.

        The card that is tried last says whether the node registers dies: HAMi
        looks at the first of its list, which it walks from the end.
        """
        count = ask.wish.count
        if len(node.cards) < count or not _is_die(node.cards[-1].device):
            return super().choose(node, ask)
        passed, counts = walk.usable(node, ask, (*walk.BY_SLOTS, _free_of_others(node, ask)))
        if len(passed) < count:
            if passed:
                counts[reason.Reason.TOO_FEW_FREE_CARDS.value] = len(passed)
            return fitting.Refused(counts=counts)
        if 1 < count < len(passed):
            passed = _together(node, passed)
        return unaccounted.picks(passed[:count])

    def node_score(
        self,
        node: fitting.NodeState,  # noqa: ARG002
        grant: base.Grant,
        node_policy: policy.NodePolicy,  # noqa: ARG002
    ) -> float:
        """Return how well each container's dies are kept together, 1 at best a container."""
        score = 0.0
        for entry in grant.shares:
            cards = [grant.devices.get(share.device_id) for share in entry]
            places = [_physical_card(card) for card in cards if card is not None and _is_die(card)]
            if len(places) < len(cards) or not all(places):
                return 0.0
            if places:
                score += max(collections.Counter(places).values()) / len(places)
        return score


def _free_of_others(node: fitting.NodeState, ask: fitting.Ask) -> walk.Check:
    """Under the policy ``mutex`` no die of the same physical card is used."""
    occupied = {
        place
        for card in node.cards
        if ask.unused_only and not card.unused and (place := _physical_card(card.device))
    }

    def check(card: fitting.CardState, _: fitting.Ask) -> str | None:
        taken = _physical_card(card.device) in occupied
        return reason.Reason.EXCLUSIVE_CONFLICT.value if taken else None

    return check


def _together(node: fitting.NodeState, passed: Sequence[int]) -> list[int]:
    """Return the dies of the physical card with the most of them first.

    Equal ones in the order in which their first die is tried. A die whose
    card nobody names stands alone.
    """
    groups: dict[object, list[int]] = {}
    for index in passed:
        groups.setdefault(_physical_card(node.cards[index].device) or index, []).append(index)
    largest_first = sorted(groups.values(), key=len, reverse=True)
    return [index for group in largest_first for index in group]


def _is_die(card: device.Device) -> bool:
    return card.custom_info.get("DeviceStrategy") == "die"


def _physical_card(card: device.Device) -> str:
    """Return which physical card a die sits on; empty when nobody says it."""
    place = card.custom_info.get("AIC")
    return "" if place is None or isinstance(place, dict | list) else str(place)


def backends(settings: VastaiSettings) -> tuple[base.Vendor, ...]:
    """Return Vastai's one back end; none while it is off."""
    return (Vastai(settings),) if settings.enabled else ()
