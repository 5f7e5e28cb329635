"""Every recorded answer of HAMi v2.10.0, whole, against ``vgpu simulate --cases``.

What differs must be on the list of ``support.compatibility``; what is on the
list must still differ.
"""

import collections
import json
import pathlib
import re
from typing import Any

import pytest
import setting_docs

from support import (
    compare_answers,
    compatibility,
    compatibility_answers,
    compatibility_by_design,
    compatibility_document,
    compatibility_groups,
    compatibility_seen,
)
from vgpu_operator.model import settings

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "compatibility.md"


def explained(one: compatibility_seen.Seen) -> dict[str, frozenset[compare_answers.Path]]:
    """Return per listed difference the fields of that case that it explains."""
    found = {line.name: line.explained(one) for line in compatibility.ALL}
    return {name: paths for name, paths in found.items() if paths}


def unexplained(one: compatibility_seen.Seen) -> dict[str, Any]:
    """Return the differences that no line of the list explains."""
    known = frozenset[compare_answers.Path]().union(*explained(one).values())
    return {".".join(path): pair for path, pair in one.wrong.items() if path not in known}


@pytest.mark.parametrize("file", compatibility_answers.FILES)
def test_every_answer_is_hamis_or_differs_as_listed(file: str) -> None:
    wrong = {
        one.name: fields for one in compatibility_answers.seen(file) if (fields := unexplained(one))
    }

    assert wrong == {}


def test_every_listed_difference_still_shows() -> None:
    used = collections.Counter(
        name
        for file in compatibility_answers.FILES
        for one in compatibility_answers.seen(file)
        for name in explained(one)
    )

    assert [line.name for line in compatibility.ALL if not used[line.name]] == []


def test_every_case_of_a_row_still_differs_in_what_the_row_explains() -> None:
    by_name = {
        one.name: one
        for file in compatibility_answers.FILES
        for one in compatibility_answers.seen(file)
    }

    idle = [
        (row.name, case)
        for row in compatibility.ROWS
        for case in row.cases
        if not row.explained(by_name[case])
    ]

    assert idle == []


def test_every_row_names_its_cases_and_no_rule_does() -> None:
    assert all(row.cases for row in compatibility.ROWS)
    assert not any(rule.cases for rule in compatibility.RULES)


def test_every_rule_explains_the_cases_that_are_pinned_and_no_other() -> None:
    """Where this fails on purpose: ``support.compatibility_answers`` writes them anew."""
    pinned = json.loads(compatibility_answers.RULE_CASES.read_text(encoding="utf-8"))

    assert compatibility_answers.rule_cases() == pinned


def test_names_of_differences_are_unique() -> None:
    names = [line.name for line in compatibility.ALL]

    assert len(set(names)) == len(names)


def test_the_document_shows_the_list() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")

    assert compatibility_document.tables() in text


def test_every_difference_stands_in_one_section() -> None:
    sections = compatibility_groups.GROUPS.values()
    shown = [name for names in sections for name in names]

    assert sorted(shown) == sorted(line.name for line in compatibility_document.LINES)


@pytest.mark.parametrize("line", compatibility_by_design.BY_DESIGN, ids=lambda line: line.name)
def test_a_difference_that_is_not_recorded_is_held_by_a_test(
    line: compatibility_by_design.ByDesign,
) -> None:
    file, _, name = line.test.partition("::")
    text = (pathlib.Path(__file__).parents[1] / file).read_text(encoding="utf-8")

    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)


def test_every_switch_is_a_setting() -> None:
    known = {name for name, *_ in setting_docs.setting_rows(settings.Settings, "")}
    named = {line.switch for line in compatibility_document.LINES if line.switch}

    paths = {re.sub(r":.*|^a short ", "", switch) for switch in named}

    assert {f"`{path}`" for path in paths} <= known


def test_all_recordings_are_there() -> None:
    assert (
        sum(len(compatibility_answers.seen(file)) for file in compatibility_answers.FILES) == 1773
    )
