"""Kubeconfig texts: written for users of a local cluster, read for its address."""

import base64
from dataclasses import dataclass

import yaml

from vgpu_operator.cli.cluster import certificates
from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.model import errors, yaml_text

ADMIN_GROUP = "system:masters"
"""The group that RBAC always lets pass."""

ADMIN_USER = "kubernetes-admin"
_CLUSTER = "vgpu-local"


def encode_kubeconfig(
    *, server_url: str, ca_pem: bytes, user: str, credentials: certificates.KeyPair
) -> bytes:
    """Return a kubeconfig that holds its certificates itself, so that it can be copied."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": _CLUSTER,
                "cluster": {"server": server_url, "certificate-authority-data": _base64(ca_pem)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _base64(credentials.certificate_pem),
                    "client-key-data": _base64(credentials.key_pem),
                },
            }
        ],
        "contexts": [{"name": _CLUSTER, "context": {"cluster": _CLUSTER, "user": user}}],
        "current-context": _CLUSTER,
    }
    return yaml.safe_dump(content, sort_keys=False).encode()


@dataclass(frozen=True, slots=True)
class Target:
    """What a context of a kubeconfig points at."""

    context: str
    server_url: str


def decode_target(text: bytes, *, context: str | None, origin: str) -> Target:
    """Find the API server of a context; None means the current one.

    Args:
        text: The kubeconfig.
        context: Which context.
        origin: Where the text is from, for the message.

    Raises:
        ClusterError: The text is no kubeconfig, or has no such context.
    """
    try:
        content = yaml_text.read(text.decode()).value
        wanted = context or content.get("current-context")
        contexts = {item["name"]: item["context"] for item in content.get("contexts") or []}
        clusters = {item["name"]: item["cluster"] for item in content.get("clusters") or []}
        if wanted not in contexts:
            known = ", ".join(sorted(contexts)) or "none"
            raise ClusterError(
                f"{origin} has no context {wanted!r} (it has: {known}); choose one with --context"
                if wanted
                else f"{origin} names no current context; choose one with --context"
            )
        return Target(context=wanted, server_url=clusters[contexts[wanted]["cluster"]]["server"])
    except (errors.SettingsError, UnicodeDecodeError) as fault:
        raise ClusterError(f"{origin} cannot be read as a kubeconfig: {fault}") from fault
    except (AttributeError, KeyError, TypeError) as fault:
        raise ClusterError(
            f"{origin} cannot be read as a kubeconfig ({type(fault).__name__}); "
            "check it with: kubectl config view"
        ) from fault


def _base64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
