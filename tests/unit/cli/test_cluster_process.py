import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import processes_that_remain
from vgpu_operator.cli.cluster.errors import ClusterError, ComponentDied
from vgpu_operator.cli.cluster.process import Component

OPERATOR_ROOT = Path(__file__).parents[3] / "operator"

# `exec` keeps one process: what is signalled is what was started.
SLEEP = "echo started; exec sleep 600"
DEAF = "trap '' TERM; echo started; while :; do read line < \"$0\" || :; done"


class Started:
    """Makes components of shell scripts and ends what a test leaves running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.made: list[Component] = []

    def __call__(self, script: str, *, hostname: str | None = None) -> Component:
        component = self.make(script, hostname=hostname)
        component.start()
        wait_for_line(component)
        return component

    def make(self, script: str, *, hostname: str | None = None) -> Component:
        pipe = self._folder / "pipe"
        if not pipe.exists():
            os.mkfifo(pipe)
        component = Component(
            "sample",
            ["/bin/sh", "-c", script, str(pipe)],
            log_file=self._folder / "sample.log",
            hostname=hostname,
        )
        self.made.append(component)
        return component


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    factory = Started(tmp_path)
    yield factory
    for component in factory.made:
        component.kill()


def wait_for_line(component: Component, limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not component.log_tail():
        assert time.monotonic() < deadline, f"{component} wrote nothing"
        component.wait(0.01)


def state_of(component: Component) -> str:
    """Give the kernel's letter: S sleeping, T stopped."""
    return Path(f"/proc/{component.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


async def test_component_runs_until_it_is_stopped(started: Started) -> None:
    component = started(SLEEP)
    before = component.is_running

    await component.stop()

    assert (before, component.is_running) == (True, False)
    assert component.exit_code == -signal.SIGTERM


async def test_component_that_ignores_the_request_is_ended_by_force(started: Started) -> None:
    component = started(DEAF)

    await component.stop(limit_s=0.2)

    assert component.exit_code == -signal.SIGKILL


async def test_paused_component_can_be_stopped(started: Started) -> None:
    component = started(SLEEP)
    component.pause()

    await component.stop()

    assert component.exit_code == -signal.SIGTERM


def test_paused_component_is_running_and_can_be_killed(started: Started) -> None:
    component = started(SLEEP)

    component.pause()
    paused = component.is_running
    component.kill()

    assert paused
    assert component.exit_code == -signal.SIGKILL


def test_resumed_component_goes_on(started: Started) -> None:
    component = started("echo started; read line < $0; exec sleep 600")

    component.pause()
    stopped = os.waitid(os.P_PID, component.pid or 0, os.WSTOPPED | os.WNOWAIT)
    state = state_of(component)
    component.resume()
    Path(component.argv[-1]).write_text("go on\n")

    assert stopped is not None
    assert state == "T"
    assert component.is_running


async def test_restarted_component_is_a_new_process_with_the_same_arguments(
    started: Started,
) -> None:
    component = started(SLEEP)
    before = component.pid

    await component.restart()

    assert component.is_running
    assert component.pid != before


def test_component_runs_once_at_a_time(started: Started) -> None:
    component = started(SLEEP)

    with pytest.raises(ClusterError, match="runs already"):
        component.start()


def test_component_that_ended_by_itself_is_told_with_the_end_of_its_log(
    started: Started,
) -> None:
    component = started("for n in $(seq 100); do echo line $n; done; exit 3")
    assert component.wait(20)

    with pytest.raises(ComponentDied) as caught:
        component.check_running()

    message = str(caught.value)
    assert message.startswith("sample ended by itself with exit code 3; its log ends so:\n")
    assert message.endswith("line 99\nline 100")
    assert "line 50" not in message
    assert not caught.value.port_taken


def test_taken_port_is_told_apart_from_other_ends(started: Started) -> None:
    component = started("echo 'listen tcp 127.0.0.1:1: bind: address already in use'; exit 1")
    assert component.wait(20)

    with pytest.raises(ComponentDied) as caught:
        component.check_running()

    assert caught.value.port_taken


async def test_log_keeps_all_runs_and_its_tail_is_of_the_latest(started: Started) -> None:
    component = started("echo run by $$; exec sleep 600")
    first = component.log_tail()

    await component.restart()
    wait_for_line(component)

    assert component.log_tail() == f"run by {component.pid}"
    assert component.log_file.read_text() == f"{first}\nrun by {component.pid}\n"


def test_nothing_to_stop_before_the_first_start(started: Started) -> None:
    component = started.make(SLEEP)

    component.terminate()
    component.kill()

    assert component.wait(0)
    assert not component.is_running
    assert component.log_tail() == ""


def test_forgotten_component_does_not_run_on(started: Started) -> None:
    component = started(SLEEP)
    pid = component.pid or 0

    started.made.clear()
    del component
    gc.collect()

    assert processes_that_remain([pid]) == []


def test_component_dies_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from vgpu_operator.cli.cluster.process import Component\n"
        f"log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        "component = Component('sample', ['sleep', '600'], log_file=log)\n"
        "component.start()\n"
        "print(component.pid, flush=True)\n"
        "component.wait(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(OPERATOR_ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()

    assert processes_that_remain([pid]) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="a host name of one's own needs root")
def test_component_can_have_a_host_name_of_its_own(started: Started) -> None:
    component = started("uname -n; exec sleep 600", hostname="replica-1")

    assert component.log_tail() == "replica-1"
    assert socket.gethostname() != "replica-1"
