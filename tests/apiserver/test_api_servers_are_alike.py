"""The API servers that tests are played against behave as the real one does.

One suite, three servers: the simulation's, the unit tests' fake, and a real
kube-apiserver. What is not here (admission, validation, RBAC, 410 after a
compaction) is either not played or cannot be asked of a real one at will.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from simulation.direct import DirectClient
from simulation.server import ApiServer
from support.fake_kube import FakeKube
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths

_NUMBERS = itertools.count(1)

PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Api:
    """A client, and names that nobody else uses."""

    kube: kube_client.KubeClient
    namespace: str
    node: str

    @property
    def pods(self) -> str:
        return paths.namespaced(self.namespace, "pods")

    def path(self, name: str = "p") -> str:
        return paths.pod(self.namespace, name)

    async def pod(self, name: str = "p", **metadata: Any) -> dict[str, Any]:
        """Create a pod and return it."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {
                "schedulerName": "nobody",
                "containers": [{"name": "main", "image": "busybox"}],
            },
        }
        return await self.kube.create(self.pods, body)

    async def bind(self, pod: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        """Create a Binding to the node."""
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        }
        return await self.kube.create(paths.binding(self.namespace, name), body)

    async def evict(self, pod: dict[str, Any], **preconditions: str) -> None:
        """Create an Eviction."""
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
            "deleteOptions": {"preconditions": preconditions},
        }
        await self.kube.create(paths.eviction(self.namespace, name), body)

    async def annotate(self, path: str, note: str | None, **metadata: Any) -> dict[str, Any]:
        """Patch the annotation ``example.com/note``."""
        body = {"metadata": {"annotations": {"example.com/note": note}, **metadata}}
        return await self.kube.patch(path, body)


def version(raw: dict[str, Any]) -> str:
    return str(raw["metadata"]["resourceVersion"])


def note(raw: dict[str, Any]) -> str | None:
    return (raw["metadata"].get("annotations") or {}).get("example.com/note")


async def _prepared(kube: kube_client.KubeClient, namespace: str) -> Api:
    made = Api(kube, namespace, f"node-of-{namespace}")
    await kube.create(
        paths.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": made.node}}
    )
    return made


