"""Moving from HAMi with pods running: ours follows, then leads, and the books are HAMi's."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support import api_audit, chart_cluster
from support.chart_release import NAME, Release, release
from support.helm import NAMESPACE, RELEASE, ROOT, Helm
from support.world import fetch, nvidia_pod
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

LOCK = "hami.io/mutex.lock"
CHARGED = "hami.io/vgpu-devices-allocated"
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
        async with here.simulate(ONE_CARD):
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


async def hamis_bind(here: Release, name: str, devices: str) -> None:
    """Place a pod on n1 as HAMi v2.10.0 does: the lock, the annotations, then the Binding."""
    now = clock.SystemClock().now()
    lock = f"{now:%Y-%m-%dT%H:%M:%SZ},default,{name}"
    notes = {
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": str(int(now.timestamp())),
        "hami.io/vgpu-devices-allocated": devices,
        "hami.io/vgpu-devices-to-allocate": devices,
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": str(int(now.timestamp())),
    }
    metadata = {"annotations": notes, "labels": {"hami.io/vgpu-node": "n1"}}
    await here.kube.patch(paths.node("n1"), {"metadata": {"annotations": {LOCK: lock}}})
    await here.kube.patch(paths.pod("default", name), {"metadata": metadata})
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    await here.kube.create(paths.binding("default", name), body)


def charged_by_hami(pods: list[Json]) -> dict[str, tuple[int, int, int]]:
    """Return slots, MiB and cores by card, as HAMi's scheduler counts them when it starts.

    It takes every pod that has ``hami.io/vgpu-node`` and has not ended, and reads its
    ``…-allocated``: containers end with ``;``, cards with ``:``, four fields each.
    """
    used: dict[str, tuple[int, int, int]] = {}
    for pod in pods:
        notes = api_audit.annotations(pod)
        if "hami.io/vgpu-node" not in notes or pod["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        for container in api_audit.shares(notes["hami.io/vgpu-devices-allocated"]):
            for card, memory, cores in container:
                slots, held, percent = used.get(card, (0, 0, 0))
                used[card] = (slots + 1, held + memory, percent + cores)
    return used


async def node_notes(here: Release) -> dict[str, str]:
    return api_audit.annotations(await here.kube.get(paths.node("n1")))


async def test_hami_comes_back_and_finds_what_we_have_promised_and_nothing_in_its_way(
    helm: Helm, tmp_path: Path
) -> None:
    async with release(helm, tmp_path) as here:
        here.values["devicePlugin"] = {"enabled": False}
        here.install()
        async with here.simulate(ONE_CARD):
            before = await node_notes(here)
            await here.start()
            pods = paths.namespaced("default", "pods")
            old = nvidia_pod("old", memory=3000, cores=30)
            old["metadata"] |= {"annotations": HAMIS | {CHARGED: "GPU-n1-0,NVIDIA,3000,30:;"}}
            old["spec"] |= {"nodeName": "n1", "schedulerName": "hami-scheduler"}
            old["metadata"]["labels"] = {"hami.io/webhook": "ignore"}  # it passed HAMi's
            await here.kube.create(pods, old)
            await here.kube.create(pods, nvidia_pod("ours", memory=2000, cores=10, containers=2))
            await here.until_phase("success", "old", "ours")

            async def unlocked() -> bool:
                return LOCK not in await node_notes(here)

            await here.until("the node's lock is gone", unlocked)

            # What "scale ours to 0" does. HAMi's scheduler could take over now: its Lease is
            # free at once, and the handshake is one that it stamps itself.
            await here.plane.components["chart-scheduler"].stop()
            await here.stop()
            lease = await here.kube.get(f"{LEASES}/hami-scheduler")
            assert lease["spec"].get("holderIdentity", "") == ""
            notes = await node_notes(here)
            stamped = notes.pop("hami.io/node-handshake")
            assert re.fullmatch(r"Requesting_\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", stamped)
            before.pop("hami.io/node-handshake", None)
            assert notes == before

            # What ``helm uninstall`` does: then HAMi registers the node at its first look.
            job = (await here.hook("cleanup"))["spec"]["template"]["spec"]
            account = chart_cluster.service_account(here.plane, job["serviceAccountName"])
            ran = here.vgpu(account, *job["containers"][0]["args"])
            assert ran.returncode == 0, ran.stderr
            here.change("uninstall", RELEASE, "--no-hooks")
            assert await node_notes(here) == before
            hooks, _ = await here.kube.list(
                chart_cluster.collection("MutatingWebhookConfiguration")
            )
            assert hooks == []

            listed, _ = await here.kube.list(pods)
            assert charged_by_hami(listed) == {"GPU-n1-0": (3, 7000, 50)}
            ours = await here.kube.get(paths.pod("default", "ours"))
            held = api_audit.annotations(ours)
            assert held[CHARGED] == "GPU-n1-0,NVIDIA,2000,10:;GPU-n1-0,NVIDIA,2000,10:;"
            assert set(held["hami.io/vgpu-devices-to-allocate"]) <= {";"}
            assert held["hami.io/bind-phase"] == "success"
            assert held["hami.io/vgpu-node"] == "n1"
            assert ours["metadata"]["labels"]["hami.io/vgpu-node"] == "n1"
            for seconds in ("hami.io/bind-time", "hami.io/vgpu-time"):
                assert held[seconds].isdecimal()

            # HAMi's scheduler takes the Lease, and the node's plugin serves what it places.
            async with hamis_scheduler(here):
                await here.kube.create(pods, nvidia_pod("next", scheduler="hami-scheduler"))
                await hamis_bind(here, "next", "GPU-n1-0,NVIDIA,1000,0:;")
                await here.until_phase("success", "next")
                await here.until("HAMi's lock is gone", unlocked)


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
                            "user": chart_cluster.user(NAME),
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
