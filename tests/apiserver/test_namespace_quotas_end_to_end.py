"""A namespace's quota on a real control plane: held in a burst, raised, used up, given back."""

import asyncio

import pytest

from support import api_audit
from support.resource_quotas import MEMORY
from support.world import World, errors, nvidia_pod, world
from vgpu_operator.kube import paths

pytestmark = pytest.mark.apiserver

QUOTAS = paths.namespaced("default", "resourcequotas")
NAMES = [f"burst-{number}" for number in range(8)]


async def _bound(here: World) -> set[str]:
    """Return the names of the pods that have a node; each holds 1000 MiB."""
    return {pod["metadata"]["name"] for pod in await here.pods() if pod["spec"].get("nodeName")}


async def _until_bound(here: World, number: int) -> set[str]:
    """Wait until so many pods are bound and the quota holds back all others."""

    async def reached() -> set[str] | None:
        there = await _bound(here)
        assert len(there) <= number
        waiting = {name for name in NAMES if name not in there}
        told = {
            event["involvedObject"]["name"]
            for event in await here.events("FilteringFailed")
            if "ResourceQuotaNotFit" in event["message"]
        }
        return there if len(there) == number and waiting <= told else None

    found: set[str] = await here.until(f"{number} pods are bound", reached)
    return found


async def test_case_131_a_burst_keeps_to_the_quota_and_more_of_it_wakes_who_waits() -> None:
    async with world() as here:
        await here.kube.create(
            QUOTAS, {"metadata": {"name": "cards"}, "spec": {"hard": {MEMORY: "3000"}}}
        )
        # No card yet, so all pass admission, and are filtered at once when there are some.
        await asyncio.gather(*(here.create(nvidia_pod(name, memory=1000)) for name in NAMES))
        async with here.simulate({"prefix": "sim-", "count": 2, "cards": 2, "delay": 0.05}):
            await _until_bound(here, 3)

            with pytest.raises(errors.Denied, match=r"exceeding resource quota.*gpumem"):
                await here.create(nvidia_pod("late", memory=1))

            await here.kube.patch(f"{QUOTAS}/cards", {"spec": {"hard": {MEMORY: "5k"}}})
            there = await _until_bound(here, 5)

            await here.until_no_lock()
            gone = min(there)
            await here.delete(gone)
            left = set(NAMES) - {gone}

            async def replaced() -> bool:
                now = await _bound(here)
                assert len(now) <= 5
                return len(now & left) == 5

            await here.until("another pod has taken the share of the deleted one", replaced)

            await here.kube.delete(f"{QUOTAS}/cards")
            await here.until_phase("success", *sorted(left))
            await here.until_no_lock()
            held = [api_audit.annotations(pod) for pod in await here.pods()]
            assert all("1000,0:;" in notes["hami.io/vgpu-devices-allocated"] for notes in held)
            await here.assert_sound()
