"""Runs the simulation's command in a process of its own, with a fixed hash seed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def simulate(*arguments: str, limit_s: float) -> tuple[int, str]:
    """Return the command's exit code and what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "simulation", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "operator:tests", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
