"""A whole cluster for one test: control plane, operator, scheduler, simulated nodes."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from support import api_audit, chart_account, ledger_page, rights_used, samples, waiting
from vgpu_operator.agent import simulator, spec
from vgpu_operator.cli import stack as cli_stack
from vgpu_operator.cli.cluster import audit, versions
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.kube import client, clock, errors, paths

Json = dict[str, Any]

LONG_S = 60.0
"""How long a condition may take before a test gives up: far above what it does take."""


def nvidia_pod(
    name: str,
    *,
    memory: int | None = 1000,
    cores: int | None = None,
    count: int = 1,
    containers: int = 1,
    namespace: str = "default",
    scheduler: str | None = None,
    node_selector: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Json:
    """Return a pod that asks for cards in each of its containers."""
    limits = {"nvidia.com/gpu": str(count)}
    if memory is not None:
        limits["nvidia.com/gpumem"] = str(memory)
    if cores is not None:
        limits["nvidia.com/gpucores"] = str(cores)
    pod_spec: Json = {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {"name": f"c{i}", "image": "none", "resources": {"limits": dict(limits)}}
            for i in range(containers)
        ],
    }
    if scheduler is not None:
        pod_spec["schedulerName"] = scheduler
    if node_selector is not None:
        pod_spec["nodeSelector"] = dict(node_selector)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": pod_spec,
    }


class World:
    """Handles on everything, and waits for conditions."""

    def __init__(
        self,
        plane: ControlPlane,
        kube: client.KubeClient,
        stack: cli_stack.Stack,
        replica: cli_stack.Replica,
    ) -> None:
        self.plane = plane
        self.kube = kube
        self.stack = stack
        self.replica = replica

    def simulate(self, *nodes: Json, round_interval: float = 0.5) -> simulator.Simulator:
        """Return simulated nodes, to be entered."""
        simulation = spec.Simulation.model_validate(
            {"nodes": list(nodes), "roundInterval": round_interval}
        )
        return simulator.Simulator(self.kube, simulation, clock.SystemClock())

    async def create(self, pod: Json) -> Json:
        namespace = pod["metadata"]["namespace"]
        return await self.kube.create(paths.namespaced(namespace, "pods"), pod)

    async def pod(self, name: str, namespace: str = "default") -> Json:
        return await self.kube.get(paths.pod(namespace, name))

    async def pods(self) -> list[Json]:
        return (await self.kube.list(paths.PODS))[0]

    async def nodes(self) -> list[Json]:
        return (await self.kube.list(paths.NODES))[0]

    async def node(self, name: str) -> Json:
        return await self.kube.get(paths.node(name))

    async def annotate_node(self, name: str, **texts: str | None) -> None:
        await self.kube.patch(paths.node(name), {"metadata": {"annotations": texts}})

    async def delete(self, name: str, namespace: str = "default") -> None:
        await self.kube.delete(paths.pod(namespace, name), grace_s=0)

    async def until(
        self,
        what: str,
        condition: Callable[[], Awaitable[Any]],
        *,
        limit_s: float = LONG_S,
        every_s: float = 0.1,
    ) -> Any:
        """Ask until the answer is truthy, and return it."""
        return await waiting.until(what, condition, limit_s=limit_s, every_s=every_s)

    async def until_phase(self, phase: str, *names: str, limit_s: float = LONG_S) -> None:
        """Wait until all these pods of the default namespace are in that bind phase."""

        async def reached() -> bool:
            by_name = {pod["metadata"]["name"]: pod for pod in await self.pods()}
            return all(
                name in by_name
                and api_audit.annotations(by_name[name]).get("hami.io/bind-phase") == phase
                for name in names
            )

        await self.until(f"{len(names)} pods in {phase}", reached, limit_s=limit_s, every_s=0.25)

    async def until_no_lock(self, *, limit_s: float = LONG_S) -> None:
        async def free() -> bool:
            return not api_audit.locks(await self.nodes())

        await self.until("no node is locked", free, limit_s=limit_s)

    async def until_restarted(self) -> None:
        """Start the operator again after it was killed, and wait until it is ready."""
        self.replica.component.start()
        await self.replica.until_ready()

    async def ledger(self) -> dict[str, tuple[float, float, float]]:
        """Return slots, bytes and cores promised on every card, as the operator exports them."""
        return ledger_page.read(await fetch(f"{self.replica.metrics_url}/metrics"))

    async def until_handshake(self, node: str, wanted: Callable[[str | None], bool]) -> None:
        async def reached() -> bool:
            annotations = api_audit.annotations(await self.node(node))
            return wanted(annotations.get("hami.io/node-handshake"))

        await self.until(f"the handshake of {node}", reached)

    async def events(self, reason: str) -> list[Json]:
        items, _ = await self.kube.list("/api/v1/events")
        return [item for item in items if item["reason"] == reason]

    async def until_event(self, reason: str, about: str, *, says: str = "") -> Json:
        """Return an event about an object; of several, one whose message begins so."""

        async def seen() -> Json | None:
            for event in await self.events(reason):
                about_it = event["involvedObject"]["name"] == about
                if about_it and event["message"].startswith(says):
                    return event
            return None

        event: Json = await self.until(f"an event {reason} about {about}", seen)
        return event

    async def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the operator's samples with that name and these labels."""
        text = await fetch(f"{self.replica.metrics_url}/metrics")
        return samples.Samples(text).total(name, **labels)

    def requests(self, user: str = rights_used.OPERATOR) -> list[audit.AuditedRequest]:
        """Return what that user has asked of the API server so far."""
        return [r for r in audit.read_requests(self.plane.audit_log) if r.user == user]

    async def assert_sound(self) -> None:
        """Audit from the API alone."""
        pods, nodes = await self.pods(), await self.nodes()
        assert api_audit.violations(nodes, pods) == []
        for thing in (*pods, *nodes):
            assert not thing["metadata"].get("finalizers")
            assert not [key for key in api_audit.annotations(thing) if "kopf" in key]


