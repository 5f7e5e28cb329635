"""Raw Kubernetes JSON as the node agent reads it."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from vgpu_operator.agent import seen
from vgpu_operator.flows import effects_agent
from vgpu_operator.wire import shape


def pod_seen(raw: Mapping[str, Any], *, resource: str) -> effects_agent.PodSeen:
    """Return what the agent looks at in a Pod, of which ``resource`` is asked."""
    metadata = shape.mapping(raw.get("metadata"))
    status = shape.mapping(raw.get("status"))
    return dataclasses.replace(
        seen.pod(raw),
        uid=shape.text(metadata.get("uid")),
        resource_version=shape.text(metadata.get("resourceVersion")),
        node=shape.text(shape.mapping(raw.get("spec")).get("nodeName")),
        admitted=bool(status.get("startTime")),
        containers=tuple(_containers(raw, status, resource)),
    )


def _containers(
    raw: Mapping[str, Any], status: Mapping[str, Any], resource: str
) -> Iterator[effects_agent.ContainerSeen]:
    """Yield the containers, init containers first, as the kubelet asks for their devices."""
    statuses = (
        *_statuses(status, "initContainerStatuses"),
        *_statuses(status, "containerStatuses"),
    )
    ran = {shape.text(one.get("name")) for one in statuses if one.get("containerID")}
    for field, _, container in shape.containers(raw):
        name = shape.text(container.get("name"))
        yield effects_agent.ContainerSeen(
            name=name,
            asked=seen.asked(container, resource),
            passing=field == "initContainers" and container.get("restartPolicy") != "Always",
            ran=name in ran,
        )


def _statuses(status: Mapping[str, Any], field: str) -> tuple[Mapping[str, Any], ...]:
    return shape.mappings(status.get(field))