class ApiServerSuite:
    """What every API server must do; the subclasses say which is asked."""

    async def test_a_patch_merges_and_null_removes(self, api: Api) -> None:
        await api.pod(annotations={"example.com/kept": "yes"})
        set_to = await api.annotate(api.path(), "one")
        removed = await api.annotate(api.path(), None)
        assert note(set_to) == "one"
        assert removed["metadata"]["annotations"] == {"example.com/kept": "yes"}
        assert int(version(removed)) > int(version(set_to))

    async def test_a_patch_that_changes_nothing_makes_no_version(self, api: Api) -> None:
        await api.pod()
        first = await api.annotate(api.path(), "one")
        assert version(await api.annotate(api.path(), "one")) == version(first)

    async def test_a_patch_of_an_older_version_conflicts_and_changes_nothing(
        self, api: Api
    ) -> None:
        made = await api.pod()
        await api.annotate(api.path(), "newer")
        with pytest.raises(errors.Conflict):
            await api.annotate(api.path(), "late", resourceVersion=version(made))
        assert note(await api.kube.get(api.path())) == "newer"

    async def test_a_patch_of_the_present_version_is_done(self, api: Api) -> None:
        made = await api.pod()
        done = await api.annotate(api.path(), "one", resourceVersion=version(made))
        assert note(done) == "one"

    async def test_a_patch_for_another_uid_conflicts(self, api: Api) -> None:
        await api.pod()
        with pytest.raises(errors.Conflict):
            await api.annotate(api.path(), "x", uid="00000000-0000-0000-0000-000000000000")

    async def test_what_is_not_there_is_not_found(self, api: Api) -> None:
        with pytest.raises(errors.NotFound):
            await api.kube.get(api.path())
        with pytest.raises(errors.NotFound):
            await api.annotate(api.path(), "x")
        with pytest.raises(errors.NotFound):
            await api.kube.delete(api.path())

    async def test_a_name_can_be_taken_once(self, api: Api) -> None:
        await api.pod()
        with pytest.raises(errors.Conflict):
            await api.pod()

    async def test_a_binding_writes_node_annotations_and_labels_in_one_version(
        self, api: Api
    ) -> None:
        made = await api.pod(annotations={"example.com/kept": "yes"})
        selector = {"fieldSelector": f"metadata.name=p,metadata.namespace={api.namespace}"}
        async with _watching(api, paths.PODS, version(made), selector) as events:
            await api.bind(
                made,
                uid=made["metadata"]["uid"],
                resourceVersion=version(made),
                annotations={"example.com/note": "promised"},
                labels={"example.com/label": "on"},
            )
            seen = (await events.get())["object"]
        assert seen["spec"]["nodeName"] == api.node
        assert seen["metadata"]["annotations"] == {
            "example.com/kept": "yes",
            "example.com/note": "promised",
        }
        assert seen["metadata"]["labels"]["example.com/label"] == "on"
        assert version(seen) == version(await api.kube.get(api.path()))

    async def test_a_second_binding_conflicts_and_merges_nothing(self, api: Api) -> None:
        made = await api.pod()
        await api.bind(made, annotations={"example.com/note": "first"})
        with pytest.raises(errors.Conflict):
            await api.bind(made, annotations={"example.com/note": "second"})
        assert note(await api.kube.get(api.path())) == "first"

    async def test_a_binding_of_an_older_version_conflicts_and_binds_nothing(
        self, api: Api
    ) -> None:
        made = await api.pod()
        await api.annotate(api.path(), "fenced")
        with pytest.raises(errors.Conflict):
            await api.bind(made, resourceVersion=version(made))
        assert not (await api.kube.get(api.path()))["spec"].get("nodeName")

    async def test_a_binding_for_another_uid_conflicts(self, api: Api) -> None:
        made = await api.pod()
        with pytest.raises(errors.Conflict):
            await api.bind(made, uid="00000000-0000-0000-0000-000000000000")

    async def test_a_binding_for_a_pod_that_is_gone_is_not_found(self, api: Api) -> None:
        made = await api.pod()
        await api.kube.delete(api.path())
        with pytest.raises(errors.NotFound):
            await api.bind(made)

    async def test_an_unbound_pod_is_deleted_at_once(self, api: Api) -> None:
        await api.pod()
        await api.kube.delete(api.path())
        with pytest.raises(errors.NotFound):
            await api.kube.get(api.path())

    async def test_a_bound_pod_stays_until_its_kubelet_lets_it_go(self, api: Api) -> None:
        made = await api.pod()
        await api.bind(made)
        await api.kube.delete(api.path())
        assert (await api.kube.get(api.path()))["metadata"]["deletionTimestamp"]
        await api.kube.delete(api.path(), grace_s=0, uid=made["metadata"]["uid"])
        with pytest.raises(errors.NotFound):
            await api.kube.get(api.path())

    async def test_a_pod_that_has_ended_is_deleted_at_once(self, api: Api) -> None:
        made = await api.pod()
        await api.bind(made)
        await api.kube.patch(f"{api.path()}/status", {"status": {"phase": "Succeeded"}})
        await api.kube.delete(api.path())
        with pytest.raises(errors.NotFound):
            await api.kube.get(api.path())

    async def test_an_eviction_deletes_with_grace_and_for_that_uid_only(self, api: Api) -> None:
        pod = await api.pod()
        await api.bind(pod)
        with pytest.raises(errors.Conflict):
            await api.evict(pod, uid="another")
        assert "deletionTimestamp" not in (await api.kube.get(api.path()))["metadata"]
        await api.evict(pod, uid=pod["metadata"]["uid"])
        assert "deletionTimestamp" in (await api.kube.get(api.path()))["metadata"]
        await api.evict(pod, uid=pod["metadata"]["uid"])

    async def test_an_eviction_of_a_pod_that_is_gone_is_not_found(self, api: Api) -> None:
        pod = await api.pod()
        await api.kube.delete(api.path())
        with pytest.raises(errors.NotFound):
            await api.evict(pod)

    async def test_a_status_may_bring_annotations_and_a_nominated_node(self, api: Api) -> None:
        await api.pod()
        body: dict[str, Any] = {
            "metadata": {"annotations": {"example.com/note": "yes"}},
            "status": {"nominatedNodeName": api.node},
        }
        await api.kube.patch(f"{api.path()}/status", body)
        found = await api.kube.get(api.path())
        assert (note(found), found["status"]["nominatedNodeName"]) == ("yes", api.node)
        body["metadata"]["annotations"]["example.com/note"] = None
        body["status"]["nominatedNodeName"] = None
        await api.kube.patch(f"{api.path()}/status", body)
        found = await api.kube.get(api.path())
        assert note(found) is None
        assert "nominatedNodeName" not in found["status"]

    async def test_a_deletion_for_another_uid_or_version_conflicts(self, api: Api) -> None:
        made = await api.pod()
        await api.annotate(api.path(), "newer")
        with pytest.raises(errors.Conflict):
            await api.kube.delete(api.path(), uid="00000000-0000-0000-0000-000000000000")
        with pytest.raises(errors.Conflict):
            await api.kube.delete(api.path(), resource_version=version(made))
        assert note(await api.kube.get(api.path())) == "newer"

    async def test_the_status_is_written_by_its_own_path_only(self, api: Api) -> None:
        await api.pod()
        ignored = await api.kube.patch(api.path(), {"status": {"phase": "Running"}})
        written = await api.kube.patch(f"{api.path()}/status", {"status": {"phase": "Running"}})
        assert ignored["status"]["phase"] == "Pending"
        assert written["status"]["phase"] == "Running"
        assert written["spec"]["schedulerName"] == "nobody"

    async def test_a_new_pod_of_the_same_name_has_another_uid(self, api: Api) -> None:
        first = await api.pod()
        await api.kube.delete(api.path())
        second = await api.pod()
        assert first["metadata"]["uid"] != second["metadata"]["uid"]

    async def test_a_watch_shows_all_that_comes_after_the_list_in_order(self, api: Api) -> None:
        await api.pod("before")
        _, listed = await api.kube.list(api.pods)
        async with _watching(api, api.pods, listed) as events:
            made = await api.pod("p")
            changed = await api.annotate(api.path("p"), "one")
            await api.kube.delete(api.path("p"))
            found = [await events.get(), await events.get()]
            while found[-1]["type"] != "DELETED":
                found.append(await events.get())
        assert [event["type"] for event in found[:2]] == ["ADDED", "MODIFIED"]
        assert [version(event["object"]) for event in found[:2]] == [
            version(made),
            version(changed),
        ]
        assert int(version(found[-1]["object"])) > int(version(changed))
        assert note(found[-1]["object"]) == "one"

    async def test_a_watch_of_bound_pods_shows_a_binding_as_new(self, api: Api) -> None:
        made = await api.pod()
        of_node = {"fieldSelector": f"spec.nodeName={api.node}"}
        items, listed = await api.kube.list(paths.PODS, params=of_node)
        async with _watching(api, paths.PODS, listed, of_node) as events:
            await api.bind(made)
            event = await events.get()
        assert items == []
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "p")

    async def test_a_list_of_a_nodes_pods_has_only_these(self, api: Api) -> None:
        bound = await api.pod("bound")
        await api.pod("unbound")
        await api.bind(bound)
        of_node = {"fieldSelector": f"spec.nodeName={api.node}"}
        items, listed = await api.kube.list(paths.PODS, params=of_node)
        assert [item["metadata"]["name"] for item in items] == ["bound"]
        assert int(listed) >= int(version(items[0]))

    async def test_a_lease_is_replaced_only_in_its_present_version(self, api: Api) -> None:
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
        body: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "a"},
        }
        made = await api.kube.create(leases, body)
        renewed = await api.kube.replace(f"{leases}/l", made | {"spec": {"holderIdentity": "b"}})
        assert renewed["spec"]["holderIdentity"] == "b"
        with pytest.raises(errors.Conflict):
            await api.kube.replace(f"{leases}/l", made | {"spec": {"holderIdentity": "c"}})

    async def test_events_get_names_of_their_own(self, api: Api) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "vgpu-", "namespace": api.namespace},
            "involvedObject": {"kind": "Pod", "namespace": api.namespace, "name": "p"},
            "reason": "Test",
            "message": "text",
            "type": "Normal",
        }
        path = paths.namespaced(api.namespace, "events")
        names = {(await api.kube.create(path, body))["metadata"]["name"] for _ in range(2)}
        assert len(names) == 2
        assert all(name.startswith("vgpu-") for name in names)

    async def test_a_node_is_locked_only_in_its_present_version(self, api: Api) -> None:
        path = paths.node(api.node)
        seen = await api.kube.get(path)
        await api.annotate(path, "first", resourceVersion=version(seen))
        with pytest.raises(errors.Conflict):
            await api.annotate(path, "second", resourceVersion=version(seen))
        assert note(await api.kube.get(path)) == "first"

    async def test_a_nodes_status_and_annotations_do_not_disturb_each_other(self, api: Api) -> None:
        path = paths.node(api.node)
        await api.annotate(path, "one")
        counts = {"capacity": {"example.com/gpu": "2"}, "allocatable": {"example.com/gpu": "1"}}
        await api.kube.patch(f"{path}/status", {"status": counts})
        seen = await api.annotate(path, "two")
        assert seen["status"]["allocatable"]["example.com/gpu"] == "1"
        assert note(seen) == "two"

    async def test_a_deleted_node_is_gone_at_once(self, api: Api) -> None:
        await api.kube.delete(paths.node(api.node))
        with pytest.raises(errors.NotFound):
            await api.kube.get(paths.node(api.node))


