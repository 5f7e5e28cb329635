"""The control group below which a real node keeps its pods."""

import contextlib
import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_CONTROLLERS = frozenset({"cpu", "cpuset", "hugetlb", "memory", "pids"})
"""Those of which a kubelet wants all that the kernel has (``getSupportedUnifiedControllers``)."""


def make(name: str, *, mounts: Path = _MOUNTS) -> None:
    """Make a group in every hierarchy.

    Args:
        name: Of the group.
        mounts: The list of all mounts, as the kernel writes it.

    Raises:
        OSError: A hierarchy may not be written to; with its file.
    """
    for hierarchy, version in _hierarchies(mounts).items():
        if version == "cgroup2":
            _enable_controllers(hierarchy)
        (hierarchy / name).mkdir(exist_ok=True)


def remove(name: str, *, mounts: Path = _MOUNTS) -> None:
    """Remove a group and all below it; groups with a process in them stay."""
    for hierarchy in _hierarchies(mounts):
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def remaining(name: str, *, mounts: Path = _MOUNTS) -> list[Path]:
    """Return where a group is still there."""
    return [hierarchy / name for hierarchy in _hierarchies(mounts) if (hierarchy / name).exists()]


def _enable_controllers(hierarchy: Path) -> None:
    """Let groups below the top of a hierarchy of version 2 have what a kubelet asks for."""
    control = hierarchy / "cgroup.subtree_control"
    offered = set((hierarchy / "cgroup.controllers").read_text().split())
    missing = (_CONTROLLERS & offered) - set(control.read_text().split())
    if not missing:
        return
    try:
        control.write_text(" ".join(f"+{controller}" for controller in sorted(missing)))
    except OSError as fault:
        # The system's own words name no file once it is open.
        raise OSError(fault.errno, fault.strerror, str(control)) from fault


def _hierarchies(mounts: Path) -> dict[Path, str]:
    """Return where each hierarchy is mounted, and its kind: ``cgroup`` or ``cgroup2``."""
    lines = [line.split() for line in mounts.read_text().splitlines()]
    return {Path(where): kind for _, where, kind, *_ in lines if kind in ("cgroup", "cgroup2")}
