"""Writes the tables of ``docs/compatibility.md``.

PYTHONPATH=operator:tests python -m support.compatibility_document
"""

import pathlib
import re

from support import compatibility, compatibility_groups
from support.compatibility_by_design import BY_DESIGN, ByDesign

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "compatibility.md"

LINES: tuple[compatibility_groups.Line, ...] = (*compatibility.ALL, *BY_DESIGN)

_BLOCK = re.compile(
    r"(<!-- generated: differences -->\n).*?(<!-- end -->)",
    re.DOTALL,
)


def tables() -> str:
    """Return every section with its table."""
    parts = []
    for heading, lines in compatibility_groups.sections(LINES):
        rows = [("What", "Why", "Switch", "Shown by"), ("---",) * 4]
        rows += [_row(line) for line in lines]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        parts.append(f"### {heading}\n\n{table}")
    return "\n\n".join(parts)


def _row(line: compatibility_groups.Line) -> tuple[str, str, str, str]:
    switch = f"`{line.switch}`" if line.switch else "none"
    if isinstance(line, ByDesign):
        shown = "test " + _code(line.test.rpartition("::")[2])
    elif line.cases:
        shown = ", ".join(_code(case) for case in line.cases)
    else:
        shown = f"rule {_code(line.name)}"
    return line.what, line.why, switch, shown


def _code(text: str) -> str:
    return f"`{text}`"


def write() -> None:
    """Put the tables between their marks in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(
        _BLOCK.sub(lambda match: f"{match[1]}\n{tables()}\n\n{match[2]}", text), encoding="utf-8"
    )


if __name__ == "__main__":
    write()
