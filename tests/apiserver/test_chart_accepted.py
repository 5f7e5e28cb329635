"""Every object that the chart makes is accepted by the API server, for a matrix of values."""

import contextlib
from typing import Any

import pytest
import yaml

from support.chart_cluster import dry_run
from support.helm import NAMESPACE, ROOT, Helm
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.kube import client, errors

pytestmark = pytest.mark.apiserver

EVERYTHING_ON: dict[str, Any] = {
    "global": {"labels": {"team": "ml"}, "annotations": {"note": "x"}, "imagePullSecrets": ["k"]},
    "scheduler": {
        "replicas": 3,
        "nodeSelector": {"role": "infra"},
        "tolerations": [{"operator": "Exists"}],
        "podDisruptionBudget": {"maxUnavailable": 1},
        "service": {"type": "NodePort"},
        "admissionWebhook": {
            "failurePolicy": "Fail",
            "whitelistNamespaces": ["quiet"],
            "namespaceSelector": {"matchLabels": {"gpu": "yes"}},
        },
    },
    "settings": {"bind": {"stuckPod": "delete"}},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"podSelector": {}}]},
    "devicePlugin": {
        "runtimeClassName": "nvidia",
        "createRuntimeClass": True,
        "nvidiaDriverRoot": "/run/nvidia/driver",
        "gdsEnabled": True,
        "gpuOperatorToolkitReady": {"enabled": True},
        "extraEnvs": [{"name": "A", "value": "b"}],
    },
    "agent": {"enabled": True, "simulate": {"nodes": [{"prefix": "sim-", "count": 2, "cards": 1}]}},
    "admissionPolicy": {"action": "Deny", "protocolWriters": ["system:admin"]},
    "devices": {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}},
}

MATRIX = {
    "defaults": {},
    "HAMi's defaults": yaml.safe_load((ROOT / "tests/golden/hami-values.yaml").read_text()),
    "everything on": EVERYTHING_ON,
    "everything off": {
        "scheduler": {"admissionWebhook": {"enabled": False}, "leaderElect": False},
        "devicePlugin": {"enabled": False},
        "admissionPolicy": {"enabled": False},
        "cleanup": {"enabled": False},
    },
    "a certificate of one's own": {
        "scheduler": {"patch": {"enabled": False}, "runAsUser": None},
    },
    "a webhook by address": {"scheduler": {"admissionWebhook": {"customURL": {"enabled": True}}}},
}


@pytest.mark.parametrize("kubernetes", ["v1.34.1", "v1.36.3"])
@pytest.mark.parametrize("name", MATRIX)
async def test_every_object_is_accepted_by_the_api_server(
    control_plane: ControlPlane, helm: Helm, name: str, kubernetes: str
) -> None:
    objects = helm.template(MATRIX[name], kubernetes=kubernetes)
    refused = []
    async with await client.KubeClient.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        with contextlib.suppress(errors.Conflict):
            await kube.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for item in objects:
            try:
                await dry_run(kube, item)
            except errors.ApiError as fault:
                refused.append(f"{item['kind']} {item['metadata']['name']}: {fault}")

    assert refused == []
    assert len(objects) >= 10
