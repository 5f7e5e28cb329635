"""Who is no program of the protocol and writes its annotations is warned or refused."""

import dataclasses
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from support import chart_cluster
from support.chart_release import Release, release
from support.helm import CHART, RELEASE, Helm
from support.world import nvidia_pod
from vgpu_operator.kube import client, errors, paths

pytestmark = pytest.mark.apiserver

ACCOUNT = "system:serviceaccount:vgpu-system:vgpu-"
POLICY = "vgpu-protocol"
FORGED = {"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1000,0:;"}
CHOICE = {"nvidia.com/use-gputype": "A10"}
"""By this one people choose cards: it is theirs."""

Json = dict[str, Any]


def values(action: str) -> Json:
    # No webhook: what it would strip from new pods must be refused without it too.
    return {
        "fullnameOverride": "vgpu",  # a certificate names users of 64 characters at most
        "scheduler": {"admissionWebhook": {"enabled": False}},
        "admissionPolicy": {"action": action, "protocolWriters": ["friend"]},
    }


@pytest_asyncio.fixture
async def here(helm: Helm, tmp_path: Path) -> AsyncIterator[Release]:
    async with release(helm, tmp_path) as running:
        running.values = values("Deny")
        running.install()
        await running.kube.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
        await running.kube.create(paths.namespaced("default", "pods"), nvidia_pod("p1"))
        yield running


async def writer(here: Release, user: str) -> client.KubeClient:
    """Return a client of somebody who may do everything, but is known by that name."""
    return await client.KubeClient.connect(
        kubeconfig=str(here.plane.kubeconfig_for(user, ["system:masters"]))
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Write:
    """One write of annotations to the API server."""

    method: str
    path: str
    body: Json
    params: Mapping[str, str] | None = None


def write(what: str, annotations: Json) -> Write:
    """Return how these annotations get onto that; new things are tried only."""
    metadata = {"annotations": annotations}
    once = {"dryRun": "All"}
    changed = {"metadata": metadata}
    match what:
        case "a new pod":
            pod = nvidia_pod("new")
            pod["metadata"]["annotations"] = annotations
            pods = paths.namespaced("default", "pods")
            return Write(method="POST", path=pods, body=pod, params=once)
        case "a pod":
            return Write(method="PATCH", path=paths.pod("default", "p1"), body=changed)
        case "a pod's status":
            path = f"{paths.pod('default', 'p1')}/status"
            return Write(method="PATCH", path=path, body=changed)
        case "a node":
            return Write(method="PATCH", path=paths.node("n1"), body=changed)
        case _:
            assert what in ("a Binding", "a Binding of the older form")
            newer = what == "a Binding"
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "p1", "namespace": "default", **metadata},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
            }
            path = (
                paths.binding("default", "p1") if newer else paths.namespaced("default", "bindings")
            )
            return Write(method="POST", path=path, body=body, params=once)


async def tried(user: client.KubeClient, what: str, annotations: Json) -> str:
    """Write annotations and return the refusal; empty when it was taken."""
    asked = write(what, annotations)
    try:
        if asked.method == "PATCH":
            await user.patch(asked.path, asked.body)
        else:
            await user.request("POST", asked.path, body=asked.body, params=asked.params)
    except (errors.Denied, errors.Invalid) as fault:
        return str(fault)
    return ""


LOCK = {"hami.io/mutex.lock": "2026-01-01T00:00:00Z,default,p1"}

WRITES = {
    "a new pod": FORGED,
    "a pod": FORGED,
    "a pod's status": {"hami.io/bind-phase": "success"},
    "a node": LOCK,
    "a Binding": FORGED,
    "a Binding of the older form": FORGED,
}


async def test_at_deny_only_programs_of_the_protocol_write_its_annotations(
    here: Release,
) -> None:
    async with await writer(here, "mallory") as mallory:

        async def in_force() -> bool:
            return bool(await tried(mallory, "a new pod", FORGED))

        await here.until("the policy is in force", in_force)
        for what, annotations in WRITES.items():
            refusal = await tried(mallory, what, annotations)
            (key,) = annotations
            assert "mallory is no program of the accelerator protocol" in refusal, what
            assert key in refusal, what
            assert "protocolWriters" in refusal, what
        for what in WRITES:
            assert await tried(mallory, what, {**CHOICE, "note": "x"}) == "", what
        assert await tried(mallory, "a node", {"hami.io/device-cordon": "GPU-1"}) == ""
    for known in (f"{ACCOUNT}scheduler", f"{ACCOUNT}device-plugin", "friend"):
        async with await writer(here, known) as program:
            for what, annotations in WRITES.items():
                assert await tried(program, what, annotations) == "", (known, what)
    async with await writer(here, "mallory") as mallory:
        # What a program has written stays while others change the same objects.
        assert await tried(mallory, "a pod", {"note": "y"}) == ""
        assert await tried(mallory, "a node", {"note": "y"}) == ""
        gone = dict.fromkeys(LOCK)
        assert "hami.io/mutex.lock" in await tried(mallory, "a node", gone)


async def test_at_warn_a_writer_is_warned_and_not_stopped(here: Release) -> None:
    here.change("upgrade", RELEASE, str(CHART), values=values("Warn"))
    async with await writer(here, "mallory") as mallory:

        async def in_force() -> bool:
            return await tried(mallory, "a pod", FORGED) == "" and bool(
                await warnings(mallory, "a new pod", FORGED)
            )

        await here.until("writes are taken, with a warning", in_force)
        for what, (key,) in WRITES.items():
            (text,) = await warnings(mallory, what, {key: f"mallory's {what}"})
            assert "mallory is no program of the accelerator protocol" in text, what
            assert key in text, what
        for what in WRITES:
            assert await warnings(mallory, what, {**CHOICE, "note": f"of {what}"}) == [], what
    async with await writer(here, f"{ACCOUNT}device-plugin") as plugin:
        for what, (key,) in WRITES.items():
            assert await warnings(plugin, what, {key: f"the plugin's {what}"}) == [], what


async def warnings(user: client.KubeClient, what: str, annotations: Json) -> list[str]:
    """Write annotations, which must be taken, and return what the answer warns of."""
    asked = write(what, annotations)
    session: aiohttp.ClientSession = user._session
    kind = client.MERGE_PATCH if asked.method == "PATCH" else "application/json"
    async with session.request(
        asked.method,
        user.server_url + asked.path,
        json=asked.body,
        params=asked.params,
        headers={"Content-Type": kind},
    ) as answer:
        assert answer.status in (200, 201), await answer.text()
        return answer.headers.getall("Warning", [])


async def test_every_object_of_the_release_is_there(here: Release) -> None:
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        found = await here.kube.get(f"{chart_cluster.collection(kind)}/{POLICY}")
        assert found["metadata"]["name"] == POLICY
    policy = await here.read("ValidatingAdmissionPolicy", POLICY)
    assert not policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
