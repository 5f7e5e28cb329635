"""The locked packages of a requirements file, and whether what is installed is what was locked."""

import base64
import hashlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pip_requirements_parser
from packaging.markers import Marker
from packaging.utils import canonicalize_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One locked package.

    Attributes:
        version: the only one that may be installed; empty = the line names none.
        sha256: of every file of that version that may be installed.
        marker: where it is needed; None = everywhere.
    """

    name: str
    version: str
    sha256: tuple[str, ...]
    marker: Marker | None

    @property
    def is_for_here(self) -> bool:
        """Whether this Python on this machine needs it."""
        return self.marker is None or self.marker.evaluate()


def read(path: Path) -> tuple[Package, ...]:
    """Return the packages of a requirements file."""
    parsed = pip_requirements_parser.RequirementsFile.from_file(str(path))
    if parsed.invalid_lines:
        raise SystemExit(f"{path}: {parsed.invalid_lines[0].dumps()!r} is no requirement")
    return tuple(
        Package(
            name=canonicalize_name(line.name),
            version=line.get_pinned_version or "",
            sha256=tuple(
                option.removeprefix("sha256:")
                for option in line.hash_options
                if option.startswith("sha256:")
            ),
            marker=line.marker,
        )
        for line in parsed.requirements
    )


def faults_of_the_lock(packages: tuple[Package, ...]) -> Iterator[str]:
    """Yield a sentence for each package that could be installed in another form than locked."""
    for package in packages:
        if not package.version:
            yield f"{package.name} has no version of its own; write it with =="
        if not package.sha256:
            yield f"{package.name} has no sha256 hash; run make lock"


def faults_of_what_is_installed(packages: tuple[Package, ...]) -> Iterator[str]:
    """Yield a sentence for each package that is not installed as locked, file by file."""
    for package in packages:
        if not package.is_for_here:
            continue
        try:
            found = importlib.metadata.distribution(package.name)
        except importlib.metadata.PackageNotFoundError:
            yield f"{package.name} is locked and not installed; run make setup"
            continue
        if found.version != package.version:
            yield (
                f"{package.name} is installed as {found.version} and locked as {package.version};"
                " run make setup"
            )
        yield from (f"{package.name}: {file} was changed" for file in changed_files(found))


def changed_files(found: importlib.metadata.Distribution) -> Iterator[str]:
    """Yield the files of a package that are not as its wheel recorded them."""
    for file in found.files or ():
        if file.hash is None or file.hash.mode != "sha256":
            continue
        path = Path(str(file.locate()))
        if path.suffix == ".pyc":
            continue
        digest = hashlib.sha256(path.read_bytes()).digest() if path.exists() else b""
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield str(file)
