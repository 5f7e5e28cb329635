"""The test of the tests: every deliberate defect is found by a history known to find it.

``make simulate-mutants`` looks for these histories anew, from the first one on.
"""

from simulation import known, mutants
from simulation.command import simulate


def test_every_defect_has_a_history_within_the_first_two_thousand() -> None:
    assert len(mutants.MUTANTS) > 10
    assert list(known.FOUND_BY) == list(mutants.MUTANTS)
    assert all(0 <= seed < 2000 for seed in known.FOUND_BY.values())


def test_every_defect_is_found_by_its_history() -> None:
    code, said = simulate("--known", limit_s=600)

    assert code == 0, said
    assert f"{len(mutants.MUTANTS)} of {len(mutants.MUTANTS)} defects found" in said
