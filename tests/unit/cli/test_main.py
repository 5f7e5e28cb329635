import os
import subprocess
import sys
from pathlib import Path

import pytest

import vgpu_operator
from vgpu_operator.cli import cluster_view
from vgpu_operator.cli.cluster import errors as cluster_errors
from vgpu_operator.kube import errors

SOURCES = Path(vgpu_operator.__file__).parent.parent


def fail_with(monkeypatch, fault):
    async def read_view(*_, **__):
        raise fault

    monkeypatch.setattr(cluster_view, "read_view", read_view)


def test_the_version_is_printed(command_line):
    assert command_line.run("--version") == 0
    assert command_line.out == f"vgpu {vgpu_operator.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_names_every_command(command_line, arguments):
    assert command_line.run(*arguments) == 0
    for command in ("nodes", "pods", "decode", "agent"):
        assert command in command_line.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("nope",),
        ("nodes", "--nope"),
        ("nodes", "-o", "xml"),
        ("agent",),
        ("decode",),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(command_line, arguments):
    assert command_line.run(*arguments) == 2
    assert command_line.out == ""
    assert command_line.err.startswith("error: ")
    assert command_line.err.count("\n") == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (errors.Unreachable("refused"), "check that the API server runs"),
        (errors.Unauthorized("401"), "log in to the cluster again"),
        (errors.ServerFault("500"), "look at the API server's log"),
        (cluster_errors.ClusterError("etcd did not start"), "etcd did not start"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
def test_an_expected_fault_is_one_line_with_the_next_step(command_line, monkeypatch, fault, words):
    fail_with(monkeypatch, fault)

    assert command_line.run("nodes") == 1
    assert words in command_line.err
    assert command_line.err.count("\n") == 1


def test_an_unexpected_fault_asks_for_a_report_without_a_traceback(command_line, monkeypatch):
    fail_with(monkeypatch, ZeroDivisionError("oh"))

    assert command_line.run("nodes") == 1
    assert "ZeroDivisionError: oh" in command_line.err
    assert "VGPU_TRACEBACK=1" in command_line.err
    assert command_line.err.count("\n") == 1

    monkeypatch.setenv("VGPU_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        command_line.run("nodes")


def test_an_interrupt_is_exit_130(command_line, monkeypatch):
    fail_with(monkeypatch, KeyboardInterrupt())

    assert command_line.run("nodes") == 130


def test_a_message_of_the_server_cannot_move_the_cursor(command_line, monkeypatch):
    fail_with(monkeypatch, errors.Conflict("\x1b[2Jgone\nsecond line"))

    command_line.run("nodes")

    assert command_line.err == "error: \\x1b[2Jgone second line\n"


def test_help_needs_none_of_the_heavy_packages():
    heavy = "numpy, kopf, aiohttp, pydantic, kubernetes_asyncio, vgpu_operator.kube"
    program = (
        "import sys; from vgpu_operator.cli import main; main.build_app(); "
        f"print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )

    assert done.stdout.strip() == "[]"


def test_a_reader_that_hangs_up_is_no_traceback():
    program = (
        "import sys; sys.argv = ['vgpu', 'decode', ';' * 2000]; "
        "from vgpu_operator.cli import main; main.main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    process.stdout.close()

    assert process.stderr is not None
    with process.stderr as stream:
        assert b"Traceback" not in stream.read()
    assert process.wait() == 1
