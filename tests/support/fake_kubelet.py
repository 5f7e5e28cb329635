"""A kubelet's gRPC side in memory: registration, its device manager, pod resources.

It does what the real one (1.36) was seen to do: it removes every socket of its
folder when it starts, asks for a preference before each Allocate, and lists no init
containers that end before the others start.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from vgpu_operator.node_agent import channels
from vgpu_operator.node_agent.api import (
    device_plugin_pb2,
    device_plugin_pb2_grpc,
    pod_resources_pb2,
    pod_resources_pb2_grpc,
)

PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one container holds."""

    namespace: str
    pod: str
    container: str
    ids: tuple[str, ...]
    listed: bool = True


class FakeKubelet(
    device_plugin_pb2_grpc.RegistrationServicer, pod_resources_pb2_grpc.PodResourcesListerServicer
):
    """One kubelet; it may be started again after it was stopped.

    Attributes:
        registrations: every request to register, in order.
        devices: health by device id, as the plugin told last.
        holdings: what containers hold; survives a restart, as a checkpoint does.
        refuses: a reason to refuse registrations with; empty accepts them.
        turns_away: how many questions about pod resources it refuses, and then no more.
        turned_away_as: with which code; by default that of its limit (100 a second).
        asked: how often it was asked about pod resources.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pod_resources = folder / "pods.sock"
        self.registrations: list[device_plugin_pb2.RegisterRequest] = []
        self.devices: dict[str, str] = {}
        self.holdings: list[Holding] = []
        self.refuses = ""
        self.turns_away = 0
        self.turned_away_as = grpc.StatusCode.RESOURCE_EXHAUSTED
        self.asked = 0
        self._server: grpc.aio.Server | None = None
        self._channel: grpc.aio.Channel | None = None
        self._following: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def start(self, *, sweeps: bool = True) -> None:
        """Start; a kubelet that does not sweep leaves other sockets of its folder there."""
        for socket in self.folder.glob("*.sock"):
            if sweeps or socket.name == "kubelet.sock" or socket == self.pod_resources:
                socket.unlink()
        self._server = grpc.aio.server()
        device_plugin_pb2_grpc.add_RegistrationServicer_to_server(self, self._server)
        pod_resources_pb2_grpc.add_PodResourcesListerServicer_to_server(self, self._server)
        for socket in (self.folder / "kubelet.sock", self.pod_resources):
            self._server.add_insecure_port(channels.address(socket))
        await self._server.start()

    async def stop(self) -> None:
        """End as by SIGKILL, except that the sockets may be gone."""
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
        if self._channel is not None:
            await self._channel.close()
        if self._server is not None:
            await self._server.stop(grace=None)
        self._following = self._channel = self._server = None
        self.devices.clear()
        self._wake()

    async def turn_away(self) -> None:
        """Stop following the plugin's devices without a word."""
        assert self._following is not None, "no plugin has registered"
        self._following.cancel()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once ``holds()`` is true; asked after everything that the plugin tells."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await self._changed.wait()

    async def until_listed(self, *, healthy: int) -> None:
        await self.until(lambda: self.healthy == healthy)

    @property
    def healthy(self) -> int:
        """The node's allocatable count."""
        return sum(1 for health in self.devices.values() if health == "Healthy")

    @property
    def plugin(self) -> device_plugin_pb2_grpc.DevicePluginStub:
        """The plugin that registered last."""
        assert self._channel is not None, "no plugin has registered"
        return device_plugin_pb2_grpc.DevicePluginStub(self._channel)

    # What it does for a pod.

    async def admit(
        self, pod: str, container: str = "c0", *, count: int = 1, listed: bool = True
    ) -> dict[str, str]:
        """Allocate for one container and return its environment."""
        ids = await self.choose(count)
        answer = await self.allocate(ids)
        self.hold(pod, container, ids, listed=listed)
        return dict(answer.container_responses[0].envs)

    async def choose(self, count: int) -> tuple[str, ...]:
        """Ask the plugin which of the free ids it prefers."""
        taken = {one for holding in self.holdings for one in holding.ids}
        free = [one for one, health in self.devices.items() if health == "Healthy"]
        request = device_plugin_pb2.PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=[one for one in free if one not in taken], allocation_size=count
        )
        answer = await self.plugin.GetPreferredAllocation(request)
        return tuple(answer.container_responses[0].deviceIDs)

    async def allocate(self, ids: Sequence[str]) -> Any:
        request = device_plugin_pb2.AllocateRequest()
        request.container_requests.add(devices_ids=ids)
        return await self.plugin.Allocate(request)

    def hold(self, pod: str, container: str, ids: Sequence[str], *, listed: bool = True) -> None:
        self.holdings.append(
            Holding(
                namespace="default", pod=pod, container=container, ids=tuple(ids), listed=listed
            )
        )

    def ids_of(self, pod: str, container: str = "c0") -> tuple[str, ...]:
        return next(
            one.ids for one in self.holdings if (one.pod, one.container) == (pod, container)
        )

    async def start_container(self, pod: str, container: str = "c0") -> None:
        """Ask the plugin before the container starts; raises when it refuses."""
        ids = self.ids_of(pod, container)
        await self.plugin.PreStartContainer(
            device_plugin_pb2.PreStartContainerRequest(devices_ids=ids)
        )

    # What it serves.

    async def Register(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.refuses:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuses)
        self.registrations.append(request)
        if self._following is not None:
            self._following.cancel()
        self._channel = channels.to(self.folder / request.endpoint)
        self._following = asyncio.create_task(self._follow(self._channel))
        self._wake()
        return device_plugin_pb2.Empty()

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.asked += 1
        if self.turns_away:
            self.turns_away -= 1
            await context.abort(self.turned_away_as, "rejected by rate limit")
        answer = pod_resources_pb2.ListPodResourcesResponse()
        for one in self.holdings:
            if one.listed:
                pod = answer.pod_resources.add(name=one.pod, namespace=one.namespace)
                container = pod.containers.add(name=one.container)
                container.devices.add(resource_name="nvidia.com/gpu", device_ids=one.ids)
        return answer

    async def _follow(self, channel: grpc.aio.Channel) -> None:
        stub = device_plugin_pb2_grpc.DevicePluginStub(channel)
        try:
            async for told in stub.ListAndWatch(device_plugin_pb2.Empty()):
                self.devices = {one.ID: one.health for one in told.devices}
                self._wake()
        except grpc.aio.AioRpcError:
            self.devices = dict.fromkeys(self.devices, "Unhealthy")
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[FakeKubelet]:
    """A kubelet that runs."""
    kubelet = FakeKubelet(folder)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()
