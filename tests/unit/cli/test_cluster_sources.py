from pathlib import Path

import pytest

from vgpu_operator.cli.cluster import sources
from vgpu_operator.cli.cluster.errors import ClusterError

KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: c}}, {name: there, context: {cluster: d}}]
clusters:
- {name: c, cluster: {server: "https://127.0.0.1:1"}}
- {name: d, cluster: {server: "https://127.0.0.1:2"}}
"""

# Notes its arguments, and writes the kubeconfig as the last argument says.
FAKE_KIND = """#!/bin/sh
echo "$KIND_EXPERIMENTAL_PROVIDER $1 $2" >> "$HOME/calls"
for last; do :; done
if [ "$1" = create ]; then cp "$HOME/kubeconfig" "$last"; fi
"""
BROKEN_KIND = """#!/bin/sh
echo "$1 $2" >> "$HOME/calls"
[ "$1" = delete ] || { echo "ERROR: no more disk"; exit 1; }
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    return {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin") + ":/bin:/usr/bin"}


def install(environment: dict[str, str], name: str, script: str) -> None:
    program = Path(environment["HOME"], "bin", name)
    program.write_text(script)
    program.chmod(0o755)


def calls(environment: dict[str, str]) -> list[str]:
    return Path(environment["HOME"], "calls").read_text().splitlines()


def kind(environment: dict[str, str]) -> sources.KindCluster:
    return sources.KindCluster(report=lambda _line: None, environment=environment)


async def test_current_cluster_is_the_one_of_the_environment(environment: dict[str, str]) -> None:
    path = Path(environment["HOME"], "kubeconfig")

    async with sources.CurrentCluster(environment={"KUBECONFIG": str(path)}) as cluster:
        assert cluster == sources.Cluster(
            kubeconfig=path, context="here", server_url="https://127.0.0.1:1"
        )
        assert not cluster.can_start_scheduler


async def test_current_cluster_can_be_another_context(environment: dict[str, str]) -> None:
    path = Path(environment["HOME"], "kubeconfig")

    async with sources.CurrentCluster(path, context="there") as cluster:
        assert cluster.server_url == "https://127.0.0.1:2"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        pytest.param({"KUBECONFIG": "/a:/b"}, "names several files", id="several files"),
        pytest.param(
            {"HOME": "/nowhere"}, "/nowhere/.kube/config cannot be read", id="no file at all"
        ),
    ],
)
async def test_missing_current_cluster_is_told(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        async with sources.CurrentCluster(environment=environment):
            pass


async def test_kind_cluster_is_made_with_the_engine_that_answers_and_deleted(
    environment: dict[str, str],
) -> None:
    install(environment, "kind", FAKE_KIND)
    install(environment, "docker", "#!/bin/sh\nexit 1\n")
    install(environment, "podman", "#!/bin/sh\nexit 0\n")

    async with kind(environment) as cluster:
        folder = cluster.kubeconfig.parent
        assert cluster.server_url == "https://127.0.0.1:1"
        assert calls(environment) == ["podman create cluster"]

    assert calls(environment) == ["podman create cluster", "podman delete cluster"]
    assert not folder.exists()


async def test_kind_cluster_that_fails_is_cleared_away_and_told(
    environment: dict[str, str],
) -> None:
    install(environment, "kind", BROKEN_KIND)
    install(environment, "docker", "#!/bin/sh\nexit 0\n")

    with pytest.raises(ClusterError, match="exit code 1: ERROR: no more disk"):
        async with kind(environment):
            pass

    assert calls(environment) == ["create cluster", "delete cluster"]


async def test_kind_without_its_program_is_told(environment: dict[str, str]) -> None:
    environment["PATH"] = str(Path(environment["HOME"], "bin"))

    with pytest.raises(ClusterError, match="no `kind` program on the PATH"):
        async with kind(environment):
            pass


async def test_kind_without_a_container_engine_is_told(environment: dict[str, str]) -> None:
    install(environment, "kind", FAKE_KIND)
    for engine in ("docker", "podman", "nerdctl"):
        install(environment, engine, "#!/bin/sh\nexit 1\n")

    with pytest.raises(ClusterError, match="neither docker, podman nor nerdctl answers"):
        async with kind(environment):
            pass


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("local", sources.LocalCluster),
        ("kind", sources.KindCluster),
        ("current", sources.CurrentCluster),
    ],
)
def test_source_is_chosen_by_name(choice: sources.Choice, expected: type) -> None:
    assert isinstance(sources.cluster_source(choice, report=lambda _line: None), expected)
