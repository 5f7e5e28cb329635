"""Krew takes the manifest, and the program in its archive starts the package.

What Krew checks is written here from its own validation (krew v0.4,
``internal/index/validation/validate.go``) and its developer guide.
"""

import hashlib
import io
import os
import re
import stat
import subprocess
import tarfile
from pathlib import Path

import krew
import pytest
import yaml

WHEEL = "vgpu_operator-1.2.3-py3-none-any.whl"
URI = "https://downloads.example/vgpu.tar.gz"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    wheel = tmp_path / WHEEL
    wheel.write_bytes(b"a wheel")
    out = tmp_path / "out"
    assert (
        krew.main(
            [str(wheel), "--uri", URI, "--homepage", "https://x.example", "--output", str(out)]
        )
        == 0
    )
    return out


def test_the_manifest_is_what_krew_takes(made: Path) -> None:
    found = yaml.safe_load((made / "vgpu.yaml").read_text())
    spec = found["spec"]

    assert found["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert found["kind"] == "Plugin"
    assert re.fullmatch(r"[\w-]+", found["metadata"]["name"])
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert 0 < len(spec["shortDescription"]) <= 60
    assert "\n" not in spec["shortDescription"]
    (platform,) = spec["platforms"]
    assert platform["sha256"] == hashlib.sha256((made / "vgpu.tar.gz").read_bytes()).hexdigest()
    assert platform["uri"] == URI
    assert platform["bin"] == "kubectl-vgpu"
    known = {"apiVersion", "kind", "metadata", "spec"}
    assert set(found) == known
    assert set(spec) == {
        *("version", "homepage", "shortDescription", "description", "caveats", "platforms")
    }


def test_every_file_that_is_named_is_in_the_archive(made: Path) -> None:
    with tarfile.open(made / "vgpu.tar.gz") as tar:
        modes = {entry.name: entry.mode for entry in tar}
    (platform,) = yaml.safe_load((made / "vgpu.yaml").read_text())["spec"]["platforms"]

    named = {one["from"].replace("*.whl", WHEEL) for one in platform["files"]}
    assert named == set(modes)
    assert modes["kubectl-vgpu"] & stat.S_IXUSR


def test_the_same_wheel_gives_the_same_archive(tmp_path: Path) -> None:
    wheel = tmp_path / WHEEL
    wheel.write_bytes(b"a wheel")

    first = krew.archive(wheel)
    os.utime(wheel, (1, 1))

    assert krew.archive(wheel) == first


def test_another_file_is_wrong_usage(tmp_path: Path) -> None:
    wheel = tmp_path / "other-1.0-py3-none-any.whl"
    wheel.write_bytes(b"")

    with pytest.raises(SystemExit, match="2"):
        krew.main([str(wheel), "--uri", URI, "--homepage", "x", "--output", str(tmp_path)])


def unpacked(made: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    with tarfile.open(fileobj=io.BytesIO((made / "vgpu.tar.gz").read_bytes())) as tar:
        tar.extractall(folder, filter="data")
    link = tmp_path / "bin" / "kubectl-vgpu"
    link.parent.mkdir()
    link.symlink_to(folder / "kubectl-vgpu")  # as krew does it
    return link


def start(link: Path, tmp_path: Path, python: str) -> subprocess.CompletedProcess[str]:
    """Start the program with that script as ``python3``."""
    stand_in = tmp_path / "path" / "python3"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text(f"#!/bin/sh\n{python}\n")
    stand_in.chmod(0o755)
    environment = {
        "PATH": f"{stand_in.parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "HOME": str(tmp_path),
    }
    return subprocess.run(
        [str(link), "nodes", "-A"], capture_output=True, text=True, env=environment, check=False
    )


def test_the_first_start_installs_by_hashes_and_every_start_runs_the_package(
    made: Path, tmp_path: Path
) -> None:
    """The interpreter is played: it writes down what it is asked to install."""
    link, log = unpacked(made, tmp_path), tmp_path / "log"
    python = (
        f'echo "$@" >> {log}\n'
        'case "$1 $2" in "-m venv") mkdir -p "$4/bin"; cp "$0" "$4/bin/python";\n'
        'printf "#!/bin/sh\\necho ran \\"\\$@\\"\\n" > "$4/bin/kubectl-vgpu";\n'
        'chmod +x "$4/bin/kubectl-vgpu";; esac'
    )

    first = start(link, tmp_path, python)
    second = start(link, tmp_path, python)

    assert (first.stdout, second.stdout) == ("ran nodes -A\n", "ran nodes -A\n")
    assert "1.2.3: installing into" in first.stderr
    assert second.stderr == ""
    asked = log.read_text()
    assert asked.count("--require-hashes --requirement") == 1
    assert asked.count(f"--no-deps {(tmp_path / 'store' / WHEEL).resolve()}") == 1


def test_an_old_python_is_one_plain_error(made: Path, tmp_path: Path) -> None:
    done = start(unpacked(made, tmp_path), tmp_path, "exit 1")

    assert done.returncode == 1
    assert done.stderr == (
        "error: kubectl vgpu needs Python 3.11 or newer; install it as python3\n"
    )
