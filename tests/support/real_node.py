"""Pytest fixtures with a real node: a kubelet that runs containers.

Loaded as a plugin: ``pytest_plugins = ["support.real_node"]``. One control plane and one
node serve all tests in ``tests/real_node``; each test gets a namespace of its own there
(``real_namespace``), and its pods are gone before the next one begins.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support import control_plane, missing_tools, waiting
from vgpu_operator.cli.cluster import binary
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.cli.cluster.real_node import images
from vgpu_operator.cli.cluster.real_node.node import RealNode
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths

POD_LIMIT_S = 60.0
LOOK_AGAIN_S = 0.05


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def containers_can_run(request: pytest.FixtureRequest) -> None:
    """Build the kubelet once; where containers cannot run, skip, or fail in CI."""
    reason = RealNode.why_not()
    if reason:
        missing_tools.skip_or_fail(f"no real node: {reason}")
    try:
        report = missing_tools.progress(request.config)
        await binary.build_in_background(binary.KUBELET, report=report)
    except ClusterError as fault:
        missing_tools.skip_or_fail(f"no real node: {fault}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_plane(
    request: pytest.FixtureRequest,
    containers_can_run: None,
    control_plane_program: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[ControlPlane]:
    """Run the control plane of the real node, for nobody else."""
    options = ControlPlaneOptions(directory=tmp_path_factory.mktemp("real-plane"), audit=True)
    async with control_plane.running(request, options) as plane:
        yield plane


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_node(real_plane: ControlPlane) -> AsyncIterator[RealNode]:
    """Run one real node, without a device plugin."""
    async with RealNode(real_plane) as node:
        yield node


@pytest_asyncio.fixture
async def real_kube(real_plane: ControlPlane) -> AsyncIterator[kube_client.KubeClient]:
    """Give a client that may do everything on the real node's control plane."""
    connected = await kube_client.KubeClient.connect(kubeconfig=str(real_plane.kubeconfig))
    async with connected as kube:
        yield kube


@pytest_asyncio.fixture
async def real_namespace(
    real_kube: kube_client.KubeClient, real_node: RealNode
) -> AsyncIterator[str]:
    """Make a namespace for one test, and let its pods end before the next one."""
    wanted = {"metadata": {"generateName": "real-"}}
    made = await real_kube.create("/api/v1/namespaces", wanted)
    namespace = str(made["metadata"]["name"])
    yield namespace
    await remove_pods(real_kube, namespace)


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod of shell containers; its own spec fields come last.

    Without a container it has one, ``main``, that prints its environment and waits.
    """
    return {
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": list(containers) or [container("main")],
            **spec,
        },
    }


def container(name: str, **fields: Any) -> dict[str, Any]:
    """Return a container of the shell image."""
    return {"name": name, "image": images.SHELL, "imagePullPolicy": "Never", **fields}


async def create(kube: kube_client.KubeClient, namespace: str, manifest: dict[str, Any]) -> None:
    """Create a pod."""
    await kube.create(paths.namespaced(namespace, "pods"), manifest)


async def until_phase(
    kube: kube_client.KubeClient, namespace: str, name: str, phase: str
) -> dict[str, Any]:
    """Wait until a pod is in a phase, and give it."""

    async def there() -> dict[str, Any] | None:
        found = await kube.get(paths.pod(namespace, name))
        return found if found["status"].get("phase") == phase else None

    found: dict[str, Any] = await waiting.until(
        f"{namespace}/{name} is {phase}", there, limit_s=POD_LIMIT_S, every_s=LOOK_AGAIN_S
    )
    return found


async def remove_pods(kube: kube_client.KubeClient, namespace: str) -> None:
    """Delete all pods of a namespace, and wait until the kubelet has let them go."""
    collection = paths.namespaced(namespace, "pods")
    found, _ = await kube.list(collection)
    for item in found:
        await delete(kube, namespace, item["metadata"]["name"])

    async def gone() -> bool:
        return not (await kube.list(collection))[0]

    await waiting.until(
        f"no pod is left in {namespace}", gone, limit_s=POD_LIMIT_S, every_s=LOOK_AGAIN_S
    )


async def delete(kube: kube_client.KubeClient, namespace: str, name: str) -> None:
    """Delete a pod as ``kubectl delete pod --now`` does; one that is gone is fine."""
    try:
        await kube.delete(paths.pod(namespace, name), grace_s=1)
    except errors.NotFound:
        return
