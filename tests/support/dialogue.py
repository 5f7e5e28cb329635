"""Drives a generator flow step by step, as the shell would, with answers by hand."""

import datetime
from collections.abc import Generator
from typing import Any, TypeVar

from vgpu_operator.flows import effects

Kind = TypeVar("Kind")

_NO_RESULT = object()


class Dialogue:
    """One flow under way: look at what it asks for, then answer or fail it.

    Attributes:
        asked: every effect that the flow has asked for, in order, but for what it
            only tells: nobody answers that.
        told: the news that it has told.
    """

    def __init__(self, flow: Generator[Any, Any, Any]) -> None:
        self._flow = flow
        self._result: Any = _NO_RESULT
        self._effect: Any = None
        self.asked: list[Any] = []
        self.told: list[effects.Reaction] = []
        self._go(lambda: next(flow))

    def expects(self, kind: type[Kind]) -> Kind:
        """Return the effect that the flow asks for now, which must be of that kind."""
        assert self._result is _NO_RESULT, f"the flow ended with {self._result}"
        assert isinstance(self._effect, kind), f"{self._effect} instead of {kind.__name__}"
        return self._effect

    def answers(self, value: Any = None) -> None:
        """Send the outcome of the effect into the flow."""
        self._go(lambda: self._flow.send(value))

    def passes_brief_waits(self, now: datetime.datetime) -> None:
        """Let waits that end by themselves pass without news, from that time on."""
        while isinstance(self._effect, effects.AwaitChange) and self._effect.at_most_s is not None:
            now += datetime.timedelta(seconds=self._effect.at_most_s)
            self.answers(now)

    def fails(self, fault: Exception) -> None:
        """Throw the outcome of the effect into the flow."""
        self._go(lambda: self._flow.throw(fault))

    @property
    def ended(self) -> bool:
        """Whether the flow has returned."""
        return self._result is not _NO_RESULT

    @property
    def result(self) -> Any:
        """What the flow returned."""
        assert self.ended, f"the flow still asks for {self._effect}"
        return self._result

    def _go(self, step: Any) -> None:
        try:
            self._effect = step()
            while isinstance(self._effect, effects.Tell):
                self.told.append(self._effect.news)
                self._effect = self._flow.send(None)
        except StopIteration as end:
            self._result = end.value
        else:
            self.asked.append(self._effect)
