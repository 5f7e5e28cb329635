"""Every object that the chart makes is accepted by the API server, for a matrix of values.

So are the plain manifests, by the oldest Kubernetes that is supported and by a new one.
"""

import asyncio
import base64
import contextlib
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from support import chart_cluster
from support import control_plane as planes
from support.chart_cluster import dry_run
from support.helm import CHART, NAMESPACE, RELEASE, ROOT, Helm
from vgpu_operator.cli.cluster import versions
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
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
    "an agent on real nodes": {
        "devicePlugin": {"enabled": False},
        "agent": {
            "enabled": True,
            "backend": "nvml",
            "runtimeClassName": "nvidia",
            "createRuntimeClass": True,
            "nodeSelector": {"gpu": None, "pool": "gpus"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "podAnnotations": {"note": "x"},
            "extraEnvs": [{"name": "A", "value": "b"}],
            "securityContext": {"seLinuxOptions": {"type": "container_device_plugin_t"}},
            "failures": {"slow": 1.5, "crashAfter": 2, "never": True},
            "simulate": {"nodes": [{"prefix": "sim-", "count": 2, "cards": 1}]},
        },
    },
    "a webhook by address": {"scheduler": {"admissionWebhook": {"customURL": {"enabled": True}}}},
}


MANIFESTS = (
    *("vgpu-operator.yaml", "cleanup.yaml", "kind/vgpu-operator.yaml"),
    "kind/node-agent.yaml",
)
MOUNT_THE_HOST = {"vgpu-operator.yaml": ["device-plugin"], "kind/node-agent.yaml": ["node-agent"]}
"""Components that reach the kubelet's folders, by manifest."""

COMPONENT = "app.kubernetes.io/component"
RESTRICTED = "restricted-pods"


@pytest_asyncio.fixture(scope="module", params=[planes.OLDEST, versions.PINNED])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ControlPlane]:
    """Run an API server of each version."""
    await planes.build(request.config, request.param)
    options = ControlPlaneOptions(kubernetes_version=request.param)
    async with ControlPlane(options) as running:
        yield running


@pytest_asyncio.fixture
async def kube(server: ControlPlane) -> AsyncIterator[client.KubeClient]:
    async with await client.KubeClient.connect(kubeconfig=str(server.kubeconfig)) as kube:
        await make_namespace(kube, {"name": NAMESPACE})
        yield kube


async def make_namespace(kube: client.KubeClient, metadata: dict[str, Any]) -> None:
    with contextlib.suppress(errors.Conflict):
        await kube.create("/api/v1/namespaces", {"metadata": metadata})


async def refusals(kube: client.KubeClient, objects: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the API server says of the objects that it does not take."""

    async def refusal(item: dict[str, Any]) -> str:
        try:
            await dry_run(kube, item)
        except errors.ApiError as fault:
            # That a namespace exists is said after all else has been checked.
            if not (item["kind"] == "Namespace" and isinstance(fault, errors.Conflict)):
                return f"{item['kind']} {item['metadata']['name']}: {fault}"
        return ""

    return [*filter(None, await asyncio.gather(*map(refusal, objects)))]


async def test_the_server_is_of_the_version_that_is_asked_for(
    server: ControlPlane, kube: client.KubeClient
) -> None:
    version = await kube.get("/version")

    assert version["gitVersion"] == f"v{server.options.kubernetes_version}"


@pytest.mark.parametrize("name", MATRIX)
async def test_every_object_is_accepted_by_the_api_server(
    server: ControlPlane, kube: client.KubeClient, helm: Helm, name: str
) -> None:
    kubernetes = f"v{server.options.kubernetes_version}"
    objects = helm.template(MATRIX[name], kubernetes=kubernetes)

    assert await refusals(kube, objects) == []
    assert len(objects) >= 10


@pytest.mark.parametrize("name", MANIFESTS)
async def test_every_manifest_is_accepted_by_the_api_server(
    kube: client.KubeClient, name: str
) -> None:
    objects = manifest(name)

    assert await refusals(kube, objects) == []


@pytest.mark.parametrize("name", MANIFESTS)
async def test_only_what_serves_a_kubelet_needs_more_than_restricted_pod_security_allows(
    kube: client.KubeClient, name: str
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    await make_namespace(kube, {"name": RESTRICTED, "labels": label})
    specs = [item.get("spec", {}) for item in manifest(name)]
    templates = [spec["template"] for spec in specs if "template" in spec]

    answers = {
        template["metadata"]["labels"][COMPONENT]: await refusals(kube, [pod_of(template)])
        for template in templates
    }

    refused = [component for component, answer in answers.items() if answer]
    assert refused == MOUNT_THE_HOST.get(name, []), answers
    assert len(answers) > len(refused)


async def test_a_manifest_that_is_applied_again_changes_nothing_and_helm_can_take_it_over(
    server: ControlPlane,
    kube: client.KubeClient,
    kubectl_program: Path,
    helm_program: Path,
    tmp_path: Path,
) -> None:
    text = (ROOT / "manifests/vgpu-operator.yaml").read_text().replace(NAMESPACE, "plain-yaml")
    made = {item["kind"]: chart_cluster.object_path(item) for item in yaml.safe_load_all(text)}
    webhook = made["MutatingWebhookConfiguration"]

    def kubectl(*arguments: str) -> list[str]:
        argv = [kubectl_program, f"--kubeconfig={server.kubeconfig}", f"--cache-dir={tmp_path}"]
        done = subprocess.run(
            [*argv, *arguments, "-f", "-"], input=text, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    applied = kubectl("apply")
    authority = base64.b64encode(server.authority.certificate_pem).decode()
    await kube.patch(made["Secret"], {"data": {"tls.crt": authority}})
    seen = await kube.get(webhook)
    seen["webhooks"][0]["clientConfig"]["caBundle"] = authority
    await kube.replace(webhook, seen)
    before = {path: await kube.get(path) for path in made.values()}

    kubectl("apply")

    assert {path: await kube.get(path) for path in made.values()} == before
    assert before[made["Secret"]]["data"] == {"tls.crt": authority}

    taken = Helm(program=helm_program, home=tmp_path, kubeconfig=server.kubeconfig).run(
        *("install", RELEASE, str(CHART), "--namespace", "plain-yaml", "--take-ownership")
    )

    assert taken.complaint == ""
    assert (await kube.get(made["Secret"]))["data"] == {"tls.crt": authority}
    assert len(kubectl("delete", "--wait=false")) == len(applied)
    with pytest.raises(errors.NotFound):
        await kube.get(webhook)


def manifest(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "manifests" / name).read_text()))


def pod_of(template: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": RESTRICTED, "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
