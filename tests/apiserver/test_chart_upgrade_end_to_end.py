"""Upgrade from the chart's previous version, and back, while pods come and are admitted."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support import api_audit, chart_cluster, rollout, service
from support.chart_release import NAME, Release, release
from support.helm import CHART, RELEASE, ROOT, Helm
from support.world import nvidia_pod
from vgpu_operator.kube import errors, paths

pytestmark = pytest.mark.apiserver

Json = dict[str, Any]

EARLIER = ROOT / "tests" / "golden" / "chart-0.1.0-alpha.1"
"""The chart as first committed (c34849b), packed with ``helm package --version 0.1.0-alpha.1
--app-version 0.1.0-alpha.1`` and unpacked again. Its operator is today's: what an upgrade
does to a cluster's objects and to what runs is tried, not two programs."""

NODES = {
    "nodes": [{"prefix": "sim-", "count": 2, "cards": 2, "memory": 24_576, "delay": 0.05}],
    "roundInterval": 0.5,
}
POD_MIB = 6_000
ROOM = 16
"""Pods that fit: four on each of four cards."""

WAITING = 4
"""Pods that wait all the time."""


class Load:
    """Admissions at 10 a second, and pods that end and are followed by others."""

    def __init__(self, here: Release) -> None:
        self._here = here
        self._n_pods = 0
        self._over = False
        self.alive: list[str] = []
        self.schedulers: list[str] = []
        self.faults: list[str] = []
        self.violations: list[str] = []
        self.replaced = 0

    async def _admit(self) -> None:
        number = len(self.schedulers) + len(self.faults)
        try:
            pod = await chart_cluster.dry_run(self._here.kube, nvidia_pod(f"asked-{number}"))
        except errors.ApiError as fault:
            self.faults.append(str(fault))
        else:
            self.schedulers.append(pod["spec"]["schedulerName"])

    async def admit(self) -> None:
        """Ask 10 times a second, however long an answer takes; a fault of ours ends all."""
        async with asyncio.TaskGroup() as group:
            while not self._over:
                group.create_task(self._admit())
                await asyncio.sleep(0.1)

    async def add(self) -> None:
        """Create a pod that stays."""
        name = f"p{self._n_pods}"
        self._n_pods += 1
        made = await self._here.kube.create(
            paths.namespaced("default", "pods"), nvidia_pod(name, memory=POD_MIB)
        )
        self.schedulers.append(made["spec"]["schedulerName"])
        self.alive.append(name)

    async def replace(self) -> None:
        """End the oldest pod that runs and create another, every half second; and audit."""
        while not self._over:
            pods, nodes = await self.seen()
            self.violations += api_audit.violations(nodes, pods)
            runs = {pod["metadata"]["name"] for pod in pods if _phase(pod) == "success"}
            oldest = next((name for name in self.alive if name in runs), None)
            if oldest is not None:
                await self._here.kube.delete(paths.pod("default", oldest), grace_s=0)
                self.alive.remove(oldest)
                await self.add()
                self.replaced += 1
            await asyncio.sleep(0.5)

    async def seen(self) -> tuple[list[Json], list[Json]]:
        pods, _ = await self._here.kube.list(paths.PODS)
        nodes, _ = await self._here.kube.list(paths.NODES)
        return pods, nodes

    async def until_settled(self) -> None:
        """Wait until all that fit run, the others know why they wait, and no lock is left."""

        async def settled() -> bool:
            pods, nodes = await self.seen()
            assert sorted(pod["metadata"]["name"] for pod in pods) == sorted(self.alive)
            running = [pod for pod in pods if _phase(pod) == "success"]
            told = [pod for pod in pods if "Insufficient" in json.dumps(pod["status"])]
            return (
                len(running) == min(ROOM, len(pods))
                and len(running) + len(told) == len(pods)
                and not api_audit.locks(nodes)
            )

        await self._here.until("all pods that fit run", settled)

    @contextlib.asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.admit())
            group.create_task(self.replace())
            yield
            self._over = True


def _phase(pod: Json) -> str:
    return api_audit.annotations(pod).get("hami.io/bind-phase", "")


def failed_open(here: Release) -> list[str]:
    """Return what the API server itself notes about calls of the webhook that came to nothing."""
    found = []
    for line in here.plane.audit_log.read_text().splitlines():
        notes = json.loads(line).get("annotations") or {}
        found += [key for key in notes if key.startswith("failed-open.mutation.webhook")]
    return found


@pytest.mark.parametrize("replicas", [2, 1])
async def test_an_upgrade_and_a_downgrade_lose_no_pod_and_leave_no_gap(
    helm: Helm, tmp_path: Path, replicas: int
) -> None:
    async with release(helm, tmp_path) as here, service.service(here.addresses.webhook.number) as s:
        values = here.values["scheduler"]
        values["replicas"] = replicas
        # The default: what no replica answers passes by unchanged, and would show.
        values["admissionWebhook"]["failurePolicy"] = "Ignore"
        here.install(chart=EARLIER)
        async with here.simulate(NODES), rollout.rollout(here, s) as pods:
            await pods.until_done()
            await asyncio.sleep(service.LAG_S)
            load = Load(here)
            for _ in range(ROOM + WAITING):
                await load.add()
            await load.until_settled()
            before = (await here.read("Deployment", NAME))["spec"]["template"]
            pods.count_anew()
            async with load.under_way():
                await asyncio.to_thread(
                    here.change, "upgrade", RELEASE, str(CHART), values=here.values
                )
                await pods.until_done()
                after = (await here.read("Deployment", NAME))["spec"]["template"]
                await asyncio.to_thread(here.change, "rollback", RELEASE, "1")
                await pods.until_done()
            await load.until_settled()

        assert after != before
        assert set(load.schedulers) == {"hami-scheduler"}, "a pod was admitted unchanged"
        assert load.faults == []
        assert failed_open(here) == []
        assert load.violations == []
        assert load.replaced > 10
        assert len(load.schedulers) > 100
        assert pods.fewest_ready >= replicas
        assert pods.killed == []
        assert pods.exits == [0] * 2 * replicas
        assert [one.uri for one in here.requests() if one.code in (401, 403)] == []
