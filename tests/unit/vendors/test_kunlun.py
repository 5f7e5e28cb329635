"""Kunlun, whole cards: wings, links across them, and the node's score."""

import itertools
from typing import Any

import pytest

from support import vendor_values
from vgpu_operator.model import device, fitting, policy, request
from vgpu_operator.model.vendor_settings import kunlun as kunlun_settings
from vgpu_operator.vendors import kunlun, kunlun_topology

(KUNLUN,) = kunlun.backends(kunlun_settings.KunlunSettings())
CARDS = vendor_values.cards_of(KUNLUN, vendor_values.node({"kunlunxin.com/xpu": "8"}))


def wish(count: int) -> request.DeviceRequest:
    found = KUNLUN.derive({"kunlunxin.com/xpu": str(count)}, {})
    assert found is not None
    return found


def choose(used: set[int], count: int, **ask: Any) -> Any:
    """Return the indexes taken; the cards come in the order of a policy, not of their places."""
    cards = [
        vendor_values.state(card, *((1, 98304, 100) if card.index in used else ()))
        for card in reversed(CARDS)
    ]
    found = vendor_values.choose(KUNLUN, cards, wish(count), **ask)
    return [int(name.rsplit("-", 1)[1]) for name, *_ in found] if isinstance(found, list) else found


def test_cards_are_made_up_from_the_nodes_capacity_half_of_them_on_each_numa_node() -> None:
    assert [(card.id, card.index, card.numa) for card in CARDS[3:5]] == [
        ("n1-kunlun-3", 3, 0),
        ("n1-kunlun-4", 4, 1),
    ]
    assert {(card.slots, card.memory_mib, card.cores_percent) for card in CARDS} == {
        (100, 98304, 100)
    }


@pytest.mark.parametrize(
    ("used", "count", "taken"),
    [
        ({5}, 2, [4, 6]),
        ({5}, 1, [4]),
        ({6, 7}, 1, [4]),
        ({0, 1, 2, 4, 5, 6}, 2, [3, 7]),
        ({2, 3, 7}, 4, [0, 1, 4, 5]),
        ({3, 6}, 4, [0, 1, 4, 5]),
        (set(), 8, list(range(8))),
        ({0, 1, 2}, 1, [3]),  # a broken wing first
        ({0, 4, 5}, 1, [1]),  # then one with three usable cards, before one with two
        ({0, 2}, 2, [1, 3]),  # a wing with exactly two
    ],
)
def test_cards_are_chosen_as_the_peers_own_tests_have_it(
    used: set[int], count: int, taken: list[int]
) -> None:
    assert choose(used, count) == taken


@pytest.mark.parametrize(
    ("used", "count"), [({5}, 8), ({0, 1, 2, 5, 6, 7}, 2), (set(), 3), (set(), 5), ({0, 3, 5}, 4)]
)
def test_cards_that_are_not_linked_are_refused(used: set[int], count: int) -> None:
    assert choose(used, count) == {"NumaNotFit": 1}


def test_every_choice_is_of_usable_cards_that_are_linked() -> None:
    pairs = {*itertools.combinations(range(4), 2), *itertools.combinations(range(4, 8), 2)}
    linked = pairs | {(place, place + 4) for place in range(4)}
    for size in range(9):
        for usable in itertools.combinations(range(8), size):
            for count in range(1, 9):
                found = kunlun_topology.choose(set(usable), count)
                assert set(found) <= set(usable)
                assert len(found) in (0, count)
                if count == 2 and found:
                    assert found in linked
                if count == 1:
                    assert bool(found) == bool(usable)


def test_the_whole_card_is_charged_whatever_was_asked() -> None:
    cards = [vendor_values.state(card) for card in CARDS]

    assert vendor_values.choose(KUNLUN, cards, wish(1)) == [("n1-kunlun-0", 98304, 100, 1)]


def test_more_cards_than_the_node_has_are_refused_bare() -> None:
    cards = [vendor_values.state(card) for card in CARDS[:2]]

    assert vendor_values.choose(KUNLUN, cards, wish(4)) == {"NodeInsufficientDevice": 0}


def test_a_card_that_is_unhealthy_or_cordoned_is_not_taken() -> None:
    sick = device.Device(**{**_fields(CARDS[0]), "healthy": False})
    cordoned = fitting.CardState(device=CARDS[1], cordoned=True)
    cards = [vendor_values.state(sick), cordoned, vendor_values.state(CARDS[2])]

    assert vendor_values.choose(KUNLUN, cards, wish(1)) == [("n1-kunlun-2", 98304, 100, 1)]
    assert vendor_values.choose(KUNLUN, cards[:2], wish(1)) == {"CardCordoned": 1}


def _fields(card: device.Device) -> dict[str, Any]:
    return {name: getattr(card, name) for name in device.Device.__slots__}


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({"hami.io/use-xpu-uuid": "n1-kunlun-2, n1-kunlun-5"}, [2]),
        ({"baidu.com/use-gpuuuid": "n1-kunlun-5"}, [5]),
        (
            {
                "hami.io/use-xpu-uuid": "n1-kunlun-2,n1-kunlun-5",
                "baidu.com/use-gpuuuid": "n1-kunlun-5",
            },
            [5],
        ),
        (
            {"hami.io/use-xpu-uuid": "n1-kunlun-2", "baidu.com/use-gpuuuid": "n1-kunlun-5"},
            {"CardUuidMismatch": 8},
        ),
        (
            {
                "hami.io/no-use-xpu-uuid": "n1-kunlun-0,n1-kunlun-1",
                "baidu.com/nouse-gpuuuid": "n1-kunlun-2",
            },
            [3],
        ),
    ],
)
def test_both_spellings_of_the_id_lists_must_pass(annotations: dict[str, str], want: Any) -> None:
    assert choose(set(), 1, selection=KUNLUN.selection(annotations)) == want


@pytest.mark.parametrize(
    ("used", "chosen", "want"),
    [([0], [0, 1], 3000), ([0], [4], 2000), ([0, 1], [0], 1000), ([0, 1, 2, 3], [0], 0)],
)
def test_the_node_where_the_wings_break_least_scores_highest(
    used: list[int], chosen: list[int], want: float
) -> None:
    cards = [vendor_values.state(card, int(card.index in used)) for card in CARDS]
    grant = vendor_values.grant(
        CARDS, tuple(vendor_values.share(f"n1-kunlun-{index}") for index in chosen)
    )
    state = fitting.NodeState(name="n1", cards=tuple(cards))

    assert KUNLUN.node_score(state, grant, policy.NodePolicy.BINPACK) == want


def test_the_indexes_of_the_last_container_with_cards_are_written() -> None:
    one, two = (vendor_values.share(f"n1-kunlun-{index}") for index in (3, 7))

    written = KUNLUN.more_annotations(
        vendor_values.grant(CARDS, (one,), (one, two), ()), vendor_values.NOW
    )

    assert written == {"BAIDU_COM_DEVICE_IDX": "3,7"}
    assert KUNLUN.more_annotations(vendor_values.grant(CARDS, ()), vendor_values.NOW) == {}


def test_cards_whose_indexes_say_nothing_lie_in_the_order_of_their_ids() -> None:
    cards = [vendor_values.state(vendor_values.card(f"x{i}", "XPU")) for i in (2, 0, 1)]

    assert kunlun_topology.by_place(cards) == {0: 1, 1: 2, 2: 0}
