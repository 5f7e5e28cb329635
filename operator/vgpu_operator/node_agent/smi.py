"""The stand-in for ``nvidia-smi`` that containers on simulated cards find.

A script for any POSIX shell, package data beside this file. It is put into a folder
of the host once, and mounted from there.
"""

import importlib.resources
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vgpu_operator.node_agent import backend

NAME: Final = "nvidia-smi"

_FOR_ALL = 0o755


def environment(slices: Sequence[backend.Slice]) -> dict[str, str]:
    """Return what the script reads besides what the enforcement library reads."""
    # A variable each: a type is any text, so no character is left to part them by.
    return {f"VGPU_SIMULATED_CARD_{place}": part.card.type for place, part in enumerate(slices)}


def mount(folder: Path) -> backend.Mount:
    """Return the mount of the script that ``install`` put into that folder of the host."""
    return backend.Mount(
        container_path=f"/usr/bin/{NAME}", host_path=str(folder / NAME), read_only=True
    )


def install(folder: Path) -> None:
    """Put the script into a folder of the host; again and again is no harm.

    A new file takes the old one's name: containers keep the file that they have mounted.

    Raises:
        OSError: it cannot be written.
    """
    text = importlib.resources.files("vgpu_operator.node_agent").joinpath(NAME).read_bytes()
    place = folder / NAME
    if place.is_file() and place.read_bytes() == text:
        return
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".{NAME}.new"
    new.write_bytes(text)
    new.chmod(_FOR_ALL)
    new.replace(place)
