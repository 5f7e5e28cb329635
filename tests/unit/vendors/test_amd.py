"""AMD beyond the recorded cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import vendor_values as v
from vgpu_operator.model import errors, quota, request
from vgpu_operator.model.vendor_settings.amd import AmdSettings
from vgpu_operator.vendors import amd

(AMD,) = amd.backends(AmdSettings())
MI300X = v.card("a", "AMD Instinct MI300X VF", slots=10, memory_mib=196608, cores_percent=304)


def wish(**limits: str) -> request.DeviceRequest:
    names = {"memory": "gpumem", "cores": "gpucores"}
    asked = {f"amd.com/{names[name]}": value for name, value in limits.items()}
    found = AMD.derive({"amd.com/gpu": "1"} | asked, {})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("percent", "units"), [("25", 76), ("33", 100), ("67", 203), ("100", 304), ("1", 3)]
)
def test_percent_becomes_compute_units(percent: str, units: int) -> None:
    assert v.choose(AMD, [v.state(MI300X)], wish(memory="1", cores=percent)) == [("a", 1, units, 1)]


@given(st.integers(1, 100), st.integers(1, 1000))
def test_units_are_some_and_never_more_than_the_card_has(percent: int, total: int) -> None:
    assert 1 <= amd.compute_units(percent, total) <= total


def test_memory_and_units_are_checked_against_what_is_left() -> None:
    used = v.state(MI300X, 1, 190000, 300)

    assert v.choose(AMD, [used], wish(memory="6608", cores="1")) == [("a", 6608, 3, 1)]
    assert v.choose(AMD, [used], wish(memory="6609", cores="1")) == {"CardInsufficientMemory": 1}
    assert v.choose(AMD, [used], wish(memory="1", cores="2")) == {"CardInsufficientCore": 1}


def test_a_whole_card_may_be_shared_as_far_as_memory_and_units_reach() -> None:
    # No rule of exclusive cards: HAMi has none for AMD.
    assert v.choose(AMD, [v.state(MI300X, 1)], wish()) == [("a", 196608, 304, 1)]


def test_the_share_is_named_by_the_product() -> None:
    assert AMD.share_word(MI300X) == "AMD Instinct MI300X VF"


def test_a_share_is_charged_the_units_of_what_was_asked() -> None:
    forged = v.share("a", 196608, 304)

    assert AMD.cap(wish(memory="16384", cores="25"), forged, MI300X) == v.share("a", 16384, 76)
    assert AMD.cap(wish(), forged, MI300X) == forged
    assert AMD.cap(wish(), forged, None) == forged


def test_a_quota_counts_percent_as_pods_ask_them() -> None:
    share = v.share("a", 16384, 76)

    assert AMD.quota_amount(share, MI300X) == quota.Amount(memory_mib=16384, cores=25)
    assert AMD.quota_amount(share, None) == quota.Amount(memory_mib=16384, cores=76)


@pytest.mark.parametrize("name", ["amd.com/gpumem", "amd.com/gpucores"])
def test_an_amount_without_a_count_is_refused_instead_of_free(name: str) -> None:
    with pytest.raises(errors.RequestError, match=f"{name} alone asks for no card"):
        AMD.derive({name: "10"}, {})


def test_requests_alone_ask_for_nothing() -> None:
    assert AMD.derive({}, {"amd.com/gpu": "1"}) is None
    assert not AMD.admit(v.container({}, {"amd.com/gpu": "1"}), {}).asks
