"""Moving from HAMi with pods running: ours follows, then leads, and the books are HAMi's."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.chart_release import NAME, Release, release
from support.helm import NAMESPACE, ROOT, Helm
from support.world import fetch, nvidia_pod
from vgpu_operator.agent import simulator, spec
from vgpu_operator.kube import clock, paths

pytestmark = pytest.mark.apiserver

Json = dict[str, Any]

ONE_CARD = {"nodes": [{"name": "n1", "cards": 1, "memory": 10_000}], "roundInterval": 0.5}
HAMIS = {
    "hami.io/bind-phase": "success",
    "hami.io/bind-time": "1790000000",
    "hami.io/vgpu-devices-allocated": "GPU-n1-0,NVIDIA,7000,30:;",
    "hami.io/vgpu-devices-to-allocate": ";",
    "hami.io/vgpu-node": "n1",
    "hami.io/vgpu-time": "1790000000",
}
"""What HAMi v2.10.0 leaves on a pod that its plugin has served."""

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


@contextlib.asynccontextmanager
async def hamis_scheduler(here: Release) -> AsyncIterator[None]:
    """Hold the Lease as the kube-scheduler in HAMi's pod does, until left."""

    def lease_spec() -> Json:
        now = clock.SystemClock().now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": "hami-scheduler-7d9_5a0c",
            "leaseDurationSeconds": 5,
            "acquireTime": now,
            "renewTime": now,
        }

    await here.kube.create(LEASES, {"metadata": {"name": "hami-scheduler"}, "spec": lease_spec()})

    async def renew() -> None:
        while True:
            await asyncio.sleep(1)
            await here.kube.patch(f"{LEASES}/hami-scheduler", {"spec": lease_spec()})

    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def unready_because(here: Release) -> str:
    with contextlib.suppress(aiohttp.ClientError):
        return await fetch(f"{here.metrics_url}/readyz")
    return ""


async def memory_in_use(here: Release) -> float:
    text = await fetch(f"{here.metrics_url}/metrics")
    found = re.search(r"^hami_gpu_memory_allocated_bytes{.*} (\S+)$", text, re.MULTILINE)
    return float(found[1]) / 2**20 if found else 0.0


async def test_case_182_pods_of_hami_keep_their_cards_while_the_scheduler_changes(
    helm: Helm, tmp_path: Path
) -> None:
    async with release(helm, tmp_path) as here:
        await here.kube.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        simulation = simulator.Simulator(
            here.kube, spec.Simulation.model_validate(ONE_CARD), clock.SystemClock()
        )
        async with simulation:
            old = nvidia_pod("old", memory=7000, cores=30)
            old["metadata"]["annotations"] = HAMIS
            old["spec"]["nodeName"] = "n1"
            await here.kube.create(paths.namespaced("default", "pods"), old)
            before = await here.kube.get(paths.pod("default", "old"))

            async with hamis_scheduler(here):
                # Both at once: ours reads, counts, and writes nothing.
                values = (ROOT / "tests/golden/hami-values.yaml").read_text()
                (tmp_path / "hami.yaml").write_text(values)
                here.values["devicePlugin"] = {"enabled": False}
                here.install("-f", str(tmp_path / "hami.yaml"))
                operator = await here.start_unready()

                async def follows() -> bool:
                    return "the leader makes one" in await unready_because(here)

                await here.until("ours is there and waits for a leader", follows)
                wrote = [
                    one.uri
                    for one in here.requests()
                    if one.verb in ("create", "update", "patch", "delete")
                    and one.resource in ("nodes", "pods", "secrets", "events", "bindings")
                ]
                assert wrote == []

            # HAMi's scheduler is gone: its Lease runs out.
            async def leads() -> bool:
                return await memory_in_use(here) == 7000  # the leader shows the cards

            await here.until("ours leads, and charges what HAMi has promised", leads)
            await here.until_ready(operator)
            for name, memory in (("fits", 3000), ("does-not", 3001)):
                await here.kube.create(
                    paths.namespaced("default", "pods"),
                    nvidia_pod(name, memory=memory, scheduler="hami-scheduler"),
                )
            await here.until_phase("success", "fits")
            assert await memory_in_use(here) == 10_000
            refused = await here.kube.get(paths.pod("default", "does-not"))
            assert "nodeName" not in refused["spec"]
            after = await here.kube.get(paths.pod("default", "old"))
            for part in ("annotations", "labels"):
                assert after["metadata"].get(part) == before["metadata"].get(part)
            assert after["spec"] == before["spec"]
            touched = [one.uri for one in here.requests() if one.name == "old"]
            assert touched == []


RESOURCES_OF_1_34 = ("resourceclaims", "resourceslices", "deviceclasses")


async def test_case_175_kube_scheduler_may_read_what_its_version_reads(
    helm: Helm, tmp_path: Path
) -> None:
    async with release(helm, tmp_path) as here:
        here.install()
        refused = []
        wanted = [
            *(("resource.k8s.io", resource) for resource in RESOURCES_OF_1_34),
            ("", "nodes"),
            ("", "pods"),
            ("storage.k8s.io", "csinodes"),
        ]
        for group, resource in wanted:
            for verb in ("list", "watch"):
                review = await here.kube.create(
                    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                    {
                        "apiVersion": "authorization.k8s.io/v1",
                        "kind": "SubjectAccessReview",
                        "spec": {
                            "user": f"system:serviceaccount:{NAMESPACE}:{NAME}",
                            "resourceAttributes": {
                                "group": group,
                                "resource": resource,
                                "verb": verb,
                            },
                        },
                    },
                )
                if not review["status"]["allowed"]:
                    refused.append((verb, resource))
        assert refused == []
