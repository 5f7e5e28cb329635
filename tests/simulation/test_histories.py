"""CI's share of histories, in a process of its own with a fixed hash seed."""

import os

import pytest

from simulation import history
from simulation.command import simulate

N_HISTORIES = int(os.environ.get("SIMULATE_SEEDS", "2000"))


def test_no_history_breaks_an_invariant() -> None:
    jobs = os.cpu_count() or 1
    code, said = simulate("--seeds", str(N_HISTORIES), "--jobs", str(jobs), limit_s=3600)
    assert code == 0, said
    assert f"{N_HISTORIES} histories, 0 broken" in said


def test_a_seed_always_tells_the_same_story() -> None:
    told = {simulate("--seed", "12", "--full", limit_s=120) for _ in range(2)}
    assert len(told) == 1
    code, story = told.pop()
    assert code == 0
    assert "create_pod" in story
    assert "binding" in story


def test_a_defect_is_told_as_a_short_story_that_ends_with_the_violation() -> None:
    arguments = ("--seed", "0", "--mutant", "bind_in_two_steps")
    code, short = simulate(*arguments, limit_s=300)
    assert code == 1
    assert "invariant 2 (bound and promised come together or not at all)" in short
    # One pod is all that this defect needs; nothing else of the history is told.
    assert short.count(" * ") == 1
    assert "left out: " in short


@pytest.mark.parametrize("seed", range(5))
def test_a_history_is_a_value(seed: int) -> None:
    assert history.write(seed) == history.write(seed)
    assert history.write(seed) != history.write(seed + 1)
