"""MetaX, shares of a card: quality classes, online and offline pods, MetaLink zones."""

import dataclasses
import json
from typing import Any

import pytest

from support import vendor_values
from vgpu_operator.model import device, errors, fitting, policy, request
from vgpu_operator.model.vendor_settings import metax as metax_settings
from vgpu_operator.vendors import metax_sgpu

(SGPU,) = metax_sgpu.backends(metax_settings.MetaxSettings())

BINPACK = policy.NodePolicy.BINPACK


def card(name: str, *, zone: int = 0, qos: str = "", **fields: Any) -> device.Device:
    info = {"QosPolicy": qos, "Model": "C500", "LinkZone": zone}
    usual: dict[str, Any] = {"slots": 16, "memory_mib": 65536, "custom_info": info}
    return vendor_values.card(name, "Metax-SGPU", **(usual | fields))


def tenant(pod: str, card_id: str, cores: int = 10, **notes: str) -> fitting.Tenant:
    keys = {"qos": metax_sgpu.QOS_KEY, "app_class": metax_sgpu.CLASS_KEY}
    return fitting.Tenant(
        pod=request.PodKey(namespace="team-a", name=pod, uid=pod),
        container=0,
        share=vendor_values.share(card_id, 1024, cores),
        notes={keys[name]: text for name, text in notes.items()},
    )


def held(one: device.Device, *tenants: fitting.Tenant) -> fitting.CardState:
    return fitting.CardState(
        device=one,
        used_slots=len(tenants),
        used_memory_mib=1024 * len(tenants),
        used_cores=sum(each.share.cores_percent for each in tenants),
        tenants=tenants,
    )


def wish(count: int = 1, memory_mib: int = 4096, cores: int = 10) -> request.DeviceRequest:
    return request.DeviceRequest(
        vendor="Metax-SGPU",
        count=count,
        memory_mib=memory_mib,
        memory_percent=0 if memory_mib else 100,
        cores_percent=cores,
    )


def choose(cards: list[fitting.CardState], asked: request.DeviceRequest, **ask: Any) -> Any:
    notes = {
        key: ask.pop(name)
        for name, key in (("qos", metax_sgpu.QOS_KEY), ("app_class", metax_sgpu.CLASS_KEY))
        if name in ask
    }
    return vendor_values.choose(SGPU, cards, asked, notes=notes, **ask)


# --- cards -------------------------------------------------------------------------------


def test_the_plugins_own_list_is_read() -> None:
    text = (
        '[{"uuid": "GPU-123", "model": "sgpu", "totalDevCount": 16, "totalCompute": 100, '
        '"totalVRam": 32768, "numa": 1, "healthy": true, "qosPolicy": "fixed-share"}]'
    )

    (one,) = SGPU.decode_devices(text, node="n1").devices

    assert one == device.Device(
        id="GPU-123",
        type="Metax-SGPU",
        slots=16,
        memory_mib=32768,
        cores_percent=100,
        numa=1,
        healthy=True,
        custom_info={"QosPolicy": "fixed-share", "Model": "sgpu", "LinkZone": 0},
    )


def test_one_bad_card_costs_only_itself_and_keeps_its_index() -> None:
    read = SGPU.decode_devices(
        '[{"uuid":"a"},{"uuid":"b","totalVRam":"64"},null,{"uuid":"a"},{"uuid":"c"}]', node="n1"
    )

    assert [(one.id, one.index) for one in read.devices] == [("a", 0), ("c", 4)]
    assert [fault.segment for fault in read.faults] == [1, 2, 3]


def test_an_empty_list_says_that_the_cards_have_left() -> None:
    assert SGPU.decode_devices("[]", node="n1").devices == ()


@pytest.mark.parametrize("text", ["", "null", "{", '[{"uuid":""}]'])
def test_a_text_without_any_card_is_refused(text: str) -> None:
    with pytest.raises(errors.DecodeError):
        SGPU.decode_devices(text, node="n1")


