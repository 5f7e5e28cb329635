"""What the node agent's tests share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support import node_agent_world
from vgpu_operator.node_agent.backends import simulated


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the file of the cards read as often as a test can wait for."""
    monkeypatch.setattr(simulated, "LOOK_S", 0.02)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for sockets."""
    return tmp_path_factory.mktemp("k")


@pytest.fixture
async def world(folder: Path) -> AsyncIterator[node_agent_world.World]:
    """A node with two cards of four slots, a kubelet that runs, and no agent yet."""
    async with node_agent_world.world(folder) as made:
        yield made
