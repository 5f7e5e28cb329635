"""A file of an npm package: fetched once, and only the one that is pinned.

npm is played: a script that gives a packed package, or complains as npm does.
"""

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from npm_package import Package, folder_of

from vgpu_operator.cli.cluster.errors import ClusterError

Environment = dict[str, str]

CONTENT = b"draw()"
PACKAGE = Package(
    name="pencil", version="1.2.3", sha256={"dist/pencil.js": hashlib.sha256(CONTENT).hexdigest()}
)


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def played(tmp_path: Path) -> Callable[[str], Environment]:
    """Give an environment in which npm is these lines of shell."""

    def play(lines: str) -> Environment:
        programs = tmp_path / "programs"
        programs.mkdir(exist_ok=True)
        npm = programs / "npm"
        npm.write_text(f"#!/bin/sh\n{lines}\n")
        npm.chmod(0o755)
        return {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "VGPU_CACHE_DIR": str(tmp_path / "cache"),
        }

    return play


def fetched(environment: Environment) -> Path:
    return folder_of(PACKAGE, environment=environment, report=print)


def kept(environment: Environment) -> list[str]:
    return sorted(path.name for path in Path(environment["VGPU_CACHE_DIR"]).glob("*pencil*"))


def test_npm_packs_that_version_and_runs_no_script_of_it(
    tmp_path: Path, played: Callable[[str], Environment]
) -> None:
    archive = packed(tmp_path / "a.tgz", {"package.json": b"{}", "dist/pencil.js": CONTENT})
    asked = tmp_path / "asked"
    environment = played(f'echo "$@" > {asked}; cp {archive} pencil-1.2.3.tgz')

    folder = fetched(environment)

    assert (folder / "dist" / "pencil.js").read_bytes() == CONTENT
    assert not (folder / "package.json").exists(), "only what is pinned is kept"
    assert asked.read_text().startswith("pack pencil@1.2.3 --ignore-scripts ")
    assert kept(environment) == ["pencil-1.2.3", "pencil.lock"]


def test_what_the_cache_has_is_not_fetched_again(
    tmp_path: Path, played: Callable[[str], Environment]
) -> None:
    archive = packed(tmp_path / "a.tgz", {"dist/pencil.js": CONTENT})
    first = fetched(played(f"cp {archive} pencil-1.2.3.tgz"))

    assert fetched(played("exit 1")) == first


def test_a_changed_file_in_the_cache_is_fetched_again(
    tmp_path: Path, played: Callable[[str], Environment]
) -> None:
    archive = packed(tmp_path / "a.tgz", {"dist/pencil.js": CONTENT})
    environment = played(f"cp {archive} pencil-1.2.3.tgz")
    file = fetched(environment) / "dist" / "pencil.js"
    file.write_bytes(b"draw()  # and something else")

    assert (fetched(environment) / "dist" / "pencil.js").read_bytes() == CONTENT


@pytest.mark.parametrize("files", [{"dist/pencil.js": b"steal()"}, {"dist/other.js": CONTENT}])
def test_a_package_without_the_pinned_file_is_refused_and_not_kept(
    tmp_path: Path, played: Callable[[str], Environment], files: dict[str, bytes]
) -> None:
    environment = played(f"cp {packed(tmp_path / 'a.tgz', files)} pencil-1.2.3.tgz")

    with pytest.raises(ClusterError, match=r"^dist/pencil\.js of pencil@1\.2\.3 as npm fetched"):
        fetched(environment)

    assert kept(environment) == ["pencil.lock"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("""echo '{"error": {"code": "E1", "summary": "No such version."}}'""", "No such version."),
        ("echo 'npm error code E1'; echo 'npm error No network.'", "npm error No network."),
        (":", "it does not say why"),
    ],
)
def test_what_npm_complains_about_is_told(
    played: Callable[[str], Environment], lines: str, told: str
) -> None:
    with pytest.raises(ClusterError) as caught:
        fetched(played(f"{lines}; exit 1"))

    assert str(caught.value) == f"npm could not fetch pencil@1.2.3: {told}"


def test_what_cannot_be_unpacked_is_told(played: Callable[[str], Environment]) -> None:
    with pytest.raises(ClusterError, match=r"^what npm fetched of pencil@1\.2\.3 cannot be"):
        fetched(played("echo no archive > pencil-1.2.3.tgz"))


def test_without_npm_the_sentence_says_what_to_install(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "VGPU_CACHE_DIR": str(tmp_path / "cache")}

    with pytest.raises(ClusterError, match=r"install Node\.js with npm"):
        fetched(environment)
