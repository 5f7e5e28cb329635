"""A node whose device plugins are played by hand, on the operator's shell."""

from collections.abc import Iterator, Mapping
from typing import Any

from support import operator_books
from support.desk import Shell
from vgpu_operator.wire import extender

Json = dict[str, Any]

ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"

THREE_VENDORS = {
    "nvidia.com/gpu": "1",
    "nvidia.com/gpumem": "1000",
    "hygon.com/dcunum": "1",
    "hygon.com/dcumem": "1000",
    "cambricon.com/vmlu": "1",
    "cambricon.com/mlu.smlu.vmemory": "1",
}
"""Limits of one container for which three plugins are called."""

THREE_LOCKS = ("4pd.io/mutex.lock", "cambricon.com/dsmlu.lock", "hami.io/mutex.lock")
"""The locks of those three plugins on the node of ``put_node_with_three_locks``."""


def pod_path(name: str) -> str:
    """Return the address of a pod of namespace ``team-a``."""
    return f"/api/v1/namespaces/team-a/pods/{name}"


def bind_args(name: str, node: str = "node-a", *, uid: str = "") -> extender.BindArgs:
    """Return what kube-scheduler asks to bind that pod there."""
    return extender.BindArgs(namespace="team-a", name=name, uid=uid or f"uid-of-{name}", node=node)


def annotate(shell: Shell, path: str, texts: Mapping[str, str | None], **status: Any) -> None:
    """Write annotations and status as somebody else would, and have the watch show it."""
    whole = shell.kube.objects[path]
    notes = {**shell.notes(path), **texts}
    shell.kube.put(
        path,
        {
            **whole,
            "metadata": {
                **whole["metadata"],
                "annotations": {key: text for key, text in notes.items() if text is not None},
            },
            "status": {**whole["status"], **status},
        },
    )
    shell.show(path)


def serve(shell: Shell, name: str, *, outcome: str = "success", **status: Any) -> None:
    """Have NVIDIA's plugin end a pod's Allocate that way; its lock is left standing."""
    left = {TO_ALLOCATE: ";"} if outcome == "success" else {}
    annotate(shell, pod_path(name), {PHASE: outcome, **left}, **status)


def allocating(shell: Shell) -> Iterator[str]:
    """Yield the names of the pods whose Allocate is still to come."""
    for path, raw in shell.kube.objects.items():
        if "/pods/" in path and shell.notes(path).get(PHASE) == "allocating":
            yield raw["metadata"]["name"]


def put_node_with_three_locks(shell: Shell, **locks: str) -> str:
    """Have a node with the cards of three vendors, each with a lock of its own; return its path.

    NVIDIA's plugin there is that of k8s-vgpu-scheduler.
    """
    path = "/api/v1/nodes/node-a"
    offered = {
        "nvidia.com/gpu": "10",
        "hygon.com/dcunum": "4",
        "cambricon.com/vmlu": "200",
        "cambricon.com/mlu.smlu.vcore": "200",
        "cambricon.com/mlu.smlu.vmemory": "80",
    }
    notes = {
        "4pd.io/node-nvidia-register": operator_books.ONE_CARD,
        "4pd.io/node-handshake": operator_books.FRESH_STAMP,
        "hami.io/node-dcu-register": "DCU-a0,4,16384,100,DCU-Z100,0,true:",
        "hami.io/node-handshake-dcu": operator_books.FRESH_STAMP,
    }
    shell.kube.put(
        path,
        {
            "metadata": {"annotations": notes | locks},
            "status": {"allocatable": offered, "capacity": offered},
        },
    )
    shell.show(path)
    return path


def put_pod(
    shell: Shell, name: str, limits: dict[str, str], *, show: bool = True, **metadata: Any
) -> str:
    """Have an unbound pod of one container with these limits; return its path.

    Without ``show`` the watch lags: the API server has it and we do not know.
    """
    path = pod_path(name)
    shell.kube.put(
        path,
        {
            "metadata": {"uid": f"uid-of-{name}", **metadata},
            "spec": {
                "schedulerName": "hami-scheduler",
                "containers": [{"name": "main", "resources": {"limits": limits}}],
            },
            "status": {"phase": "Pending"},
        },
    )
    if show:
        shell.show(path)
    return path
