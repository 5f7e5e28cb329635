"""The kept corpus: one folder for each target, one file for each input.

Files are named by what they show; ``found-<hash>`` is an input that once broke
something. Nothing is ever taken out: every run reads them all.
"""

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def of(target: str) -> dict[str, bytes]:
    """Return the kept inputs of a target by their file names."""
    folder = FOLDER / target
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def keep(target: str, data: bytes) -> Path:
    """Keep an input that broke something, and return its file."""
    path = FOLDER / target / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
