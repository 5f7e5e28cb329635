"""Kunlun, slices of a card."""

from typing import Any

import pytest

from support import vendor_values
from vgpu_operator.model import errors, fitting, request
from vgpu_operator.model.vendor_settings import kunlun as kunlun_settings
from vgpu_operator.vendors import kunlun_vxpu

(VXPU,) = kunlun_vxpu.backends(kunlun_settings.KunlunSettings())
COUNT, MEMORY = "kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"


def card(index: int, slots: int = 0, memory_mib: int = 0, **fields: Any) -> fitting.CardState:
    one = vendor_values.card(
        f"XPU-{index}", "XPU", **({"index": index, "slots": 4, "memory_mib": 98304} | fields)
    )
    return fitting.CardState(device=one, used_slots=slots, used_memory_mib=memory_mib)


def wish(memory: str | None, count: int = 1) -> request.DeviceRequest:
    limits = {COUNT: str(count)} | ({} if memory is None else {MEMORY: memory})
    found = VXPU.derive(limits, {})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("memory", "mib", "cores"),
    [
        ("0", 24576, 25),
        ("24576", 24576, 25),
        ("24577", 49152, 50),
        ("49152", 49152, 50),
        ("49153", 98304, 100),
        ("200000", 98304, 100),
        (None, 98304, 100),
    ],
)
def test_a_slice_is_a_quarter_a_half_or_the_whole_of_a_card(
    memory: str | None, mib: int, cores: int
) -> None:
    found = wish(memory)

    assert (found.memory_mib, found.cores_percent) == (mib, cores)
    assert found.memory_by_default == (memory is None)


@pytest.mark.parametrize("memory", ["-1", "500m", "x"])
def test_a_memory_that_cannot_be_meant_is_refused(memory: str) -> None:
    with pytest.raises(errors.RequestError, match=r"write MiB"):
        wish(memory)


def test_the_slices_size_is_written_where_a_memory_is_asked() -> None:
    changed = VXPU.admit(vendor_values.container({COUNT: "1", MEMORY: "30000"}), {})
    bare = VXPU.admit(vendor_values.container({COUNT: "1"}), {})

    assert (changed.resources, changed.warnings) == ({MEMORY: "49152"}, ())
    assert (bare.asks, bare.resources) == (True, {})


def test_more_than_a_card_has_is_told_to_the_author() -> None:
    changed = VXPU.admit(vendor_values.container({COUNT: "1", MEMORY: "24Gi"}), {})

    assert changed.resources == {MEMORY: "98304"}
    assert "more than a card has" in changed.warnings[0]


def test_admitting_what_was_admitted_changes_nothing() -> None:
    again = VXPU.admit(vendor_values.container({COUNT: "1", MEMORY: "49152"}), {})

    assert again.resources == {MEMORY: "49152"}


def test_all_users_of_a_card_have_slices_of_one_size() -> None:
    half_used = card(0, slots=2, memory_mib=49152)

    assert vendor_values.choose(VXPU, [half_used], wish("24576")) == [("XPU-0", 24576, 25, 1)]
    assert vendor_values.choose(VXPU, [half_used], wish("49152")) == {"NumaNotFit": 1}


def test_memory_bounds_the_sharing_and_not_the_registered_slots() -> None:
    three = card(0, slots=3, memory_mib=3 * 24576)

    assert vendor_values.choose(VXPU, [three], wish("24576")) == [("XPU-0", 24576, 25, 1)]
    full = card(0, slots=4, memory_mib=98304)
    assert vendor_values.choose(VXPU, [full], wish("24576")) == {"NumaNotFit": 1}


def test_under_mutex_used_cards_that_would_fit_are_counted() -> None:
    cards = [card(0, 1, 24576), card(1, 1, 49152), card(2, 1, 24576)]

    found = vendor_values.choose(VXPU, cards, wish("24576"), unused_only=True)

    assert found == {"ExclusiveDeviceAllocateConflict": 2}


def test_linked_cards_are_taken_together() -> None:
    cards = [card(index) for index in reversed(range(8)) if index != 5]

    found = vendor_values.choose(VXPU, cards, wish("24576", count=2))

    assert [name for name, *_ in found] == ["XPU-4", "XPU-6"]


def test_a_share_on_a_pod_is_cut_to_the_slice_asked() -> None:
    forged = vendor_values.share("XPU-0", 98304, 100)

    assert VXPU.cap(wish("30000"), forged, None) == vendor_values.share("XPU-0", 49152, 50)