async def fetch(url: str) -> str:
    """Return the body at a plain HTTP URL."""
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


@contextlib.asynccontextmanager
async def world(
    *,
    configured: Mapping[str, Any] | None = None,
    controller_manager: bool = False,
    kubernetes_version: str = versions.PINNED,
    refused_in: str = "",
    restarted_in: str = "",
    chart: Mapping[str, Any] | None = None,
) -> AsyncIterator[World]:
    """Run a cluster of its own for one test; its operator has what the chart gives it.

    A test in which requests are refused on purpose gives its name as ``refused_in``: see
    ``rights_used.DELIBERATE``. ``chart`` holds further values of the chart, for the rights
    that come with them.
    """
    options = ControlPlaneOptions(
        audit=True, controller_manager=controller_manager, kubernetes_version=kubernetes_version
    )
    async with (
        ControlPlane(options) as plane,
        await client.KubeClient.connect(kubeconfig=str(plane.kubeconfig)) as kube,
    ):
        try:
            async with (
                chart_account.installed(
                    plane,
                    kube,
                    configured=configured,
                    refused_in=refused_in,
                    restarted_in=restarted_in,
                    chart=chart,
                ) as ground,
                cli_stack.running(ground, kube, configured=configured) as (stack, replica),
            ):
                yield World(plane, kube, stack, replica)
        except BaseException:
            _show_logs(plane)
            raise


def _show_logs(plane: ControlPlane) -> None:
    """Print the end of the operator's log: the folder goes away with the test."""
    for log in sorted(plane.logs.glob("*.log")):
        if log.name.startswith(("operator", "kube-scheduler")):
            tail = log.read_text(errors="replace").splitlines()[-60:]
            print(f"--- {log.name}", *tail, sep="\n")


__all__ = ["World", "errors", "nvidia_pod", "world"]
