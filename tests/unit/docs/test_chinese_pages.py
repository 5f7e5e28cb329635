"""Each Chinese page is its English one in other words: they cannot drift apart unseen."""

import posixpath
import re

import pytest
import yaml

from support import reader

PAIRS = (
    ("README.md", "README.zh-CN.md"),
    ("docs/index.md", "docs/zh/index.md"),
    ("docs/how-to/pending-pod.md", "docs/zh/how-to/pending-pod.md"),
)
pairs = pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=[pair[1] for pair in PAIRS])


def text(page: str) -> str:
    return (reader.ROOT / page).read_text(encoding="utf-8")


def prose(page: str) -> str:
    """Return a page without its blocks."""
    return re.sub(r"^[ ]*```.*?^[ ]*```$", "", text(page), flags=re.DOTALL | re.MULTILINE)


def outline(page: str) -> list[str]:
    """Return what of a page needs no translation: headings' levels, tables' sizes, pictures."""
    found = []
    for line in prose(page).splitlines():
        if line.startswith("#"):
            found.append(line.split(" ")[0])
        elif line.startswith("|"):
            cells = line.replace(r"\|", "").count("|") - 1
            found.append(f"a row of {cells}")
        elif line.startswith("!["):
            found.append(f"a picture {line.rpartition('/')[2]}")
        elif re.match(r"[-*] |\d+\. ", line):
            found.append("an item")
    return found


def said(block: reader.Block) -> object:
    """Return what a block says, whatever its comments do."""
    if block.language == "yaml":
        return list(yaml.safe_load_all(block.text))
    return block.text


@pairs
def test_both_have_the_same_headings_tables_lists_and_pictures(english: str, chinese: str) -> None:
    assert outline(chinese) == outline(english)


@pairs
def test_both_say_the_same_to_type_and_to_save(english: str, chinese: str) -> None:
    def kept(page: str) -> list[tuple[str, str, object]]:
        return [(b.language, b.mark, said(b)) for b in reader.page_blocks(page)]

    assert kept(chinese) == kept(english)


@pairs
def test_both_name_the_same_words_of_the_program(english: str, chinese: str) -> None:
    def code(page: str) -> set[str]:
        return set(re.findall(r"`([^`\n]+)`", prose(page)))

    assert code(chinese) == code(english)


@pairs
def test_each_leads_to_the_other(english: str, chinese: str) -> None:
    assert f"]({_way(english, chinese)})" in text(english)
    assert f"]({_way(chinese, english)})" in text(chinese)


@pairs
def test_the_chinese_one_is_chinese(english: str, chinese: str) -> None:
    def written(page: str) -> int:
        return len(re.findall(r"[\u4e00-\u9fff]", prose(page)))

    assert written(english) < 10
    assert written(chinese) > 300


def _way(start: str, end: str) -> str:
    return posixpath.relpath(end, posixpath.dirname(start) or ".")
