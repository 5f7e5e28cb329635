"""Vastai beyond the recorded cases."""

from typing import Any

import pytest

from support import vendor_values as v
from vgpu_operator.model import device, fitting, policy, request
from vgpu_operator.model.vendor_settings.vastai import VastaiSettings
from vgpu_operator.vendors import vastai

(VA,) = vastai.backends(VastaiSettings())


def die(name: str, aic: Any, **fields: Any) -> device.Device:
    info = {"DeviceStrategy": "die"} | ({} if aic is None else {"AIC": aic})
    return v.card(name, "Vastai", custom_info=info, **fields)


def wish(count: int) -> request.DeviceRequest:
    return request.DeviceRequest(vendor="Vastai", count=count, memory_percent=100)


def ids(answer: Any) -> list[str]:
    return [pick[0] for pick in answer]


@pytest.mark.parametrize(
    ("count", "chosen"),
    [
        (1, ["d6"]),
        (2, ["d1", "d2"]),
        (4, ["d1", "d2", "d3", "d5"]),
        (6, ["d6", "d5", "d1", "d2", "d3", "d4"]),
    ],
)
def test_dies_of_the_fullest_physical_card_come_first(count: int, chosen: list[str]) -> None:
    dies = [("d6", "3"), ("d5", "2"), ("d1", "1"), ("d2", "1"), ("d3", "1"), ("d4", "2")]
    states = [v.state(die(name, aic)) for name, aic in dies]

    assert ids(v.choose(VA, states, wish(count))) == chosen


def test_physical_cards_with_as_many_dies_are_taken_in_the_order_of_trying() -> None:
    states = [v.state(die(name, aic)) for name, aic in zip("abcde", "21123", strict=True)]

    assert ids(v.choose(VA, states, wish(2))) == ["a", "d"]


@pytest.mark.parametrize("aic", [None, 7, ["x"]])
def test_as_many_dies_as_asked_are_given_whatever_says_the_card(aic: Any) -> None:
    states = [v.state(die(name, aic)) for name in "abc"]

    assert ids(v.choose(VA, states, wish(2))) == ["a", "b"]


def test_mutex_keeps_off_every_die_of_an_occupied_card() -> None:
    states = [v.state(die("a", "1"), 1), v.state(die("b", "1")), v.state(die("c", "2"))]

    assert ids(v.choose(VA, states, wish(1), unused_only=True)) == ["c"]
    assert v.choose(VA, states, wish(2), unused_only=True) == {
        "CardTimeSlicingExhausted": 1,
        "ExclusiveDeviceAllocateConflict": 1,
        "AllocatedCardsInsufficientRequest": 1,
    }


def test_whole_devices_are_taken_in_the_order_of_trying() -> None:
    states = [v.state(v.card(name, "Vastai")) for name in "abc"]

    assert ids(v.choose(VA, states, wish(2))) == ["a", "b"]


@pytest.mark.parametrize(
    ("entries", "score"),
    [
        (["ab"], 1.0),
        (["ac"], 0.5),
        (["abc", "", "d"], 2 / 3 + 1),
        (["ae"], 0.0),
        (["ab", "e"], 0.0),
    ],
)
def test_a_node_scores_by_how_well_dies_are_kept_together(entries: list[str], score: float) -> None:
    cards = [die("a", "1"), die("b", "1"), die("c", "2"), die("d", "2"), v.card("e", "Vastai")]
    given = v.grant(cards, *(tuple(v.share(name) for name in entry) for entry in entries))
    node = fitting.NodeState(name="n1", cards=())

    assert VA.node_score(node, given, policy.NodePolicy.SPREAD) == score
