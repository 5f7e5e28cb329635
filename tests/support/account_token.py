"""A pod's own token of its ServiceAccount, as a kubelet gets it and hands it to the pod."""

from pathlib import Path
from typing import Any, Final

import yaml

from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.kube import client

NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""What the API server says, beside the account, of who shows the token of a bound pod."""

SHORTEST_S: Final = 600
"""No token is issued for less."""


async def token_of(
    kube: client.KubeClient, account: str, namespace: str, *, pod: str | None = None
) -> str:
    """Return a token of that account; with a pod's name one that ends with the pod.

    Args:
        kube: may issue tokens.
        account: the ServiceAccount's name.
        namespace: of account and pod.
        pod: uses the account; where it is bound, the token says to which node.
    """
    asked: dict[str, Any] = {"expirationSeconds": SHORTEST_S}
    if pod is not None:
        asked["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod}
    answer = await kube.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked},
    )
    return str(answer["status"]["token"])


def kubeconfig(plane: ControlPlane, token: str, file: Path) -> Path:
    """Write a kubeconfig that logs in with a token and nothing else."""
    content = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
    (entry,) = content["users"]
    entry["user"] = {"token": token}
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file
