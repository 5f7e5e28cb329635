"""Pods that the webhook never saw: found within 5 s, or when an operator starts again."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from support import chart_cluster, rollout, service
from support.chart_release import NAME, Release, release
from support.helm import CHART, RELEASE, Helm
from support.samples import Samples
from support.world import fetch, nvidia_pod
from vgpu_operator.kube import errors, paths

pytestmark = pytest.mark.apiserver

Json = dict[str, Any]

FOUND_S = 5.0


def only_memory(name: str, scheduler: str | None) -> Json:
    pod = nvidia_pod(name, scheduler=scheduler)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpumem": "500"}}
    return pod


PAST = {
    "slipped": nvidia_pod("slipped"),
    "only-memory": only_memory("only-memory", None),
    "names-ours": only_memory("names-ours", "hami-scheduler"),
}
"""The last one is ours, and would be placed without any card."""


async def create(here: Release, pod: Json) -> Json:
    return await here.kube.create(paths.namespaced("default", "pods"), pod)


async def told(here: Release) -> dict[str, str]:
    """Return what is told of pods that passed the webhook by."""
    items, _ = await here.kube.list(paths.namespaced("default", "events"))
    return {
        item["involvedObject"]["name"]: item["message"]
        for item in items
        if item["reason"] == "WebhookBypassed"
    }


async def test_pods_that_passed_the_webhook_by_are_found_within_5_s(
    helm: Helm, tmp_path: Path
) -> None:
    async with release(helm, tmp_path) as here, service.service(here.addresses.webhook.number) as s:
        here.values["scheduler"]["replicas"] = 1
        here.values["scheduler"]["admissionWebhook"]["failurePolicy"] = "Ignore"
        here.install()
        async with rollout.rollout(here, s) as pods:
            await pods.until_done()

            async def asked() -> bool:
                pod = await chart_cluster.dry_run(here.kube, nvidia_pod("asked"))
                return pod["spec"]["schedulerName"] == "hami-scheduler"

            await here.until("the webhook is asked", asked)
            await create(here, nvidia_pod("seen"))

            await s.cut()
            for name, pod in PAST.items():
                begun = time.monotonic()
                made = await create(here, pod)
                assert made["spec"]["containers"][0]["resources"]["limits"].keys() == (
                    pod["spec"]["containers"][0]["resources"]["limits"].keys()
                )

                async def found(name: str = name) -> bool:
                    return name in await told(here)

                await here.until(f"{name} is found", found, limit_s=FOUND_S)
                assert time.monotonic() - begun < FOUND_S
            sentences = await told(here)
            assert sentences.keys() == PAST.keys()
            assert "its scheduler is default-scheduler" in sentences["slipped"]
            assert "would have set nvidia.com/gpu: 1" in sentences["names-ours"]
            (pod,) = pods.pods
            page = Samples(await fetch(f"http://127.0.0.1:{pod.at.metrics.number}/metrics"))
            assert page.total("vgpu_pods_bypassed") == len(PAST)

            # Nobody runs: it is found by whoever starts next, as soon as it leads.
            await here.kube.patch(deployment(), {"spec": {"replicas": 0}})
            await pods.until_done()
            await create(here, nvidia_pod("while-none-ran"))
            await here.kube.patch(deployment(), {"spec": {"replicas": 1}})
            await pods.until_done()

            async def found_at_start() -> bool:
                return "while-none-ran" in await told(here)

            await here.until("it is found at the start", found_at_start, limit_s=FOUND_S)

            # With the other choice no such pod is there.
            here.values["scheduler"]["admissionWebhook"]["failurePolicy"] = "Fail"
            await asyncio.to_thread(here.change, "upgrade", RELEASE, str(CHART), values=here.values)

            async def refused() -> bool:
                try:
                    await create(here, nvidia_pod("refused"))
                except errors.ApiError as fault:
                    return "vgpu.hami.io" in str(fault)
                await here.kube.delete(paths.pod("default", "refused"), grace_s=0)
                return False

            await here.until("the API server refuses what the webhook cannot see", refused)


def deployment() -> str:
    return f"/apis/apps/v1/namespaces/vgpu-system/deployments/{NAME}"
