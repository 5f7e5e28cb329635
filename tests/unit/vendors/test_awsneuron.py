"""AWS Neuron: devices, cores as bits, rows of devices."""

import dataclasses
from typing import Any

import pytest

from support import vendor_values
from vgpu_operator.model import device, errors, fitting, request
from vgpu_operator.model.vendor_settings import awsneuron as awsneuron_settings
from vgpu_operator.vendors import awsneuron, base

(NEURON,) = awsneuron.backends(awsneuron_settings.AwsNeuronSettings())
DEVICES, CORES = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"


def devices(count: int, cores: int, instance_type: str = "inf2.xlarge") -> list[device.Device]:
    texts = base.NodeTexts(
        name="n1",
        annotations={},
        labels={"node.kubernetes.io/instance-type": instance_type},
        capacity={DEVICES: str(count), CORES: str(count * cores)},
    )
    return list(vendor_values.cards_of(NEURON, texts))


def wish(**limits: int) -> request.DeviceRequest:
    names = {"devices": DEVICES, "cores": CORES}
    found = NEURON.derive({names[name]: str(value) for name, value in limits.items()}, {})
    assert found is not None
    return found


def choose(
    cards: list[device.Device], asked: request.DeviceRequest, used: dict[int, int] | None = None
) -> Any:
    """Return (index, mask) of each pick; ``used`` has a mask by index."""
    states = [
        fitting.CardState(
            device=card,
            used_slots=int(card.index in (used or {})),
            used_cores=(used or {}).get(card.index, 0),
        )
        for card in reversed(cards)
    ]
    found = vendor_values.choose(NEURON, states, asked)
    if not isinstance(found, list):
        return found
    return [(int(name.rsplit("-", 1)[1]), mask) for name, _, mask, _ in found]


def test_each_device_has_an_equal_part_of_the_nodes_cores_one_bit_each() -> None:
    one, two = devices(2, 4)

    assert (one.id, two.index, one.slots, one.cores_percent) == ("n1-AWSNeuron-0", 1, 4, 0b1111)
    assert one.custom_info == {"AWSNodeType": "inf2.xlarge"}


def test_a_capacity_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(errors.DecodeError, match="at most"):
        NEURON.decode_devices(f"{DEVICES}=1,{CORES}=1000;", node="n1")


@pytest.mark.parametrize(
    ("cores", "count", "each"), [(1, 1, 1), (2, 1, 2), (6, 3, 2), (4294967294, 2147483647, 2)]
)
def test_cores_are_counted_in_devices_of_two(cores: int, count: int, each: int) -> None:
    found = wish(cores=cores)

    assert (found.count, found.cores_percent, found.cores_by_default) == (count, each, False)


@pytest.mark.parametrize(
    "limits",
    [
        {DEVICES: "0"},
        {DEVICES: "-1"},
        {DEVICES: "500m"},
        {DEVICES: "4294967297"},
        {CORES: "0"},
        {CORES: "3"},
        {CORES: "4294967296"},
    ],
)
def test_what_cannot_be_meant_is_refused(limits: dict[str, str]) -> None:
    with pytest.raises(errors.RequestError, match=r"^aws\.amazon\.com/neuron"):
        NEURON.derive(limits, {})


def test_devices_win_over_cores_and_requests_alone_are_claimed_and_written_to_limits() -> None:
    both = NEURON.derive({DEVICES: "2", CORES: "1"}, {})
    changed = NEURON.admit(vendor_values.container({}, {CORES: "1"}), {})

    assert both == wish(devices=2)
    assert (changed.asks, changed.resources) == (True, {CORES: "1"})
    assert not NEURON.admit(vendor_values.container({"cpu": "1"}), {}).asks


@pytest.mark.parametrize(
    ("used", "want"),
    [
        ({}, [(1, 0b01)]),
        ({1: 0b01}, [(1, 0b10)]),
        ({1: 0b10}, [(1, 0b01)]),
        ({1: 0b11}, [(0, 0b01)]),
        ({0: 0b11, 1: 0b11}, {"CardInsufficientCore": 2}),
    ],
)
def test_the_lowest_free_core_is_taken(used: dict[int, int], want: Any) -> None:
    assert choose(devices(2, 2), wish(cores=1), used) == want


