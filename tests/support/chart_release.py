"""A release of the chart on a real API server, with its operator and kube-scheduler.

No kubelet runs the Deployment: its two containers are started here as processes, with
the arguments, files and the ServiceAccount that the chart gives them.
"""

import asyncio
import contextlib
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support import chart_cluster, chart_pod, rights_used, waiting
from support.helm import CHART, NAMESPACE, RELEASE, Helm
from vgpu_operator.agent import simulator, spec
from vgpu_operator.cli.cluster import audit, probe
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.cli.cluster.process import Component
from vgpu_operator.kube import client, clock, paths

Json = dict[str, Any]

NAME = chart_cluster.SCHEDULER
WEBHOOK = "vgpu-vgpu-operator-webhook"
LIMIT_S = 60.0


@dataclass(slots=True, kw_only=True)
class Release:
    """What a test works with."""

    plane: ControlPlane
    kube: client.KubeClient
    helm: Helm
    folder: Path
    addresses: chart_pod.Addresses
    values: Json
    rights: rights_used.Observer
    started: list[Component] = field(default_factory=list)

    def change(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """Run Helm against the cluster and return what it says; a failure fails the test."""
        answer = self.helm.run(*arguments, "-n", NAMESPACE, values=values)
        assert answer.code == 0, answer.complaint
        return answer.out

    def install(self, *arguments: str, chart: Path = CHART) -> str:
        return self.change(
            *("install", RELEASE, str(chart), "--create-namespace", *arguments),
            values=self.values,
        )

    async def read(self, kind: str, name: str) -> Json:
        return await self.kube.get(f"{chart_cluster.collection(kind)}/{name}")

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.addresses.metrics.number}"

    async def start(self) -> None:
        """Start the pod's two containers, and wait until it is ready."""
        await self.until_ready(await self.start_unready())

    async def until_ready(self, operator: Component) -> None:
        """Wait until ``/readyz`` says yes."""
        ready = probe.Endpoint(url=f"{self.metrics_url}/readyz", tls=None)
        await probe.wait_until_ready(operator, ready, limit_s=LIMIT_S)

    async def start_unready(self) -> Component:
        """Start the pod's two containers, as its ServiceAccount; return the operator."""
        await self.rights.note_rights()
        template = (await self.read("Deployment", NAME))["spec"]["template"]
        parts = await self.start_pod(
            template, at=self.addresses, folder=self.folder, hostname="pod-1"
        )
        return parts[chart_pod.OPERATOR]

    async def start_pod(
        self,
        template: Json,
        *,
        at: chart_pod.Addresses,
        folder: Path,
        hostname: str,
        suffix: str = "",
    ) -> dict[str, Component]:
        """Start a pod's two containers, as its ServiceAccount; return them by name.

        Args:
            template: the Deployment's.
            at: where its operator listens.
            folder: for its files.
            hostname: the pod's name.
            suffix: of the processes' names and logs, where there are several pods.
        """
        account = chart_cluster.service_account(self.plane, template["spec"]["serviceAccountName"])
        commands = chart_pod.commands(
            template,
            await chart_pod.mounted(self.kube, template),
            folder=folder,
            at=at,
            access=(account, hostname),
        )
        name = f"chart-operator{suffix}"
        operator = Component(name, commands.operator, log_file=self.plane.logs / f"{name}.log")
        operator.start()
        self.started.append(operator)  # who ends it, whatever becomes of the test
        scheduler = await self.plane.start_scheduler(
            commands.scheduler, name=f"chart-scheduler{suffix}", hostname=hostname
        )
        return {chart_pod.OPERATOR: operator, chart_pod.SCHEDULER: scheduler}

    def simulate(self, simulation: Mapping[str, Any]) -> simulator.Simulator:
        """Return simulated nodes, to be entered."""
        return simulator.Simulator(self.kube, spec.build(simulation), clock.SystemClock())

    async def stop(self) -> None:
        while self.started:
            await self.started.pop().stop()

    def requests(self) -> list[audit.AuditedRequest]:
        """Return what the pod's ServiceAccount has asked for."""
        asked = audit.read_requests(self.plane.audit_log)
        return [one for one in asked if one.user == rights_used.OPERATOR]

    async def hook(self, end: str) -> Json:
        """Return the Job of a hook, as Helm would make it."""
        answer = self.helm.run("get", "hooks", RELEASE, "-n", NAMESPACE)
        (job,) = [
            one
            for one in yaml.safe_load_all(answer.out)
            if one and one["kind"] == "Job" and one["metadata"]["name"].endswith(end)
        ]
        return dict(job)

    def vgpu(self, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command of ours against the cluster."""
        argv = [sys.executable, "-m", "vgpu_operator", *arguments, "--kubeconfig", str(kubeconfig)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    async def until(
        self, what: str, condition: Callable[[], Awaitable[Any]], *, limit_s: float = LIMIT_S
    ) -> Any:
        """Ask until the answer is truthy, and return it."""
        return await waiting.until(what, condition, limit_s=limit_s, every_s=0.2)

    async def until_phase(self, phase: str, *names: str) -> None:
        async def reached() -> bool:
            pods, _ = await self.kube.list(paths.namespaced("default", "pods"))
            found = {
                pod["metadata"]["name"]: pod["metadata"]
                .get("annotations", {})
                .get("hami.io/bind-phase")
                for pod in pods
            }
            return all(found.get(name) == phase for name in names)

        await self.until(f"{names} in {phase}", reached)

    async def shown_certificate(self) -> bytes:
        """Return the certificate that a new caller of the webhook is shown."""

        def fetch() -> bytes:
            address = ("127.0.0.1", self.addresses.webhook.number)
            return ssl.get_server_certificate(address, timeout=5).encode()

        return await asyncio.to_thread(fetch)


@contextlib.asynccontextmanager
async def release(
    helm: Helm, folder: Path, values: Mapping[str, Any] | None = None
) -> AsyncIterator[Release]:
    """Run a cluster of its own; nothing is installed yet.

    The webhook is reached by its address: without kube-proxy no Service leads anywhere.
    """
    async with (
        ControlPlane(ControlPlaneOptions(audit=True)) as plane,
        await client.KubeClient.connect(kubeconfig=str(plane.kubeconfig)) as kube,
    ):
        addresses = chart_pod.Addresses.reserve()
        url = {"enabled": True, "host": "127.0.0.1", "port": addresses.webhook.number}
        webhook = {"failurePolicy": "Fail", "customURL": url}
        here = Release(
            plane=plane,
            kube=kube,
            helm=Helm(program=helm.program, home=helm.home, kubeconfig=plane.kubeconfig),
            folder=folder,
            addresses=addresses,
            values={"scheduler": {"admissionWebhook": webhook}, **(values or {})},
            rights=rights_used.Observer(kube, plane.audit_log),
        )
        try:
            yield here
        except BaseException:
            for log in sorted(plane.logs.glob("chart-*.log")):
                print(f"--- {log.name}", *log.read_text().splitlines()[-40:], sep="\n")
            raise
        finally:
            await here.stop()
            addresses.release()
            here.rights.note_use()
        here.rights.judge()
