"""The oldest Kubernetes that is supported: API server, scheduler and operator together."""

import pytest

from support import api_audit, control_plane
from support.world import nvidia_pod, world

pytestmark = pytest.mark.apiserver


async def test_a_pod_is_placed_bound_served_and_labelled_on_it(
    request: pytest.FixtureRequest,
) -> None:
    await control_plane.build(request.config, control_plane.OLDEST)
    async with (
        world(kubernetes_version=control_plane.OLDEST) as here,
        here.simulate({"name": "node-a", "cards": 2, "delay": 0.05}),
    ):
        assert (await here.kube.get("/version"))["gitVersion"] == f"v{control_plane.OLDEST}"

        await here.create(nvidia_pod("one", memory=3000, cores=30))
        await here.until_phase("success", "one")
        await here.until_no_lock()

        pod = await here.pod("one")
        assert api_audit.annotations(pod)["hami.io/vgpu-devices-allocated"] == (
            "GPU-node-a-1,NVIDIA,3000,30:;"
        )
        # Before 1.35 the API server leaves a Binding's labels out: one more PATCH writes it.
        assert pod["metadata"]["labels"]["hami.io/vgpu-node"] == "node-a"
        await here.assert_sound()
