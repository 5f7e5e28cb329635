"""What the Dockerfile makes, its own steps run in a clean root: small, locked, and not root."""

import json
import tomllib
from pathlib import Path
from typing import Any

import locked
import pytest

from support import clean_root, dockerfile_steps, missing_tools

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"
DEBIAN = "docker.io/library/debian:"

LIMIT_MB = 335
"""Unpacked, all of it. 291 MB when this was written, 81 of them Debian's; gRPC and
protobuf, for the node agent, have brought some 23 MB since."""

IMPORT_EVERYTHING = """
import importlib, pkgutil, vgpu_operator
names = [one.name for one in pkgutil.walk_packages(vgpu_operator.__path__, "vgpu_operator.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""

INSTALLED = """
import importlib.metadata, json
print(json.dumps({d.name: d.version for d in importlib.metadata.distributions()}))
"""

MODULES_OF_TOOLS = """
import importlib.util
tools = ("pip", "setuptools", "wheel", "ensurepip", "hatchling", "build")
print([name for name in tools if importlib.util.find_spec(name)])
"""

TOOLS = "as cc c++ cmake curl g++ gcc git go ld make pip pip3 uv wget"


@pytest.fixture(scope="module")
def image(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dockerfile_steps.Image:
    """Run the Dockerfile's steps; where that is impossible, skip, or fail in CI."""
    report = missing_tools.progress(request.config)

    def base_root(name: str) -> Path:
        assert name.startswith(DEBIAN), f"no clean root is known for {name}"
        return clean_root.archive_of(name.removeprefix(DEBIAN).split("-")[0], report=report)

    try:
        clean_root.archive_of("trixie", report=report)
    except clean_root.NoCleanRootError as fault:
        missing_tools.skip_or_fail(f"no clean root: {fault}")
    folder = tmp_path_factory.mktemp("image")
    return dockerfile_steps.Build(ROOT, folder=folder, base_root=base_root).run()


def answer(done: Any) -> str:
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_it_starts_the_operator(image: dockerfile_steps.Image) -> None:
    told = answer(image.start("run", "--help"))

    assert "--extender-bind" in told
    assert image.command == ["run"]


def test_every_file_of_the_package_is_in_it_and_every_module_can_be_imported(
    image: dockerfile_steps.Image,
) -> None:
    sent = _files(image.root.parent / "context/operator/vgpu_operator")
    (installed,) = image.root.glob("opt/vgpu/lib/python3.*/site-packages/vgpu_operator")

    imported = int(answer(image.run("python", "-W", "error", "-c", IMPORT_EVERYTHING)))

    assert _files(installed) == sent
    assert imported == sum(file.suffix == ".py" for file in sent) - 1  # the package itself


def test_it_holds_what_is_locked_and_nothing_else(image: dockerfile_steps.Image) -> None:
    there = {"implementation_name": "cpython", "sys_platform": "linux", "os_name": "posix"}
    there |= {"python_version": "3.13", "python_full_version": "3.13.5"}
    wanted = {
        one.name: one.version
        for one in locked.read(ROOT / "requirements/runtime.txt")
        if one.marker is None or one.marker.evaluate(there)
    }

    found = json.loads(answer(image.run("python", "-c", INSTALLED)))

    version = found.pop("vgpu-operator")
    assert {locked.canonicalize_name(name): held for name, held in found.items()} == wanted
    assert version == _project()["version"]


def test_no_tool_is_left_that_builds_or_fetches(image: dockerfile_steps.Image) -> None:
    which = f"for tool in {TOOLS}; do command -v $tool; done; true"

    assert answer(image.run("sh", "-c", which)) == ""
    assert answer(image.run("python", "-c", MODULES_OF_TOOLS)).strip() == "[]"


def test_its_user_is_not_root_and_can_change_nothing_in_it(image: dockerfile_steps.Image) -> None:
    writable = "find / -xdev -type f -writable -o -xdev -type d -writable"

    assert answer(image.run("id", "-u")).strip() == "65532"
    found = answer(image.run("sh", "-c", f"({writable}) 2>/dev/null; true", read_only=False))
    # Folders for everybody in every Debian, and what stands for the engine's own mounts.
    assert set(found.split()) <= {"/tmp", "/var/tmp", "/run/lock"}  # noqa: S108


def test_it_is_small(image: dockerfile_steps.Image) -> None:
    files = (path.lstat() for path in image.root.rglob("*") if not path.is_dir())

    megabytes = sum(status.st_size for status in files) / 1e6

    assert megabytes < LIMIT_MB
    for leftovers in ("var/lib/apt/lists", "var/cache/apt", "root/.cache", "src", "tmp"):
        assert [*image.root.joinpath(leftovers).glob("*")] == []


def test_its_labels_say_what_it_is(image: dockerfile_steps.Image) -> None:
    prefix = "org.opencontainers.image."
    labels = {name.removeprefix(prefix): text for name, text in image.labels.items()}

    assert labels["title"] == _project()["name"]
    assert labels["version"] == _project()["version"]
    assert labels["licenses"] == _project()["license"]
    assert labels["base.name"].startswith(DEBIAN)
    assert {"description", "revision"} <= labels.keys()


def test_health_is_left_to_the_probes_of_the_pod() -> None:
    assert "HEALTHCHECK" not in {step["instruction"] for step in dockerfile_steps.steps(DOCKERFILE)}


def _files(folder: Path) -> set[Path]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder) for path in found}


def _project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
