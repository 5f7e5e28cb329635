"""What all sections of the settings share."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel

LARGEST: Final = 2**31 - 1
"""What Go's ``int32`` holds, which HAMi and the plugins count in."""

LONGEST_S: Final = 10 * 366 * 24 * 3600.0
"""The longest time that can be set, in seconds: ten years."""


MOST_TOLD: Final = 8
"""Faults of one file that are told at once."""

_LONGEST_PLACE: Final = 120


def told(faults: Iterable[tuple[str, str]]) -> str:
    """Return places and what is wrong there as one sentence, of the first few and cut where long.

    >>> told([("a.b", "no such field"), ("c", "too large")])
    'a.b: no such field; c: too large'
    """
    found = list(faults)
    sentences = [f"{_shown_place(place)}: {what}" for place, what in found[:MOST_TOLD]]
    if len(found) > MOST_TOLD:
        sentences.append(f"and {len(found) - MOST_TOLD} more")
    return "; ".join(sentences)


def _shown_place(place: str) -> str:
    """Return a place as it may stand in a line: names of fields may hold anything."""
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in place[:_LONGEST_PLACE])
    return shown if len(place) <= _LONGEST_PLACE else f"{shown}…"


class Section(pydantic.BaseModel):
    """Base of all sections: frozen, camelCase in the file, unknown fields refused."""

    model_config = pydantic.ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
    )

    def resource_names(self) -> Iterator[tuple[str, str]]:
        """Yield the resources that the section names itself: field as in the file, and name."""
        for name, field in type(self).model_fields.items():
            if name.startswith("resource_") and getattr(self, name):
                yield field.alias or name, getattr(self, name)


def _at_least_one(factor: int) -> int:
    return max(factor, 1)


MemoryFactor: TypeAlias = Annotated[
    int, pydantic.Field(ge=0, le=2**20), pydantic.AfterValidator(_at_least_one)
]
"""How many MiB one unit of a memory resource is; 0 behaves as 1, as in HAMi."""

ChipWord: TypeAlias = Annotated[
    str,
    pydantic.Field(
        min_length=1, max_length=40, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
    ),
]
"""A chip's keyword: it becomes a part of annotation keys, whose names have 63
characters at most."""


_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_DOMAIN: Final = 244  # 253, and a ResourceQuota puts "requests." before it


def _qualified(text: str) -> str:
    domain, slash, name = text.partition("/")
    if not slash:
        raise ValueError(
            f"{shown(text)} is no name of an extended resource: "
            "write DOMAIN/NAME, as nvidia.com/gpu"
        )
    if len(domain) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(domain):
        raise ValueError(
            f"{shown(text)} has no DNS domain before its slash: "
            "write DOMAIN/NAME, as nvidia.com/gpu"
        )
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{shown(text)} has no name behind its slash of 1 to 63 letters, digits, '-', '_' and "
            "'.' that begins and ends with a letter or digit"
        )
    if domain.startswith("requests.") or f"{domain}/".endswith("kubernetes.io/"):
        raise ValueError(
            f"{shown(text)} is a name that Kubernetes keeps for itself: choose another domain"
        )
    return text


def _qualified_or_empty(text: str) -> str:
    return _qualified(text) if text else text


ResourceName: TypeAlias = Annotated[str, pydantic.AfterValidator(_qualified)]
"""An extended resource as Kubernetes takes it: ``domain/name``."""

OptionalResourceName: TypeAlias = Annotated[str, pydantic.AfterValidator(_qualified_or_empty)]
"""The same, or empty: there is no such resource."""

Seconds: TypeAlias = Annotated[float, pydantic.Field(le=LONGEST_S)]


def shown(text: str) -> str:
    """Return a text as it may stand in a message: quoted, cut when long.

    >>> shown("a b"), len(shown("a" * 300))
    ("'a b'", 63)
    """
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}…"


def complaint(error: Any, *, unknown: str) -> str:
    """Return what one of pydantic's errors complains of, without the path.

    ``unknown`` is said of a field that does not exist.

    >>> complaint({"type": "extra_forbidden", "msg": "…"}, unknown="there is no such setting")
    'there is no such setting'
    """
    if error["type"] == "extra_forbidden":
        return unknown
    return str(error["msg"]).removeprefix("Value error, ")


def refuse_twins(words: Sequence[str]) -> None:
    """Refuse a list of chips in which a keyword comes twice.

    Raises:
        ValueError: pydantic turns it into a wrong field.
    """
    twins = [word for word in dict.fromkeys(words) if words.count(word) > 1]
    if twins:
        raise ValueError(f"commonWord {twins[0]!r} is given twice")
