"""Files of npm packages that the site brings along: fetched once, checked, kept in the cache.

npm knows from its own settings where packages come from; nothing of a package is run.
"""

import hashlib
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

from vgpu_operator.cli.cluster import cache, longrun
from vgpu_operator.cli.cluster.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One version of a package, and those of its files that are used."""

    name: str
    version: str
    sha256: Mapping[str, str]
    """By a file's path in the package, in lower-case hexadecimal."""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


MERMAID: Final = Package(
    name="mermaid",
    version="11.16.0",
    sha256={
        "LICENSE": "ec9fb67dcb25eccc416ed56e1aab819222c805a2a4bfe4cb19e7556bf2ffde80",
        "dist/mermaid.min.js": "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b",
    },
)
"""What draws the diagrams of the pages, in the reader's browser."""


def folder_of(
    package: Package, *, environment: Mapping[str, str], report: Callable[[str], None]
) -> Path:
    """Return the folder with the package's files, fetching them when the cache has none.

    Raises:
        ClusterError: There is no npm, it could not fetch the package, or a file is
            not the one that is pinned.
    """
    caches = cache.cache_directory(environment)
    kept = caches / f"{package.name}-{package.version}"
    if not unlike(package, kept):
        return kept
    with cache.exclusive(caches / f"{package.name}.lock", report=report, abort=Event()):
        if unlike(package, kept):
            _fetch(package, kept, environment, report)
    return kept


def unlike(package: Package, folder: Path) -> list[str]:
    """Return the files that are missing in a folder, or are not those that are pinned."""
    return [
        path
        for path, pinned in package.sha256.items()
        if not (folder / path).is_file()
        or hashlib.sha256((folder / path).read_bytes()).hexdigest() != pinned
    ]


def _fetch(
    package: Package, kept: Path, environment: Mapping[str, str], report: Callable[[str], None]
) -> None:
    npm = shutil.which("npm", path=environment.get("PATH"))
    if npm is None:
        raise ClusterError(
            f"{package}, which the site needs, is fetched with npm, and there is none on the "
            "PATH; install Node.js with npm (Debian and Ubuntu: apt-get install npm)"
        )
    report(f"fetching {package} with npm, once")
    with tempfile.TemporaryDirectory(prefix=f"npm-{package.name}-", dir=kept.parent) as name:
        folder = Path(name)
        command = longrun.LongCommand(
            # A cache of its own: the user's stays as it is.
            argv=[
                *(npm, "pack", str(package), "--ignore-scripts", "--json", "--silent"),
                *("--cache", str(folder / "cache")),
            ],
            directory=folder,
            environment=environment,
            log_file=folder / "npm.log",
        )
        code = longrun.run(
            command,
            heartbeat=lambda elapsed_s: report(f"fetching {package}: {elapsed_s:.0f} s"),
            abort=Event(),
        )
        if code != 0:
            raise ClusterError(f"npm could not fetch {package}: {_complaint(command.log_file)}")
        _unpack(package, folder / f"{package.name}-{package.version}.tgz", folder / "unpacked")
        shutil.rmtree(kept, ignore_errors=True)
        (folder / "unpacked").rename(kept)


def _complaint(log_file: Path) -> str:
    """Return what npm says of a failure: the summary in its JSON, else its last line."""
    try:
        return str(json.loads(log_file.read_text(errors="replace"))["error"]["summary"])
    except (ValueError, LookupError, TypeError):
        return longrun.last_line(log_file) or "it does not say why"


def _unpack(package: Package, archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as content:
            for member in content:
                path = member.name.removeprefix("package/")
                file = content.extractfile(member) if path in package.sha256 else None
                if file is not None:
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (folder / path).write_bytes(file.read())
    except (OSError, tarfile.TarError) as fault:
        raise ClusterError(f"what npm fetched of {package} cannot be unpacked: {fault}") from fault
    others = unlike(package, folder)
    if others:
        raise ClusterError(
            f"{', '.join(others)} of {package} as npm fetched it is not what "
            "tools/npm_package.py pins; nothing of it is used: find out what changed it"
        )
