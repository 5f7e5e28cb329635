"""Pytest fixtures that run a real API server, and helpers for what outlives a process.

Loaded as a plugin: ``pytest_plugins = ["support.control_plane"]``. One control
plane serves the whole run and starts with the first test that asks for it;
each test gets a namespace of its own. Tests that stop, kill or reconfigure
components make a ``ControlPlane`` of their own and ask for
``control_plane_program`` only.
"""

import contextlib
import os
import select
import shutil
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kubernetes_asyncio import client, config

from support import missing_tools
from vgpu_operator.cli.cluster import binary, versions
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.cli.cluster.errors import ClusterError

OLDEST = "1.34.4"
"""The oldest Kubernetes that docs/install.md names, by the newest release that Go modules give."""

_KEPT_LOGS = pytest.StashKey[list[Path]]()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane_program(request: pytest.FixtureRequest) -> Path:
    """Build the control plane once; where that is impossible, skip, or fail in CI."""
    return await build(request.config, versions.PINNED)


async def build(settings: pytest.Config, kubernetes_version: str) -> Path:
    """Build a control plane once; where that is impossible, skip, or fail in CI."""
    report = missing_tools.progress(settings)
    try:
        return await binary.build_in_background(
            kubernetes_version=kubernetes_version, report=report
        )
    except ClusterError as fault:
        missing_tools.skip_or_fail(f"no local control plane: {fault}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane(
    request: pytest.FixtureRequest,
    control_plane_program: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[ControlPlane]:
    """Run one control plane, without controllers and with an audit log, for all tests."""
    directory = tmp_path_factory.mktemp("control-plane")
    async with running(request, ControlPlaneOptions(directory=directory, audit=True)) as plane:
        yield plane


@contextlib.asynccontextmanager
async def running(
    request: pytest.FixtureRequest, options: ControlPlaneOptions
) -> AsyncIterator[ControlPlane]:
    """Run a control plane in a folder of its own, whose logs stay when a test fails."""
    assert options.directory is not None
    try:
        async with ControlPlane(options) as plane:
            yield plane
    except BaseException:
        request.config.stash.setdefault(_KEPT_LOGS, []).append(options.directory / "logs")
        raise
    if request.session.testsfailed:
        request.config.stash.setdefault(_KEPT_LOGS, []).append(options.directory / "logs")
    else:
        shutil.rmtree(options.directory)


@pytest_asyncio.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[client.ApiClient]:
    """Give a client that may do everything."""
    async with await connect(control_plane.kubeconfig) as api:
        yield api


@pytest_asyncio.fixture
async def namespace(admin: client.ApiClient) -> str:
    """Make a namespace for one test.

    It is left behind: only a controller could empty it, and the next test has
    another one.
    """
    wanted = client.V1Namespace(metadata=client.V1ObjectMeta(generate_name="test-"))
    made = await client.CoreV1Api(admin).create_namespace(wanted)
    return str(made.metadata.name)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say where the logs of a run with failures are."""
    for folder in config.stash.get(_KEPT_LOGS, []):
        terminalreporter.write_line(f"logs of the control plane: {folder}")


async def connect(kubeconfig: Path) -> client.ApiClient:
    """Give a kubernetes-asyncio client, to be closed by its user (``async with``)."""
    configuration = client.Configuration()
    await config.load_kube_config(
        config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
    )
    return client.ApiClient(configuration)


def processes_that_remain(pids: Iterable[int], *, limit_s: float = 20.0) -> list[int]:
    """Wait until processes have ended, children of ours or not; give those that have not."""
    deadline = time.monotonic() + limit_s
    return [pid for pid in pids if not _ends(pid, deadline)]


def _ends(pid: int, deadline: float) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(max(0.0, deadline - time.monotonic()) * 1000))
    finally:
        os.close(handle)
