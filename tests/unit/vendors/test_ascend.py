"""Ascend: templates, soft splits, pairs, networks, and what is written on a pod."""

import datetime
from collections.abc import Sequence
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from vgpu_operator.model import allocation, device, errors, fitting, policy, request, settings
from vgpu_operator.model.vendor_settings import ascend as chips
from vgpu_operator.vendors import ascend, base, registry

BY_WORD = {chip.common_word: chip for chip in chips.CHIPS}
SOFT = {"huawei.com/vnpu-mode": "hami-core"}
NOW = datetime.datetime(2026, 1, 15, 10, tzinfo=datetime.UTC)


def vendor(word: str, *, soft_by_default: bool = False, **fields: Any) -> ascend.Ascend:
    chip = BY_WORD[word].model_copy(update=fields)
    return ascend.Ascend(chip, soft_by_default=soft_by_default)


def admitted(
    made: ascend.Ascend, *, annotations: dict[str, str] | None = None, **limits: object
) -> base.ContainerChanges:
    """Admit a container; ``count``, ``memory`` and ``core`` are its limits."""
    word = made.spec.count_resource
    names = {"count": word, "memory": f"{word}-memory", "core": f"{word}-core"}
    asked = {names[name]: str(value) for name, value in limits.items()}
    container = {"name": "main", "resources": {"limits": asked}}
    return made.admit(container, {"metadata": {"annotations": annotations or {}}})


def card(index: int, word: str = "Ascend910C", **fields: Any) -> fitting.CardState:
    network = fields.pop("network", None)
    used = {name: fields.pop(name) for name in ("used_memory_mib", "used_cores") if name in fields}
    whole = device.Device(
        **{
            "id": f"NPU-{index}",
            "type": word,
            "slots": 4,
            "memory_mib": 65536,
            "cores_percent": 20,
            "healthy": True,
            "index": index,
            "custom_info": {} if network is None else {"NetworkID": network},
        }
        | fields
    )
    return fitting.CardState(device=whole, **used)


def chosen(
    made: ascend.Ascend, cards: Sequence[fitting.CardState], count: int, **fields: Any
) -> list[int] | fitting.Refused:
    """Return the indexes of the cards that a request for whole cards gets."""
    wish = request.DeviceRequest(vendor=made.spec.keyword, count=count, memory_mib=65536)
    answer = made.choose(
        fitting.NodeState(name="n", cards=tuple(cards)), fitting.Ask(wish=wish, **fields)
    )
    if isinstance(answer, fitting.Refused):
        return answer
    return [cards[pick.card].device.index for pick in answer]


def test_the_keys_hold_the_chips_word_as_hami_writes_it() -> None:
    spec = vendor("Ascend910B4-1").spec

    assert (spec.keyword, spec.id) == ("Ascend910B4-1", "ascend-910b4-1")
    assert spec.register_key == "hami.io/node-register-Ascend910B4-1"
    assert spec.handshake_key == "hami.io/node-handshake-Ascend910B4-1"
    assert spec.pod_keys == (
        "hami.io/Ascend910B4-1-devices-to-allocate",
        "hami.io/Ascend910B4-1-devices-allocated",
        "huawei.com/Ascend910B4-1",
        "predicate-time",
    )
    assert spec.use_id_key == "hami.io/use-Ascend910B4-1-uuid"


def test_chips_are_there_only_when_they_are_switched_on() -> None:
    off = registry.build(settings.Settings())
    on = registry.build(settings.build({"vendors": {"ascend": {"enabled": True}}}))

    assert [v.spec.keyword for v in on] == [v.spec.keyword for v in off] + list(BY_WORD)


