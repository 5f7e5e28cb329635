"""Two whole replicas and all that they need, each part a process that can be killed or frozen.

    a: operator ─ kube-scheduler ─┐ relay a ─┐
                                  │          ├─ kube-apiserver ─ etcd
    b: operator ─ kube-scheduler ─┘ relay b ─┘        │
                                                agents (all nodes)

A keeper starts again whatever ends, as a kubelet does, unless a test holds it
down. kube-scheduler's Lease elects; each replica has a host name of its own.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from support import chart_account, waiting
from support.slow_api import SlowApi, slow_api
from vgpu_operator.cli import stack as cli_stack
from vgpu_operator.cli.cluster import kubeconfig, scheduler_config
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.cli.cluster.process import Component
from vgpu_operator.kube import client, errors, paths

Json = dict[str, Any]

LEASE_S = 4
"""How long a Lease holds without renewal. Kubernetes's default is 15 s."""

RETRY_S = 0.3
"""How often kube-scheduler looks at the Lease (times 1 to 2.2: its own jitter)."""

LOCK_EXPIRY_S = 3.0
"""How old a lock may grow: less than the Lease, so that a frozen leader outlives both."""

LEASE = chart_account.LEASE
LIMIT_S = 120.0
"""How long a condition may take before a test gives up: far above what it does take."""

KEEP_S = 0.1
"""How often the keeper looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One replica: what runs in one pod of the Deployment."""

    name: str
    operator: cli_stack.Replica
    scheduler: Component
    relay: SlowApi

    @property
    def parts(self) -> tuple[Component, Component]:
        """Both of its processes."""
        return self.operator.component, self.scheduler

    async def page(self) -> str:
        """Return the operator's metrics; a frozen one is not waited for."""
        limit = aiohttp.ClientTimeout(total=2)
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(f"{self.operator.metrics_url}/metrics") as answer,
        ):
            return await answer.text()


class Replicas:
    """Handles on both replicas and on what they stand on."""

    def __init__(
        self,
        plane: ControlPlane,
        kube: client.KubeClient,
        stack: cli_stack.Stack,
        *,
        sides: Sequence[Side],
        agents: Component,
    ) -> None:
        self.plane = plane
        self.kube = kube
        self.stack = stack
        self.sides = tuple(sides)
        self.agents = agents
        self.held: set[Component] = set()
        self.restarts: dict[str, int] = {}

    @property
    def everything(self) -> tuple[Component, ...]:
        """All processes, servers before clients."""
        servers = (self.plane.components["etcd"], self.plane.components["kube-apiserver"])
        return (*servers, *(part for side in self.sides for part in side.parts), self.agents)

    async def keep(self) -> None:
        """Start what has ended again, until cancelled."""
        while True:
            for component in self.everything:
                if component not in self.held and not component.is_running:
                    self.restarts[component.name] = self.restarts.get(component.name, 0) + 1
                    component.start()
            await asyncio.sleep(KEEP_S)

    # Faults.

    def kill(self, *components: Component, hold: bool = False) -> None:
        """SIGKILL; with ``hold`` they stay down until ``release``."""
        if hold:
            self.held.update(components)
        for component in components:
            component.kill()

    def release(self) -> None:
        """Let everything run and everybody reach the API server again."""
        self.held.clear()
        for component in self.everything:
            component.resume()
        for side in self.sides:
            side.relay.delay_s, side.relay.refusing = 0.0, False
            side.relay.open.set()

    # Who leads.

    async def holder(self) -> str:
        """Return the side that holds the Lease; empty when nobody does or nobody answers."""
        with contextlib.suppress(errors.ApiError):
            lease = await self.kube.request("GET", paths.lease(*LEASE), limit_s=2.0)
            return str(lease["spec"].get("holderIdentity", "")).partition("_")[0]
        return ""

    async def leader(self) -> Side:
        """Wait until one side's operator leads, and return that side."""

        async def leads() -> Side | None:
            name = await self.holder()
            side = next((side for side in self.sides if side.name == name), None)
            if side is None:
                return None
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                return side if "vgpu_leader 1.0" in await side.page() else None
            return None

        found: Side = await self.until("one replica leads", leads, every_s=0.2)
        return found

    async def follower(self) -> Side:
        """Return the side that does not lead."""
        leader = await self.leader()
        return next(side for side in self.sides if side is not leader)

    async def whole(self) -> None:
        """Wait until both replicas are ready, the nodes are known and one replica leads."""
        self.release()
        for side in self.sides:
            await self.until(f"operator {side.name} is ready", self._ready(side), every_s=0.1)
        await self.leader()

    def _ready(self, side: Side) -> Callable[[], Awaitable[bool]]:
        async def ready() -> bool:
            limit = aiohttp.ClientTimeout(total=5)
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with (
                    aiohttp.ClientSession(timeout=limit) as session,
                    session.get(f"{side.operator.metrics_url}/readyz") as answer,
                ):
                    return answer.status == 200
            return False

        return ready

    # The API, patiently.

    async def pods(self) -> list[Json] | None:
        """Return all pods; None when the API server does not say."""
        return await self._listed(paths.PODS)

    async def nodes(self) -> list[Json] | None:
        """Return all nodes; None when the API server does not say."""
        return await self._listed(paths.NODES)

    async def _listed(self, path: str) -> list[Json] | None:
        with contextlib.suppress(errors.ApiError):
            return list((await self.kube.request("GET", path, limit_s=5.0))["items"])
        return None

    async def create(self, pod: Json) -> None:
        """Create a pod, however often the API server fails to."""

        async def created() -> bool:
            try:
                await self.kube.create(paths.namespaced("default", "pods"), pod)
            except errors.Conflict:
                return True  # an earlier try has had its effect
            except errors.ApiError:
                return False
            return True

        await self.until(f"pod {pod['metadata']['name']} is created", created)

    async def delete_pods(self) -> None:
        """Delete all pods and wait until they are gone."""
        for pod in await self.until("the pods are listed", self.pods):
            with contextlib.suppress(errors.NotFound):
                await self.kube.delete(paths.pod("default", pod["metadata"]["name"]), grace_s=0)

        async def gone() -> bool:
            return await self.pods() == []

        await self.until("all pods are gone", gone)

    async def until(
        self,
        what: str,
        condition: Callable[[], Awaitable[Any]],
        *,
        limit_s: float = LIMIT_S,
        every_s: float = 0.05,
    ) -> Any:
        """Ask until the answer is truthy, and return it."""
        return await waiting.until(what, condition, limit_s=limit_s, every_s=every_s)


