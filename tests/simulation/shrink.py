"""Makes the story of a broken invariant short: leaves out what it does not need.

What can be left out is every action of the history and every fault that has
happened. Halves first, then quarters, down to single ones (delta debugging),
until nothing can go or the patience is over.
"""

from collections.abc import Callable

from simulation import world

MOST_RUNS = 400

Run = Callable[[frozenset[str]], world.Outcome]


def shrink(
    first: world.Outcome, run: Run, *, most_runs: int = MOST_RUNS
) -> tuple[frozenset[str], world.Outcome]:
    """Return what can be left out, and the outcome without it.

    Args:
        first: how the whole history ended: with a violation.
        run: lets the history happen without the given actions and faults.
        most_runs: how often at the most.
    """
    assert first.violation is not None
    wanted = first.violation.invariant
    without: frozenset[str] = frozenset()
    best = first
    runs = 0
    parts = 1
    while True:
        # Faults before actions: without a fault the rest stays more often as it was.
        items = [*best.fired, *best.done]
        size = max(1, -(-len(items) // parts))
        chunks = [items[at : at + size] for at in range(0, len(items), size)]
        for chunk in chunks:
            if runs >= most_runs:
                return without, best
            runs += 1
            tried = run(without | frozenset(chunk))
            if tried.violation is not None and tried.violation.invariant == wanted:
                without, best = without | frozenset(chunk), tried
                parts = max(1, parts - 1)
                break
        else:
            if size == 1:
                return without, best
            parts = min(len(items), parts * 2)