@pytest.mark.parametrize(
    ("memory", "granted"),
    [
        pytest.param(0, "3072", id="nothing is the smallest template"),
        pytest.param(3072, "3072", id="a template's memory"),
        pytest.param(3073, "6144", id="the next template"),
        pytest.param(12289, "21527", id="more than the largest template is the card"),
        pytest.param(24576, "21527", id="up to the capacity it is the card"),
    ],
)
def test_a_hard_split_is_raised_to_a_template(memory: int, granted: str) -> None:
    made = vendor("Ascend310P")

    changes = admitted(made, count=1, memory=memory)

    assert changes.resources == {"huawei.com/Ascend310P-memory": granted}


def test_a_bare_count_is_the_whole_card() -> None:
    assert admitted(vendor("Ascend310P"), count=2).resources == {
        "huawei.com/Ascend310P-memory": "21527"
    }


def test_a_soft_split_keeps_its_memory_and_cores() -> None:
    made = vendor("Ascend910B3")

    changes = admitted(made, annotations=SOFT, count=1, memory=5000, core=20)

    assert changes.resources == {"huawei.com/Ascend910B3-memory": "5000"}


@pytest.mark.parametrize(
    ("word", "limits", "why"),
    [
        ("Ascend310P", {"count": 1, "memory": 24577}, "write at most 24576"),
        ("Ascend310P", {"count": 2, "memory": 3072}, "a part of one card only"),
        ("Ascend310P", {"count": 1, "core": 20}, "a hard split has no cores of its own"),
        ("Ascend310P", {"count": "500m"}, "'500m' is no whole number"),
        ("Ascend310P", {"count": 1, "memory": "1.5"}, "'1.5' is no whole number"),
        ("Ascend310P", {"count": 1, "memory": "4294967296"}, "is more than 2147483647"),
        ("Ascend910C", {"count": 3}, "comes in pairs; write 1, which becomes 2, or an even"),
    ],
)
def test_what_no_card_can_give_is_refused(word: str, limits: dict[str, Any], why: str) -> None:
    with pytest.raises(errors.RequestError, match=why):
        admitted(vendor(word), **limits)


def test_a_super_pod_makes_one_card_a_pair() -> None:
    made = vendor("Ascend910C")

    assert admitted(made, count=1).resources == {
        "huawei.com/Ascend910C": "2",
        "huawei.com/Ascend910C-memory": "65536",
    }
    assert "huawei.com/Ascend910C" not in admitted(made, count=4).resources


def test_the_memory_factor_is_applied_after_rounding() -> None:
    made = vendor("Ascend310P", memory_factor=4)

    changes = admitted(made, count=1, memory=1000)
    wish = made.derive({"huawei.com/Ascend310P": "1"} | dict(changes.resources), {})

    assert wish is not None
    assert wish.memory_mib == 4 * 3072


def test_cards_are_hidden_only_from_containers_that_ask_for_none() -> None:
    made = vendor("Ascend310P", overwrite_env=True, runtime_class_name="ascend")

    asks, asks_not = admitted(made, count=1), admitted(made)

    assert (asks.env, asks.idle_env, asks.runtime_class) == ({}, {}, "ascend")
    assert asks_not.idle_env == {"ASCEND_VISIBLE_DEVICES": ""}
    assert not asks_not.asks


@pytest.mark.parametrize(
    ("node", "soft_by_default", "fits"),
    [
        pytest.param({}, False, False, id="nobody says so"),
        pytest.param({}, True, True, id="the settings say so"),
        pytest.param({"hami-vnpu-core": "true"}, False, True, id="the node says so"),
        pytest.param({"hami-vnpu-core": "false"}, True, False, id="the node says no"),
        pytest.param({"hami-vnpu-core": "True"}, True, False, id="another word is no"),
    ],
)
def test_a_soft_split_needs_a_node_that_serves_it(
    node: dict[str, str], soft_by_default: bool, fits: bool
) -> None:
    made = vendor("Ascend910B3", soft_by_default=soft_by_default)
    cards = (card(0, "Ascend910B3"), card(1, "Ascend910B3"))
    wish = request.DeviceRequest(vendor="Ascend910B3", count=1, memory_mib=5000, cores_percent=60)

    answer = made.choose(
        fitting.NodeState(name="n", cards=cards, notes=node), fitting.Ask(wish=wish, notes=SOFT)
    )

    assert answer == (
        (fitting.Pick(card=0, memory_mib=5000, cores=60),)
        if fits
        else fitting.Refused(counts={"ModeNotFit": 1})
    )


