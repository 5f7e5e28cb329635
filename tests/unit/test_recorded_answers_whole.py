"""Every recorded answer of HAMi v2.10.0, whole, against ``vgpu simulate --cases``.

What differs must be on the list of ``support.compatibility``; what is on the
list must still differ. ``known_open.txt`` names what is not right yet: it may
only shrink.
"""

import collections
import functools
import json
import pathlib
from typing import Any

import pytest

from support import compare_answers, compatibility, compatibility_rules
from vgpu_operator.cli import simulate_cases

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "compatibility.md"
OPEN = frozenset(
    (pathlib.Path(__file__).parents[1] / "support" / "known_open.txt").read_text().split()
)
FILES = sorted(path.stem for path in compare_answers.VECTORS.glob("*.jsonl"))


@functools.cache
def seen(file: str) -> list[compatibility_rules.Seen]:
    """Answer a whole file once."""
    lines = (compare_answers.VECTORS / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()
    found = []
    for line, text in zip(lines, simulate_cases.answers(lines), strict=True):
        case, ours = json.loads(line), json.loads(text)
        assert ours["name"] == case["name"]
        answer = ours.get("answer", {"error": ours.get("error")})
        wrong = compare_answers.closest(case, answer)
        found.append(compatibility_rules.Seen(case=case, answer=answer, wrong=wrong))
    return found


def explained(one: compatibility_rules.Seen) -> dict[str, frozenset[compare_answers.Path]]:
    """Return per listed difference the fields of that case that it explains."""
    found = {line.name: line.explained(one) for line in compatibility.ALL}
    return {name: paths for name, paths in found.items() if paths}


def unexplained(one: compatibility_rules.Seen) -> dict[str, Any]:
    """Return the differences that no line of the list explains."""
    known = frozenset[compare_answers.Path]().union(*explained(one).values())
    return {".".join(path): pair for path, pair in one.wrong.items() if path not in known}


@pytest.mark.parametrize("file", FILES)
def test_every_answer_is_hamis_or_differs_as_listed(file: str) -> None:
    wrong = {one.name: fields for one in seen(file) if (fields := unexplained(one))}

    assert {name: fields for name, fields in wrong.items() if name not in OPEN} == {}


@pytest.mark.parametrize("file", FILES)
def test_what_is_right_is_not_on_the_open_list(file: str) -> None:
    right = {one.name for one in seen(file) if not unexplained(one)}

    assert right & OPEN == set()


def test_every_listed_difference_still_shows() -> None:
    used = collections.Counter(
        name for file in FILES for one in seen(file) for name in explained(one)
    )

    assert [line.name for line in compatibility.ALL if not used[line.name]] == []


def test_every_case_of_a_row_still_differs() -> None:
    differing = {one.name for file in FILES for one in seen(file) if one.wrong}

    for row in compatibility.ALL:
        assert set(row.cases) <= differing, row.name


def test_names_of_differences_are_unique() -> None:
    names = [line.name for line in compatibility.ALL]

    assert len(set(names)) == len(names)


def test_open_cases_are_recorded_ones() -> None:
    assert {one.name for file in FILES for one in seen(file)} >= OPEN


def test_the_document_shows_the_list() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")

    assert compatibility.rules_table() in text
    assert compatibility.rows_table() in text


def test_all_recordings_are_there() -> None:
    assert sum(len(seen(file)) for file in FILES) == 1773
