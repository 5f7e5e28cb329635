"""Gives a test drawn inputs for as long as it may take."""

import random
import time
from collections.abc import Callable

import hypothesis
from hypothesis import strategies as st

from fuzz import judge


def rounds(
    drawn: st.SearchStrategy[bytes],
    one: Callable[[bytes], None],
    *,
    budget_s: float,
    at_once: int,
) -> None:
    """Give ``one`` drawn inputs until the time is over.

    Always the same ones, unless more time was asked for than CI has.

    Args:
        drawn: where inputs come from; some are any bytes.
        one: takes an input, and raises where something is wrong.
        budget_s: when to stop.
        at_once: inputs between two looks at the clock.
    """
    start = random.SystemRandom().getrandbits(32) if judge.seconds(0.0) > 0.0 else 0
    begun = time.monotonic()
    for number in range(1_000_000):
        run = hypothesis.given(drawn | st.binary(max_size=200))(one)
        run = hypothesis.settings(
            max_examples=at_once,
            database=None,
            derandomize=False,
            suppress_health_check=list(hypothesis.HealthCheck),
        )(run)
        hypothesis.seed(start + number)(run)()
        if time.monotonic() - begun > budget_s:
            break
