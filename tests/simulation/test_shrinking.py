"""A broken history becomes a short story: only what it needs stays."""

from simulation import shrink
from simulation.world import Outcome, Violation


def outcome(done: list[str], fired: list[str], *, broken: int | None) -> Outcome:
    return Outcome(
        violation=None if broken is None else Violation(invariant=broken, text="broken"),
        fired=dict.fromkeys(fired, ""),
        done=tuple(done),
        lines=(),
        end_s=0.0,
        steps=0,
        facts={},
    )


ACTIONS = [f"action {number}" for number in range(30)]
FAULTS = [f"fault {number}" for number in range(70)]


def test_only_the_actions_and_faults_that_are_needed_stay() -> None:
    needed = {"action 7", "action 21", "fault 44"}

    def run(without: frozenset[str]) -> Outcome:
        done = [name for name in ACTIONS if name not in without]
        fired = [name for name in FAULTS if name not in without]
        return outcome(done, fired, broken=1 if needed <= {*done, *fired} else None)

    without, short = shrink.shrink(run(frozenset()), run)
    assert {*short.done, *short.fired} == needed
    assert without.isdisjoint(needed)


def test_another_violation_is_no_shorter_story_of_this_one() -> None:
    def run(without: frozenset[str]) -> Outcome:
        done = [name for name in ACTIONS[:4] if name not in without]
        return outcome(done, [], broken=1 if len(done) == 4 else 2)

    _, short = shrink.shrink(run(frozenset()), run)
    assert len(short.done) == 4


def test_patience_ends() -> None:
    runs = []

    def run(without: frozenset[str]) -> Outcome:
        runs.append(without)
        done = [name for name in ACTIONS if name not in without]
        return outcome(done, [], broken=1 if len(done) == 30 else None)

    shrink.shrink(run(frozenset()), run, most_runs=10)
    assert len(runs) == 11
