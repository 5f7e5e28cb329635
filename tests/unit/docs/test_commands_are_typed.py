"""Every command that a page tells the reader to type is typed by a test, or says why not."""

import re

import pytest

from support import reader

BLOCKS = [block for page in reader.pages() for block in reader.page_blocks(page)]
LEFT_OUT = [block for block in BLOCKS if block.typed and not block.run]
FILES = re.compile(r"(?<![\w/])(?:tests|operator|bench)/[\w./-]+\w")
TESTS = re.compile(r"\btest_\w+(?!\w|\.py)")
WRITTEN = {
    name
    for file in (reader.ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
}
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)


@pytest.mark.parametrize("block", LEFT_OUT, ids=str)
def test_a_block_that_is_not_typed_says_why_and_what_stands_in_for_it(
    block: reader.Block,
) -> None:
    files = FILES.findall(block.words)
    tests = TESTS.findall(FILES.sub("", block.words))

    assert len(block.words.split()) > len(files) + len(tests), "say why"
    assert files or tests, "name the test, or its file, that does the same in another way"
    assert [name for name in files if not (reader.ROOT / name).exists()] == []
    assert [name for name in tests if name not in WRITTEN] == []


def test_no_mark_is_misspelt() -> None:
    for page in reader.pages():
        text = (reader.ROOT / page).read_text(encoding="utf-8")
        above = re.findall(r"^[ ]*<!-- ([^>]*?) -->\n+[ ]*```", text, re.MULTILINE)
        for comment in above:
            kind = comment.partition(":")[0]
            assert kind in (*reader.MARKS, "generated"), f"{page}: {comment}"


def test_commands_stand_in_blocks_of_one_language() -> None:
    other = [str(block) for block in BLOCKS if block.typed and block.language != "console"]

    assert other == []


def test_commands_hide_in_no_other_block() -> None:
    program = re.compile(
        r"^\$? ?(?:kubectl|helm|vgpu|\.venv/bin/\w+|make|docker|kind) [a-z-]", re.MULTILINE
    )
    hidden = [
        str(block)
        for page in reader.pages()
        for block in reader.blocks(
            GENERATED.sub("", (reader.ROOT / page).read_text(encoding="utf-8")), page=page
        )
        if block.language in ("", "text") and program.search(block.text)
    ]

    assert hidden == []


def test_an_output_follows_what_prints_it() -> None:
    for page in reader.pages():
        found = reader.page_blocks(page)
        for before, block in zip([None, *found], found, strict=False):
            if block.mark == "output":
                assert before is not None, str(block)
                assert before.run, str(block)


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        ("NAME  AGE\na     1s\n", "NAME AGE\na 12s\n", ""),
        ("NAME\n", "NAME\na\n", "(the page ends here, printed was also) a"),
        ("NAME\n…\n", "NAME\na\nb\n", ""),
        ("…\nb\n", "NAME\na\nb\n", ""),
        ("a … fits\n", "a does fits\n", ""),
        ("gone\n", "here\n", "gone"),
        ("b\n", "a\nb\n", "b"),
    ],
)
def test_an_output_is_compared_by_its_shape(shown: str, printed: str, missing: str) -> None:
    assert reader.differs(shown, printed) == missing
