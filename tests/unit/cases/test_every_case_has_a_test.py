"""Every reported case has a test that is named by its number."""

import pathlib
import re

from support import case_numbers

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


def test_every_number_is_listed_once_and_in_order() -> None:
    numbers = [
        number for area, cases in case_numbers.CASES.items() for number in cases if area != "N"
    ]
    of_n = list(case_numbers.CASES["N"])

    assert numbers == sorted(set(numbers))
    assert of_n == sorted(set(of_n))
