"""The ``MutatingWebhookConfiguration`` that sends new pods to ``/webhook``."""

from collections.abc import Mapping
from typing import Any

from vgpu_operator.wire import keys

NAME = "vgpu-operator"
WEBHOOK_NAME = "pods.vgpu-operator.io"
PATH = "/webhook"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""Label that the API server puts on every namespace."""

KUBE_SYSTEM = "kube-system"


def service(*, namespace: str, name: str, port: int = 443) -> dict[str, Any]:
    """Return the reference to the Service in front of the webhook."""
    return {"namespace": namespace, "name": name, "path": PATH, "port": port}


def webhook_configuration(
    *,
    ca_bundle: str,
    url: str = "",
    service: Mapping[str, Any] | None = None,
    failure_policy: str = "Ignore",
    timeout_s: int = 10,
    own_namespace: str = "",
    name: str = NAME,
) -> dict[str, Any]:
    """Return the configuration; exactly one of ``url`` and ``service`` is given.

    ``Ignore`` keeps the cluster working while no replica answers: a pod that
    slips through is reported by the operator later.

    Args:
        ca_bundle: base64 of the PEM that signed the server's certificate.
        url: where the server is, outside a cluster (``https://host:port/webhook``).
        service: as ``service`` returns it.
        failure_policy: ``Ignore`` or ``Fail``.
        timeout_s: 1 to 30.
        own_namespace: left out, so that the operator can always start; by
            default the Service's.
        name: of the configuration object.
    """
    if bool(url) == (service is not None):
        raise ValueError("give exactly one of url and service")
    if service is not None:
        client: dict[str, Any] = {"service": dict(service), "caBundle": ca_bundle}
        own_namespace = own_namespace or str(service["namespace"])
    else:
        client = {"url": url, "caBundle": ca_bundle}
    excluded = sorted({KUBE_SYSTEM, own_namespace} - {""})
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": WEBHOOK_NAME,
                "clientConfig": client,
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "objectSelector": {"matchExpressions": [_not_in(keys.WEBHOOK_LABEL, _IGNORE)]},
                "namespaceSelector": {
                    "matchExpressions": [
                        _not_in(keys.WEBHOOK_LABEL, _IGNORE),
                        _not_in(NAMESPACE_NAME_LABEL, excluded),
                    ]
                },
                "admissionReviewVersions": ["v1"],
                "failurePolicy": failure_policy,
                "matchPolicy": "Equivalent",
                "reinvocationPolicy": "Never",
                "sideEffects": "None",
                "timeoutSeconds": timeout_s,
            }
        ],
    }


_IGNORE = [keys.WEBHOOK_IGNORE]


def _not_in(label: str, values: list[str]) -> dict[str, Any]:
    return {"key": label, "operator": "NotIn", "values": list(values)}
