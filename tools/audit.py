"""Look the locked packages up in the advisory database: ``make audit``.

Where the database cannot be reached, that is said, and what can be checked
without it is: every package is locked to one version and to hashes, and what is
installed is what was locked, file by file.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import locked

LOCK = Path("requirements/runtime.txt")
LIMIT_S = 300


def main() -> int:
    """Return the exit code: 0 fine, 1 something is wrong."""
    packages = locked.read(LOCK)
    known, unknown = advisories(LOCK)
    faults = [*known, *locked.faults_of_the_lock(packages)]
    if unknown:
        print(
            f"the advisory database could not be asked about {len(unknown)} of {len(packages)}"
            " packages, so this says nothing about known faults of them;"
            " checking the lock and what is installed instead"
        )
        faults += locked.faults_of_what_is_installed(packages)
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    if not faults:
        what = "as locked" if unknown else "without a known fault"
        print(f"{len(packages)} packages of {LOCK} are {what}")
    return 1 if faults else 0


def advisories(lock: Path) -> tuple[list[str], list[str]]:
    """Return a sentence for each known fault, and the packages that nothing was found out about."""
    argv = [sys.executable, "-m", "pip_audit", "--progress-spinner=off", "--format=json"]
    argv += ["--require-hashes", "--disable-pip", "--requirement", str(lock)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    try:
        report = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], [package.name for package in locked.read(lock)]
    return read_report(report)


def read_report(report: Sequence[dict[str, object]]) -> tuple[list[str], list[str]]:
    """Return what pip-audit's JSON says: the known faults, and the packages it passed over."""
    known, unknown = [], []
    for entry in report:
        if "skip_reason" in entry:
            unknown.append(str(entry["name"]))
            continue
        for fault in entry["vulns"]:
            fixed = ", ".join(fault["fix_versions"]) or "no version yet"
            known.append(
                f"{entry['name']} {entry['version']} has {fault['id']}, mended in {fixed};"
                " update it with make lock"
            )
    return known, unknown


if __name__ == "__main__":
    sys.exit(main())