def test_a_soft_split_counts_cores_in_percent_and_a_hard_one_takes_none() -> None:
    made = vendor("Ascend910B3", soft_by_default=True)
    half_used = card(0, "Ascend910B3", used_cores=50)
    wish = request.DeviceRequest(vendor="Ascend910B3", count=1, memory_mib=5000, cores_percent=60)
    node = fitting.NodeState(name="n", cards=(half_used,))

    assert made.choose(node, fitting.Ask(wish=wish, notes=SOFT)) == fitting.Refused(
        counts={"CardInsufficientCore": 1}, of=1
    )
    assert made.choose(
        fitting.NodeState(name="n", cards=(card(0, "Ascend910B3"),)), fitting.Ask(wish=wish)
    ) == (fitting.Pick(card=0, memory_mib=5000, cores=0),)


def test_a_chip_whose_name_only_begins_alike_is_another() -> None:
    made = vendor("Ascend910B4")

    assert chosen(made, [card(0, "Ascend910B4-1"), card(1, "ascend910b4")], 1) == [1]


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        pytest.param([2, 1, 0], 2, [1, 0], id="the one full pair"),
        pytest.param([7, 6, 5, 4], 2, [7, 6], id="the pair tried first"),
        pytest.param([7, 4, 6, 5], 4, [7, 6, 4, 5], id="pair by pair"),
        pytest.param([3, 0], 1, [3], id="one card needs no partner"),
    ],
)
def test_a_super_pod_gives_full_pairs(free: list[int], count: int, expected: list[int]) -> None:
    assert chosen(vendor("Ascend910C"), [card(index) for index in free], count) == expected


@pytest.mark.parametrize(("free", "count", "in_pairs"), [([2, 0], 2, 0), ([6, 4, 2, 1, 0], 4, 2)])
def test_too_few_full_pairs_are_counted_against_the_nodes_cards(
    free: list[int], count: int, in_pairs: int
) -> None:
    assert chosen(vendor("Ascend910C"), [card(i) for i in free], count) == fitting.Refused(
        counts={"AllocatedCardsInsufficientRequest": in_pairs}, of=len(free)
    )


@pytest.mark.parametrize(
    ("networks", "count", "expected"),
    [
        pytest.param([0, 1, 1, 0, 0], 2, [0, 3], id="the largest network first"),
        pytest.param([0, 1, 1, 0, 0], 4, [0, 3, 4, 1], id="then the next"),
        pytest.param([0, 1, 1, 0], 2, [0, 3], id="equal ones: the one tried first"),
        pytest.param([0, 1, 1], 1, [0], id="one card: the first"),
        pytest.param([0, None, 1, 1], 2, [0, 1], id="a card names none: the order as it is"),
    ],
)
def test_cards_come_from_few_networks(
    networks: list[int | None], count: int, expected: list[int]
) -> None:
    cards = [card(i, "Ascend910B3", network=network) for i, network in enumerate(networks)]

    assert chosen(vendor("Ascend910B3"), cards, count) == expected


