"""Yes or no per row, judged from the row's cards: once, until they change.

A question that only Python code can answer (does a vendor have to look at
this node card by card?) is asked for thousands of nodes at every filter.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vgpu_operator.model import device

Judge: TypeAlias = Callable[[tuple[device.Device, ...]], bool]

_QUESTIONS: Final = 16
"""That many questions are remembered, oldest dropped first: pods name policies,
so there could be any number."""


class Marks:
    """The answers to a few questions, kept until a row's cards change."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, npt.NDArray[np.bool_]] = {}
        self._stale: dict[Hashable, set[int]] = {}

    def changed(self, row: int) -> None:
        """The row has other cards now."""
        for stale in self._stale.values():
            stale.add(row)

    def of(
        self,
        question: Hashable,
        judge: Judge,
        *,
        cards: Mapping[int, tuple[device.Device, ...]],
        n_rows: int,
    ) -> npt.NDArray[np.bool_]:
        """Return the judge's answers, shape ``(n_rows,)``; False where a row has no cards.

        Args:
            question: stands for the judge: the same question gets the same answers.
            judge: asked for the rows that changed since.
            cards: per row its cards.
            n_rows: how many rows there are now.
        """
        answers = self._answers.get(question)
        if answers is None:
            if len(self._answers) >= _QUESTIONS:
                oldest = next(iter(self._answers))
                del self._answers[oldest], self._stale[oldest]
            answers = np.zeros(n_rows, dtype=np.bool_)
            self._stale[question] = set(cards)
        elif len(answers) < n_rows:
            answers = np.concatenate([answers, np.zeros(n_rows - len(answers), dtype=np.bool_)])
        stale = self._stale[question]
        while stale:
            row = stale.pop()
            if row < n_rows:
                answers[row] = row in cards and judge(cards[row])
        self._answers[question] = answers
        return answers[:n_rows]