# --- requests ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "mib"),
    [
        ("16", 16384),
        ("1000", 1_024_000),
        ("1k", 1_024_000),
        ("2e1", 20480),
        ("16Gi", 16384),
        ("1024M", 976),
        ("1048576Ki", 1024),
        ("0", 0),
    ],
)
def test_a_bare_number_is_gib_and_one_with_a_unit_bytes(memory: str, mib: int) -> None:
    limits = {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": memory}

    found = SGPU.derive(limits, {})

    assert found is not None
    assert (found.memory_mib, found.memory_percent) == (mib, 0 if mib else 100)


@pytest.mark.parametrize("memory", ["-1", "500m", "1Ki", "2097152", "9999Ti", "x"])
def test_a_memory_that_cannot_be_meant_is_refused_with_what_to_write(memory: str) -> None:
    limits = {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": memory}

    with pytest.raises(errors.RequestError, match=r"^metax-tech.com/vmemory: .*write GiB"):
        SGPU.derive(limits, {})


def test_cores_are_the_whole_card_unless_named() -> None:
    bare = SGPU.derive({"metax-tech.com/sgpu": "1"}, {})
    named = SGPU.derive({"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": "30"}, {})

    assert bare is not None
    assert named is not None
    assert (bare.cores_percent, bare.cores_by_default) == (100, True)
    assert (named.cores_percent, named.cores_by_default) == (30, False)


def test_a_share_on_a_pod_is_cut_to_what_was_asked() -> None:
    forged = vendor_values.share("MX-0", 65536, 100)

    assert SGPU.cap(wish(), forged, card("MX-0")) == vendor_values.share("MX-0", 4096, 10)


# --- admission ---------------------------------------------------------------------------


def admit(limits: dict[str, str], annotations: dict[str, str] | None = None) -> Any:
    pod = {"metadata": {"annotations": annotations or {}}}
    return SGPU.admit(vendor_values.container({"metax-tech.com/sgpu": "1"} | limits), pod)


def test_a_pod_without_a_quality_class_gets_best_effort_unless_it_is_online() -> None:
    assert admit({}).annotations == {metax_sgpu.QOS_KEY: "best-effort"}
    assert admit({}, {metax_sgpu.QOS_KEY: "fixed-share"}).annotations == {}
    assert admit({}, {metax_sgpu.CLASS_KEY: "online"}).annotations == {}


@pytest.mark.parametrize(
    ("limits", "annotations", "sentence"),
    [
        ({}, {metax_sgpu.QOS_KEY: "best"}, "is no quality class; write one of"),
        ({}, {metax_sgpu.CLASS_KEY: "Online"}, "is no class; write online or offline"),
        ({"metax-tech.com/sgpu": "2"}, {metax_sgpu.CLASS_KEY: "online"}, "shares one card, not 2"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(
    limits: dict[str, str], annotations: dict[str, str], sentence: str
) -> None:
    with pytest.raises(errors.RequestError, match=sentence):
        admit(limits, annotations)


def test_an_online_pods_quality_class_is_not_judged() -> None:
    assert admit({}, {metax_sgpu.CLASS_KEY: "online", metax_sgpu.QOS_KEY: "any"}).asks


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ({"metax-tech.com/vcore": "150"}, "no card can serve it"),
        ({"metax-tech.com/vcore": "500m"}, "it gets all cores"),
        ({"metax-tech.com/vmemory": "2M"}, "that is 1 MiB"),
    ],
)
def test_odd_amounts_are_told_to_the_author(limits: dict[str, str], word: str) -> None:
    (warning,) = admit(limits).warnings

    assert word in warning


# --- which cards may serve ---------------------------------------------------------------

ONE = card("MX-0")


@pytest.mark.parametrize(
    ("there", "wanted", "fits"),
    [
        ("online", "online", True),
        ("offline", "online", True),
        ("offline", "offline", True),
        ("online", "offline", False),
        ("", "online", False),
        ("", "offline", False),
        ("online", "", False),
        ("offline", "", False),
        ("", "", True),
    ],
)
def test_pods_with_a_class_share_no_card_with_pods_without_nor_offline_with_online(
    there: str, wanted: str, fits: bool
) -> None:
    notes = {"app_class": there} if there else {}
    one = held(ONE, tenant("u1", "MX-0", **notes))
    asked = {"app_class": wanted} if wanted else {}

    found = choose([one], wish(), **asked)

    assert found == {"CardAppClassMismatch": 1} or fits
    assert (found == {"CardAppClassMismatch": 1}) != fits


def test_a_pods_own_containers_share_a_card_whatever_its_class() -> None:
    one = dataclasses.replace(held(ONE), used_slots=1, used_memory_mib=4096)
    earlier = ((vendor_values.share("MX-0", 4096, 0),),)

    assert choose([one], wish(), app_class="online", earlier=earlier) == [("MX-0", 4096, 0, 1)]


def test_a_card_in_use_keeps_its_quality_class() -> None:
    fixed = card("MX-0", qos="fixed-share")

    assert choose([held(fixed)], wish(), qos="best-effort") == [("MX-0", 4096, 10, 1)]
    used = held(fixed, tenant("u1", "MX-0"))
    assert choose([used], wish(), qos="best-effort") == {"CardQosPolicyMismatch": 1}
    assert choose([used], wish(), qos="fixed-share") == [("MX-0", 4096, 10, 1)]


def test_the_class_that_a_card_will_have_counts_before_its_plugin_registers_it() -> None:
    fixed = card("MX-0", qos="fixed-share")
    changing = held(fixed, tenant("u1", "MX-0", qos="burst-share"))

    assert choose([changing], wish(), qos="fixed-share") == {"CardQosPolicyMismatch": 1}
    assert choose([changing], wish(), qos="burst-share") == [("MX-0", 4096, 10, 1)]


def test_online_pods_are_charged_no_cores_and_need_none() -> None:
    full = held(ONE, tenant("u1", "MX-0", cores=100, app_class="offline"))

    assert choose([full], wish(cores=50), app_class="online") == [("MX-0", 4096, 0, 1)]
    assert choose([full], wish(cores=50), app_class="offline") == {"CardInsufficientCore": 1}


def test_more_cores_than_a_card_has_never_fit() -> None:
    assert choose([held(ONE)], wish(cores=150)) == {"CardInsufficientCore": 1}


def test_an_unhealthy_card_has_this_vendors_own_word() -> None:
    assert choose([held(card("MX-0", healthy=False))], wish()) == {"CardUnhealthy": 1}


# --- which cards are taken ---------------------------------------------------------------


def test_an_online_pod_takes_the_card_with_the_fewest_online_pods_and_offline_ones_last() -> None:
    cards = [
        held(card("offline"), tenant("u1", "offline", app_class="offline")),
        held(card("two"), *(tenant(f"u{i}", "two", app_class="online") for i in (2, 3))),
        held(card("one"), tenant("u4", "one", app_class="online")),
        held(card("free")),
    ]

    def taken(*these: int) -> str:
        ((name, *_),) = choose([cards[i] for i in these], wish(), app_class="online")
        return str(name)

    assert [taken(0, 1, 2, 3), taken(0, 1, 2), taken(0, 1), taken(0)] == [
        "free",
        "one",
        "two",
        "offline",
    ]


@pytest.mark.parametrize(
    ("zones", "count", "taken"),
    [
        ([1, 1, 1, 2, 2, 0], 2, [3, 4]),  # the smallest zone that is enough
        ([1, 1, 1, 2, 2, 0], 3, [0, 1, 2]),
        ([1, 1, 1, 2, 2, 0], 4, [3, 4, 0, 1]),  # zone by zone, the smallest first
        ([0, -1, 1, 0], 2, [2, 0]),  # cards without a zone last
        ([1, 1, 2, 2], 2, [0, 1]),  # of equal zones the first
        ([1, 2], 2, [0, 1]),  # no choice: as the policy has them
    ],
)
def test_whole_cards_come_from_one_zone_where_they_can(
    zones: list[int], count: int, taken: list[int]
) -> None:
    cards = [held(card(str(index), zone=zone)) for index, zone in enumerate(zones)]

    found = choose(cards, wish(count=count, memory_mib=0, cores=100))

    assert [int(name) for name, *_ in found] == taken


# --- the node's score and the texts ------------------------------------------------------


def score(cards: list[fitting.CardState], chosen: list[str], cores: int, **notes: str) -> float:
    grant = vendor_values.grant(
        [state.device for state in cards],
        tuple(vendor_values.share(name, 1024, cores) for name in chosen),
    )
    keys = {"app_class": metax_sgpu.CLASS_KEY, "topology": metax_sgpu.TOPOLOGY_KEY}
    grant = dataclasses.replace(grant, pod_notes={keys[name]: text for name, text in notes.items()})
    return SGPU.node_score(fitting.NodeState(name="n1", cards=tuple(cards)), grant, BINPACK)


@pytest.mark.parametrize(
    ("there", "want"),
    [([], 0), (["offline"], -100), (["online"], -20), (["online", "offline"], -22)],
)
def test_an_online_pod_costs_the_pods_beside_it(there: list[str], want: float) -> None:
    tenants = (tenant(f"u{i}", "MX-0", app_class=each) for i, each in enumerate(there))

    assert score([held(ONE, *tenants)], ["MX-0"], 0, app_class="online") == want
    assert SGPU.neutral_score


def test_links_that_whole_cards_get_count_for_and_those_they_break_against_a_node() -> None:
    zones = [held(card(str(index), zone=zone)) for index, zone in enumerate([1, 1, 1, 2])]

    assert score(zones, ["0", "1"], 100, topology="true") == 10 * 10 - 20
    assert score(zones, ["0", "3"], 100, topology="true") == -20
    assert score(zones, ["0", "1"], 100) == 0
    assert score(zones, ["0", "1"], 50, topology="true") == 0


def test_a_pods_word_on_topology_wins_over_the_setting() -> None:
    (aware,) = metax_sgpu.backends(metax_settings.MetaxSettings(sgpu_topology_aware=True))
    cards = [held(card(str(index), zone=1)) for index in range(2)]
    grant = vendor_values.grant(
        [state.device for state in cards],
        tuple(vendor_values.share(name, 0, 100) for name in ("0", "1")),
    )
    state = fitting.NodeState(name="n1", cards=tuple(cards))

    assert aware.node_score(state, grant, BINPACK) == 100
    for word, want in (("false", 0), ("nonsense", 100)):
        told = dataclasses.replace(grant, pod_notes={metax_sgpu.TOPOLOGY_KEY: word})
        assert aware.node_score(state, told, BINPACK) == want


def test_the_shares_are_written_in_the_plugins_own_form_too() -> None:
    grant = vendor_values.grant(
        [ONE], (), (vendor_values.share("MX-0", 16384, 60), vendor_values.share("MX-1", 0, 0))
    )

    texts = SGPU.more_annotations(grant, vendor_values.NOW)

    assert texts[metax_sgpu.TIME_KEY] == "1768471200000000000"
    assert json.loads(texts[metax_sgpu.SHARES_KEY]) == [
        [],
        [{"uuid": "MX-0", "compute": 60, "vRam": 16384}, {"uuid": "MX-1"}],
    ]
