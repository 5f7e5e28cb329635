"""Members of a parsed JSON object, read as the peers' Go readers do.

Names match without regard to case; what is absent or null is 0, false or
empty; another type than the wanted one is an error, never converted.
"""

from collections.abc import Mapping

from vgpu_operator.model import errors
from vgpu_operator.wire import fields


def members(value: object, *, name: str) -> dict[str, object]:
    """Return an object's members by lower-case name; of equal ones the last stays.

    >>> members({"Count": 4, "numa": None}, name="a card")
    {'count': 4, 'numa': None}

    Raises:
        DecodeError: no object; ``name`` says what was wanted.
    """
    if not isinstance(value, dict):
        raise errors.DecodeError(f"{name} must be an object, got {fields.shown(value)}")
    return {member.lower(): content for member, content in value.items()}


def text(found: Mapping[str, object], name: str) -> str:
    """Return a text that can be written again.

    Raises:
        DecodeError: another type.
    """
    value = found.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise errors.DecodeError(f"{name} must be a text, got {fields.shown(value)}")
    return without_lone_surrogates(value)


def integer(
    found: Mapping[str, object],
    name: str,
    *,
    low: int = fields.INT32_MIN,
    high: int = fields.INT32_MAX,
) -> int:
    """Return an integer.

    Raises:
        DecodeError: another type, or outside ``low`` to ``high``.
    """
    value = found.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise errors.DecodeError(f"{name} must be an integer, got {fields.shown(value)}")
    return fields.in_range(value, name=name, low=low, high=high)


def boolean(found: Mapping[str, object], name: str) -> bool:
    """Return a boolean.

    Raises:
        DecodeError: another type.
    """
    value = found.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise errors.DecodeError(f"{name} must be true or false, got {fields.shown(value)}")
    return value


def elements(found: Mapping[str, object], name: str) -> list[object]:
    """Return a list's elements.

    Raises:
        DecodeError: another type.
    """
    value = found.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise errors.DecodeError(f"{name} must be a list, got {fields.shown(value)}")
    return value


def without_lone_surrogates(value: str) -> str:
    r"""Replace what JSON can escape and UTF-8 cannot hold, as Go does.

    >>> without_lone_surrogates("a\ud800")
    'a\ufffd'
    """
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
