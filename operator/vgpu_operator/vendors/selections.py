"""Pod annotations that choose cards: lists of words and ids."""

from vgpu_operator.model import errors
from vgpu_operator.wire import fields


def words(text: object) -> tuple[str, ...]:
    """Return the trimmed words of a comma list, without blank ones.

    A list that holds commas and nothing else is a rule that no card meets, as
    in HAMi: it becomes the one word ``,``, which no card's type or id holds.

    >>> words("A100, , H20 ")
    ('A100', 'H20')
    >>> words(" "), words(",")
    ((), (',',))
    """
    if not isinstance(text, str) or not text.strip():
        return ()
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    return found or (",",)


def is_boolean(text: object) -> bool:
    """Whether a text is a word for true or false.

    >>> is_boolean("true"), is_boolean("maybe")
    (True, False)
    """
    return _boolean(text) is not None


def is_true(text: object) -> bool:
    """Whether a text is one of the words for true."""
    return _boolean(text) is True


def _boolean(text: object) -> bool | None:
    try:
        return fields.decode_boolean(text, name="") if isinstance(text, str) else None
    except errors.DecodeError:
        return None
