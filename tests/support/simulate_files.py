"""Objects as ``vgpu simulate`` reads them from files: nodes of A10s, pods of one container."""

from typing import Any, TypeAlias

from support import operator_books

Json: TypeAlias = dict[str, Any]

MIB = 24576
"""Of each card."""


def node(name: str, *cards: str) -> Json:
    """Return a node with cards of those ids."""
    register = operator_books.register_text(*((card, MIB) for card in cards))
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"hami.io/node-nvidia-register": register}},
        "status": {"allocatable": {"nvidia.com/gpu": str(10 * len(cards))}},
    }


def pod(name: str, *, mem: int | str = 20000, **spec: Any) -> Json:
    """Return a pod that asks for so much of one card."""
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": mem}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def holder(name: str, card: str, mem: int, *, node: str, **spec: Any) -> Json:
    """Return a pod that holds so much of a card of that node."""
    found = pod(name, mem=mem, nodeName=node, **spec)
    found["metadata"]["annotations"] = {
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-devices-allocated": f"{card},NVIDIA,{mem},0:;",
    }
    return found
