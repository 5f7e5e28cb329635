"""Single fields inside the protocol's texts: numbers, booleans, words.

The ranges and spellings are those that the peers' Go readers take
(``strconv.ParseInt``, ``strconv.ParseBool``), so that a text means the same
on both sides. What fails here is raised without a place; the codec that cut
the text adds key, segment and offset.
"""

import re
from typing import Final

from vgpu_operator.model import errors

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

SEPARATORS: Final = frozenset(",:;")
"""Characters that part fields, entries and containers: no id may hold one."""

_SHOWN_CHARACTERS: Final = 60
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


def shown(value: object) -> str:
    """Return the value as it may stand in a message: quoted, cut when long.

    Lists and objects are only named: they may nest deeper than ``repr`` can go.

    >>> shown("24x"), shown([["24x"]])
    ("'24x'", 'a list')
    """
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = repr(value[: _SHOWN_CHARACTERS + 1]) if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def decode_integer(word: str, *, name: str, low: int = INT32_MIN, high: int = INT32_MAX) -> int:
    """Read a decimal integer: sign and leading zeros allowed, ASCII digits only.

    >>> decode_integer("007", name="memory")
    7

    Raises:
        DecodeError: no integer, or outside ``low`` to ``high``.
    """
    if _INTEGER.fullmatch(word) is None:
        raise errors.DecodeError(f"{name} must be an integer, got {shown(word)}")
    return in_range(int(word), name=name, low=low, high=high)


def in_range(value: int, *, name: str, low: int = INT32_MIN, high: int = INT32_MAX) -> int:
    """Return the value, or raise a DecodeError when it is outside ``low`` to ``high``."""
    if not low <= value <= high:
        raise errors.DecodeError(f"{name} must be {low} to {high}, got {shown(value)}")
    return value


def decode_boolean(word: str, *, name: str) -> bool:
    """Read a boolean in any of Go's twelve spellings.

    >>> decode_boolean("t", name="health"), decode_boolean("False", name="health")
    (True, False)

    Raises:
        DecodeError: another word.
    """
    try:
        return _BOOLEANS[word]
    except KeyError:
        raise errors.DecodeError(f"{name} must be true or false, got {shown(word)}") from None


def decode_id(word: str) -> str:
    """Return a card's id if it can be written into a pod's annotation.

    Raises:
        DecodeError: empty, blank at an end (readers strip it), or one of
            ``,`` ``:`` ``;`` in it.
    """
    if not word:
        raise errors.DecodeError("the card has no id")
    if word != word.strip():
        raise errors.DecodeError(f"the card's id has a blank at an end: {shown(word)}")
    if not SEPARATORS.isdisjoint(word):
        raise errors.DecodeError(f"the card's id must not hold , : or ; but is {shown(word)}")
    return word


def joined(*words: object) -> str:
    """Join fields with commas; a word that would break the text is a fault of ours.

    Raises:
        ValueError: a field holds a separator.
    """
    texts = [str(word) for word in words]
    for text in texts:
        if not SEPARATORS.isdisjoint(text):
            raise ValueError(f"a field must not hold , : or ; but is {shown(text)}")
    return ",".join(texts)
