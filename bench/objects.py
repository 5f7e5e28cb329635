"""Nodes and pods of the set-ups that are measured, as raw JSON."""

import datetime
from typing import Any

import orjson

Json = dict[str, Any]

SCHEDULER = "hami-scheduler"
CARDS = 8
SLOTS = 10
CARD_MIB = 24_576
POD_MIB = 1_000


def node(name: str, *, cards: int = CARDS, slots: int = SLOTS) -> Json:
    """Return a Node with NVIDIA cards that its plugin has registered and keeps reporting."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")  # noqa: TID251
    register = orjson.dumps(
        [
            {
                "id": f"GPU-{name}-{index}",
                "index": index,
                "count": slots,
                "devmem": CARD_MIB,
                "devcore": 100,
                "type": "NVIDIA-NVIDIA A10",
                "numa": index // 4,
                "mode": "hami-core",
                "health": True,
            }
            for index in range(cards)
        ]
    ).decode()
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {
                "hami.io/node-nvidia-register": register,
                "hami.io/node-handshake": f"Requesting_{now}",
            },
        },
    }


def node_status(*, cards: int = CARDS, slots: int = SLOTS) -> Json:
    """Return the status that a kubelet would write on such a Node."""
    amounts = {
        "cpu": "64",
        "memory": "256Gi",
        "pods": "250",
        "nvidia.com/gpu": str(cards * slots),
    }
    return {"status": {"capacity": amounts, "allocatable": amounts}}


def pod(name: str, *, exclusive: bool = False, node_policy: str = "") -> Json:
    """Return a Pod of one slot and 1,000 MiB; ``exclusive`` asks for a whole card."""
    limits = {"nvidia.com/gpu": "1"}
    if not exclusive:
        limits["nvidia.com/gpumem"] = str(POD_MIB)
    annotations = {"hami.io/node-scheduler-policy": node_policy} if node_policy else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": {"limits": limits}}],
        },
    }


def placed_pod(name: str, *, node: str, card: str) -> Json:
    """Return a Pod as it looks long after it was bound and served."""
    share = f"{card},NVIDIA,{POD_MIB},0:;"
    made = pod(name)
    made["metadata"]["annotations"] = {
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-time": "1760000000",
        "hami.io/bind-time": "1760000000",
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-devices-allocated": share,
        "hami.io/vgpu-devices-to-allocate": ";",
    }
    made["spec"]["nodeName"] = node
    return made


def plain_pod(name: str, *, node: str = "") -> Json:
    """Return a Pod that has nothing to do with cards."""
    made = pod(name)
    made["spec"] = {
        "schedulerName": "somebody-else",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none"}],
    }
    if node:
        made["spec"]["nodeName"] = node
    return made