class _WhatTheFakeLeavesOut:
    """Pages of one list, and the two steps in which a Pod goes."""

    async def test_a_pod_is_marked_before_it_goes_even_without_grace(self, api: Api) -> None:
        await api.pod()
        _, listed = await api.kube.list(api.pods)
        async with _watching(api, api.pods, listed) as events:
            await api.kube.delete(api.path(), grace_s=0)
            found = [await events.get(), await events.get()]
        assert [event["type"] for event in found] == ["MODIFIED", "DELETED"]
        for event in found:
            assert event["object"]["metadata"]["deletionTimestamp"]
            assert event["object"]["metadata"]["deletionGracePeriodSeconds"] == 0

    async def test_the_pages_of_a_list_are_of_one_moment(self, api: Api) -> None:
        for number in range(3):
            await api.pod(f"p{number}")
        names, versions = [], set()
        async for page in api.kube.pages(api.pods, page=2):
            if not names:
                await api.pod("late")
            names += [item["metadata"]["name"] for item in page["items"]]
            versions.add(page["metadata"]["resourceVersion"])
        assert names == ["p0", "p1", "p2"]
        assert len(versions) == 1


class _Budgets:
    """PodDisruptionBudgets, whose controller is played."""

    async def test_a_budget_lets_running_pods_go_as_long_as_it_allows(self, api: Api) -> None:
        path = f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets"
        selector = {"matchLabels": {"tier": "low"}}
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep"},
            "status": {"disruptionsAllowed": 0},
            "spec": {"minAvailable": 1, "selector": selector},
        }
        await api.kube.create(path, body)

        async def allow(number: int) -> None:
            counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 1)
            status = {**counts, "disruptionsAllowed": number, "observedGeneration": 1}
            await api.kube.patch(f"{path}/keep/status", {"status": status})

        pods = [await api.pod(f"p{number}", labels={"tier": "low"}) for number in range(2)]
        for pod in pods:
            await api.bind(pod)
            running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await api.kube.patch(f"{api.path(pod['metadata']['name'])}/status", {"status": running})
        await allow(0)
        with pytest.raises(errors.TooMany):
            await api.evict(pods[0])
        await allow(1)
        await api.evict(pods[0])
        status = (await api.kube.get(f"{path}/keep"))["status"]
        assert (status["disruptionsAllowed"], [*status["disruptedPods"]]) == (0, ["p0"])
        with pytest.raises(errors.TooMany):
            await api.evict(pods[1])
        await api.evict(pods[0])  # it is going already


