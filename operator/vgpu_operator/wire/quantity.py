"""Kubernetes quantities as exact integers.

Grammar (Kubernetes, ``apimachinery/pkg/api/resource/quantity.go``)::

    quantity = number [ suffix ]
    number   = [ "+" | "-" ] ( digits [ "." [ digits ] ] | "." digits )
    suffix   = "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E"
             | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
             | ( "e" | "E" ) [ "+" | "-" ] digits

Every resource of the protocol counts whole things (cards, MiB, percent), so a
quantity that is no integer is an error, never rounded. How large a value may
be is the business of whoever asked for it.
"""

import fractions
import math
import re
from collections.abc import Sequence
from typing import Final

from vgpu_operator.model import errors
from vgpu_operator.wire import fields

_LONGEST_TEXT: Final = 64
_LARGEST_EXPONENT: Final = 64
"""Far beyond 64 bits; keeps ``1e999999999`` from filling the memory."""

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,20}))?",
    re.ASCII,
)
_PLAIN: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def decode_integer(value: object, *, key: str = "") -> int:
    """Return the exact integer that a quantity means.

    Args:
        value: as JSON or YAML holds it: text, or a bare number.
        key: the resource name, for the message.

    >>> decode_integer("16Gi"), decode_integer("3k"), decode_integer("0.5Ki"), decode_integer(10)
    (17179869184, 3000, 512, 10)
    >>> decode_integer("500m", key="nvidia.com/gpu")
    Traceback (most recent call last):
    vgpu_operator.model.errors.DecodeError: nvidia.com/gpu: '500m' is not a whole number

    Raises:
        DecodeError: no quantity, or no integer.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = repr(value) if isinstance(value, float) and math.isfinite(value) else value
    if not isinstance(text, str):
        raise errors.DecodeError(f"a quantity is wanted, got {fields.shown(value)}", key=key)
    if len(text) > _LONGEST_TEXT:
        raise errors.DecodeError(
            f"a quantity has at most {_LONGEST_TEXT} characters, got {len(text)}", key=key
        )
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise errors.DecodeError(f"{fields.shown(text)} is not a quantity", key=key)
    result = _exact(match)
    if result is None:
        raise errors.DecodeError(f"{fields.shown(text)} is not a whole number", key=key)
    return result


def canonical(value: object) -> str:
    """Return a quantity as the API server writes it back.

    The mantissa is whole and the suffix as large as that allows; below 1024
    binary suffixes are given up; what is finer than a nano is rounded up.
    A value that is no quantity comes back as its text.

    >>> canonical(3000), canonical("1024Mi"), canonical("1.5"), canonical("0.5Ki"), canonical("2e4")
    ('3k', '1Gi', '1500m', '512', '20e3')
    """
    text = str(value)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None or not (match["whole"] or match["part"]):
        return text
    power = _DECIMAL[match["decimal"]] if match["decimal"] else int(match["exponent"] or 0)
    if abs(power) > _LARGEST_EXPONENT:
        return text
    part = match["part"] or ""
    exact = fractions.Fraction(int((match["whole"] or "") + part), 10 ** len(part))
    exact *= fractions.Fraction(10) ** power
    if match["binary"]:
        exact *= 2 ** _BINARY[match["binary"]]
    sign = "-" if match["sign"] == "-" and exact else ""
    if match["binary"] and exact >= 1024:
        return sign + _with_suffix(math.ceil(exact), 1024, ("", *_BINARY))
    nanos = math.ceil(exact * 10**9)
    if match["exponent"] is not None:
        exponents = ("e-9", "e-6", "e-3", "", *(f"e{power}" for power in range(3, 31, 3)))
        return sign + _with_suffix(nanos, 1000, exponents)
    return sign + _with_suffix(nanos, 1000, ("n", "u", "m", "", *("k", "M", "G", "T", "P", "E")))


def _with_suffix(number: int, step: int, suffixes: Sequence[str]) -> str:
    """Write a whole number of the smallest suffix with the largest that leaves it whole."""
    place = 0
    while number and number % step == 0 and place + 1 < len(suffixes):
        number //= step
        place += 1
    return f"{number}{suffixes[place]}" if number else "0"


def decode_rounded_up(value: object, *, key: str = "") -> int:
    """Return the least integer that is not below what a quantity means.

    Kubernetes reads a quantity so where a whole number is wanted of it.

    >>> decode_rounded_up("500m"), decode_rounded_up("2"), decode_rounded_up("1.5Ki")
    (1, 2, 1536)

    Raises:
        DecodeError: no quantity.
    """
    return _rounded_up(value, parts_each=1, key=key)


def decode_thousandths(value: object, *, key: str = "") -> int:
    """Return a quantity in thousandths, rounded up: how Kubernetes counts CPU.

    >>> decode_thousandths("1500m"), decode_thousandths("2"), decode_thousandths("0.0001")
    (1500, 2000, 1)

    Raises:
        DecodeError: no quantity.
    """
    return _rounded_up(value, parts_each=1000, key=key)


def _rounded_up(value: object, *, parts_each: int, key: str) -> int:
    """Return the least number of parts, so many to one, that is not below a quantity."""
    try:
        return decode_integer(value, key=key) * parts_each
    except errors.DecodeError:
        match = _QUANTITY.fullmatch(canonical(value))
        power = 0 if match is None else _DECIMAL.get(match["decimal"], int(match["exponent"] or 0))
        if match is None or not -9 <= power < 0:
            raise
        divisor: int = 10**-power
        return -(-int(match["sign"] + match["whole"]) * parts_each // divisor)


def is_plain_integer(value: object) -> bool:
    """Say whether the value is written as digits alone, without unit or point.

    A few vendors give a bare number another unit than one with a suffix.

    >>> is_plain_integer("3000"), is_plain_integer(8), is_plain_integer("3k")
    (True, True, False)
    """
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT and _PLAIN.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def decode_plain_integer(value: object, *, key: str = "") -> int:
    """Return a number of whole things whose unit the resource itself sets.

    The unit (cards, MiB, percent) is not written. Suffixes keep their
    Kubernetes meaning, because the API server itself turns 3000 into ``3k``:
    ``16Gi`` for a resource in MiB is 17179869184 MiB, not 16384.

    >>> decode_plain_integer("1k"), decode_plain_integer("16Gi")
    (1000, 17179869184)

    Raises:
        DecodeError: no quantity, or no integer.
    """
    return decode_integer(value, key=key)


def _exact(match: re.Match[str]) -> int | None:
    """Return the value of a matched quantity; None when it is no integer we can write out."""
    part = (match["part"] or "").rstrip("0")
    number = int((match["whole"] or "") + part or "0")
    if match["sign"] == "-":
        number = -number
    power = _DECIMAL[match["decimal"]] if match["decimal"] else int(match["exponent"] or 0)
    if number == 0:
        return 0
    if abs(power) > _LARGEST_EXPONENT:
        return None
    if match["binary"]:
        number <<= _BINARY[match["binary"]]
    power -= len(part)
    if power >= 0:
        return int(number * 10**power)
    quotient, rest = divmod(number, 10**-power)
    return None if rest else quotient
