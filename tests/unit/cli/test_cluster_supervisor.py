import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from vgpu_operator.cli.cluster import ports, probe, supervisor
from vgpu_operator.cli.cluster.errors import ClusterError, ComponentDied

# Serves HTTP as soon as it runs, except while the file that it is given counts
# failures: then it ends as a component whose port is taken does.
SERVER = """#!/bin/sh
left=$(cat "$1" 2>/dev/null || echo 0)
if [ "$left" -gt 0 ]; then
  echo $((left - 1)) > "$1"
  echo "listen tcp 127.0.0.1:$2: bind: address already in use"
  exit 1
fi
exec "$3" -m http.server --bind 127.0.0.1 --directory / "$2"
"""


class Cluster:
    """A supervisor over shell scripts."""

    def __init__(self, folder: Path, python: str) -> None:
        self.failures = folder / "failures"
        self.python = python
        program = folder / "program"
        program.write_text(SERVER)
        program.chmod(0o755)
        self.supervisor = supervisor.Supervisor(program, logs=folder, start_limit_s=20)

    def plan(self, name: str = "server", *, path: str = "/") -> supervisor.Plan:
        def arguments(numbers: Sequence[int]) -> list[str]:
            return [str(self.failures), str(numbers[0]), self.python]

        return supervisor.Plan(
            name=name,
            n_ports=1,
            arguments=arguments,
            endpoint=lambda numbers: probe.Endpoint(
                url=f"http://{ports.LOOPBACK}:{numbers[0]}{path}", tls=None
            ),
        )


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path, sys.executable)
    yield made
    made.supervisor.kill_all()


async def test_started_component_answers_on_its_port(cluster: Cluster) -> None:
    (port,) = await cluster.supervisor.start(cluster.plan())

    reader, writer = await asyncio.open_connection(ports.LOOPBACK, port)
    writer.close()
    assert cluster.supervisor.components["server"].is_running
    assert reader is not None


async def test_taken_port_is_replaced_twice(cluster: Cluster) -> None:
    cluster.failures.write_text("2")

    await cluster.supervisor.start(cluster.plan())

    assert cluster.supervisor.components["server"].is_running
    assert cluster.failures.read_text() == "0\n"


async def test_third_taken_port_is_an_error(cluster: Cluster) -> None:
    cluster.failures.write_text("3")

    with pytest.raises(ComponentDied, match="address already in use"):
        await cluster.supervisor.start(cluster.plan())


async def test_component_that_never_gets_ready_is_told_with_its_last_answer(
    tmp_path: Path, cluster: Cluster
) -> None:
    hasty = supervisor.Supervisor(tmp_path / "program", logs=tmp_path, start_limit_s=0)

    with pytest.raises(ClusterError, match="was not ready after 0 s"):
        await hasty.start(cluster.plan(path="/no-such-file"))
    hasty.kill_all()


async def test_restarted_component_has_its_old_port(cluster: Cluster) -> None:
    (port,) = await cluster.supervisor.start(cluster.plan())
    before = cluster.supervisor.components["server"].pid

    await cluster.supervisor.restart("server")

    component = cluster.supervisor.components["server"]
    assert component.pid != before
    assert str(port) in component.argv


async def test_two_components_cannot_have_one_name(cluster: Cluster) -> None:
    await cluster.supervisor.start(cluster.plan())

    with pytest.raises(ClusterError, match="another name"):
        await cluster.supervisor.start(cluster.plan())


async def test_unknown_name_is_told_with_the_known_ones(cluster: Cluster) -> None:
    await cluster.supervisor.start(cluster.plan("first"))

    with pytest.raises(ClusterError, match="'second'; there are: first"):
        await cluster.supervisor.restart("second")


async def test_stopped_component_is_forgotten(cluster: Cluster) -> None:
    await cluster.supervisor.start(cluster.plan())
    component = cluster.supervisor.components["server"]

    await cluster.supervisor.stop(["server", "never-started"])

    assert not component.is_running
    assert cluster.supervisor.components == {}
