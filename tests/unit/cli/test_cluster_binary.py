import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.control_plane import processes_that_remain
from vgpu_operator.cli.cluster import binary
from vgpu_operator.cli.cluster.errors import Aborted, ClusterError

OPERATOR_ROOT = Path(__file__).parents[3] / "operator"

GOOD_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go1.26.8 linux/amd64"; exit; fi
echo "$@" >> "$HOME/builds"
pwd >> "$HOME/folders"
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2"
chmod +x "$2"
"""
FAILING_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go1.26.8 linux/amd64"; exit; fi
echo "downloading"; echo "no route to the proxy"; exit 1
"""
# Says that it began through a named pipe: opening it blocks until somebody reads.
ENDLESS_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go1.26.8 linux/amd64"; exit; fi
echo $$ > "$HOME/begun"
exec sleep 600
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "VGPU_GO": str(tmp_path / "go"),
        "VGPU_CACHE_DIR": str(tmp_path / "cache"),
    }


def install_go(environment: dict[str, str], script: str) -> None:
    program = Path(environment["VGPU_GO"])
    program.write_text(script)
    program.chmod(0o755)


def builds(environment: dict[str, str]) -> list[str]:
    return Path(environment["HOME"], "builds").read_text().splitlines()


def cached(environment: dict[str, str]) -> list[str]:
    return sorted(item.name for item in Path(environment["VGPU_CACHE_DIR"]).iterdir())


def test_program_is_built_once_and_taken_from_the_cache_after(
    environment: dict[str, str],
) -> None:
    install_go(environment, GOOD_GO)
    lines: list[str] = []

    first = binary.build(report=lines.append, environment=environment)
    second = binary.build(report=lines.append, environment=environment)

    assert first == second
    assert len(builds(environment)) == 1
    assert cached(environment) == [first.name, "lock"]
    assert "building the control plane of Kubernetes 1.36.3 with go1.26.8" in lines[0]
    assert "built the control plane" in lines[-1]


def test_kubelet_is_built_from_sources_of_its_own_and_kept_beside_the_control_plane(
    environment: dict[str, str],
) -> None:
    install_go(environment, GOOD_GO)
    lines: list[str] = []

    plane = binary.build(report=lines.append, environment=environment)
    kubelet = binary.build(binary.KUBELET, report=lines.append, environment=environment)

    assert plane.name.startswith("controlplane-1.36.3-")
    assert kubelet.name.startswith("kubelet-1.36.3-")
    assert cached(environment) == sorted([plane.name, kubelet.name, "lock"])
    assert "built the kubelet" in lines[-1]


def test_build_is_static_stamped_and_bound_to_the_sums(environment: dict[str, str]) -> None:
    install_go(environment, GOOD_GO)

    binary.build(report=lambda _line: None, environment=environment)

    (command,) = builds(environment)
    assert "-mod=readonly" in command
    assert "-trimpath" in command
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in command
    assert "-X k8s.io/component-base/version.gitMinor=36" in command


def test_sources_are_built_in_the_cache_since_the_package_may_be_read_only(
    environment: dict[str, str],
) -> None:
    install_go(environment, GOOD_GO)

    binary.build(report=lambda _line: None, environment=environment)

    folder = Path(Path(environment["HOME"], "folders").read_text().strip())
    assert folder.parent == Path(environment["VGPU_CACHE_DIR"])


@pytest.mark.parametrize(
    ("sources", "go_version", "linker_flags"),
    [
        pytest.param({"a": b"1", "b": b"3"}, "go1", "-s", id="a changed file"),
        pytest.param({"a": b"1", "c": b"2"}, "go1", "-s", id="a renamed file"),
        pytest.param({"a": b"1"}, "go1", "-s", id="a missing file"),
        pytest.param({"a": b"1b", "": b"2"}, "go1", "-s", id="a moved border"),
        pytest.param({"a": b"1", "b": b"2"}, "go2", "-s", id="another Go"),
        pytest.param({"a": b"1", "b": b"2"}, "go1", "-w", id="other flags"),
    ],
)
def test_key_changes_with(sources: dict[str, bytes], go_version: str, linker_flags: str) -> None:
    before = binary.content_key({"a": b"1", "b": b"2"}, go_version="go1", linker_flags="-s")

    after = binary.content_key(sources, go_version=go_version, linker_flags=linker_flags)

    assert before != after


