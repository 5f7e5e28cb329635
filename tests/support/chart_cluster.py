"""The chart's objects against a real API server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.helm import NAMESPACE, RELEASE
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.kube import client

Json = dict[str, Any]

SCHEDULER = f"{RELEASE}-vgpu-operator-scheduler"
"""The Deployment of kube-scheduler and operator, and its ServiceAccount."""

CLEANUP = f"{RELEASE}-vgpu-operator-cleanup"
"""The hook that cleans up, and its ServiceAccount."""

PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    ),
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ValidatingAdmissionPolicy": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    ),
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    ),
}
"""Collections of every kind that the chart makes for the API server itself."""


_BESIDE_IT = {"Namespace": "/api/v1/namespaces", "Pod": "/api/v1/namespaces/{}/pods"}


def collection(kind: str, namespace: str = NAMESPACE) -> str:
    """Return the path of a collection."""
    return (PATHS | _BESIDE_IT)[kind].format(namespace)


def object_path(item: Json) -> str:
    """Return the path of one object."""
    metadata = item["metadata"]
    return f"{collection(item['kind'], metadata.get('namespace', NAMESPACE))}/{metadata['name']}"


async def dry_run(kube: client.KubeClient, item: Json) -> Json:
    """Have the API server check an object as if it were created; unknown fields are faults."""
    path = collection(item["kind"], item["metadata"].get("namespace", NAMESPACE))
    return await kube.request(
        "POST", path, body=item, params={"dryRun": "All", "fieldValidation": "Strict"}
    )


async def everything(kube: client.KubeClient) -> dict[str, Json]:
    """Return every object of the kinds above, and all nodes and Leases, by path."""
    found: dict[str, Json] = {}
    everywhere = [path.replace("/namespaces/{}", "") for path in PATHS.values()]
    for path in (*everywhere, "/api/v1/nodes", "/apis/coordination.k8s.io/v1/leases"):
        items, _ = await kube.list(path)
        for item in items:
            metadata = item["metadata"]
            found[f"{path}/{metadata.get('namespace', '')}/{metadata['name']}"] = item
    return found


def user(account: str, namespace: str = NAMESPACE) -> str:
    """Return what the API server calls a ServiceAccount."""
    return f"system:serviceaccount:{namespace}:{account}"


def service_account(plane: ControlPlane, name: str, namespace: str = NAMESPACE) -> Path:
    """Return a kubeconfig that the API server takes for this ServiceAccount's."""
    groups: Sequence[str] = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return plane.kubeconfig_for(user(name, namespace), groups)
