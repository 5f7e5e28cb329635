"""Drives a generator flow from a script: each line is an effect and what comes of it."""

from collections.abc import Generator, Sequence
from typing import Any


def converse(steps: Generator[Any, Any, Any], script: Sequence[tuple[Any, Any]]) -> Any:
    """Return the flow's result after exactly the scripted effects.

    An answer that is an exception is thrown into the flow instead of sent.
    """
    answer: Any = None
    for place, (wanted, answer_next) in enumerate(script):
        try:
            effect = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
        except StopIteration as end:
            raise AssertionError(
                f"the flow ended with {end.value} before step {place}: {wanted}"
            ) from None
        assert effect == wanted, f"step {place}: {effect} instead of {wanted}"
        answer = answer_next
    try:
        effect = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"the flow went on with {effect}")
