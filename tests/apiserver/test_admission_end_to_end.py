"""The webhook behind the real API server (must hold 7)."""

import pytest

from support.world import errors, nvidia_pod, world
from vgpu_operator.kube import paths

pytestmark = pytest.mark.apiserver


async def test_7_admission_sets_defaults_and_refuses_what_cannot_work() -> None:
    async with world() as here:
        shared = await here.create(nvidia_pod("shared", memory=3000))
        assert shared["spec"]["schedulerName"] == "hami-scheduler"
        assert shared["spec"]["containers"][0]["resources"]["limits"] == {
            "nvidia.com/gpu": "1",
            "nvidia.com/gpumem": "3k",
        }

        whole = await here.create(nvidia_pod("whole", memory=None))
        assert whole["spec"]["containers"][0]["resources"] == {
            "limits": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"},
            "requests": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"},
        }

        only_memory = nvidia_pod("only-memory")
        only_memory["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpumem": "500"}
        counted = await here.create(only_memory)
        assert counted["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"

        copied = nvidia_pod("copied")
        copied["metadata"]["annotations"] = {
            "hami.io/vgpu-node": "elsewhere",
            "hami.io/vgpu-devices-allocated": "GPU-x,NVIDIA,1,1:;",
            "nvidia.com/use-gputype": "A10",
        }
        stripped = await here.create(copied)
        assert stripped["metadata"]["annotations"] == {"nvidia.com/use-gputype": "A10"}

        privileged = nvidia_pod("privileged")
        privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
        with pytest.raises(errors.Denied, match=r"c0.*privileged"):
            await here.create(privileged)

        placed = nvidia_pod("placed")
        placed["spec"]["nodeName"] = "node-a"
        with pytest.raises(errors.Denied, match="nodeName"):
            await here.create(placed)

        too_much = nvidia_pod("too-much")
        limits = too_much["spec"]["containers"][0]["resources"]["limits"]
        limits["nvidia.com/gpumem-percentage"] = "150"
        with pytest.raises(errors.ApiError, match="percentage"):
            await here.create(too_much)

        plain = nvidia_pod("plain")
        del plain["spec"]["containers"][0]["resources"]
        assert (await here.create(plain))["spec"]["schedulerName"] == "default-scheduler"


async def test_7_a_label_on_the_pod_or_its_namespace_opts_out() -> None:
    async with world() as here:
        ignored = await here.create(nvidia_pod("ignored", labels={"hami.io/webhook": "ignore"}))
        assert ignored["spec"]["schedulerName"] == "default-scheduler"

        await here.kube.create(
            "/api/v1/namespaces",
            {"metadata": {"name": "left-alone", "labels": {"hami.io/webhook": "ignore"}}},
        )
        pod = await here.create(nvidia_pod("there", namespace="left-alone"))
        assert pod["spec"]["schedulerName"] == "default-scheduler"


async def test_a_pod_that_slipped_past_the_webhook_is_found_and_told() -> None:
    async with world() as here:
        name = "vgpu-operator"
        hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        await here.kube.delete(f"{hooks}/{name}")

        async def slipped() -> bool:
            pod = nvidia_pod("slipped")
            await here.kube.request("DELETE", paths.pod("default", "slipped")) if await _exists(
                here
            ) else None
            made = await here.create(pod)
            return made["spec"]["schedulerName"] == "default-scheduler"

        await here.until("the API server no longer asks the webhook", slipped)

        told = await here.until_event("WebhookBypassed", "slipped")
        assert "hami-scheduler" in told["message"]


async def _exists(here) -> bool:
    return any(pod["metadata"]["name"] == "slipped" for pod in await here.pods())
