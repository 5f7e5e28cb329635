"""Clusters as the API serves them, and what is explained about a pod in them.

Cards are A10s of 10,000 MiB and 100% cores with 10 slots unless a test says otherwise.
"""

import json
from typing import Any

from support.operator_books import NOW
from vgpu_operator.cli import cluster_books
from vgpu_operator.flows import what_if
from vgpu_operator.model import settings

Json = dict[str, Any]


def card(card_id: str, memory_mib: int = 10_000, **fields: Any) -> Json:
    """Return one card of a register text."""
    return {
        "id": card_id,
        "count": 10,
        "devmem": memory_mib,
        "devcore": 100,
        "type": "NVIDIA-NVIDIA A10",
        "mode": "hami-core",
        "health": True,
        **fields,
    }


def node(
    name: str,
    *cards: Json,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a Node with those cards; further keywords become fields of its spec."""
    placed = [{**one, "index": index} for index, one in enumerate(cards)]
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": labels or {},
            "annotations": {
                "hami.io/node-nvidia-register": json.dumps(placed),
                **(annotations or {}),
            },
        },
        "spec": spec,
        "status": {"allocatable": {"nvidia.com/gpu": str(10 * len(cards)), **(allocatable or {})}},
    }


def pod(
    name: str,
    *,
    gpu: int = 1,
    mem: int | None = 3000,
    cores: int | None = None,
    on: str = "",
    cards: str = "",
    bind_time_s: int | None = None,
    annotations: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a Pod of one container; ``on`` and ``cards`` (ids with commas) say what it holds."""
    limits = {"nvidia.com/gpu": str(gpu)}
    if mem is not None:
        limits["nvidia.com/gpumem"] = str(mem)
    if cores is not None:
        limits["nvidia.com/gpucores"] = str(cores)
    notes = dict(annotations or {})
    if on:
        shares = "".join(f"{one},NVIDIA,{mem},{cores or 0}:" for one in cards.split(","))
        notes |= {
            "hami.io/vgpu-node": on,
            "hami.io/vgpu-devices-allocated": f"{shares};",
            "hami.io/bind-phase": "success",
        }
    if bind_time_s is not None:
        notes["hami.io/bind-time"] = str(bind_time_s)
    resources: Json = {"limits": limits}
    if requests:
        resources["requests"] = requests
    return {
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": notes,
        },
        "spec": {
            "schedulerName": "hami-scheduler",
            "containers": [{"name": "main", "resources": resources}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def explain(
    asked: Json,
    *nodes: Json,
    pods: tuple[Json, ...] = (),
    quotas: tuple[Json, ...] = (),
    detailed: int | None = what_if.NEAREST,
    **configured: Any,
) -> what_if.Explanation:
    """Explain a pod in a cluster of these objects."""
    found = cluster_books.Objects(nodes=nodes, pods=(*pods, asked), quotas=quotas)
    books = cluster_books.opened(
        found, settings.build(configured), NOW, besides=asked["metadata"]["uid"]
    )
    case = what_if.Case(
        pod=asked,
        record=cluster_books.pod_record(books, asked),
        nodes=nodes,
        pods=found.bound(besides=asked["metadata"]["uid"]),
    )
    return what_if.explain(books, case, NOW, detailed=detailed)
