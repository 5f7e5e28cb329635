"""Families of series that are written by ourselves, as Prometheus text in pieces.

A large cluster has hundreds of thousands of series. A client library would make
them all in one step, during which nobody is scheduled; here they are written some
hundred at a time, and others get their turn in between.
"""

import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from vgpu_operator.kube import steps

PIECE_BYTES: Final = 64 * 1024
"""How long a piece of a page becomes before it is sent."""

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Generic[Row]):
    """One metric with a sample for each row.

    Attributes:
        name: the metric.
        help: one sentence.
        labels: names of its labels, for the page that lists all metrics.
        text: returns a row's labels as they stand between the braces.
        value: returns a row's value; None, NaN and infinities leave the sample out.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    text: Callable[[Row], str]
    value: Callable[[Row], float | None]

    @property
    def head(self) -> str:
        """What stands before the samples."""
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} gauge\n"

    def samples(self, rows: Iterable[Row]) -> str:
        """Return the lines of these rows."""
        lines = []
        for row in rows:
            value = self.value(row)
            if value is not None and math.isfinite(value):
                text = self.text(row)
                lines.append(
                    f"{self.name}{{{text}}} {value}\n" if text else f"{self.name} {value}\n"
                )
        return "".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A row of a small family: its labels as text, and its value."""

    labels: str
    value: float | None


def numbered(name: str, help_text: str, *label_names: str) -> Family[Numbered]:
    """Return a family of such rows."""
    return Family(
        name=name,
        help=help_text,
        labels=label_names,
        text=lambda row: row.labels,
        value=lambda row: row.value,
    )


def counted(counts: Mapping[tuple[str, str], int]) -> list[Numbered]:
    """Return how many there are by vendor and state, as rows in order."""
    return [
        Numbered(labels=labels(vendor=vendor, state=state), value=count)
        for (vendor, state), count in sorted(counts.items())
    ]


async def written(family: Family[Row], rows: Iterable[Row]) -> AsyncIterator[bytes]:
    """Yield a small family's pieces; others may run between any two rows."""
    piece, length = [family.head], 0
    async for row in steps.through(rows, pause_s=steps.PAUSE_S):
        text = family.samples((row,))
        piece.append(text)
        length += len(text)
        if length >= PIECE_BYTES:
            yield encoded("".join(piece))
            piece, length = [], 0
    yield encoded("".join(piece))


def labels(**texts: str) -> str:
    r"""Return labels as they stand in a sample.

    >>> labels(node="a", device_type='A10 "x"')
    'node="a",device_type="A10 \\"x\\""'
    """
    return ",".join(f'{name}="{escaped(text)}"' for name, text in texts.items())


def escaped(text: str) -> str:
    """Return a label's value with what would end it written otherwise."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def encoded(text: str) -> bytes:
    """Return what UTF-8 can carry: a lone surrogate would break the whole page."""
    return text.encode("utf-8", "replace")
