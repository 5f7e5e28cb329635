"""Every reported case has a test that is named by its number."""

import pathlib
import re

import pytest

from support import case_numbers

TESTS = pathlib.Path(__file__).parents[2]
_TEST = re.compile(r"^\s*(?:async )?def test_case_(\d+(?:_and_\d+)*)_[a-z]", re.MULTILINE)


def _numbers_in_names() -> set[int]:
    """Return the numbers in the names of all tests; ``test_case_1_and_3_…`` has two."""
    found: set[int] = set()
    for file in TESTS.rglob("test_*.py"):
        for numbers in _TEST.findall(file.read_text(encoding="utf-8")):
            found.update(int(number) for number in numbers.split("_and_"))
    return found


TESTED = _numbers_in_names()


def test_every_case_is_tested_or_says_why_not() -> None:
    missing = {
        f"{number} ({area}: {title})"
        for area, cases in case_numbers.CASES.items()
        for number, title in cases.items()
        if number not in TESTED and number not in case_numbers.NOT_TESTED
    }

    assert not missing


def test_no_case_is_excused_that_is_tested() -> None:
    assert not case_numbers.NOT_TESTED.keys() & TESTED
    assert all(reason.endswith(".") for reason in case_numbers.NOT_TESTED.values())


def test_partial_cases_are_tested_as_far_as_they_can_be() -> None:
    assert case_numbers.PARTIAL.keys() <= TESTED
    assert all(reason.endswith(".") for reason in case_numbers.PARTIAL.values())


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=pytest.mark.xfail(reason=missing, strict=True))
        for number, missing in case_numbers.PARTIAL.items()
    ],
)
def test_what_a_partial_case_waits_for_is_there(number: int) -> None:
    """Fails as expected, with the reason, and in earnest once there is a chart to test."""
    assert list(TESTS.parent.glob("*/Chart.yaml")) + list(TESTS.parent.glob("*/*/Chart.yaml"))


def test_every_number_is_listed_once_and_in_order() -> None:
    numbers = [number for cases in case_numbers.CASES.values() for number in cases]

    assert numbers == sorted(set(numbers))
