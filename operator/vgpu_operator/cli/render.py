"""Rows become a table, a wide table, JSON or YAML: text in, text out, no I/O.

Whatever a cluster says may hold characters that move the cursor or turn the
reading direction; on the way to a terminal they are written out.
"""

import enum
import io
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
"""One line: what JSON and YAML show, and what the columns are made from."""


GAP = 3
"""Spaces between columns."""


class Output(enum.StrEnum):
    """What ``-o`` may say."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where the text goes.

    Attributes:
        width: columns of the terminal; None is a pipe or file, where lines
            are as long as they need to be.
        colour: whether colours may be used.
    """

    width: int | None = None
    colour: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        header: in capitals, as kubectl writes it.
        text: makes a cell's text of a row.
        wide: shown with ``-o wide`` only.
        right: numbers stand at the right.
        style: makes a colour of a row; empty is none.
    """

    header: str
    text: Callable[[Row], str]
    wide: bool = False
    right: bool = False
    style: Callable[[Row], str] = lambda _: ""


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a command found.

    Attributes:
        kind: name of the whole in JSON and YAML (``CardList``).
        extra: further members beside ``items`` in JSON and YAML.
        headed: whether the columns' headers stand above.
    """

    kind: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    extra: Mapping[str, Any] = field(default_factory=_nothing)
    headed: bool = True


def render(table: Table, output: Output, screen: Screen) -> str:
    """Return the text of a table, without a line end behind it."""
    match output:
        case Output.JSON:
            return json.dumps(_whole(table), indent=2)
        case Output.YAML:
            return _yaml(_whole(table))
        case _:
            return _drawn(table, screen, wide=output is Output.WIDE)


def shown(value: object) -> str:
    r"""Return text that a terminal shows as it is: control and format characters written out.

    >>> shown("a\x1b[31mb\u202ec\n")
    'a\\x1b[31mb\\u202ec\\n'
    """
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii") if _acts(character) else character
        for character in text
    )


def _acts(character: str) -> bool:
    """Whether a character does something else than to appear."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _whole(table: Table) -> dict[str, Any]:
    return {"kind": table.kind, **table.extra, "items": [dict(row) for row in table.rows]}


def _yaml(value: object) -> str:
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=1000)
    return text.rstrip("\n")


def _drawn(table: Table, screen: Screen, *, wide: bool) -> str:
    """Return the rows under their headers."""
    columns = [column for column in table.columns if wide or not column.wide]
    if screen.width is None:
        return _aligned(columns, table.rows, headed=table.headed)
    return _fitted(columns, table.rows, screen, screen.width)


def _aligned(columns: Sequence[Column], rows: Sequence[Row], *, headed: bool) -> str:
    """Return lines as long as they need to be: cheap enough for a whole cluster in a pipe."""
    lines = [[column.header for column in columns]] if headed else []
    lines += [[shown(column.text(row)) for column in columns] for row in rows]
    widths = [max(_cells(line[place]) for line in lines) for place in range(len(columns))]
    return "\n".join(
        (" " * GAP)
        .join(
            " " * (width - _cells(text)) + text
            if column.right
            else text.ljust(_padded(text, width))
            for column, text, width in zip(columns, line, widths, strict=True)
        )
        .rstrip()
        for line in lines
    )


def _cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: East Asian characters take two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide


def _padded(text: str, width: int) -> int:
    """Return the length in characters that makes ``text`` that many cells wide."""
    return width - (_cells(text) - len(text))


def _fitted(columns: Sequence[Column], rows: Sequence[Row], screen: Screen, width: int) -> str:
    """Return lines that a terminal of that width holds: long cells are folded."""
    from rich import console, text
    from rich import table as rich_table

    drawn = rich_table.Table(
        box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="", show_edge=False
    )
    for column in columns:
        drawn.add_column(
            text.Text(column.header),
            justify="right" if column.right else "left",
            overflow="fold",
        )
    for row in rows:
        drawn.add_row(
            *(text.Text(shown(column.text(row)), style=column.style(row)) for column in columns)
        )
    paper = io.StringIO()
    console.Console(
        file=paper,
        width=width,
        force_terminal=screen.colour,
        color_system="standard" if screen.colour else None,
        no_color=not screen.colour,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    ).print(drawn)
    return "\n".join(line.rstrip() for line in paper.getvalue().splitlines())
