"""Register texts: what is lost with a bad part, and what stays."""

import json
from typing import Any

import pytest

from vgpu_operator.model import device, errors
from vgpu_operator.wire import node_register

KEY = "hami.io/node-nvidia-register"
GOOD = '{"id":"GPU-good","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A10","health":true}'


def card(id_: str = "GPU-a0", **others: Any) -> device.Device:
    values: dict[str, Any] = {
        "type": "NVIDIA A10",
        "slots": 10,
        "memory_mib": 24576,
        "cores_percent": 100,
        "healthy": True,
    }
    return device.Device(id=id_, **(values | others))


def test_an_empty_json_list_says_that_the_node_has_no_card() -> None:
    assert node_register.decode_register(" [ ] ") == node_register.RegisterText(devices=())


@pytest.mark.parametrize("text", [":", "::", " : \n:"])
def test_separators_alone_say_that_the_node_has_no_card(text: str) -> None:
    assert node_register.decode_register(text) == node_register.RegisterText(devices=())


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_an_empty_text_is_an_error_and_not_an_empty_list(text: str) -> None:
    with pytest.raises(errors.DecodeError, match="empty"):
        node_register.decode_register(text)


@pytest.mark.parametrize(
    "element",
    [
        "null",
        "5",
        "[]",
        '"GPU-a0"',
        "{}",
        '{"id":""}',
        '{"id":null}',
        '{"id":5}',
        '{"id":"a,b"}',
        '{"id":"a:b"}',
        '{"id":"a;b"}',
        '{"id":" a"}',
        '{"id":"a","count":"10"}',
        '{"id":"a","count":1.0}',
        '{"id":"a","count":1e400}',
        '{"id":"a","count":true}',
        '{"id":"a","count":2147483648}',
        '{"id":"a","devmem":-2147483649}',
        '{"id":"a","devcore":' + "9" * 5000 + "}",
        '{"id":"a","index":-1}',
        '{"id":"a","numa":"0"}',
        '{"id":"a","type":7}',
        '{"id":"a","health":"true"}',
        '{"id":"a","health":1}',
        '{"id":"a","mode":[]}',
        '{"id":"a","custominfo":[]}',
        '{"id":"a","custominfo":{"x":1e400}}',
        '{"id":"a","custominfo":{"x":' + "[" * 40 + "]" * 40 + "}}",
        '{"id":"a","migProfiles":{}}',
        '{"id":"a","migProfiles":[null]}',
        '{"id":"a","migProfiles":[{"memoryMB":"x"}]}',
        '{"id":"a","migProfiles":[{"placements":[{"start":-1}]}]}',
        '{"id":"a","migProfiles":[{"placements":[7]}]}',
    ],
)
def test_a_bad_json_element_is_lost_and_the_others_stay(element: str) -> None:
    text = f"[{element}, {GOOD}]"

    read = node_register.decode_register(text, key=KEY)

    assert read.devices == (card("GPU-good"),)
    assert [(fault.key, fault.segment, fault.offset) for fault in read.faults] == [(KEY, 0, 1)]


@pytest.mark.parametrize(
    "segment",
    [
        "x",
        "a,10,32768,NVIDIA-Tesla V100,true,hami-core",
        "a,10,7680,100,T4,0,true,1",
        "a,10,7680,100,T4,0,true,1,hami-core,more",
        ",10,7680,100,T4,0,true",
        "a;b,10,7680,100,T4,0,true",
        "a,ten,7680,100,T4,0,true",
        "a,10,24x,100,T4,0,true",
        "a,10,7680,1e2,T4,0,true",
        "a,10,7680,100,T4,,true",
        "a,10,7680,100,T4,0,yes",
        "a,2147483648,7680,100,T4,0,true",
        "a,10,7680,100,T4,0,true,-1,hami-core",
        "a,10,7680,1_0,T4,0,true",
        "a,10,7680,٣,T4,0,true",
    ],
)
def test_a_bad_colon_segment_is_lost_and_the_others_stay(segment: str) -> None:
    before = "GPU-good,10,24576,100,NVIDIA A10,0,true,0,:"

    read = node_register.decode_register(f"{before}{segment}:", key=KEY)

    assert read.devices == (card("GPU-good"),)
    assert [(fault.key, fault.segment, fault.offset) for fault in read.faults] == [
        (KEY, 1, len(before))
    ]


