"""Enflame's partitions beyond the recorded cases."""

import json
from typing import Any

import pytest

from support import vendor_values as v
from vgpu_operator.model import errors, quota, request
from vgpu_operator.model.vendor_settings.enflame import EnflameSettings
from vgpu_operator.vendors import enflame_drs

(DRS,) = enflame_drs.backends(EnflameSettings())
PROFILES = {"1g.6gb": "0", "2g.12gb": "3", "3g.20gb": "1", "6g.40gb": "2"}


def capacity(*devices: Any, profiles: Any = PROFILES) -> str:
    return json.dumps({"devices": list(devices), "profiles": profiles})


def entry(index: int) -> dict[str, Any]:
    return {"index": str(index), "minor": str(index + 7), "capacity": 6}


CARDS = DRS.decode_devices(capacity(entry(0), entry(1)), node="n1").devices


def wish(**limits: str) -> request.DeviceRequest:
    names = {"slices": "drs-gcu", "memory": "gcu-memory", "cores": "gcu-core"}
    found = DRS.derive({f"enflame.com/{names[k]}": value for k, value in limits.items()}, {})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        pytest.param({"slices": "3"}, (20480, 50, 3), id="slices"),
        pytest.param({"memory": "20"}, (20480, 50, 3), id="GB"),
        pytest.param({"memory": "80"}, None, id="80 is still GB, more than any"),
        pytest.param({"memory": "81"}, (6144, 17, 1), id="81 is MiB"),
        pytest.param({"memory": "6145"}, (12288, 34, 2), id="MiB are rounded up to GB"),
        pytest.param({"cores": "51"}, (40960, 100, 6), id="cores"),
        pytest.param({"memory": "6", "cores": "34"}, (12288, 34, 2), id="both must be had"),
        pytest.param({"slices": "2", "memory": "40"}, (12288, 34, 2), id="slices win"),
    ],
)
def test_the_smallest_profile_that_has_it_is_given(
    asked: dict[str, str], given: tuple[int, int, int] | None
) -> None:
    answer = v.choose(DRS, [v.state(CARDS[1]), v.state(CARDS[0])], wish(**asked))

    assert answer == ({"ModeNotFit": 1} if given is None else [("n1-enflame-drs-1", *given)])


def test_memory_and_cores_left_are_those_of_the_profile() -> None:
    half, full = v.state(CARDS[1], 1, 20480, 50), v.state(CARDS[0], 1, 6144, 99)

    assert v.choose(DRS, [full, half], wish(slices="3")) == [("n1-enflame-drs-1", 20480, 50, 3)]
    assert v.choose(DRS, [full], wish(slices="3")) == {"CardInsufficientCore": 1}
    assert v.choose(DRS, [full, half], wish(slices="6")) == {"CardInsufficientMemory": 2}


def test_a_share_takes_the_slices_of_its_profile_after_a_restart_too() -> None:
    assert DRS.slots_of(v.share("n1-enflame-drs-0", 20480, 50), CARDS[0]) == 3
    assert DRS.slots_of(v.share("n1-enflame-drs-0", 777, 50), CARDS[0]) == 1
    assert DRS.slots_of(v.share("n1-enflame-drs-0", 20480, 50), None) == 1


def test_a_forged_share_is_cut_to_the_profile_that_was_asked() -> None:
    forged = v.share("n1-enflame-drs-0", 40960, 100)

    assert DRS.cap(wish(slices="3"), forged, CARDS[0]) == v.share("n1-enflame-drs-0", 20480, 50)
    assert DRS.cap(wish(slices="5"), forged, CARDS[0]) == forged
    assert DRS.cap(wish(slices="3"), forged, None) == forged


def test_a_quota_counts_gb_as_pods_ask_them() -> None:
    assert DRS.quota_amount(v.share("x", 6144, 17), None) == quota.Amount(memory_mib=6, cores=17)


def test_the_plugin_is_told_of_every_container_and_of_the_first_card() -> None:
    wishes = [None, wish(slices="3"), wish(memory="6")]
    given = v.grant(
        CARDS,
        (),
        (v.share(CARDS[1].id, 20480, 50),),
        (v.share(CARDS[0].id, 6144, 17),),
        wishes=wishes,
    )

    texts = dict(DRS.more_annotations(given, v.NOW))

    assert json.loads(texts.pop("assigned-containers")) == {
        "c1": {"allocated": False, "request": 3, "profileID": "1", "profileName": "3g.20gb"},
        "c2": {"allocated": False, "request": 1, "profileID": "0", "profileName": "1g.6gb"},
    }
    assert texts == {
        "enflame.com/gcu-assigned": "false",
        "enflame.com/gcu-assigned-time": "1768471200000000000",
        "enflame.com/gcu-assigned-index": "1",
        "enflame.com/gcu-assigned-id": "1",
        "enflame.com/gcu-assigned-minor": "8",
        "enflame.com/gcu-request-size": "3",
    }


def test_a_bad_device_costs_only_itself() -> None:
    text = capacity(entry(0), {"index": 1}, entry(0), {"index": "5", "capacity": "x"})

    read = DRS.decode_devices(text, node="n1")

    assert [card.id for card in read.devices] == ["n1-enflame-drs-0"]
    assert [str(fault) for fault in read.faults] == [
        "enflame.com/gcu-drs-capacity, segment 1 at offset 0: index and minor must be texts",
        "enflame.com/gcu-drs-capacity, segment 2 at offset 0: the index 0 came before",
        "enflame.com/gcu-drs-capacity, segment 3 at offset 0: capacity must be an integer, got 'x'",
    ]


def test_an_empty_list_says_that_the_cards_have_left() -> None:
    assert DRS.decode_devices(capacity(), node="n1").devices == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        '{"devices": {}}',
        capacity(7),
        capacity(entry(0), profiles=[]),
        capacity(entry(0), profiles={"abc": "0"}),
        capacity(entry(0), profiles={"1g.6gb": 0}),
        "[" * 100_000,
    ],
)
def test_what_holds_no_card_is_unreadable(text: str) -> None:
    with pytest.raises(errors.DecodeError):
        DRS.decode_devices(text, node="n1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("drs-gcu", "0"),
        ("drs-gcu", "-1"),
        ("gcu-memory", "0"),
        ("gcu-core", "0"),
        ("gcu-core", "100500m"),
        ("gcu-memory", "4294967296"),
        ("gcu-memory", "much"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, value: str) -> None:
    with pytest.raises(errors.RequestError, match=rf"^enflame\.com/{name}: "):
        DRS.admit(v.container({f"enflame.com/{name}": value}), {})


def test_the_earlier_name_counts_where_todays_is_not_configured() -> None:
    read = EnflameSettings.model_validate
    assert read({}).slices_resource == "enflame.com/drs-gcu"
    assert read({"resourceNameVGCU": "a.io/vgcu"}).slices_resource == "a.io/vgcu"
    both = {"resourceNameVGCU": "a.io/vgcu", "resourceNameDRSGCU": "a.io/drs"}
    assert read(both).slices_resource == "a.io/drs"
