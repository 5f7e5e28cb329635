"""What a kubeconfig's context says besides where the API server is."""

import contextlib

import kubernetes_asyncio.config as k8s_config
import yaml
from kubernetes_asyncio.config import config_exception

from vgpu_operator.kube import kubeconfig as kubeconfigs

FALLBACK = "default"


def default_namespace(*, kubeconfig: str | None, context: str | None) -> str:
    """Return the context's namespace, as kubectl takes it without ``-n``."""
    if not kubeconfigs.is_there(kubeconfig):
        return FALLBACK
    with contextlib.suppress(config_exception.ConfigException, OSError, yaml.YAMLError, TypeError):
        contexts, active = k8s_config.list_kube_config_contexts(
            config_file=kubeconfigs.place(kubeconfig)
        )
        wanted = context or (active["name"] if active else "")
        for found in contexts:
            if found["name"] == wanted:
                return str(found.get("context", {}).get("namespace") or FALLBACK)
    return FALLBACK
