"""Every reported case has a test that is named by its number."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import pytest

from support import case_numbers
from vgpu_operator.metrics import instruments

TESTS = pathlib.Path(__file__).parents[2]
_TEST = re.compile(
    r"^\s*(?:async )?def test_case_(n?\d+(?:_and_n?\d+)*)_[a-z]",
    re.MULTILINE,
)


def _names_of_tests() -> set[str]:
    """Return the cases in the names of all tests; ``test_case_1_and_n3_…`` has two."""
    found: set[str] = set()
    for file in TESTS.rglob("test_*.py"):
        for names in _TEST.findall(file.read_text(encoding="utf-8")):
            found.update(names.split("_and_"))
    return found


def _name(area: str, number: int) -> str:
    """Return what a case is called in the names of its tests."""
    return f"n{number}" if area == "N" else str(number)


TESTED = _names_of_tests()


def test_every_case_is_tested_or_says_why_not() -> None:
    missing = {
        f"{number} ({area}: {title})"
        for area, cases in case_numbers.CASES.items()
        for number, title in cases.items()
        if (name := _name(area, number)) not in TESTED and name not in case_numbers.NOT_TESTED
    }

    assert not missing


def test_no_case_is_excused_that_is_tested() -> None:
    assert not case_numbers.NOT_TESTED.keys() & TESTED
    assert all(reason.endswith(".") for reason in case_numbers.NOT_TESTED.values())


def test_partial_cases_are_tested_as_far_as_they_can_be() -> None:
    waiting = case_numbers.WAIT_FOR_THE_METRIC

    assert waiting.keys() <= TESTED
    assert all(reason.endswith(".") for reason in waiting.values())


def _waits(cases: Mapping[str, str]) -> list[Any]:
    """Return the cases' names: each fails as expected, and in earnest once it could be tested."""
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=missing, strict=True))
        for name, missing in cases.items()
    ]


@pytest.mark.parametrize("name", _waits(case_numbers.WAIT_FOR_THE_METRIC))
def test_there_are_series_to_test_the_rest_of_a_case_with(name: str) -> None:
    families = [family.name for family in instruments.Instruments().registry.collect()]

    assert [family for family in families if "lock" in family and "seconds" in family]


def test_every_number_is_listed_once_and_in_order() -> None:
    numbers = [
        number for area, cases in case_numbers.CASES.items() for number in cases if area != "N"
    ]
    of_n = list(case_numbers.CASES["N"])

    assert numbers == sorted(set(numbers))
    assert of_n == sorted(set(of_n))
