"""Kubernetes quantities as exact integers."""

import pytest

from vgpu_operator.model import errors
from vgpu_operator.wire import quantity


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (0, 0),
        (-3, -3),
        ("10", 10),
        ("+10", 10),
        ("-10", -10),
        ("007", 7),
        ("1k", 1_000),
        ("1M", 1_000_000),
        ("1G", 1_000_000_000),
        ("1T", 1_000_000_000_000),
        ("1P", 1_000_000_000_000_000),
        ("1E", 1_000_000_000_000_000_000),
        ("1Ki", 1_024),
        ("1Mi", 1_048_576),
        ("16Gi", 17_179_869_184),
        ("1Ti", 1_099_511_627_776),
        ("1Pi", 1_125_899_906_842_624),
        ("1Ei", 1_152_921_504_606_846_976),
        ("0.5Ki", 512),
        ("1.5k", 1_500),
        (".5k", 500),
        ("5.", 5),
        ("1.0", 1),
        ("2000m", 2),
        ("3000000u", 3),
        ("4000000000n", 4),
        ("1e3", 1_000),
        ("1E3", 1_000),
        ("120e-1", 12),
        ("1.25e+2", 125),
        ("0m", 0),
        ("9223372036854775808", 9_223_372_036_854_775_808),
        (2.0, 2),
    ],
)
def test_a_whole_quantity_gives_its_exact_value(value: object, meant: int) -> None:
    assert quantity.decode_integer(value) == meant


@pytest.mark.parametrize(
    "value",
    ["500m", "0.5", "1.5", "1n", "0.0001Ki", "1e-1", 0.5, "1e65", "1e999999999", "1e-999999999"],
)
def test_a_quantity_that_is_no_whole_number_is_an_error_and_never_rounded(value: object) -> None:
    with pytest.raises(errors.DecodeError, match="whole number"):
        quantity.decode_integer(value)


@pytest.mark.parametrize(
    "value",
    ["", " ", "1 ", "k", ".", "-", "1kk", "1ki", "1KI", "1K", "0x10", "1_000", "٣", "1e", "one"],
)
def test_a_text_that_is_no_quantity_is_an_error(value: str) -> None:
    with pytest.raises(errors.DecodeError, match="is not a quantity"):
        quantity.decode_integer(value)


@pytest.mark.parametrize("value", [None, True, [], {}, float("inf"), float("nan")])
def test_a_value_that_no_quantity_can_be_is_an_error(value: object) -> None:
    with pytest.raises(errors.DecodeError, match="a quantity is wanted"):
        quantity.decode_integer(value)


def test_a_text_of_more_than_64_characters_is_refused() -> None:
    assert quantity.decode_integer("0" * 63 + "7") == 7
    with pytest.raises(errors.DecodeError, match="at most 64 characters, got 65"):
        quantity.decode_integer("0" * 64 + "7")


def test_an_error_names_the_resource() -> None:
    with pytest.raises(errors.DecodeError, match=r"^nvidia\.com/gpu: "):
        quantity.decode_integer("some", key="nvidia.com/gpu")


def test_a_suffix_on_a_plain_number_means_what_kubernetes_says() -> None:
    assert quantity.decode_plain_integer("16Gi") == 17_179_869_184
    assert quantity.decode_plain_integer("3k") == 3_000


@pytest.mark.parametrize("value", ["3000", "-1", "+1", 7])
def test_digits_alone_are_a_plain_integer(value: object) -> None:
    assert quantity.is_plain_integer(value)


@pytest.mark.parametrize("value", ["3k", "8Gi", "1.0", "1e3", "", " 1", "٣", True, None, 1.0])
def test_anything_with_a_unit_or_point_is_no_plain_integer(value: object) -> None:
    assert not quantity.is_plain_integer(value)
