"""Cambricon beyond the recorded cases."""

import pytest

from support import vendor_values as v
from vgpu_operator.model import errors
from vgpu_operator.model.vendor_settings.cambricon import CambriconSettings
from vgpu_operator.vendors import cambricon

(MLU,) = cambricon.backends(CambriconSettings())
CORES = "cambricon.com/mlu.smlu.vcore"
MEMORY = "cambricon.com/mlu.smlu.vmemory"


def test_a_card_is_made_for_each_hundred_cores_begun() -> None:
    cards = v.cards_of(MLU, v.node({CORES: "250", MEMORY: "100"}))

    assert [(c.id, c.index, c.memory_mib, c.slots) for c in cards] == [
        (f"n1-cambricon-mlu-{i}", i, 100 * 256 * 100 // 250, 100) for i in range(3)
    ]


def test_no_cores_any_more_says_that_the_cards_have_left() -> None:
    text = MLU.register_text(v.node({CORES: "0", MEMORY: "0"}))

    assert text is not None
    assert MLU.decode_devices(text, node="n1").devices == ()


def test_a_node_without_the_resource_says_nothing() -> None:
    assert MLU.register_text(v.node({"cpu": "8", MEMORY: "96"})) is None


@pytest.mark.parametrize("cores", ["1e18", "500m", "-100", "999999999"])
def test_a_capacity_that_cannot_be_meant_is_unreadable(cores: str) -> None:
    text = MLU.register_text(v.node({CORES: cores}))

    assert text is not None
    with pytest.raises(errors.DecodeError, match="vcore"):
        MLU.decode_devices(text, node="n1")


def test_the_profile_tells_of_the_first_share_only() -> None:
    cards = v.cards_of(MLU, v.node({CORES: "200", MEMORY: "192"}))
    given = v.grant(cards, (), (v.share(cards[1].id, 5120, 10), v.share(cards[0].id, 5120, 10)))

    assert MLU.more_annotations(given, v.NOW) == {
        "CAMBRICON_DSMLU_ASSIGNED": "false",
        "CAMBRICON_DSMLU_PROFILE": "1_10_20",
    }


def test_cores_that_are_passed_over_are_warned_of() -> None:
    changes = MLU.admit(v.container({"cambricon.com/vmlu": "1", CORES: "500m"}), {})

    assert changes.warnings == (
        f"{CORES}: '500m' is no whole number; the container gets all cores",
    )


def test_the_lock_is_cambricons_own() -> None:
    assert MLU.spec.lock_key == "cambricon.com/dsmlu.lock"
    assert MLU.spec.pod_keys == (
        "hami.io/cambricon-mlu-devices-to-allocate",
        "hami.io/cambricon-mlu-devices-allocated",
        "CAMBRICON_DSMLU_ASSIGNED",
        "CAMBRICON_DSMLU_PROFILE",
    )
    assert MLU.vectorised


def test_configured_names_replace_the_usual_ones() -> None:
    (renamed,) = cambricon.backends(CambriconSettings(resource_core_name="a.io/cores"))

    assert len(v.cards_of(renamed, v.node({"a.io/cores": "100"}))) == 1
    assert renamed.spec.supply_resource == "a.io/cores"
