"""What a machine must have for a real node, and the sentence where it has not."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.cli.cluster.real_node import cgroups, images, namespaces, runtime

_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
}
"""Program -> the Debian package that brings it."""

_ALSO_LOOKED_IN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of a root's PATH that a user's may lack."""

_NEEDED_APPLETS = frozenset({"env", "ip", "nsenter", "sh", "sleep"})
_PROBE_LIMIT_S = 30.0


def why_not(path: str | None = None) -> str:
    """Say in one sentence why containers cannot run here; empty when they can.

    Takes about a tenth of a second; leaves nothing behind.

    Args:
        path: Where to look for programs; None for this process's own PATH, and
            those folders of root's that it may lack.
    """
    path = _usual_path() if path is None else path
    if not sys.platform.startswith("linux"):
        return "containers need Linux"
    if os.geteuid() != 0:
        return "containers need root here: run it as root"
    found = _find_all(path)
    missing = sorted({package for name, package in _PACKAGES.items() if name not in found})
    if missing:
        packages = " ".join(missing)
        return f"{' and '.join(missing)} missing here: run apt-get install {packages}"
    return _why_no_busybox(found["busybox"]) or _why_no_cgroup() or _why_no_namespaces()


def find_programs() -> runtime.Programs:
    """Return the programs.

    Raises:
        ClusterError: One is missing; see ``why_not``.
    """
    found = _find_all(_usual_path())
    for name, package in _PACKAGES.items():
        if name not in found:
            raise ClusterError(f"there is no `{name}` here; install the package {package}")
    return runtime.Programs(**found)


def applets(busybox: Path) -> list[str]:
    """Return the commands that a busybox has; none when it does not run."""
    try:
        answer = subprocess.run(
            [busybox, "--list"], capture_output=True, text=True, timeout=_PROBE_LIMIT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return images.applets(answer.stdout)


def _usual_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), *_ALSO_LOOKED_IN])


def _find_all(path: str) -> dict[str, Path]:
    found = {name: shutil.which(name, path=path) for name in _PACKAGES}
    return {name: Path(where).absolute() for name, where in found.items() if where is not None}


def _why_no_busybox(busybox: Path) -> str:
    # The loader of a program that needs shared libraries is named near its beginning.
    with busybox.open("rb") as file:
        if b"/ld-" in file.read(4096):
            return (
                f"{busybox} needs shared libraries, which an image of it would lack: "
                "install the package busybox-static"
            )
    lacking = sorted(_NEEDED_APPLETS - set(applets(busybox)))
    if lacking:
        return f"{busybox} lacks {', '.join(lacking)}: install Debian's package busybox-static"
    return ""


def _why_no_cgroup() -> str:
    name = f"vgpu-probe-{os.getpid()}"
    try:
        cgroups.make(name)
    except OSError as fault:
        return (
            f"control groups cannot be made here ({fault.filename}: {fault.strerror}): run it on "
            "the machine itself, or in a container that has the machine's own control groups"
        )
    finally:
        cgroups.remove(name)
    return ""


def _why_no_namespaces() -> str:
    with tempfile.TemporaryDirectory(prefix="vgpu-probe-") as folder:
        try:
            answer = subprocess.run(
                namespaces.probe_command(Path(folder)),
                capture_output=True,
                text=True,
                timeout=_PROBE_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"making namespaces took longer than {_PROBE_LIMIT_S:.0f} s here"
    if answer.returncode == 0:
        return ""
    said = answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"]
    return (
        f"namespaces and mounts are not allowed here ({said[-1]}): run it on the machine itself, "
        "or in a container with full rights"
    )
