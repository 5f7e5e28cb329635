"""What a Deployment's controller and the kubelets do for the chart's Deployment, played here.

    template changes ─► a new pod, as maxSurge allows ─► ready ─► an old one ends ─► …

Pods are real operators and kube-schedulers. When one may start or must end, its probe, its
preStop hooks and its time to end are those of the Deployment as it stands in the API server.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

import aiohttp

from support import chart_pod, waiting
from support.chart_release import NAME, Release
from support.service import Service
from vgpu_operator.cli.cluster.process import Component
from vgpu_operator.kube import errors

Json = dict[str, Any]

LOOK_S = 0.1
"""Between two looks at Deployment and probes. A kubelet asks more rarely, so here an old pod
goes earlier after a new one is ready than in a cluster."""

LIMIT_S = 120.0


@dataclass(slots=True, kw_only=True, eq=False)
class Pod:
    """One pod.

    Attributes:
        parts: its containers' processes, by container; empty until they are started.
        ready: what its probe said last, and a new pod is not.
        n_failed: how often the probe has failed in a row.
        ending: it was deleted.
    """

    name: str
    template: Json
    at: chart_pod.Addresses
    parts: dict[str, Component]
    ready: bool = False
    n_failed: int = 0
    ending: bool = False


class Rollout:
    """The Deployment's pods; made by ``rollout``."""

    def __init__(self, here: Release, service: Service) -> None:
        self._here = here
        self._service = service
        self._n_made = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: asyncio.Task[None] | None = None
        self.pods: list[Pod] = []
        self.killed: list[str] = []
        """Containers that had not ended when their time was over."""
        self.exits: list[int | None] = []
        """How each operator ended."""
        self.fewest_ready = 0
        """The least number of pods that were ready at once since ``count_anew``."""

    def count_anew(self) -> None:
        self.fewest_ready = self._n_ready()

    def start(self) -> None:
        """Keep the pods as the Deployment says, until closed."""
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        deployment = await self._here.read("Deployment", NAME)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            while True:
                with contextlib.suppress(errors.ApiError):
                    deployment = await self._here.read("Deployment", NAME)
                for pod in self.pods:
                    await self._probe(session, pod)
                self.fewest_ready = min(self.fewest_ready, self._n_ready())
                self._step(deployment["spec"])
                for task in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(task)
                    task.result()
                await asyncio.sleep(LOOK_S)

    async def until_done(self) -> None:
        """Wait until all pods are of the present template, ready, and no other is left."""

        async def done() -> bool:
            if self._running is not None and self._running.done():
                self._running.result()
            wanted = (await self._here.read("Deployment", NAME))["spec"]
            return len(self.pods) == wanted["replicas"] and all(
                pod.ready and not pod.ending and _same(pod.template, wanted["template"])
                for pod in self.pods
            )

        await waiting.until("the roll-out is done", done, limit_s=LIMIT_S, every_s=LOOK_S)

    def _n_ready(self) -> int:
        return sum(1 for pod in self.pods if pod.ready and not pod.ending)

    def _step(self, wanted: Json) -> None:
        """Begin one start or one end, if one is due."""
        assert wanted["strategy"]["type"] == "RollingUpdate"
        rolling, replicas = wanted["strategy"]["rollingUpdate"], wanted["replicas"]
        staying = [pod for pod in self.pods if not pod.ending]
        new = [pod for pod in staying if _same(pod.template, wanted["template"])]
        old = [pod for pod in staying if pod not in new]
        surplus = old or (new if len(new) > replicas else [])
        victim = min(surplus, key=lambda pod: pod.ready, default=None)
        if len(new) < replicas and len(staying) < replicas + rolling["maxSurge"]:
            self._n_made += 1
            pod = Pod(
                name=f"pod-{self._n_made}",
                template=wanted["template"],
                at=chart_pod.Addresses.reserve(),
                parts={},
            )
            self.pods.append(pod)
            self._spawn(self._start(pod))
        elif victim is not None and (
            self._n_ready() - victim.ready >= replicas - rolling["maxUnavailable"]
        ):
            victim.ending = True
            self._spawn(self._end(victim))

    async def _start(self, pod: Pod) -> None:
        folder = self._here.folder / pod.name
        folder.mkdir()
        pod.parts = await self._here.start_pod(
            pod.template,
            at=pod.at,
            folder=folder,
            hostname=pod.name,
            suffix=f"-{pod.name}",
        )

    async def _probe(self, session: aiohttp.ClientSession, pod: Pod) -> None:
        """Ask the operator's probe; kube-scheduler was ready when it had started."""
        if not pod.parts:
            return
        if not pod.ending:
            for part in pod.parts.values():
                part.check_running()
        probe = chart_pod.container(pod.template, chart_pod.OPERATOR)["readinessProbe"]
        asked = probe["httpGet"]
        assert asked["port"] == "metrics"
        was, succeeded = pod.ready, False
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            url = f"http://127.0.0.1:{pod.at.metrics.number}{asked['path']}"
            async with session.get(url) as answer:
                succeeded = answer.status == 200
        # Only now: others look at ``ready`` while the answer is on its way.
        pod.n_failed = 0 if succeeded else pod.n_failed + 1
        if succeeded or pod.n_failed >= probe.get("failureThreshold", 3):
            pod.ready = succeeded
        if was != pod.ready and not pod.ending:
            change = self._service.add if pod.ready else self._service.remove
            change(pod.at.webhook.number)

    async def _end(self, pod: Pod) -> None:
        """Delete a pod: out of the Service, hooks, SIGTERM, and SIGKILL when its time is over."""
        self._service.remove(pod.at.webhook.number)
        grace_s = pod.template["spec"]["terminationGracePeriodSeconds"]
        try:
            async with asyncio.timeout(grace_s):
                await asyncio.gather(*(self._end_part(pod, name) for name in pod.parts))
        except TimeoutError:
            for name, part in pod.parts.items():
                if part.is_running:
                    self.killed.append(f"{name} of {pod.name}")
                    part.kill()
        self.exits.append(pod.parts[chart_pod.OPERATOR].exit_code)
        pod.at.release()
        self.pods.remove(pod)

    async def _end_part(self, pod: Pod, name: str) -> None:
        hook = chart_pod.container(pod.template, name).get("lifecycle", {}).get("preStop", {})
        await asyncio.sleep(hook.get("sleep", {}).get("seconds", 0))
        part = pod.parts[name]
        part.terminate()

        async def ended() -> bool:
            return not part.is_running

        await waiting.until(f"{part.name} has ended", ended, limit_s=LIMIT_S, every_s=LOOK_S)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def close(self) -> None:
        tasks = [*self._tasks, *([self._running] if self._running else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for pod in self.pods:
            pod.at.release()


def _same(one: Json, other: Json) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@contextlib.asynccontextmanager
async def rollout(here: Release, service: Service) -> AsyncIterator[Rollout]:
    """Run the pods of the release's Deployment."""
    made = Rollout(here, service)
    made.start()
    try:
        yield made
    finally:
        await made.close()
