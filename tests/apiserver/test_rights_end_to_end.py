"""The operator runs as the chart's account wherever it runs here, and nothing is refused.

Every end-to-end test fails where a request of that account is refused, or is allowed by
kube-scheduler's roles alone (``support.rights_used``). Here are the rare requests.
"""

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from support import api_audit, chart_cluster
from support.world import World, nvidia_pod, world
from vgpu_operator.cli.cluster import audit

pytestmark = pytest.mark.apiserver

STUCK_PODS_ARE_DELETED = {
    "lock": {"expiryS": 1.0},
    "bind": {"stuckPod": "delete", "stuckAfterS": 1.0},
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def here() -> AsyncIterator[World]:
    async with world(configured=STUCK_PODS_ARE_DELETED) as made:
        yield made


def on(node: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": node}


def asked(here: World, verb: str, resource: str, name: str) -> list[audit.AuditedRequest]:
    """Return what the operator has asked for of that one object."""
    return [
        one
        for one in here.requests()
        if (one.verb, "/".join(filter(None, (one.resource, one.subresource))), one.name)
        == (verb, resource, name)
    ]


async def test_the_usual_work_asks_for_nothing_but_resources_and_versions(here: World) -> None:
    async with here.simulate({"name": "node-a", "cards": 1}):
        await here.create(nvidia_pod("usual"))
        await here.until_phase("success", "usual")
        await here.create(nvidia_pod("too-large", memory=10**6))
        await here.until_event("FilteringFailed", "too-large")

    assert [one.code for one in asked(here, "create", "pods/binding", "usual")] == [201]
    # What Kubernetes shows to every authenticated user: Kopf looks which resources there are.
    others = {one.uri.split("?")[0] for one in here.requests() if not one.resource}
    assert all(uri == "/version" or uri.startswith("/api") for uri in others)


async def test_a_bind_of_a_pod_that_nobody_has_seen_reads_it(here: World) -> None:
    body = {"PodName": "unseen", "PodNamespace": "default", "PodUID": "u-1", "Node": "node-a"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{here.replica.extender_url}/bind", json=body) as answer,
    ):
        assert "does not exist any more" in (await answer.json())["Error"]

    assert [one.code for one in asked(here, "get", "pods", "unseen")] == [404]


async def test_the_lock_of_a_waiting_pod_is_fenced_before_it_passes_on(here: World) -> None:
    async with here.simulate({"name": "node-b", "cards": 1}):
        await here.until_handshake("node-b", lambda text: text is not None)
        await here.create(nvidia_pod("owner", scheduler="nobody"))
        await here.annotate_node("node-b", **{api_audit.LOCK: "2026-01-15T10:00:00Z,default,owner"})
        await here.create(nvidia_pod("next", node_selector=on("node-b")))
        await here.until_phase("success", "next")

    # Once more where somebody else wrote to the node in between.
    fences = asked(here, "patch", "pods", "owner")
    assert {one.code for one in fences} == {200}


async def test_a_pod_that_no_kubelet_takes_in_is_deleted_where_that_is_wanted(here: World) -> None:
    async with here.simulate({"name": "node-c", "cards": 1}) as sim:
        await here.until_handshake("node-c", lambda text: text is not None)
        sim.node("node-c").pause()
        await here.create(nvidia_pod("stuck", node_selector=on("node-c")))
        await here.until_phase("allocating", "stuck")

        async def deleted() -> bool:
            return bool(asked(here, "delete", "pods", "stuck"))

        await here.until("the stuck pod is deleted", deleted)

    assert {one.code for one in asked(here, "delete", "pods", "stuck")} == {200}


async def test_a_right_that_is_taken_away_is_seen_as_a_refused_request() -> None:
    roles = f"{chart_cluster.PATHS['ClusterRole']}/{chart_cluster.SCHEDULER}"
    name = "test_a_right_that_is_taken_away_is_seen_as_a_refused_request"
    async with world(refused_in=name) as here:
        rules = (await here.kube.get(roles))["rules"]
        kept = [rule for rule in rules if "nodes" not in rule["resources"]]
        await here.kube.patch(roles, {"rules": kept})
        async with here.simulate({"name": "node-a", "cards": 1}):

            async def refused() -> bool:
                return any(one.code == 403 for one in asked(here, "patch", "nodes", "node-a"))

            await here.until("the handshake is refused", refused)
    # At its end the world has found it too, or would have failed.
