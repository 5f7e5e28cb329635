"""A bare Debian made with mmdebstrap, in which the steps of a Dockerfile can run.

It stands in for a container engine: what is seen from inside is a root of its own, its
own processes, and the machine's network. Needs root, and mmdebstrap.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_operator.cli.cluster import cache, longrun

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What a container engine sets where no image says otherwise."""

COMMAND_LIMIT_S = 300.0

SLIM = (
    "force-unsafe-io",
    *(f"path-exclude=/usr/share/{part}/*" for part in ("doc", "info", "locale", "man")),
    "path-include=/usr/share/doc/*/copyright",
)
"""What Debian's own slim images tell dpkg."""

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PIP_SETTINGS = Path("/etc/pip.conf")

_ENTER = """
set -eu
mount --bind "$ROOT" "$ROOT"
if [ "$READ_ONLY" = yes ]; then mount -o remount,bind,ro "$ROOT"; fi
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount -t tmpfs -o mode=755 tmpfs "$ROOT/run"
for file in $LENT; do cp "$file" "$ROOT/run/"; done
if [ "$BUILDS" = yes ]; then mount --bind /etc/resolv.conf "$ROOT/etc/resolv.conf"; fi
exec chroot --userspec="$USER_AND_GROUP" "$ROOT" /usr/bin/env -i "$@"
"""


class NoCleanRootError(Exception):
    """No clean root can be made here; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a command is run in a root.

    Attributes:
        environment: all of it.
        folder: where it begins.
        user: as the Dockerfile's ``USER`` names it.
        read_only: as ``readOnlyRootFilesystem`` does; ``/tmp`` is always there, and empty.
        builds: lend it the machine's way to packages: pip's settings and certificates.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": PATH})
    folder: str = "/"
    user: str = "0:0"
    read_only: bool = False
    builds: bool = False


def run(root: Path, argv: Sequence[str], how: Run) -> subprocess.CompletedProcess[str]:
    """Run a command in a root and return how it ended."""
    lent = [file for file in (_CERTIFICATES, _PIP_SETTINGS) if how.builds and file.is_file()]
    variables = dict(how.environment) | (_ways_to_packages(lent) if how.builds else {})
    inner = f"cd {shlex.quote(how.folder)} && exec {shlex.join(argv)}"
    return subprocess.run(
        [
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "enter"),
            *(f"{name}={value}" for name, value in variables.items()),
            *("/bin/sh", "-c", inner),
        ],
        env={
            "PATH": PATH,
            "ROOT": str(root),
            "READ_ONLY": "yes" if how.read_only else "no",
            "BUILDS": "yes" if how.builds else "no",
            "USER_AND_GROUP": how.user,
            "LENT": " ".join(map(str, lent)),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )


def _ways_to_packages(lent: Sequence[Path]) -> dict[str, str]:
    wanted = ("http_proxy", "https_proxy", "no_proxy", "pip_index_url", "pip_trusted_host")
    found = {name: value for name, value in os.environ.items() if name.lower() in wanted}
    if _CERTIFICATES in lent:
        found["PIP_CERT"] = f"/run/{_CERTIFICATES.name}"
    if _PIP_SETTINGS in lent:
        found["PIP_CONFIG_FILE"] = f"/run/{_PIP_SETTINGS.name}"
    return found


def unpack(archive: Path, root: Path) -> None:
    """Make a fresh root."""
    root.mkdir()
    argv = ["tar", "--extract", "--numeric-owner", f"--file={archive}", f"--directory={root}"]
    subprocess.run(argv, check=True)


def archive_of(suite: str, *, report: Callable[[str], None]) -> Path:
    """Return Debian's bare root as a tar file, making it when the cache has none.

    Raises:
        NoCleanRootError: it cannot be made here.
    """
    _require_means()
    folder = cache.cache_directory(os.environ) / "clean-roots"
    archive = folder / f"{suite}.tar"
    abort = threading.Event()
    with cache.exclusive(folder, report=report, abort=abort):
        if not archive.is_file():
            with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as made:
                _bootstrap(suite, Path(made), report=report, abort=abort).rename(archive)
    return archive


def _require_means() -> None:
    if os.geteuid() != 0:
        raise NoCleanRootError("only root can enter a root of its own")
    for program in ("mmdebstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            raise NoCleanRootError(f"there is no {program}; tools/ci-packages installs it")
    argv = ["unshare", "--mount", "true"]
    can = subprocess.run(argv, capture_output=True, check=False)
    if can.returncode != 0:
        raise NoCleanRootError("this machine lets nobody mount, not even root")


def _bootstrap(
    suite: str, folder: Path, *, report: Callable[[str], None], abort: threading.Event
) -> Path:
    report(f"making a bare Debian {suite}: half a minute, once")
    archive = folder / "root.tar"
    options = [f"--dpkgopt={option}" for option in SLIM]
    command = longrun.LongCommand(
        argv=["mmdebstrap", "--mode=root", "--variant=minbase", *options, suite, str(archive)],
        directory=folder,
        environment=os.environ,
        log_file=folder / "mmdebstrap.log",
    )
    code = longrun.run(
        command, heartbeat=lambda elapsed_s: report(f"mmdebstrap: {elapsed_s:.0f} s"), abort=abort
    )
    if code != 0:
        raise NoCleanRootError(f"mmdebstrap failed: {longrun.last_line(command.log_file)}")
    return archive
