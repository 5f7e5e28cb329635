"""Bind phases."""

import pytest

from vgpu_operator.model import records
from vgpu_operator.wire import bind_phase


@pytest.mark.parametrize("phase", list(records.BindPhase))
def test_each_of_the_three_words_is_its_phase(phase: records.BindPhase) -> None:
    assert bind_phase.decode_bind_phase(phase.value) is phase


@pytest.mark.parametrize("text", [None, "", "Success", "success ", "bound"])
def test_any_other_text_is_no_phase(text: str | None) -> None:
    assert bind_phase.decode_bind_phase(text) is None
