"""Asks the kubelet who holds which devices: its pod resources API."""

from pathlib import Path

import grpc
import grpc.aio

from vgpu_operator.model import errors
from vgpu_operator.node_agent import channels, start_check
from vgpu_operator.node_agent.api import pod_resources_pb2, pod_resources_pb2_grpc

LIMIT_S = 5.0
"""How long the kubelet may take to tell."""


class UnknownError(errors.VgpuError):
    """The kubelet did not tell; the text says where it was asked and why."""


async def held(socket: Path, *, resource: str) -> tuple[start_check.Held, ...]:
    """Return what every container of the node holds of a resource.

    Raises:
        UnknownError: the kubelet did not tell.
    """
    try:
        async with channels.to(socket) as channel:
            lister = pod_resources_pb2_grpc.PodResourcesListerStub(channel)
            answer = await lister.List(pod_resources_pb2.ListPodResourcesRequest(), timeout=LIMIT_S)
    except grpc.aio.AioRpcError as fault:
        raise UnknownError(
            f"the kubelet does not tell at {socket} who holds which devices: {fault.details()}"
        ) from fault
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
