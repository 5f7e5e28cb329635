"""Figures of many runs."""

from collections.abc import Sequence


def p99(ordered: Sequence[float]) -> float:
    """Return the value that 99 in 100 do not pass.

    Args:
        ordered: at least one, the smallest first.
    """
    return ordered[int(0.99 * (len(ordered) - 1))]