def test_all_cores_of_a_device_with_four_are_told_apart() -> None:
    assert choose(devices(1, 4), wish(cores=1), {0: 0b0011}) == [(0, 0b0100)]
    assert choose(devices(1, 4), wish(cores=2), {0: 0b0101}) == [(0, 0b1010)]
    assert choose(devices(1, 4), wish(cores=4)) == [(0, 0b1111)]
    assert choose(devices(2, 4), wish(cores=8)) == [(0, 0b1111), (1, 0b1111)]
    assert choose(devices(2, 4), wish(devices=1)) == [(1, 0b1111)]


def test_cores_that_fill_no_devices_of_the_node_are_refused_there() -> None:
    assert choose(devices(4, 4), wish(cores=6)) == {"CardInsufficientCore": 4}


def test_devices_with_one_core_serve_cores_by_the_device() -> None:
    assert choose(devices(2, 1), wish(cores=2)) == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("instance_type", "used", "want", "first"),
    [
        ("trn1", [7], 8, 8),
        ("trn1", [7, 13], 8, None),
        ("trn1", [1], 4, 4),
        ("trn1", [], 2, None),
        ("inf1", [5, 14], 8, 6),
        ("Inf2", [], 16, 0),
        ("", [], 4, 0),
    ],
)
def test_several_devices_lie_in_a_row(
    instance_type: str, used: list[int], want: int, first: int | None
) -> None:
    found = choose(devices(16, 2, instance_type), wish(devices=want), dict.fromkeys(used, 1))

    expected = {"NumaNotFit": 1} if first is None else [(first + i, 3) for i in range(want)]
    assert found == expected


def test_a_row_keeps_off_devices_that_the_pod_will_not_use() -> None:
    states = [vendor_values.state(card) for card in devices(4, 2)]
    selection = NEURON.selection({"aws.amazon.com/nouse-neuron-uuid": "n1-AWSNeuron-1"})

    found = vendor_values.choose(NEURON, states, wish(devices=2), selection=selection)

    assert [name for name, *_ in found] == ["n1-AWSNeuron-2", "n1-AWSNeuron-3"]


def grant(cards: list[device.Device], *entries: tuple[request.DeviceRequest, Any]) -> base.Grant:
    return vendor_values.grant(
        cards,
        *(
            tuple(vendor_values.share(f"n1-AWSNeuron-{i}", 0, mask) for i, mask in picks)
            for _, picks in entries
        ),
        wishes=[asked for asked, _ in entries],
    )


def test_devices_are_written_by_their_index_and_cores_by_their_number_on_the_node() -> None:
    cards = devices(4, 2)

    whole = NEURON.more_annotations(
        grant(cards, (wish(devices=2), [(0, 3), (1, 3)])), vendor_values.NOW
    )
    mixed = NEURON.more_annotations(
        grant(cards, (wish(devices=1), [(3, 3)]), (wish(cores=1), [(2, 0b10)])), vendor_values.NOW
    )

    assert whole == {
        "AWS_NEURON_IDS": "0,1",
        "NEURON_ALLOC_TIME": "1768471200000000000",
        "NEURON_ALLOCATED": "false",
        "aws.amazon.com/predicate-node": "n1",
    }
    assert mixed["AWS_NEURON_IDS"] == "3,5"
    assert mixed["NEURON_RESOURCE_TYPE"] == CORES


def test_nothing_is_written_of_a_pod_without_devices() -> None:
    assert NEURON.more_annotations(vendor_values.grant([], ()), vendor_values.NOW) == {}


@pytest.mark.parametrize(
    ("asked", "mask", "kept"),
    [
        (wish(cores=1), 0b10, 0b10),
        (wish(cores=1), 0b11, 0b01),
        (wish(devices=1), 0b11, 0b11),
        (wish(devices=1), 0b1111, 0b11),
    ],
)
def test_a_share_on_a_pod_is_cut_to_as_many_cores_as_were_asked(
    asked: request.DeviceRequest, mask: int, kept: int
) -> None:
    (card,) = devices(1, 2)

    cut = NEURON.cap(asked, vendor_values.share(card.id, 5, mask), card)

    assert (cut.memory_mib, cut.cores_percent) == (0, kept)


def test_a_quota_counts_cores_and_not_the_number_that_their_bits_make() -> None:
    share = vendor_values.share("d", 0, 0b1010)

    assert NEURON.quota_amount(share, None).cores == 2


def test_a_device_that_is_unhealthy_is_in_no_row() -> None:
    cards = devices(3, 2)
    cards[1] = dataclasses.replace(cards[1], healthy=False)

    assert choose(cards, wish(devices=2)) == {"NumaNotFit": 1}
