"""A small cluster for the reading commands, and a way to run a command line on it."""

import datetime
from typing import Any

import pytest

from support.fake_kube import FakeKube
from vgpu_operator.cli import main
from vgpu_operator.kube import client, clock

NOW = datetime.datetime(2026, 1, 15, 10, 0, 30, tzinfo=datetime.UTC)
ONE_CARD = (
    '[{"id":"GPU-a0","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A10",'
    '"mode":"hami-core","health":true}]'
)
TWO_CARDS = (
    '[{"id":"GPU-b1","index":1,"count":4,"devmem":16384,"devcore":100,"type":"NVIDIA-Tesla T4",'
    '"numa":1,"mode":"hami-core"},'
    '{"id":"GPU-b0","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A10","health":true}]'
)


def cluster() -> FakeKube:
    """Return a cluster with two nodes, a pod that runs, one that waits, one without cards."""
    kube = FakeKube()
    kube.put(
        "/api/v1/nodes/n1",
        {
            "metadata": {
                "labels": {"zone": "a"},
                "annotations": {
                    "hami.io/node-nvidia-register": ONE_CARD,
                    "hami.io/node-handshake": "Requesting_2026-01-15 10:00:00",
                    "hami.io/mutex.lock": "2026-01-15T10:00:20Z,team-a,p1",
                    "hami.io/device-cordon": "GPU-a0",
                },
            },
            "status": {"allocatable": {"nvidia.com/gpu": "10"}},
        },
    )
    kube.put(
        "/api/v1/nodes/n2",
        {
            "metadata": {"annotations": {"hami.io/node-nvidia-register": TWO_CARDS}},
            "status": {"allocatable": {"nvidia.com/gpu": "14"}},
        },
    )
    put_operator(kube)
    put_pod(kube, "p1", node="n1", shares="GPU-a0,NVIDIA,3000,30:;", phase="Running")
    put_pod(kube, "p2", message="0/2 nodes are available: 1/1 CardInsufficientMemory.")
    kube.put(
        "/api/v1/namespaces/team-a/pods/plain",
        {"spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Running"}},
    )
    return kube


def put_operator(kube: FakeKube, settings: str = "") -> None:
    """Put the installed operator with the ConfigMap of its settings."""
    container = {"name": "operator", "args": ["run", "--extender-bind=127.0.0.1:8080"]}
    volumes = [{"name": "settings", "configMap": {"name": "vgpu-operator"}}]
    kube.put(
        "/apis/apps/v1/namespaces/kube-system/deployments/vgpu-operator",
        {"spec": {"template": {"spec": {"containers": [container], "volumes": volumes}}}},
    )
    kube.put(
        "/api/v1/namespaces/kube-system/configmaps/vgpu-operator",
        {"data": {"settings.yaml": settings}},
    )


def put_pod(
    kube: FakeKube,
    name: str,
    *,
    namespace: str = "team-a",
    node: str = "",
    shares: str = "",
    phase: str = "Pending",
    message: str = "",
) -> None:
    """Put a pod of one container that asks for one card."""
    notes: dict[str, str] = {}
    if shares:
        notes = {
            "hami.io/vgpu-node": node,
            "hami.io/vgpu-devices-allocated": shares,
            "hami.io/bind-phase": "success",
        }
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}
    status: dict[str, Any] = {"phase": phase}
    if message:
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
            }
        ]
    kube.put(
        f"/api/v1/namespaces/{namespace}/pods/{name}",
        {
            "metadata": {"annotations": notes, "labels": {"app": name}},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"limits": limits}}],
            },
            "status": status,
        },
    )


class CommandLine:
    """Runs command lines against a cluster and reads what they print."""

    def __init__(
        self, kube: FakeKube, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]
    ) -> None:
        async def connect(**_: Any) -> FakeKube:
            return kube

        self.kube = kube
        self._capture = capture
        patch.setattr(client.KubeClient, "connect", connect)
        patch.setattr(clock.SystemClock, "now", lambda _: NOW)
        self.out = self.err = ""

    def run(self, *arguments: str) -> int:
        """Run one command line; ``out`` and ``err`` are what it printed."""
        code = main.answer(arguments)
        self.out, self.err = self._capture.readouterr()
        return code
