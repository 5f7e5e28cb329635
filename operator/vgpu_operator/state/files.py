"""The page's own files, as they lie in the package: what is served is what is written.

No build: change a file, start the operator again, load the page again.
"""

import hashlib
import importlib.resources
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file, and the same packed for browsers that take it so."""

    content: bytes
    packed: bytes
    kind: str
    tag: str


def read_all() -> dict[str, File]:
    """Return the page's files by name."""
    folder = importlib.resources.files("vgpu_operator.state").joinpath("page")
    found = {}
    for entry in folder.iterdir():
        kind = KINDS.get(f".{entry.name.rpartition('.')[2]}")
        if kind is not None:
            found[entry.name] = _file(entry.read_bytes(), kind)
    return found


def _file(content: bytes, kind: str) -> File:
    return File(
        content=content,
        packed=zlib.compress(content, 9, zlib.MAX_WBITS | 16),
        kind=kind,
        tag=f'"{hashlib.sha256(content).hexdigest()[:20]}"',
    )