@contextlib.asynccontextmanager
async def replicas(
    simulation: Mapping[str, Any], *, configured: Mapping[str, Any] | None = None
) -> AsyncIterator[Replicas]:
    """Run two replicas and the agents of these nodes on a control plane of their own."""
    configured = {"lock": {"expiryS": LOCK_EXPIRY_S}, **(configured or {})}
    async with (
        ControlPlane(ControlPlaneOptions(audit=True)) as plane,
        await client.KubeClient.connect(kubeconfig=str(plane.kubeconfig)) as kube,
        chart_account.installed(
            plane, kube, configured=configured, restarted_in="support.replicas"
        ) as ground,
        slow_api(plane.server_url) as relay_a,
        slow_api(plane.server_url) as relay_b,
    ):
        stack = cli_stack.Stack(ground, configured=configured)
        agents = _agents(plane, simulation)
        keeping: asyncio.Task[None] | None = None
        try:
            await stack.prepare(kube)
            agents.start()
            sides = [
                await _side(plane, stack, name=name, relay=relay)
                for name, relay in (("replica-a", relay_a), ("replica-b", relay_b))
            ]
            made = Replicas(plane, kube, stack, sides=sides, agents=agents)
            keeping = asyncio.create_task(made.keep())
            await made.whole()
            yield made
        except BaseException:
            _show_logs(plane)
            raise
        finally:
            if keeping is not None:
                keeping.cancel()
                await asyncio.wait((keeping,))
            agents.kill()
            for relay in (relay_a, relay_b):
                relay.open.set()
                relay.delay_s = 0.0
            await stack.ground.stop()
            await stack.stop()


async def _side(plane: ControlPlane, stack: cli_stack.Stack, *, name: str, relay: SlowApi) -> Side:
    folder = plane.directory / name
    folder.mkdir()
    access = relay.kubeconfig(stack.ground.operator_kubeconfig(), folder)
    operator = stack.start_operator(
        f"operator-{name}",
        lease="/".join(LEASE),
        hostname=name,
        arguments=("--kubeconfig", str(access)),
    )
    await operator.until_ready()
    schedulers = plane.kubeconfig_for("system:kube-scheduler", [kubeconfig.ADMIN_GROUP])
    config = scheduler_config.scheduler_configuration(
        scheduler_name=stack.settings.scheduler_name,
        extender_url=operator.extender_url,
        managed_resources=stack.managed_resources,
        kubeconfig=relay.kubeconfig(schedulers, folder),
        leader_elect=True,
        lease_namespace=LEASE[0],
        lease_name=LEASE[1],
        lease_duration_s=LEASE_S,
    )
    election = config["leaderElection"]
    assert isinstance(election, dict)
    election["retryPeriod"] = f"{RETRY_S}s"
    scheduler = await plane.start_scheduler(config, name=f"kube-scheduler-{name}", hostname=name)
    return Side(name=name, operator=operator, scheduler=scheduler, relay=relay)


def _agents(plane: ControlPlane, simulation: Mapping[str, Any]) -> Component:
    file = plane.directory / "nodes.yaml"
    file.write_text(yaml.safe_dump(dict(simulation)))
    argv = [
        *(sys.executable, "-m", "vgpu_operator", "agent"),
        *("--simulate", str(file), "--kubeconfig", str(plane.kubeconfig)),
    ]
    return Component("agents", argv, log_file=plane.logs / "agents.log")


def _show_logs(plane: ControlPlane) -> None:
    """Print the end of each replica's logs: the folder goes away with the test."""
    for log in sorted(Path(plane.logs).glob("*.log")):
        if log.name.startswith(("operator", "kube-scheduler", "agents")):
            tail = log.read_text(errors="replace").splitlines()[-60:]
            print(f"--- {log.name}", *tail, sep="\n")


__all__ = ["LEASE_S", "Replicas", "Side", "replicas"]