def test_other_families_know_no_networks() -> None:
    cards = [card(i, "Ascend310P", network=i // 2) for i in (1, 2, 3)]

    assert chosen(vendor("Ascend310P"), cards, 2) == [1, 2]


def granted(networks: Sequence[Sequence[int | None]]) -> base.Grant:
    """Return a grant of whole cards, by container the networks of its cards."""
    devices: dict[str, device.Device] = {}
    shares: list[allocation.ContainerShares] = []
    for container in networks:
        cards = [card(len(devices) + n, network=one).device for n, one in enumerate(container)]
        devices |= {one.id: one for one in cards}
        shares.append(
            tuple(
                allocation.DeviceShare(
                    device_id=one.id, vendor_word="Ascend910C", memory_mib=65536, cores_percent=0
                )
                for one in cards
            )
        )
    wish = request.PodRequest(pod=request.PodKey(namespace="a", name="b", uid="c"), containers=())
    return base.Grant(
        shares=tuple(shares),
        containers=tuple(f"c{n}" for n in range(len(networks))),
        devices=devices,
        node="n",
        node_notes={},
        pod_notes={},
        request=wish,
    )


@pytest.mark.parametrize(
    ("word", "networks", "score"),
    [
        ("Ascend910C", [[0, 0], [], [0, 1]], 15.0),
        ("Ascend910B3", [[0, 0, 1]], 20 / 3),
        ("Ascend910B3", [[0, None], [0]], 0.0),
        ("Ascend310P", [[0, 0]], 0.0),
    ],
)
def test_the_node_score_is_the_share_in_the_largest_network(
    word: str, networks: list[list[int | None]], score: float
) -> None:
    node = fitting.NodeState(name="n", cards=())

    found = vendor(word).node_score(node, granted(networks), policy.NodePolicy.BINPACK)

    assert found == pytest.approx(score)


def test_the_plugins_list_names_template_memory_and_cores() -> None:
    def share(memory_mib: int, cores: int = 0) -> allocation.DeviceShare:
        return allocation.DeviceShare(
            device_id="NPU-0", vendor_word="Ascend310P", memory_mib=memory_mib, cores_percent=cores
        )

    hard = granted([])
    texts = [
        vendor("Ascend310P").more_annotations(
            base.Grant(
                shares=shares,
                containers=("a", "b"),
                devices={},
                node="n",
                node_notes={},
                pod_notes=notes,
                request=hard.request,
            ),
            NOW,
        )
        for shares, notes in (
            (((share(3072),), (share(21527),)), {}),
            (((share(3072, 20),), ()), SOFT),
        )
    ]

    assert [text["huawei.com/Ascend310P"] for text in texts] == [
        '[{"UUID":"NPU-0","temp":"vir01","memory":3072},{"UUID":"NPU-0","memory":21527}]',
        '[{"UUID":"NPU-0","memory":3072,"core":20}]',
    ]
    assert {text["predicate-time"] for text in texts} == {"1768471200"}


@pytest.mark.parametrize(
    ("asked_mib", "known", "left_mib"), [(3072, False, 3072), (3072, True, 3072), (0, True, 21527)]
)
def test_a_forged_share_is_cut_to_what_the_container_asks(
    asked_mib: int, known: bool, left_mib: int
) -> None:
    forged = allocation.DeviceShare(
        device_id="NPU-0", vendor_word="Ascend310P", memory_mib=99999, cores_percent=100
    )
    asked = request.DeviceRequest(
        vendor="Ascend310P", count=1, memory_mib=asked_mib, memory_percent=100, cores_percent=20
    )
    whole = card(0, "Ascend310P", memory_mib=21527).device

    cut = vendor("Ascend310P").cap(asked, forged, whole if known else None)

    assert (cut.memory_mib, cut.cores_percent) == (left_mib, 20)


@hypothesis.given(
    free=st.lists(st.integers(0, 15), unique=True, min_size=2, max_size=16),
    pairs=st.integers(1, 4),
)
def test_a_super_pods_answer_is_always_whole_pairs(free: list[int], pairs: int) -> None:
    found = chosen(vendor("Ascend910C"), [card(index) for index in free], 2 * pairs)

    possible = sum(index ^ 1 in free for index in free)
    if isinstance(found, fitting.Refused):
        assert possible < 2 * pairs
    else:
        assert len(set(found)) == 2 * pairs
        assert all(index ^ 1 in found for index in found)
