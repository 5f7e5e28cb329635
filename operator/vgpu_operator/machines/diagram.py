"""The machines' tables as text for the documentation: Mermaid and Markdown.

The order is the tables' own, so the same tables always give the same text.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from vgpu_operator.machines import bind_phase, handshake, node_lock

_ANY: Final = "any"
_NOTHING: Final = "nothing"

_KeyT = TypeVar("_KeyT", bound=tuple[StrEnum, ...])
_OutcomeT = TypeVar("_OutcomeT", bound="StrEnum | frozenset[StrEnum]")

_Inputs: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table.

    Attributes:
        inputs: state first.
        target: the state, or the answer, that the arrow points to.
        outcome: what is to be done; empty when nothing.
        label: what the arrow says of the outcome; empty when the target says it.
    """

    inputs: _Inputs
    target: str
    outcome: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A table ready to be drawn.

    Attributes:
        name: word for file names and headings.
        headings: one per input, then one for the outcome.
    """

    name: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]


def mermaid(chart: Chart) -> str:
    """Draw a Mermaid state diagram: one arrow for all rows that do the same.

    Inputs that make no difference to an arrow are left out of its label; rows
    that change nothing and stay where they are have no arrow.
    """
    groups: dict[tuple[str, str, str], list[_Inputs]] = {}
    for row in chart.rows:
        source = row.inputs[0]
        if row.outcome or row.target != source:
            groups.setdefault((source, row.target, row.label), []).append(row.inputs[1:])
    lines = ["stateDiagram-v2"]
    names = {name: None for row in chart.rows for name in (row.inputs[0], row.target)}
    lines += [f'    state "{name}" as {_node(name)}' for name in names if " " in name]
    for (source, target, label), inputs in groups.items():
        every = [row.inputs[1:] for row in chart.rows if row.inputs[0] == source]
        # An input that is the target itself (the phase that follows) needs no second telling.
        words = " or ".join(_spoken(each, target) for each in _merged(inputs, every))
        text = " / ".join(word for word in (words, label) if word)
        lines.append(f"    {_node(source)} --> {_node(target)}" + (f": {text}" if text else ""))
    return "\n".join(lines) + "\n"


def markdown(chart: Chart) -> str:
    """Write the whole table as Markdown, one line per combination."""
    lines = [_line(chart.headings), _line("---" for _ in chart.headings)]
    lines += [_line((*row.inputs, row.outcome or _NOTHING)) for row in chart.rows]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _node(name: str) -> str:
    return name.replace(" ", "_")


def _spoken(inputs: _Inputs, target: str) -> str:
    return ", ".join(word for word in inputs if word not in (_ANY, target))


def _merged(chosen: list[_Inputs], every: list[_Inputs]) -> list[_Inputs]:
    """Cover the chosen rows, and only them, by few rows with ``any`` in them."""
    cover: dict[_Inputs, None] = {}
    others = [row for row in every if row not in chosen]
    for row in chosen:
        patterns = sorted(
            itertools.product(*((word, _ANY) for word in row)),
            key=lambda pattern: pattern.count(_ANY),
            reverse=True,
        )
        cover.setdefault(
            next(
                pattern
                for pattern in patterns
                if not any(_covers(pattern, other) for other in others)
            )
        )
    return list(cover)


def _covers(pattern: _Inputs, row: _Inputs) -> bool:
    return all(word in (_ANY, seen) for word, seen in zip(pattern, row, strict=True))


def _chart(
    name: str,
    headings: tuple[str, ...],
    table: Mapping[_KeyT, _OutcomeT],
    target: Callable[[_KeyT, _OutcomeT], str],
) -> Chart:
    rows = []
    for key, outcome in table.items():
        to = target(key, outcome)
        text = outcome.value if isinstance(outcome, StrEnum) else ", ".join(sorted(outcome))
        rows.append(
            Row(
                inputs=tuple(word.value for word in key),
                target=to,
                outcome=text,
                label="" if text == to else text,
            )
        )
    return Chart(name=name, headings=headings, rows=tuple(rows))


CHARTS: Final = (
    _chart(
        "handshake",
        ("Annotation", "Age", "Allocatable", "Register text", "Effects"),
        handshake.TABLE,
        lambda key, effects: handshake.state_after(key[0], effects),
    ),
    _chart(
        "node-lock",
        ("Lock names", "Age", "Verdict"),
        node_lock.VERDICTS,
        lambda _key, verdict: verdict,
    ),
    _chart(
        "node-lock-remnants",
        ("Lock names", "Age", "Removed"),
        node_lock.REMNANTS,
        lambda _key, remnant: remnant,
    ),
    _chart(
        "node-lock-returns",
        ("Plugins done", "Put back"),
        node_lock.RETURNS,
        lambda _key, back: back,
    ),
    _chart(
        "bind-phase",
        ("Before", "After", "Effects"),
        bind_phase.TABLE,
        lambda key, _effects: key[1],
    ),
)
"""Every table of this layer."""
