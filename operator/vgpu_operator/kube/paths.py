"""Paths of the API objects that we touch."""

from urllib.parse import quote

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
QUOTAS = "/api/v1/resourcequotas"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def node(name: str) -> str:
    """Return the path of one Node."""
    return f"{NODES}/{quote(name, safe='')}"


def namespaced(namespace: str, collection: str) -> str:
    """Return the path of a core collection in one namespace."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/{collection}"


def pod(namespace: str, name: str) -> str:
    """Return the path of one Pod."""
    return f"{namespaced(namespace, 'pods')}/{quote(name, safe='')}"


def binding(namespace: str, name: str) -> str:
    """Return the path that a Binding for one Pod is created at."""
    return f"{pod(namespace, name)}/binding"


def pod_status(namespace: str, name: str) -> str:
    """Return the path of one Pod's status."""
    return f"{pod(namespace, name)}/status"


def eviction(namespace: str, name: str) -> str:
    """Return the path that an Eviction of one Pod is created at."""
    return f"{pod(namespace, name)}/eviction"


def lease(namespace: str, name: str) -> str:
    """Return the path of one Lease."""
    return (
        f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}"
        f"/leases/{quote(name, safe='')}"
    )


def secret(namespace: str, name: str) -> str:
    """Return the path of one Secret."""
    return f"{namespaced(namespace, 'secrets')}/{quote(name, safe='')}"


def mutating_webhook(name: str) -> str:
    """Return the path of one MutatingWebhookConfiguration."""
    return (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"
        f"{quote(name, safe='')}"
    )


def deployment(namespace: str, name: str) -> str:
    """Return the path of one Deployment."""
    return (
        f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/deployments/{quote(name, safe='')}"
    )
