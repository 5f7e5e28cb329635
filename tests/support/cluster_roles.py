"""Rights for somebody in a test, on a real API server."""

from collections.abc import Mapping, Sequence
from typing import Any

from support import chart_cluster
from vgpu_operator.kube import client


async def grant(
    kube: client.KubeClient,
    name: str,
    rules: Sequence[Mapping[str, Any]],
    *,
    subject: Mapping[str, str],
) -> None:
    """Let a subject do in all namespaces what the rules say, by a ClusterRole of that name."""
    metadata = {"name": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    await kube.create(
        chart_cluster.collection("ClusterRole"), {"metadata": metadata, "rules": list(rules)}
    )
    await kube.create(
        chart_cluster.collection("ClusterRoleBinding"),
        {"metadata": metadata, "roleRef": role, "subjects": [dict(subject)]},
    )
