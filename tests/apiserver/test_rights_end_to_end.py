"""The operator does its whole work with the rights of ``rbac.yaml``, and uses no others."""

import importlib.resources

import pytest
import yaml

from support.world import nvidia_pod, world

pytestmark = pytest.mark.apiserver


def granted() -> set[tuple[str, str]]:
    text = importlib.resources.files("vgpu_operator.cli").joinpath("rbac.yaml").read_text()
    return {
        (verb, resource)
        for document in yaml.safe_load_all(text)
        if document["kind"] == "ClusterRole"
        for rule in document["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


async def test_nothing_is_denied_and_nothing_is_asked_for_beyond_the_rights() -> None:
    async with world() as here, here.simulate({"prefix": "sim-", "count": 2, "cards": 2}):
        names = [f"p{number}" for number in range(6)]
        for name in names:
            await here.create(nvidia_pod(name))
        await here.until_phase("success", *names)
        await here.create(nvidia_pod("too-large", memory=10**6))
        await here.until_event("FilteringFailed", "too-large")
        await here.delete("p0")
        here.replica.component.kill()
        await here.until_restarted()
        await here.until_no_lock()

        requests = here.requests()

    asked = {
        (request.verb, "/".join(filter(None, (request.resource, request.subresource))))
        for request in requests
        if request.resource
    }
    assert [request.uri for request in requests if request.code in (401, 403)] == []
    assert asked <= granted()
    assert {("create", "pods/binding"), ("patch", "nodes"), ("watch", "pods")} <= asked
    # What Kubernetes shows to every authenticated user: Kopf looks which resources there are.
    others = {request.uri.split("?")[0] for request in requests if not request.resource}
    assert all(uri == "/version" or uri.startswith("/api") for uri in others)
