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
    parser.add_argument("--repeats", type=int, default=3, help="runs of each burst; the middle")
    parser.add_argument("--document", type=Path, help="write the page there whatever was left out")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    given = parser.parse_args()
    effort = plan.Effort(quick=given.quick, repeats=given.repeats)
    found = asyncio.run(plan.run(effort, only=given.only))
    whole = None if given.quick or given.only else report.PAGE
    report.write(found, out=given.out, document=given.document or whole)


if __name__ == "__main__":
    main()
