"""All measurements; writes ``docs/performance.md``, its plots and the raw figures."""

import argparse
import asyncio
import os
from pathlib import Path

from bench import plan, report


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK") == "1")
    parser.add_argument("--only", nargs="*", default=[], help="names of parts; all when empty")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    given = parser.parse_args()
    found = asyncio.run(plan.run(quick=given.quick, only=given.only))
    report.write(found, out=given.out, document=None if given.quick or given.only else report.PAGE)


if __name__ == "__main__":
    main()