class TestTheSimulatedServer(ApiServerSuite, _WhatTheFakeLeavesOut, _Budgets):
    @pytest_asyncio.fixture
    async def api(self) -> Api:
        server = ApiServer(lambda: "2026-03-01T08:00:00Z")
        return await _prepared(DirectClient(server), f"ns{next(_NUMBERS)}")


class TestTheFake(ApiServerSuite):
    @pytest_asyncio.fixture
    async def api(self) -> Api:
        return await _prepared(FakeKube(), f"ns{next(_NUMBERS)}")


@pytest.mark.apiserver
class TestARealServer(ApiServerSuite, _WhatTheFakeLeavesOut, _Budgets):
    @pytest_asyncio.fixture
    async def api(self, control_plane: ControlPlane, namespace: str) -> AsyncIterator[Api]:
        async with await kube_client.KubeClient.connect(
            kubeconfig=str(control_plane.kubeconfig)
        ) as kube:
            made = await _prepared(kube, namespace)
            yield made
            with contextlib.suppress(errors.NotFound):
                await kube.delete(paths.node(made.node))


@contextlib.asynccontextmanager
async def _watching(
    api: Api, path: str, since: str, params: dict[str, str] | None = None
) -> AsyncIterator[Any]:
    """Collect a watch's events, bookmarks left out."""
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def follow() -> None:
        async for event in api.kube.watch(path, resource_version=since, params=params):
            if event["type"] != "BOOKMARK":
                events.put_nowait(event)

    class _Events:
        async def get(self) -> dict[str, Any]:
            async with asyncio.timeout(PATIENCE_S):
                return await events.get()

    following = asyncio.create_task(follow())
    try:
        yield _Events()
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
