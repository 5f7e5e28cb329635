"""Completion: real shells load the scripts, kubectl gets cobra's answer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli_cluster import put_pod
from vgpu_operator.cli import completion, main

BIN = Path(sys.executable).parent


def words(command_line, monkeypatch, capsys, *typed):
    """Return what kubectl would offer behind ``kubectl vgpu`` and these words."""
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-vgpu", *typed])
    for name in ("COMP_WORDS", "COMP_CWORD", completion.VARIABLE):
        monkeypatch.setenv(name, "")
    with pytest.raises(SystemExit) as ended:
        completion.kubectl()
    assert ended.value.code == 0
    return capsys.readouterr().out.splitlines()


def test_commands_and_options_are_offered(command_line, monkeypatch, capsys):
    assert words(command_line, monkeypatch, capsys, "unc") == ["uncordon", ":4"]
    assert "--surplus" in words(command_line, monkeypatch, capsys, "pods", "--su")


def test_names_of_pods_and_nodes_are_offered(command_line, monkeypatch, capsys):
    put_pod(command_line.kube, "q1")

    assert words(command_line, monkeypatch, capsys, "explain", "-n", "team-a", "p") == [
        *("p1", "p2", "plain"),
        ":4",
    ]
    assert words(command_line, monkeypatch, capsys, "nodes", "n") == ["n1", "n2", ":4"]


def test_nothing_to_offer_lets_the_shell_offer_files(command_line, monkeypatch, capsys):
    assert words(command_line, monkeypatch, capsys, "simulate", "-f", "x") == [":0"]


@pytest.mark.parametrize("shell", [*completion.Shell])
def test_each_shells_script_names_the_program(shell, capsys):
    assert main.answer(["completion", shell]) == 0
    assert "vgpu" in capsys.readouterr().out


def test_another_shell_is_wrong_usage(capsys):
    assert main.answer(["completion", "tcsh"]) == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_with_the_script():
    script = (
        "source <(vgpu completion bash); COMP_WORDS=(vgpu unc); COMP_CWORD=1; "
        '_vgpu_completion vgpu; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    done = subprocess.run(
        ["bash", "-c", script],  # noqa: S607  # whichever bash there is
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )

    assert done.stdout.split() == ["uncordon"]
