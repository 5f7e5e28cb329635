"""The page on reliability names tests that exist, and the defects as they are."""

import re
from pathlib import Path

from simulation import known, mutants

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reliability.md"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text("utf-8"))

    missing = [
        f"{path}::{name}"
        for path, name in named
        if f"def {name}(" not in (ROOT / path).read_text("utf-8")
    ]

    assert len(named) > 20
    assert missing == []


def test_every_invariant_has_a_test_on_each_level() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)

    assert [number for number, _ in rows] == [str(number) for number in range(1, 12)]
    for number, row in rows:
        _, unit, simulation, real = row.split(" | ")
        assert "tests/unit/" in unit or "tests/property/" in unit, number
        assert simulation, number
        assert "tests/apiserver/" in real, number


def test_the_page_lists_every_defect_with_the_history_that_finds_it() -> None:
    expected = [
        f"| `{name}` | {(mutant.__doc__ or '').strip()} | {known.FOUND_BY[name]} |"
        for name, mutant in mutants.MUTANTS.items()
    ]

    found = re.findall(r"^\| `\w+` \| .* \| \d+ \|$", PAGE.read_text("utf-8"), re.MULTILINE)

    assert found == expected
