"""``docs/how-to/questions.md``: each question has one command, which prints what is shown."""

import itertools
import re

import pytest

from support import cli_cluster, questions, reader

PAGE = "docs/how-to/questions.md"
BLOCKS = reader.page_blocks(PAGE)
PAIRS = [
    (command.text.strip(), shown.text)
    for command, shown in itertools.pairwise(BLOCKS)
    if command.typed and not shown.typed
]


@pytest.mark.parametrize(("command", "shown"), PAIRS, ids=[command for command, _ in PAIRS])
def test_the_command_prints_what_the_page_shows(
    command: str,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = cli_cluster.CommandLine(questions.cluster(), monkeypatch, capsys)
    program, *arguments = command.split()

    line.run(*arguments)

    assert program == "vgpu"
    assert line.err == ""
    assert line.out == shown


def test_every_question_has_one_command() -> None:
    text = (reader.ROOT / PAGE).read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]

    assert len(sections) == 5
    assert [section.count("```console") for section in sections] == [1] * 5
    assert len(PAIRS) == 5
