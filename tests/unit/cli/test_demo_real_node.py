"""``vgpu demo --real-node`` where it cannot be: told before anything is built or started."""

import os

import pytest

from support import cli_cluster


def test_user_who_is_not_root_is_told_and_shown_the_demo_that_needs_no_containers(
    monkeypatch: pytest.MonkeyPatch, command_line: cli_cluster.CommandLine
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    code = command_line.run("demo", "--real-node")

    assert code == 1
    assert command_line.err == (
        "error: --real-node: containers need root here: run it as root; "
        "`vgpu demo` without it needs no containers\n"
    )


@pytest.mark.parametrize("cluster", ["kind", "current"])
def test_real_node_is_none_of_a_cluster_that_is_there(
    command_line: cli_cluster.CommandLine, cluster: str
) -> None:
    code = command_line.run("demo", "--real-node", "--cluster", cluster)

    assert code == 2
    assert f"leave out --cluster {cluster}" in command_line.err
