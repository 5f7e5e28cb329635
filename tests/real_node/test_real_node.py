"""The real node itself: what the tests of the node agent rest on."""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from support import real_node as on_node
from support.control_plane import processes_that_remain
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.cli.cluster.real_node import cgroups, home, requirements
from vgpu_operator.cli.cluster.real_node.node import RealNode
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths

pytestmark = pytest.mark.apiserver

OPERATOR_ROOT = Path(__file__).parents[2] / "operator"


def bound(node: RealNode, name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return on_node.pod(name, *containers, nodeName=node.name, **spec)


def processes_below(pid: int) -> list[int]:
    """Return a process and all in the PID namespace that its children are in."""
    space = Path(f"/proc/{pid}/ns/pid_for_children").readlink()
    found = [pid]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "ns/pid").readlink() == space:
                found.append(int(folder.name))
        except OSError:
            continue  # It ended meanwhile.
    return found


def shims(processes: list[int]) -> list[int]:
    return [pid for pid in processes if b"shim" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def mounts() -> str:
    return Path("/proc/self/mounts").read_text()


def remains_of(folder: Path) -> list[Path]:
    return [*([folder] if folder.exists() else []), *cgroups.remaining(folder.name)]


async def test_node_is_ready_and_has_what_a_kubelet_reports(
    real_node: RealNode, real_kube: kube_client.KubeClient
) -> None:
    found = await real_kube.get(paths.node(real_node.name))

    ready = [item["status"] for item in found["status"]["conditions"] if item["type"] == "Ready"]
    assert ready == ["True"]
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert found["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    assert int(found["status"]["allocatable"]["pods"]) > 0


async def test_pod_runs_and_its_containers_environment_is_what_its_manifest_says(
    real_node: RealNode, real_kube: kube_client.KubeClient, real_namespace: str
) -> None:
    colour = on_node.container("main", env=[{"name": "COLOUR", "value": "a = b"}])
    other = on_node.container("other")
    await on_node.create(real_kube, real_namespace, bound(real_node, "plain", colour, other))

    environment = await real_node.container_env(real_namespace, "plain", "main")
    others = await real_node.container_env(real_namespace, "plain", "other")

    assert environment["COLOUR"] == "a = b"
    assert environment["HOSTNAME"] == "plain"
    assert "COLOUR" not in others
    await on_node.until_phase(real_kube, real_namespace, "plain", "Running")


async def test_container_that_ends_by_itself_leaves_its_output_and_its_exit_code(
    real_node: RealNode, real_kube: kube_client.KubeClient, real_namespace: str
) -> None:
    ends = on_node.container("main", command=["sh", "-c", "echo one; echo two >&2; exit 3"])
    await on_node.create(
        real_kube, real_namespace, bound(real_node, "ends", ends, restartPolicy="Never")
    )

    done = await on_node.until_phase(real_kube, real_namespace, "ends", "Failed")

    (status,) = done["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 3
    assert sorted(real_node.logs(real_namespace, "ends", "main").split()) == ["one", "two"]


async def test_container_has_a_loopback_device_that_is_up(
    real_node: RealNode, real_kube: kube_client.KubeClient, real_namespace: str
) -> None:
    pings = on_node.container("main", command=["ping", "-c", "1", "-W", "5", "127.0.0.1"])
    await on_node.create(
        real_kube, real_namespace, bound(real_node, "pings", pings, restartPolicy="Never")
    )

    await on_node.until_phase(real_kube, real_namespace, "pings", "Succeeded")


async def test_running_container_survives_restarts_and_kills_of_kubelet_and_containerd(
    real_node: RealNode, real_kube: kube_client.KubeClient, real_namespace: str
) -> None:
    await on_node.create(real_kube, real_namespace, bound(real_node, "stays"))
    before = await on_node.until_phase(real_kube, real_namespace, "stays", "Running")
    kubelet, containerd = real_node.kubelet.pid, real_node.containerd.pid

    await real_node.restart_containerd()
    await real_node.restart_kubelet()
    await real_node.kill_containerd()
    await real_node.start_containerd()
    await real_node.kill_kubelet()
    await real_node.start_kubelet()
    await on_node.create(real_kube, real_namespace, bound(real_node, "next"))
    await on_node.until_phase(real_kube, real_namespace, "next", "Running")

    after = await on_node.until_phase(real_kube, real_namespace, "stays", "Running")
    assert (real_node.kubelet.pid, real_node.containerd.pid) != (kubelet, containerd)
    assert [
        (item["containerID"], item["restartCount"]) for item in after["status"]["containerStatuses"]
    ] == [(item["containerID"], 0) for item in before["status"]["containerStatuses"]]


async def test_second_node_is_in_nobodys_way_and_its_stop_leaves_nothing(
    real_plane: ControlPlane, real_node: RealNode, real_kube: kube_client.KubeClient
) -> None:
    before = mounts()
    node = RealNode(real_plane, name="real-2")
    await node.start()
    await on_node.create(real_kube, "default", bound(node, "unfinished"))
    environment = await node.container_env("default", "unfinished", "main")
    folder, processes = node.folder, processes_below(node.namespaces_pid)
    assert environment["HOSTNAME"] == "unfinished"
    assert real_node.logs("default", "unfinished", "main") == ""
    assert shims(processes)
    assert len(remains_of(folder)) > 1

    await node.stop()
    await node.stop()

    assert processes_that_remain(processes) == []
    assert mounts() == before
    assert remains_of(folder) == []
    for path in (paths.node("real-2"), paths.pod("default", "unfinished")):
        with pytest.raises(errors.NotFound):
            await real_kube.get(path)
    assert real_node.kubelet.is_running


async def test_killed_owner_takes_everything_along_and_the_next_node_removes_its_files(
    containers_can_run: None, tmp_path: Path
) -> None:
    script = textwrap.dedent("""
        import subprocess, sys
        from pathlib import Path
        from vgpu_operator.cli.cluster.process import Component
        from vgpu_operator.cli.cluster.real_node import home, namespaces
        import time

        made = home.Home()
        ready = made.folder / "ready"
        command = namespaces.hold_command(binds={}, empty=[Path("/run")], ready_file=ready)
        holder = Component("holder", command, log_file=made.folder / "log")
        holder.start()
        while not ready.exists():
            time.sleep(0.01)
        # As containerd does: what it starts is nobody's child, and outlives it.
        daemon = ["sh", "-c", "mount -t tmpfs none /run; setsid sleep 600 & exec sleep 600"]
        inside = namespaces.enter_command(holder.pid, daemon)
        Component("inside", inside, log_file=made.folder / "log").start()
        print(holder.pid, made.folder, flush=True)
        sys.stdin.read()
    """)
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(OPERATOR_ROOT)},
    )
    assert owner.stdout is not None
    pid, name = (await owner.stdout.readline()).split()
    processes, folder = processes_below(int(pid)), Path(os.fsdecode(name))

    owner.kill()
    await owner.wait()
    remain = processes_that_remain(processes)
    abandoned = remains_of(folder)
    home.Home().remove()

    assert len(processes) >= 2
    assert remain == []
    assert abandoned
    assert remains_of(folder) == []


async def test_files_of_a_node_that_runs_are_not_taken_for_abandoned(
    real_node: RealNode,
) -> None:
    home.Home().remove()

    assert (real_node.folder / "containerd.sock").exists()
    assert cgroups.remaining(real_node.folder.name)


async def test_node_that_does_not_become_ready_is_told_and_leaves_nothing(
    real_plane: ControlPlane,
) -> None:
    before = mounts()
    # No Node may be called so: its kubelet tries in vain.
    node = RealNode(real_plane, name="Not-A-Name", start_limit_s=3)

    with pytest.raises(ClusterError, match="Not-A-Name"):
        await node.start()

    assert mounts() == before
    with pytest.raises(ClusterError, match="not running; start it first"):
        _ = node.folder


def test_machine_without_the_programs_is_told_what_to_install(
    containers_can_run: None, tmp_path: Path
) -> None:
    reason = requirements.why_not(path=str(tmp_path))

    assert reason == (
        "busybox-static and containerd and runc missing here: "
        "run apt-get install busybox-static containerd runc"
    )


@pytest.mark.parametrize(
    ("busybox", "reason"),
    [
        pytest.param("#!/lib64/ld-linux.so", "needs shared libraries", id="not static"),
        pytest.param("#!/bin/sh\necho sh\n", "lacks env, ip, nsenter, sleep", id="too small"),
    ],
)
def test_busybox_that_no_image_can_be_made_of_is_told(
    containers_can_run: None, tmp_path: Path, busybox: str, reason: str
) -> None:
    for name in ("containerd", "ctr", "runc", "busybox"):
        program = tmp_path / name
        program.write_text(busybox)
        program.chmod(0o755)

    assert reason in requirements.why_not(path=str(tmp_path))