def test_failed_build_is_told_in_one_sentence_and_leaves_its_log_only(
    environment: dict[str, str],
) -> None:
    install_go(environment, FAILING_GO)

    with pytest.raises(ClusterError) as caught:
        binary.build(report=lambda _line: None, environment=environment)

    assert "go1.26.8 could not build the control plane" in str(caught.value)
    assert "no route to the proxy" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert cached(environment) == ["failed-build.log", "lock"]


def test_cache_folder_that_cannot_be_written_is_told(environment: dict[str, str]) -> None:
    install_go(environment, GOOD_GO)
    Path(environment["VGPU_CACHE_DIR"]).write_text("a file where the folder should be")

    with pytest.raises(ClusterError, match="set VGPU_CACHE_DIR"):
        binary.build(report=lambda _line: None, environment=environment)


def test_aborted_build_ends_its_child_and_leaves_nothing(environment: dict[str, str]) -> None:
    install_go(environment, ENDLESS_GO)
    begun = Path(environment["HOME"], "begun")
    os.mkfifo(begun)
    abort = threading.Event()
    pids: list[int] = []

    def abort_once_begun() -> None:
        pids.append(int(begun.read_text()))
        abort.set()

    watcher = threading.Thread(target=abort_once_begun)
    watcher.start()
    with pytest.raises(Aborted):
        binary.build(report=lambda _line: None, environment=environment, abort=abort)
    watcher.join()

    assert processes_that_remain(pids) == []
    assert cached(environment) == ["lock"]


def test_ctrl_c_ends_the_build_and_leaves_nothing(environment: dict[str, str]) -> None:
    install_go(environment, ENDLESS_GO)
    begun = Path(environment["HOME"], "begun")
    os.mkfifo(begun)
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from vgpu_operator.cli.cluster import binary\n"
        "binary.build(report=print)\n"
    )

    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment | {"PYTHONPATH": str(OPERATOR_ROOT)},
        stderr=subprocess.PIPE,
    ) as builder:
        pid = int(begun.read_text())
        builder.send_signal(signal.SIGINT)
        _, errors = builder.communicate(timeout=30)

    assert errors.strip().endswith(b"KeyboardInterrupt")
    assert processes_that_remain([pid]) == []
    assert cached(environment) == ["lock"]


def test_killed_build_takes_its_child_along_and_the_next_one_clears_up(
    environment: dict[str, str],
) -> None:
    install_go(environment, ENDLESS_GO)
    begun = Path(environment["HOME"], "begun")
    os.mkfifo(begun)
    script = "from vgpu_operator.cli.cluster import binary\nbinary.build(report=print)\n"

    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment | {"PYTHONPATH": str(OPERATOR_ROOT)}
    ) as builder:
        pid = int(begun.read_text())
        builder.kill()
    remaining = processes_that_remain([pid])
    install_go(environment, GOOD_GO)
    program = binary.build(report=lambda _line: None, environment=environment)

    assert remaining == []
    assert cached(environment) == [program.name, "lock"]


def test_two_processes_at_once_build_once(environment: dict[str, str]) -> None:
    install_go(environment, GOOD_GO)
    script = (
        "import json\n"
        "from vgpu_operator.cli.cluster import binary\n"
        "print(json.dumps(str(binary.build(report=lambda line: None))))\n"
    )
    command = [sys.executable, "-c", script]
    surroundings = environment | {"PYTHONPATH": str(OPERATOR_ROOT)}

    builders = [
        subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE) for _ in range(3)
    ]
    programs = {json.loads(builder.communicate(timeout=60)[0]) for builder in builders}

    assert len(programs) == 1
    assert len(builds(environment)) == 1


async def test_cancelled_caller_ends_the_build(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(environment, ENDLESS_GO)
    begun = Path(environment["HOME"], "begun")
    os.mkfifo(begun)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    building = asyncio.create_task(binary.build_in_background(report=lambda _line: None))
    pid = int(await asyncio.to_thread(begun.read_text))
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building

    assert processes_that_remain([pid]) == []
    assert cached(environment) == ["lock"]
