"""Markdown tables, and what docstrings say, for the generated parts of the documentation."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    headings = tuple(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"


def prose(docstring: str) -> str:
    """Return a docstring as one line of Markdown."""
    return " ".join(docstring.split()).replace("``", "`")


def attribute_docs(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of each annotated assignment that a text follows."""
    before: ast.stmt | None = None
    for statement in body:
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
            and isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
        ):
            yield before.target.id, prose(statement.value.value)
        before = statement


def module_tree(file: str | None) -> ast.Module:
    """Return the syntax tree of a module's file."""
    return ast.parse(Path(file or "").read_text(encoding="utf-8"))


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a docstring, to go on inside another."""
    summary = prose((text or "").split("\n\n")[0]).rstrip(".")
    return summary[0].lower() + summary[1:]
