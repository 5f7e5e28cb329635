"""Bars of text: how much of something is used."""

from typing import Final

_FULL: Final = "█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_PLAIN_FULL: Final = "#"
_PLAIN_EMPTY: Final = "."


def bar(used: int, total: int, *, width: int, plain: bool = False) -> str:
    """Return a bar of ``width`` cells.

    What is used at all shows, and only what is used up is full. More than there is
    ends in ``!``.

    Args:
        used: of ``total``.
        total: 0 and less is an empty bar.
        width: cells.
        plain: of ASCII only.

    >>> bar(1, 2, width=4, plain=True), bar(9, 8, width=4, plain=True), bar(1, 99, width=2)
    ('##..', '###!', '▏ ')
    """
    if total <= 0:
        return (_PLAIN_EMPTY if plain else " ") * width
    if used > total:
        return (_PLAIN_FULL if plain else _FULL) * (width - 1) + "!"
    steps = 1 if plain else len(_EIGHTHS)
    filled = used * width * steps // total
    if used > 0:
        filled = max(1, filled)
    whole, rest = divmod(filled, steps)
    if plain:
        return _PLAIN_FULL * whole + _PLAIN_EMPTY * (width - whole)
    part = _EIGHTHS[rest] if rest else ""
    return (_FULL * whole + part).ljust(width)


def colour(used: int, total: int) -> str:
    """Return green, yellow from three quarters on, red where nothing is left."""
    if total <= 0 or used >= total:
        return "red" if used else ""
    return "yellow" if used * 4 >= total * 3 else "green"
