"""Short ways to write pods as the API serves them."""

from typing import Any


def container(name: str = "main", /, **resources: object) -> dict[str, Any]:
    """Return a container; ``gpu``, ``mem``, ``cores``, ``percent``, ``priority`` are limits."""
    words = {
        "gpu": "nvidia.com/gpu",
        "mem": "nvidia.com/gpumem",
        "cores": "nvidia.com/gpucores",
        "percent": "nvidia.com/gpumem-percentage",
        "priority": "nvidia.com/priority",
    }
    limits = {words[word]: str(value) for word, value in resources.items()}
    found: dict[str, Any] = {"name": name, "image": "busybox"}
    return found | {"resources": {"limits": limits}} if limits else found


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return pod ``team-a/p1``; further keywords become fields of its spec."""
    metadata: dict[str, Any] = {"name": "p1", "namespace": "team-a", "uid": "u1"}
    if annotations is not None:
        metadata["annotations"] = annotations
    if labels is not None:
        metadata["labels"] = labels
    whole: dict[str, Any] = {"metadata": metadata, "spec": {"containers": [*containers], **spec}}
    if init:
        whole["spec"]["initContainers"] = [*init]
    if status is not None:
        whole["status"] = status
    return whole
