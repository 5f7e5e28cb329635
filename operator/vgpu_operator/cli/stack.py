"""Everything that a pod meets, on this machine: control plane, operator, scheduler.

Used by the demo and by the tests, so that both run the same parts: a real API
server and kube-scheduler, and the operator as a process of its own with no more
rights than it has in a cluster: those of ``rbac.yaml``, or those that the chart gives.
"""

import base64
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vgpu_operator.cli import grounds
from vgpu_operator.cli.cluster import ports, probe, scheduler_config
from vgpu_operator.cli.cluster.process import Component
from vgpu_operator.cli.cluster.real_node.node import RealNode
from vgpu_operator.kube import client, errors
from vgpu_operator.model import settings as model_settings
from vgpu_operator.vendors import registry
from vgpu_operator.webhook import configuration

START_LIMIT_S = 60.0

_PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One operator process and where it listens."""

    component: Component
    extender_url: str
    metrics_url: str
    webhook_url: str
    webhook_ca_file: Path
    state_url: str
    reserved: tuple[ports.ReservedPort, ...]

    async def until_ready(self, *, limit_s: float = START_LIMIT_S) -> None:
        """Wait until ``/readyz`` says yes."""
        ready = probe.Endpoint(url=f"{self.metrics_url}/readyz", tls=None)
        await probe.wait_until_ready(self.component, ready, limit_s=limit_s)

    async def until_listening(self, *, limit_s: float = START_LIMIT_S) -> None:
        """Wait until ``/healthz`` answers, ready or not."""
        alive = probe.Endpoint(url=f"{self.metrics_url}/healthz", tls=None)
        await probe.wait_until_ready(self.component, alive, limit_s=limit_s)


class Stack:
    """Operator replicas and schedulers on one cluster."""

    def __init__(
        self, ground: grounds.Ground, *, configured: Mapping[str, Any] | None = None
    ) -> None:
        self.ground = ground
        self.settings = model_settings.build(configured or {})
        self._configured = dict(configured or {})
        self._replicas: list[Replica] = []

    @property
    def managed_resources(self) -> tuple[str, ...]:
        """Every resource that the extender, not kube-scheduler, counts."""
        return tuple(
            name for vendor in registry.build(self.settings) for name in vendor.spec.resources
        )

    async def prepare(self, kube: client.KubeClient) -> None:
        """Give the operator its rights."""
        for document in self.ground.rights():
            await _apply(kube, document)

    def start_operator(
        self,
        name: str = "operator",
        *,
        lease: str = "none",
        hostname: str | None = None,
        arguments: tuple[str, ...] = (),
    ) -> Replica:
        """Start one operator process; it is not ready yet."""
        reserved = tuple(ports.ReservedPort() for _ in range(4))
        extender, metrics, webhook, state = (port.number for port in reserved)
        folder = self.ground.directory
        config = folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump(self._configured))
        ca_file = folder / f"{name}-webhook-ca.pem"
        argv = [
            *(sys.executable, "-m", "vgpu_operator", "run"),
            *("--kubeconfig", str(self.ground.operator_kubeconfig())),
            *("--config", str(config)),
            *("--extender-bind", f"127.0.0.1:{extender}"),
            *("--metrics-bind", f"127.0.0.1:{metrics}"),
            *("--webhook-bind", f"127.0.0.1:{webhook}"),
            *("--state-bind", f"127.0.0.1:{state}"),
            *("--webhook-ca-file", str(ca_file)),
            *("--leader-lease", lease),
            *arguments,
        ]
        if hostname is not None:
            argv += ["--leader-hostname", hostname]
        component = Component(name, argv, log_file=self.ground.logs / f"{name}.log")
        component.start()
        replica = Replica(
            component=component,
            extender_url=f"http://127.0.0.1:{extender}",
            metrics_url=f"http://127.0.0.1:{metrics}",
            webhook_url=f"https://127.0.0.1:{webhook}{configuration.PATH}",
            webhook_ca_file=ca_file,
            state_url=f"http://127.0.0.1:{state}",
            reserved=reserved,
        )
        self._replicas.append(replica)
        return replica

    async def start_scheduler(
        self,
        replica: Replica,
        *,
        name: str = "kube-scheduler",
        lease_name: str | None = None,
        hostname: str | None = None,
        lease_duration_s: float = 15.0,
    ) -> Component:
        """Start the kube-scheduler that asks this replica."""
        config = scheduler_config.scheduler_configuration(
            scheduler_name=self.settings.scheduler_name,
            extender_url=replica.extender_url,
            managed_resources=self.managed_resources,
            leader_elect=lease_name is not None,
            lease_name=lease_name or "vgpu-scheduler",
            lease_duration_s=lease_duration_s,
        )
        return await self.ground.start_scheduler(config, name=name, hostname=hostname)

    async def register_webhook(self, kube: client.KubeClient, replica: Replica) -> None:
        """Tell the API server to send new pods to this replica."""
        document = configuration.webhook_configuration(
            url=replica.webhook_url,
            ca_bundle=base64.b64encode(replica.webhook_ca_file.read_bytes()).decode(),
            failure_policy="Fail",
        )
        await _apply(kube, document)

    async def withdraw(self, kube: client.KubeClient) -> None:
        """Remove the objects that ``prepare`` and ``register_webhook`` have made."""
        names = [(made["kind"], made["metadata"]["name"]) for made in self.ground.rights()]
        for kind, name in (("MutatingWebhookConfiguration", configuration.NAME), *names):
            with contextlib.suppress(errors.NotFound):
                await kube.delete(f"{_PATHS[kind]}/{name}")

    async def stop(self) -> None:
        """Stop all replicas, the newest first."""
        while self._replicas:
            replica = self._replicas.pop()
            await replica.component.stop()
            for port in replica.reserved:
                port.release()


@contextlib.asynccontextmanager
async def running(
    ground: grounds.Ground,
    kube: client.KubeClient,
    *,
    configured: Mapping[str, Any] | None = None,
) -> AsyncIterator[tuple[Stack, Replica]]:
    """Run one ready operator with its scheduler, and its webhook where it can be called."""
    stack = Stack(ground, configured=configured)
    try:
        await stack.prepare(kube)
        replica = stack.start_operator()
        await replica.until_ready()
        if ground.calls_loopback:
            await stack.register_webhook(kube, replica)
        await stack.start_scheduler(replica)
        yield stack, replica
    finally:
        await ground.stop()
        await stack.stop()


def node_agent(node: RealNode, *, cards: Path, arguments: Sequence[str] = ()) -> Component:
    """Return the node agent of a real node, not started yet, with simulated cards.

    It has no more rights than a node agent in a cluster.

    Args:
        node: Whose kubelet it serves; started.
        cards: The file that describes the cards.
        arguments: More for its command line.
    """
    argv = [
        *(sys.executable, "-m", "vgpu_operator", "agent"),
        *("--backend", "simulated", "--node", node.name, "--cards", str(cards)),
        *("--kubeconfig", str(node.kubeconfig_for_agent)),
        *("--kubelet-dir", str(node.plugin_dir)),
        *("--pod-resources", str(node.pod_resources_socket)),
        *("--host-dir", str(node.folder / "vgpu")),
        *arguments,
    ]
    return Component(f"{node.name}-agent", argv, log_file=node.log_file("agent"))


async def _apply(kube: client.KubeClient, document: dict[str, Any]) -> None:
    """Create an object, or replace what is there."""
    collection = _PATHS[document["kind"]]
    try:
        await kube.create(collection, document)
    except errors.Conflict:
        path = f"{collection}/{document['metadata']['name']}"
        current = await kube.get(path)
        version = current["metadata"]["resourceVersion"]
        merged = {**document, "metadata": {**document["metadata"], "resourceVersion": version}}
        await kube.replace(path, merged)
