"""What a device plugin looks at in raw Kubernetes JSON, of the simulator and of the node agent."""

from collections.abc import Mapping
from typing import Any

from vgpu_operator.flows import effects_agent
from vgpu_operator.model import errors
from vgpu_operator.wire import quantity, shape


def node(raw: Mapping[str, Any]) -> effects_agent.NodeSeen:
    """Return what a plugin looks at in a Node."""
    metadata = shape.mapping(raw.get("metadata"))
    return effects_agent.NodeSeen(
        name=shape.text(metadata.get("name")),
        resource_version=shape.text(metadata.get("resourceVersion")),
        annotations=shape.annotations(raw),
    )


def pod(raw: Mapping[str, Any]) -> effects_agent.PodSeen:
    """Return what HAMi's plugin looks at in a Pod."""
    metadata = shape.mapping(raw.get("metadata"))
    return effects_agent.PodSeen(
        namespace=shape.text(metadata.get("namespace")),
        name=shape.text(metadata.get("name")),
        phase=shape.text(shape.mapping(raw.get("status")).get("phase")) or "Pending",
        annotations=shape.annotations(raw),
    )


def asked(container: Mapping[str, Any], resource: str) -> int:
    """Return how many of a resource a container asks for; 0 where its limit is no number."""
    limits = shape.mapping(shape.mapping(container.get("resources")).get("limits"))
    try:
        return quantity.decode_integer(limits.get(resource, 0))
    except errors.DecodeError:
        return 0
