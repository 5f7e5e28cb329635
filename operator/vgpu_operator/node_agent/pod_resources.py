"""Asks the kubelet who holds which devices: its pod resources API.

The kubelet answers ten requests at once and a hundred a second, for all who ask, and
turns the others away; while it starts it answers none.
"""

import asyncio
from pathlib import Path

import grpc
import grpc.aio

from vgpu_operator.agent import tasks
from vgpu_operator.model import errors
from vgpu_operator.node_agent import channels, start_check
from vgpu_operator.node_agent.api import pod_resources_pb2, pod_resources_pb2_grpc

LIMIT_S = 5.0
"""How long the kubelet may take for one answer."""

PATIENCE_S = 10.0
"""How long it is asked again when it turns us away."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
"""Before it is asked again: doubled each time, up to this."""

_TURNED_AWAY = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE})


class UnknownError(errors.VgpuError):
    """The kubelet did not tell; the text says where it was asked and why."""


class Lister:
    """Asks the kubelet, once for all who wait at the same time.

    Args:
        socket: of its pod resources API.
        resource: what of a container's devices counts.
    """

    def __init__(self, socket: Path, *, resource: str) -> None:
        self._socket = socket
        self._resource = resource
        self._asking: asyncio.Task[tuple[start_check.Held, ...]] | None = None
        self._next: asyncio.Task[tuple[start_check.Held, ...]] | None = None

    async def held(self) -> tuple[start_check.Held, ...]:
        """Return what every container of the node holds, by a question asked from now on.

        Raises:
            UnknownError: the kubelet did not tell.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._asking))
            self._next.add_done_callback(tasks.look_at_end)
        return await asyncio.shield(self._next)

    async def _ask_after(
        self, before: asyncio.Task[tuple[start_check.Held, ...]] | None
    ) -> tuple[start_check.Held, ...]:
        # Whoever comes while one is asked waits for the next: that one may know too little.
        if before is not None:
            await asyncio.wait([before])
        self._asking, self._next = self._next, None
        return await held(self._socket, resource=self._resource)


async def held(socket: Path, *, resource: str) -> tuple[start_check.Held, ...]:
    """Return what every container of the node holds of a resource.

    Raises:
        UnknownError: the kubelet did not tell.
    """
    loop = asyncio.get_running_loop()
    end, pause_s = loop.time() + PATIENCE_S, FIRST_PAUSE_S
    while True:
        try:
            return _decoded(await _list(socket), resource)
        except grpc.aio.AioRpcError as fault:
            if fault.code() not in _TURNED_AWAY or loop.time() + pause_s > end:
                raise UnknownError(
                    f"the kubelet does not tell at {socket} who holds which devices: "
                    f"{fault.details()}"
                ) from fault
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


async def _list(socket: Path) -> pod_resources_pb2.ListPodResourcesResponse:
    async with channels.to(socket) as channel:
        lister = pod_resources_pb2_grpc.PodResourcesListerStub(channel)
        answer: pod_resources_pb2.ListPodResourcesResponse = await lister.List(
            pod_resources_pb2.ListPodResourcesRequest(), timeout=LIMIT_S
        )
        return answer


def _decoded(
    answer: pod_resources_pb2.ListPodResourcesResponse, resource: str
) -> tuple[start_check.Held, ...]:
    return tuple(
        start_check.Held(
            namespace=pod.namespace,
            pod=pod.name,
            container=container.name,
            ids=frozenset(
                device_id
                for part in container.devices
                if part.resource_name == resource
                for device_id in part.device_ids
            ),
        )
        for pod in answer.pod_resources
        for container in pod.containers
    )
