"""What must hold for every input of every target."""

import os
import time
import unicodedata

from fuzz import targets

SLOWEST_S = 1.0
"""Processor time that one body may cost: far more than any takes."""


class Wrong(AssertionError):
    """A property does not hold."""


def judge(target: targets.Target, data: bytes) -> str:
    """Give the bytes to the target; return ``read``, ``refused`` or ``not for us``.

    Raises:
        Wrong: it raised something else, took too long, complained in more than
            one sentence, or does not read again what it wrote.
    """
    begun = time.process_time()
    try:
        outcome = _outcome(target, data)
    finally:
        took_s = time.process_time() - begun
    if took_s > target.slowest_s:
        raise Wrong(f"{target.name}: {len(data)} bytes took {took_s:.1f} s")
    return outcome


def _outcome(target: targets.Target, data: bytes) -> str:
    try:
        found = target.read(data)
    except targets.NotForUs:
        return "not for us"
    except Exception as fault:
        if target.refuses is None or not isinstance(fault, target.refuses):
            raise
        assert_one_sentence(str(fault), longest=target.longest)
        return "refused"
    for fault in getattr(found, "faults", ()):
        assert_one_sentence(str(fault), longest=target.longest)
    written = None if target.write is None else target.write(found)
    if written is not None and target.read(written) != found:
        raise Wrong(f"{target.name}: {found!r} is read back as {target.read(written)!r}")
    return "read"


def assert_one_sentence(text: str, *, longest: int = 600) -> None:
    """A complaint stands in one line of a log, an event or a terminal, and is short."""
    if not text or len(text) > longest:
        raise Wrong(f"a complaint of {len(text)} characters: {text[:200]!r}")
    odd = {one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    if odd:
        raise Wrong(f"a complaint with {odd!r}: {text!r}")


def seconds(default: float) -> float:
    """Return how long fuzzing may take in all: ``VGPU_FUZZ_SECONDS``, else the default."""
    return float(os.environ.get("VGPU_FUZZ_SECONDS", default))