def test_the_first_of_two_cards_with_one_id_stays() -> None:
    text = '[{"id":"GPU-a0","devmem":24576},{"id":"GPU-a0","devmem":1000}]'

    read = node_register.decode_register(text)

    assert [found.memory_mib for found in read.devices] == [24576]
    assert [(fault.segment, fault.offset) for fault in read.faults] == [(1, 32)]
    assert "came before" in str(read.faults[0])


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "[,]",
        f"[{GOOD}",
        f"[{GOOD},",
        f"[{GOOD},]",
        f"[{GOOD}],",
        f"[{GOOD}]x",
        f"[{GOOD} {GOOD}]",
        "[{'id':'a'}]",
        '[{"id":"a","count":NaN}]',
        '[{"id":"a","count":-Infinity}]',
        '[{"id":"a\nb"}]',
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_json_that_does_not_parse_loses_the_whole_text(text: str) -> None:
    with pytest.raises(errors.DecodeError, match="the JSON"):
        node_register.decode_register(text)


def test_a_json_fault_says_where_parsing_stopped() -> None:
    with pytest.raises(errors.DecodeError) as fault:
        node_register.decode_register("[{}]x")

    assert fault.value.offset == 4


def test_only_bad_cards_are_an_error_of_the_whole_text_that_names_the_first() -> None:
    with pytest.raises(errors.DecodeError, match="segment 0 at offset 1: a card must be"):
        node_register.decode_register('[null,{"id":7}]', key=KEY)


def test_a_text_of_more_than_half_a_mebibyte_is_refused() -> None:
    blank = " " * (512 * 1024)

    assert node_register.decode_register(f"[]{blank[2:]}").devices == ()
    with pytest.raises(errors.DecodeError, match="at most 524288 characters"):
        node_register.decode_register(f"[]{blank[1:]}")


def test_json_members_match_without_regard_to_case_and_absent_ones_are_zero() -> None:
    read = node_register.decode_register('[{"ID":"a","DevMem":7,"HEALTH":true,"devicevendor":"x"}]')

    assert read.devices == (
        device.Device(id="a", type="", slots=0, memory_mib=7, cores_percent=0, healthy=True),
    )


def test_mig_profiles_and_custom_info_are_carried() -> None:
    text = json.dumps(
        [
            {
                "id": "a",
                "mode": "mig",
                "migProfiles": [
                    {
                        "name": "2g.10gb",
                        "memoryMB": 10240,
                        "core": 28,
                        "sliceCount": 2,
                        "placements": [{"start": 0, "size": 2}, {"start": 2, "size": 2}],
                    }
                ],
                "custominfo": {"NetworkID": 1, "l": ["x", None, {"y": 2.5}]},
            }
        ]
    )

    (found,) = node_register.decode_register(text).devices

    assert found.mig_profiles == (
        device.MigProfile(
            name="2g.10gb",
            memory_mib=10240,
            cores_percent=28,
            slice_count=2,
            placements=(
                device.MigPlacement(start=0, size=2),
                device.MigPlacement(start=2, size=2),
            ),
        ),
    )
    assert found.custom_info == {"NetworkID": 1, "l": ["x", None, {"y": 2.5}]}


def test_half_a_character_becomes_a_replacement_character_wherever_it_stands() -> None:
    text = '[{"id":"a\\ud800","type":"\\udc00b","custominfo":{"\\ud800":["\\ud800"]}}]'

    (found,) = node_register.decode_register(text).devices

    assert (found.id, found.type) == ("a\ufffd", "\ufffdb")
    assert found.custom_info == {"\ufffd": ["\ufffd"]}


def test_a_pair_of_halves_stays_one_character() -> None:
    (found,) = node_register.decode_register('[{"id":"\\ud83d\\ude00"}]').devices

    assert found.id == "😀"


def test_a_colon_device_that_would_not_read_back_is_not_written() -> None:
    with pytest.raises(ValueError, match="a,b"):
        node_register.encode_register_colon([card(type="a,b")])


def test_a_colon_text_that_would_read_as_json_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        node_register.encode_register_colon([card("[0-1]")])


def test_cards_beyond_the_most_are_not_read_and_cost_one_fault() -> None:
    """One node's text must not decide how large the ledger is for all nodes."""
    most = node_register.MOST_CARDS
    text = "".join(f"c{n},1,1,1,NVIDIA,0,true:" for n in range(11_000))

    read = node_register.decode_register(text, key=KEY)

    assert [device.id for device in read.devices] == [f"c{n}" for n in range(most)]
    assert [fault.segment for fault in read.faults] == [most]
    assert f"at most {most} cards" in str(read.faults[0])
