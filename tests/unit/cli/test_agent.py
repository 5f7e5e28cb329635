"""``vgpu agent``: which of its two halves is meant, and what each cannot do without."""

from pathlib import Path

import pytest


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig of a server that nobody runs."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: "
        "{cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], "
        "users: [{name: u, user: {}}]}"
    )
    return path


@pytest.mark.parametrize(
    "arguments", [(), ("--backend", "simulated", "--simulate", "nodes.yaml")], ids=["none", "both"]
)
def test_either_a_real_node_or_played_ones(command_line, arguments):
    assert command_line.run("agent", *arguments) == 2
    assert "give either --backend simulated or --backend nvml" in command_line.err
    assert "or --simulate FILE" in command_line.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--cards", "cards.yaml"), "with --node or in the variable NODE_NAME"),
        (("--node", "n1", "--cards", "cards.yaml"), "is no folder: name the kubelet's folder"),
        (("--node", "n1", "--kubelet-dir", "."), "with --cards; for two of NVIDIA's"),
        (
            ("--node", "n1", "--kubelet-dir", ".", "--cards", "cards.yaml"),
            "cards.yaml cannot be read: No such file or directory",
        ),
    ],
)
def test_what_is_missing_for_a_real_node_is_said_in_one_sentence(
    command_line,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kubeconfig: Path,
    arguments: tuple[str, ...],
    says: str,
):
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    code = command_line.run(
        "agent", "--backend", "simulated", "--kubeconfig", str(kubeconfig), *arguments
    )

    assert code == 1
    assert says in command_line.err
    assert command_line.err.startswith("error: ")
    assert command_line.err.count("\n") == 1


def test_the_node_s_name_may_come_from_the_pod_s_environment(
    command_line, monkeypatch: pytest.MonkeyPatch, kubeconfig: Path
):
    monkeypatch.setenv("NODE_NAME", "n1")

    command_line.run("agent", "--backend", "simulated", "--kubeconfig", str(kubeconfig))

    assert "name the kubelet's folder" in command_line.err
