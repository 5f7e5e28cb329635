"""Iluvatar's chips: names, units, admission, and what stays of nonsense."""

from typing import Any

import pytest

from vgpu_operator.model import errors, request, settings
from vgpu_operator.model.vendor_settings import iluvatar as chips
from vgpu_operator.vendors import iluvatar, registry

CHIP = iluvatar.Iluvatar(chips.CHIPS[0])


def container(limits: dict[str, str], requests: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": "main", "resources": {"limits": limits, "requests": requests or {}}}


def test_the_keys_hold_the_chips_word_as_hami_writes_it() -> None:
    spec = CHIP.spec

    assert (spec.keyword, spec.id) == ("MR-V100", "iluvatar-mr-v100")
    assert spec.register_key == "hami.io/node-MR-V100-register"
    assert spec.handshake_key == "hami.io/node-handshake-MR-V100"
    assert spec.pod_keys == (
        "hami.io/MR-V100-devices-to-allocate",
        "hami.io/MR-V100-devices-allocated",
    )
    assert spec.resources == (
        "iluvatar.ai/MR-V100-vgpu",
        "iluvatar.ai/MR-V100.vMem",
        "iluvatar.ai/MR-V100.vCore",
    )


def test_chips_are_there_only_when_they_are_switched_on() -> None:
    words = [chip.common_word for chip in chips.CHIPS]

    off = registry.build(settings.Settings())
    on = registry.build(settings.build({"vendors": {"iluvatar": {"enabled": True}}}))

    assert [vendor.spec.keyword for vendor in on] == [v.spec.keyword for v in off] + words


def test_memory_is_counted_in_256_mib() -> None:
    limits = {"iluvatar.ai/MR-V100-vgpu": "1", "iluvatar.ai/MR-V100.vMem": "16"}

    assert CHIP.derive(limits, {}) == request.DeviceRequest(
        vendor="MR-V100", count=1, memory_mib=4096
    )


@pytest.mark.parametrize("memory", [{}, {"iluvatar.ai/MR-V100.vMem": "0"}])
def test_no_memory_is_the_whole_card(memory: dict[str, str]) -> None:
    assert CHIP.derive({"iluvatar.ai/MR-V100-vgpu": "2"} | memory, {}) == request.DeviceRequest(
        vendor="MR-V100", count=2, memory_percent=100
    )


def test_several_cards_are_given_whole() -> None:
    limits = {"iluvatar.ai/MR-V100-vgpu": "3", "iluvatar.ai/MR-V100.vCore": "30"}

    changes = CHIP.admit(container(limits), {})
    wish = CHIP.derive(limits | dict(changes.resources), {})

    assert changes.resources == {"iluvatar.ai/MR-V100.vCore": "300"}
    assert wish is not None
    assert wish.cores_percent == 100


def test_the_container_learns_its_name() -> None:
    changes = CHIP.admit(container({"iluvatar.ai/MR-V100-vgpu": "1"}), {})

    assert changes.env == {"SOL_CONTINER_NAME": "main"}
    assert changes.asks


def test_more_cores_than_a_card_has_are_admitted_with_a_remark() -> None:
    limits = {"iluvatar.ai/MR-V100-vgpu": "1", "iluvatar.ai/MR-V100.vCore": "150"}

    assert CHIP.admit(container(limits), {}).warnings == (
        "iluvatar.ai/MR-V100.vCore: 150 is more than one whole card; it counts as 100",
    )


@pytest.mark.parametrize("limits", [{}, {"iluvatar.ai/MR-V100-vgpu": "0"}, {"cpu": "1"}])
def test_who_asks_for_no_card_is_left_alone(limits: dict[str, str]) -> None:
    assert not CHIP.admit(container(limits), {}).asks
    assert CHIP.derive(limits, {}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("-vgpu", "500m"),
        ("-vgpu", "-1"),
        ("-vgpu", "4294967297"),
        (".vMem", "1.5"),
        (".vMem", "8388608"),
        (".vCore", "-1"),
        (".vCore", "4294967296"),
    ],
)
def test_nonsense_is_refused_with_its_resource(name: str, value: str) -> None:
    limits = {"iluvatar.ai/MR-V100-vgpu": "1"} | {f"iluvatar.ai/MR-V100{name}": value}

    for judge in (lambda: CHIP.derive(limits, {}), lambda: CHIP.admit(container(limits), {})):
        with pytest.raises(errors.RequestError, match=f"iluvatar.ai/MR-V100{name}: '{value}'"):
            judge()


def test_a_fraction_of_a_core_is_refused_for_a_new_pod_and_ignored_on_an_old_one() -> None:
    limits = {"iluvatar.ai/MR-V100-vgpu": "1", "iluvatar.ai/MR-V100.vCore": "500m"}

    old = CHIP.derive(limits, {})

    assert old is not None
    assert old.cores_percent == 0
    with pytest.raises(errors.RequestError, match="is no whole number"):
        CHIP.admit(container(limits), {})
