"""Files that are written from something else: which are stale, and their writing."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def stale(wanted: Mapping[Path, str]) -> dict[Path, str]:
    """Return those files that do not hold what they should, with what that is."""
    return {
        path: text
        for path, text in wanted.items()
        if not path.is_file() or path.read_bytes() != text.encode()
    }


def main(
    arguments: list[str],
    find: Callable[[], Mapping[Path, str]],
    *,
    program: str,
    command: str,
    root: Path,
) -> int:
    """Write or check, and return the exit code.

    Args:
        arguments: nothing, or ``--check``.
        find: returns the stale files with what they should hold.
        program: the file of the tool, for its usage.
        command: what writes them again.
        root: the folder by which they are named.
    """
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"usage: {program} [--check]\n")
        return 2
    found = find()
    for path, text in found.items():
        name = path.relative_to(root)
        if arguments:
            sys.stdout.write(f"{name} is stale; run {command}\n")
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 1 if found and arguments else 0
