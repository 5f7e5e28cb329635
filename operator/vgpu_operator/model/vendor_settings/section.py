"""What all sections of the settings share."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel


class Section(pydantic.BaseModel):
    """Base of all sections: frozen, camelCase in the file, unknown fields refused."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


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
