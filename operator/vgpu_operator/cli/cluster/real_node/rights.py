"""What a node agent may do on a local cluster: the rights that the chart gives it too."""

import contextlib
from typing import Any

from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors

AGENT_USER = "vgpu-node-agent"

_GROUP = "rbac.authorization.k8s.io"

AGENT: tuple[dict[str, Any], ...] = (
    # Its cards and the lock are annotations of its Node.
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    # What its pods are promised, and what they got.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]},
    # That a card has fallen ill, is well again, or is gone.
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
)


async def give_agent(kube: kube_client.KubeClient) -> None:
    """Make role and binding for ``AGENT_USER``, where they are not there yet."""
    meta = {"name": AGENT_USER}
    subject = {"kind": "User", "name": AGENT_USER, "apiGroup": _GROUP}
    role = {"kind": "ClusterRole", "name": AGENT_USER, "apiGroup": _GROUP}
    objects: dict[str, dict[str, Any]] = {
        "clusterroles": {"metadata": meta, "rules": list(AGENT)},
        "clusterrolebindings": {"metadata": meta, "roleRef": role, "subjects": [subject]},
    }
    for collection, document in objects.items():
        with contextlib.suppress(errors.Conflict):
            await kube.create(f"/apis/{_GROUP}/v1/{collection}", document)
