"""What a look at a cluster finds: a known failure, where, and what shows it."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOST_NAMES: Final = 5
"""Names that one line of evidence shows."""


class Severity(enum.StrEnum):
    """How bad it is.

    ``ERROR`` pods do not run, or run with what was not granted to them. ``WARNING`` they
    do, but it will end badly, or somebody should know.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An object of the cluster; ``namespace`` is empty where it is in none."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One place where a signature was seen.

    Attributes:
        evidence: texts as they stand in the cluster, and what they were compared with.
        cause: a sentence; empty = the signature's own.
        fix: what to do; empty = the signature's own.
        severity: None = the signature's own.
    """

    place: Place
    evidence: tuple[str, ...]
    cause: str = ""
    fix: str = ""
    severity: Severity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A sight together with what its signature says; ``page`` is a page of the documentation."""

    signature: str
    title: str
    severity: Severity
    place: Place
    evidence: tuple[str, ...]
    cause: str
    fix: str
    page: str


def node(name: str) -> Place:
    """Return a Node as a place."""
    return Place(kind="Node", name=name)


def pod(namespace: str, name: str) -> Place:
    """Return a Pod as a place."""
    return Place(kind="Pod", name=name, namespace=namespace)


def a_few(names: Sequence[str]) -> str:
    """Return the first of some names, and how many are left out.

    >>> a_few(["a", "b"]), a_few(list("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 other')
    """
    shown = ", ".join(names[:MOST_NAMES])
    left = len(names) - MOST_NAMES
    return f"{shown} and {left} other" if left > 0 else shown


def one_line(text: str, longest: int = 300) -> str:
    """Return a text of somebody's on one line, cut.

    >>> one_line("a\\n  b", 2)
    'a…'
    """
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
