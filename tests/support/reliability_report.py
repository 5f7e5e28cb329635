"""Collects the figures of a run for ``docs/reliability.md``.

They are printed, and written to the file that ``VGPU_RELIABILITY_REPORT``
names; what other runs have written there stays.
"""

import json
import os
from pathlib import Path
from typing import Any


def note(section: str, row: str, **figures: Any) -> None:
    """Print one row of figures, and add it to the report where one is wanted."""
    words = ", ".join(f"{name} {value}" for name, value in figures.items())
    print(f"{section}: {row}: {words}")
    target = os.environ.get("VGPU_RELIABILITY_REPORT")
    if target is None:
        return
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    report = json.loads(path.read_text()) if path.exists() else {}
    report.setdefault(section, {})[row] = figures
    path.write_text(json.dumps(report, indent=1))
