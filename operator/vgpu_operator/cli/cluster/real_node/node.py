"""One real node: a kubelet that runs containers, on a local control plane."""

import asyncio
import contextlib
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

from vgpu_operator.cli.cluster import binary, layout, ports, probe
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.cli.cluster.process import Component
from vgpu_operator.cli.cluster.real_node import (
    home,
    images,
    namespaces,
    output,
    requirements,
    rights,
    runtime,
)
from vgpu_operator.cli.cluster.real_node import kubelet as kubelets
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths

_NODES_GROUP = "system:nodes"

_START_LIMIT_S = 90.0
_END_LIMIT_S = 10.0
_COMMAND_LIMIT_S = 60.0
_LOOK_AGAIN_S = 0.05


class RealNode:
    """A node that runs containers, as an async context manager.

        new -> started <-> kubelet killed, containerd restarted, ...
                  |
               stopped (also when this process ends, however that happens)

    containerd and kubelet are the machine's own programs and Kubernetes' own
    kubelet. What they see as ``/var/lib/kubelet``, ``/var/log`` and ``/run`` is
    the node's alone, so neither the machine's own kubelet nor another real node
    is in the way. Pods have a loopback device and no network.

    Images: ``localhost/shell:1`` (``images.SHELL``), with ``imagePullPolicy: Never``.
    Like ``process.Component`` it belongs to the thread that starts it.

    Attributes:
        name: of the node.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        name: str = "real-1",
        report: Callable[[str], None] | None = None,
        start_limit_s: float = _START_LIMIT_S,
    ) -> None:
        self.name = name
        self._plane = plane
        self._report = report or _say_nothing
        self._start_limit_s = start_limit_s
        self._home: home.Home | None = None
        self._ports: list[ports.ReservedPort] = []
        self._holder: Component | None = None
        self._containerd: Component | None = None
        self._kubelet: Component | None = None

    @staticmethod
    def why_not() -> str:
        """Say in one sentence why containers cannot run here; empty when they can."""
        return requirements.why_not()

    @property
    def folder(self) -> Path:
        """Return the folder that holds all its files."""
        if self._home is None:
            raise ClusterError(f"the node {self.name} is not running; start it first")
        return self._home.folder

    @property
    def plugin_dir(self) -> Path:
        """Return the folder for device plugins' sockets, with the kubelet's own in it."""
        return self.folder / "kubelet/device-plugins"

    @property
    def pod_resources_socket(self) -> Path:
        """Return where the kubelet says which devices which container has."""
        return self.folder / "kubelet/pod-resources/kubelet.sock"

    @property
    def kubeconfig_for_agent(self) -> Path:
        """Return a kubeconfig with the rights of a node agent, ``rights.AGENT``."""
        return self._plane.kubeconfig_for(rights.AGENT_USER)

    @property
    def kubelet(self) -> Component:
        """Return the kubelet's process; to kill it, call ``kill_kubelet``."""
        return _started(self._kubelet)

    @property
    def containerd(self) -> Component:
        """Return containerd's process; its shims and the containers are none of it."""
        return _started(self._containerd)

    @property
    def namespaces_pid(self) -> int:
        """Return the process that keeps the namespaces of all its processes."""
        return _pid(_started(self._holder))

    @property
    def pod_logs(self) -> Path:
        """Return the folder with what containers write; ``logs`` reads it."""
        return self.folder / "pod-logs"

    def log_file(self, program: str) -> Path:
        """Return where one of its programs writes, such as ``kubelet``."""
        return self._plane.logs / f"{self.name}-{program}.log"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Build the kubelet if need be, start everything, and wait until the node is ready.

        However this ends early, nothing is left running.

        Raises:
            ClusterError: Containers cannot run here, or something did not start.
        """
        if self._home is not None:
            raise ClusterError(f"the node {self.name} runs already; stop it first")
        reason = self.why_not()
        if reason:
            raise ClusterError(f"a real node cannot run here: {reason}")
        program = await binary.build_in_background(
            binary.KUBELET,
            kubernetes_version=self._plane.options.kubernetes_version,
            report=self._report,
        )
        self._home = home.Home()
        try:
            await self._start(program)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End all its processes, remove its objects from the API server, and its files.

        May be called again, and when ``start`` failed.
        """
        if self._home is None:
            return
        try:
            await self._end_processes()
            await self._remove_objects()
        finally:
            for component in self._components:
                component.kill()
            for port in self._ports:
                port.release()
            self._ports.clear()
            self._home.remove()
            self._home = self._holder = self._containerd = self._kubelet = None

    async def restart_kubelet(self) -> None:
        """Stop the kubelet and start it; running containers are not touched."""
        await self.kubelet.stop()
        await self.start_kubelet()

    async def kill_kubelet(self) -> None:
        """End the kubelet at once (SIGKILL) and wait until it is gone."""
        await self._kill(self.kubelet)

    async def start_kubelet(self) -> None:
        """Start a kubelet that was killed or stopped, and wait until plugins may register."""
        self.kubelet.start()
        await self._until_kubelet_serves()

    async def restart_containerd(self) -> None:
        """Stop containerd and start it; running containers are not touched."""
        await self.containerd.stop()
        await self.start_containerd()

    async def kill_containerd(self) -> None:
        """End containerd at once (SIGKILL) and wait until it is gone."""
        await self._kill(self.containerd)

    async def start_containerd(self) -> None:
        """Start a containerd that was killed or stopped, and wait until it answers."""
        self.containerd.start()
        listens = partial(_listens, self._runtime.socket)
        await self._until(self.containerd, "it listens", listens)

    def logs(self, namespace: str, pod: str, container: str) -> str:
        """Return what the latest run of a container has written; empty before it begins."""
        return output.read(self.pod_logs, namespace=namespace, pod=pod, container=container)

    async def container_env(
        self, namespace: str, pod: str, container: str, *, limit_s: float = 60.0
    ) -> dict[str, str]:
        """Return a container's environment, once it has printed all of it.

        The shell image's own command does so; another one must write
        ``images.END_OF_ENVIRONMENT`` after it.

        Raises:
            ClusterError: It did not in time; tells what it wrote.
        """
        deadline = time.monotonic() + limit_s
        while True:
            written = self.logs(namespace, pod, container)
            if images.END_OF_ENVIRONMENT in written:
                return output.environment(written)
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"container {container} of {namespace}/{pod} has not printed its environment "
                    f"in {limit_s:.0f} s; it wrote: {written or 'nothing'}"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def ctr(self, *arguments: str) -> str:
        """Run containerd's own client, such as ``ctr("containers", "list")``."""
        return await self._run([*self._runtime.ctr, *arguments])

    @property
    def _components(self) -> list[Component]:
        found = (self._kubelet, self._containerd, self._holder)
        return [component for component in found if component is not None]

    @property
    def _runtime(self) -> runtime.Runtime:
        return runtime.Runtime(self.folder, requirements.find_programs())

    async def _start(self, kubelet_program: Path) -> None:
        assert self._home is not None  # noqa: S101  # start() made it
        ready_file = self.folder / "namespaces.json"
        await self._start_holder(ready_file)
        containerd = self._runtime
        containerd.write(overlay=namespaces.overlay_works(ready_file))
        self._containerd = self._inside("containerd", containerd.arguments)
        await self.start_containerd()
        await self._import_images()
        self._ports += [ports.ReservedPort(), ports.ReservedPort()]
        kubelet = kubelets.Kubelet(
            name=self.name,
            folder=self.folder,
            kubeconfig=self._plane.kubeconfig_for(f"system:node:{self.name}", [_NODES_GROUP]),
            runtime_socket=containerd.socket,
            pod_logs=self.pod_logs,
            cgroup=f"/{self._home.cgroup}",
        )
        port, health_port = (item.number for item in self._ports)
        files = layout.Layout(self._plane.directory)
        kubelet.write(files, port=port, health_port=health_port)
        self._kubelet = self._inside("kubelet", kubelet.arguments(kubelet_program))
        await self.start_kubelet()
        async with self._api() as kube:
            await rights.give_agent(kube)
            await self._until_ready(kube)

    async def _start_holder(self, ready_file: Path) -> None:
        state = self.folder / "kubelet"
        state.mkdir()
        command = namespaces.hold_command(
            binds={kubelets.ROOT: state},
            empty=[Path("/run"), Path("/var/lib"), Path("/var/log")],
            ready_file=ready_file,
        )
        self._holder = Component(f"{self.name}-namespaces", command, log_file=self.log_file("node"))
        self._holder.start()
        await self._until(self._holder, "its namespaces are there", ready_file.exists)

    def _inside(self, program: str, arguments: list[str]) -> Component:
        """Return a component that runs in the node's namespaces."""
        return Component(
            f"{self.name}-{program}",
            namespaces.enter_command(self.namespaces_pid, arguments),
            log_file=self.log_file(program),
        )

    async def _import_images(self) -> None:
        busybox = self._runtime.programs.busybox
        archive = self.folder / "images.tar"
        commands = requirements.applets(busybox)
        archive.write_bytes(images.archive(busybox.read_bytes(), commands))
        await self._run(self._runtime.import_arguments(archive))
        archive.unlink()

    async def _run(self, command: list[str]) -> str:
        entered = namespaces.enter_command(self.namespaces_pid, command)
        answer = await asyncio.to_thread(
            subprocess.run,
            entered,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_LIMIT_S,
            check=False,
        )
        if answer.returncode != 0:
            raise ClusterError(
                f"`{' '.join(command)}` failed on the node {self.name} "
                f"(exit code {answer.returncode}): {answer.stderr.strip()}"
            )
        return answer.stdout

    async def _until_kubelet_serves(self) -> None:
        health = self._ports[1].number
        endpoint = probe.Endpoint(url=f"http://{ports.LOOPBACK}:{health}/healthz", tls=None)
        await probe.wait_until_ready(self.kubelet, endpoint, limit_s=self._start_limit_s)
        # A socket of the run before may be there still: only who listens counts.
        for path in (self.plugin_dir / "kubelet.sock", self.pod_resources_socket):
            await self._until(self.kubelet, f"it listens on {path}", partial(_listens, path))

    async def _until_ready(self, kube: kube_client.KubeClient) -> None:
        state = ""
        deadline = time.monotonic() + self._start_limit_s
        while state != "True":
            self.kubelet.check_running()
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the node {self.name} was not ready after {self._start_limit_s:.0f} s "
                    f"({state or 'there is no such Node'}); its kubelet's log ends so:\n"
                    f"{self.kubelet.log_tail()}"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)
            with contextlib.suppress(errors.NotFound):
                state = _readiness(await kube.get(paths.node(self.name)))

    async def _until(self, component: Component, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._start_limit_s
        while not holds():
            component.check_running()
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{component.name}: not so after {self._start_limit_s:.0f} s: {what}; its log "
                    f"ends so:\n{component.log_tail()}"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _kill(self, component: Component) -> None:
        if component.is_running:
            component.send(namespaces.KILL_INSIDE)
        if not await asyncio.to_thread(component.wait, _END_LIMIT_S):
            raise ClusterError(f"{component.name} did not end when it was killed; try again")

    async def _end_processes(self) -> None:
        # With the holder everything in its namespaces ends, the two others among it.
        for component in reversed(self._components):
            await component.stop(_END_LIMIT_S)

    async def _remove_objects(self) -> None:
        """Remove the Node and its pods, which nobody else would end; as far as that is possible."""
        with contextlib.suppress(errors.ApiError, ClusterError, TimeoutError):
            async with asyncio.timeout(_END_LIMIT_S), self._api() as kube:
                selector = {"fieldSelector": f"spec.nodeName={self.name}"}
                pods, _ = await kube.list("/api/v1/pods", params=selector)
                for pod in pods:
                    where = pod["metadata"]
                    with contextlib.suppress(errors.NotFound):
                        await kube.delete(paths.pod(where["namespace"], where["name"]), grace_s=0)
                await kube.delete(paths.node(self.name))

    @contextlib.asynccontextmanager
    async def _api(self) -> AsyncIterator[kube_client.KubeClient]:
        connected = await kube_client.KubeClient.connect(kubeconfig=str(self._plane.kubeconfig))
        async with connected as kube:
            yield kube


def _started(component: Component | None) -> Component:
    if component is None:
        raise ClusterError("this node was not started yet; start it first")
    return component


def _pid(component: Component) -> int:
    if component.pid is None:
        raise ClusterError(f"{component.name} was not started yet; start it first")
    return component.pid


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probing:
        try:
            probing.connect(str(path))
        except OSError:
            return False
    return True


def _readiness(node: dict[str, Any]) -> str:
    """Return ``True``, or why the node is not ready."""
    for condition in node["status"].get("conditions", ()):
        if condition["type"] == "Ready":
            ready = condition["status"] == "True"
            return "True" if ready else str(condition.get("message", "not ready"))
    return "no Ready condition yet"


def _say_nothing(_line: str) -> None:
    """Stand in for a report that nobody wants."""
