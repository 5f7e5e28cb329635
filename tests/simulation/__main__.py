"""Run histories: ``python -m simulation --seed 7`` tells one, ``--seeds 2000`` runs many.

Every run takes place with the same hash seed, so that a history that was found
on one machine is the same on another.
"""

import argparse
import concurrent.futures
import contextlib
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from simulation import known, mutants, shrink, world

HASH_SEED = "0"
BATCH = 20
MOST_SHOWN = 5


def main() -> int:
    """Do what the command line says; return 1 when an invariant was broken."""
    arguments = _parse()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
        command = [sys.executable, "-m", "simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, environment)  # noqa: S606  # ourselves, without a shell
    gc.collect()
    gc.freeze()
    if arguments.known:
        return _find_known()
    if arguments.mutants:
        return _find_mutants(arguments)
    if arguments.seed is not None:
        return _tell(arguments)
    return _run_many(arguments)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="tell the story of this one history")
    parser.add_argument("--seeds", default="2000", help="how many histories, or FIRST:END")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--whole", action="store_true", help="do not make the story short")
    parser.add_argument("--full", action="store_true", help="show what only reads, too")
    parser.add_argument("--mutant", choices=sorted(mutants.MUTANTS), help="with this defect")
    parser.add_argument(
        "--mutants", action="store_true", help="look for a history that finds each defect"
    )
    parser.add_argument(
        "--known", action="store_true", help="let each defect be found by its known history"
    )
    return parser.parse_args()


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    return range(int(first), int(end)) if colon else range(int(first))


@contextlib.contextmanager
def _mutated(name: str | None) -> Iterator[None]:
    if name is None:
        yield
    else:
        with mutants.MUTANTS[name]():
            yield


def _tell(arguments: argparse.Namespace) -> int:
    """Tell one history; a broken one as short as it can be."""
    with _mutated(arguments.mutant):
        found = world.run(arguments.seed)
        without: frozenset[str] = frozenset()
        if found.violation is not None and not arguments.whole:
            without, _ = shrink.shrink(found, lambda left: world.run(arguments.seed, without=left))
        told = world.run(arguments.seed, without=without, silent=False, full=arguments.full)
    print("\n".join(told.lines))
    if told.violation is None:
        print(f"seed {arguments.seed}: all is well after {told.end_s:.0f} s")
        return 0
    print(f"seed {arguments.seed}: {told.violation}")
    if without:
        print(f"left out: {len(without)} actions and faults; --whole tells them all")
    return 1


def _run_batch(first: int, end: int, mutant: str | None) -> list[tuple[int, str]]:
    """Run some histories; return seed and violation of each that is broken."""
    found = []
    with _mutated(mutant):
        for seed in range(first, end):
            outcome = world.run(seed)
            if outcome.violation is not None:
                found.append((seed, str(outcome.violation)))
    return found


def _run_many(arguments: argparse.Namespace) -> int:
    seeds = _range(arguments.seeds)
    begun = time.monotonic()
    broken: list[tuple[int, str]] = []
    batches = [
        (first, min(first + BATCH, seeds.stop), arguments.mutant)
        for first in range(seeds.start, seeds.stop, BATCH)
    ]
    done = 0
    for first, end, found in _batches(batches, arguments.jobs):
        done += end - first
        broken += found
        for seed, text in found[: max(0, MOST_SHOWN - len(broken) + len(found))]:
            print(f"seed {seed}: {text}\n  tell it: make simulate SEED={seed}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{done} of {len(seeds)}, {len(broken)} broken ", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    seconds = time.monotonic() - begun
    print(f"{done} histories, {len(broken)} broken, in {seconds:.0f} s")
    return 1 if broken else 0


def _batches(
    batches: list[tuple[int, int, str | None]], jobs: int
) -> Iterator[tuple[int, int, list[tuple[int, str]]]]:
    """Yield what each batch has found, as they end."""
    if jobs <= 1:
        for first, end, mutant in batches:
            yield first, end, _run_batch(first, end, mutant)
        return
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = {pool.submit(_run_batch, *batch): batch for batch in batches}
        for done in concurrent.futures.as_completed(waiting):
            first, end, _ = waiting[done]
            yield first, end, done.result()


def _find_mutant(name: str, seeds: range) -> tuple[int | None, str]:
    """Return the first history that finds a defect, and what it says."""
    with _mutated(name):
        for seed in seeds:
            outcome = world.run(seed)
            if outcome.violation is not None:
                return seed, str(outcome.violation)
    return None, ""


def _find_known() -> int:
    """See whether each defect is still found by the history that is known to find it."""
    n_missed = 0
    for name, seed in known.FOUND_BY.items():
        found, text = _find_mutant(name, range(seed, seed + 1))
        n_missed += found is None
        print(f"{name}: seed {seed}: {text or 'NOT FOUND'}")
    print(f"{len(known.FOUND_BY) - n_missed} of {len(known.FOUND_BY)} defects found")
    return 1 if n_missed else 0


def _find_mutants(arguments: argparse.Namespace) -> int:
    seeds = _range(arguments.seeds)
    names = [arguments.mutant] if arguments.mutant else list(mutants.MUTANTS)
    context = multiprocessing.get_context("fork")
    n_missed = 0
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        running = {pool.submit(_find_mutant, name, seeds): name for name in names}
        for done in concurrent.futures.as_completed(running):
            name = running[done]
            seed, text = done.result()
            n_missed += seed is None
            print(f"{name}: {'NOT FOUND' if seed is None else f'seed {seed}: {text}'}", flush=True)
    print(f"{len(names) - n_missed} of {len(names)} defects found within {len(seeds)} histories")
    return 1 if n_missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
