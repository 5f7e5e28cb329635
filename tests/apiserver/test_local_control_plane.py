"""The local control plane itself, for real: what every other apiserver test rests on."""

import asyncio
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kubernetes_asyncio import client, watch
from kubernetes_asyncio.client.exceptions import ApiException

from support.control_plane import connect, processes_that_remain
from vgpu_operator.cli.cluster import audit
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.cli.cluster.scheduler_config import scheduler_configuration

pytestmark = pytest.mark.apiserver

OPERATOR_ROOT = Path(__file__).parents[2] / "operator"
WATCH_LIMIT_S = 60


@pytest.fixture(scope="module")
async def own_control_plane(control_plane_program: Path) -> AsyncIterator[ControlPlane]:
    """Run a control plane that tests may break, if they leave it running."""
    async with ControlPlane() as running:
        yield running


@pytest.fixture(scope="module")
async def full_control_plane(control_plane_program: Path) -> AsyncIterator[ControlPlane]:
    """Run a control plane with controllers."""
    async with ControlPlane(ControlPlaneOptions(controller_manager=True)) as running:
        yield running


def node(name: str) -> Any:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": room, "allocatable": room}}


def pod(name: str, *, scheduler_name: str) -> Any:
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler_name,
            "containers": [{"name": "main", "image": "none"}],
        },
    }


async def first_event(listing: Any, *arguments: str, wanted: Any) -> Any:
    """Watch until an object is as wanted, and give it."""
    async with watch.Watch() as events:
        stream = events.stream(listing, *arguments, timeout_seconds=WATCH_LIMIT_S)
        async for event in stream:
            if wanted(event["object"]):
                return event["object"]
    pytest.fail(f"nothing became as wanted within {WATCH_LIMIT_S} s")


# The one that all tests share.


async def test_api_server_is_ready(control_plane: ControlPlane, admin: client.ApiClient) -> None:
    version = await client.VersionApi(admin).get_code()

    assert version.git_version == "v1.36.3"
    assert control_plane.server_url.startswith("https://127.0.0.1:")


def test_administrators_kubeconfig_is_private(control_plane: ControlPlane) -> None:
    assert control_plane.kubeconfig.stat().st_mode & 0o777 == 0o600


async def test_unknown_user_may_do_nothing(control_plane: ControlPlane) -> None:
    async with await connect(control_plane.kubeconfig_for("mallory")) as api:
        with pytest.raises(ApiException) as caught:
            await client.CoreV1Api(api).list_node()

    assert caught.value.status == 403


async def test_user_may_do_what_a_role_allows_its_group(
    control_plane: ControlPlane, admin: client.ApiClient, namespace: str
) -> None:
    rights = client.RbacAuthorizationV1Api(admin)
    role: Any = {
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    }
    binding: Any = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "Group", "name": "team-a"}],
    }
    await rights.create_namespaced_role(namespace, role)
    await rights.create_namespaced_role_binding(namespace, binding)

    async with await connect(control_plane.kubeconfig_for("alice", ["team-a"])) as api:
        pods = await client.CoreV1Api(api).list_namespaced_pod(namespace)

    assert pods.items == []


def test_user_has_one_kubeconfig_for_each_set_of_groups(control_plane: ControlPlane) -> None:
    plain = control_plane.kubeconfig_for("bob")

    assert control_plane.kubeconfig_for("bob") == plain
    assert control_plane.kubeconfig_for("bob", ["team-a"]) != plain


async def test_stranger_without_certificate_is_not_let_in(control_plane: ControlPlane) -> None:
    tls = ssl.create_default_context(cafile=str(control_plane.ca_file))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{control_plane.server_url}/api/v1/nodes", ssl=tls) as response,
    ):
        assert response.status == 403


async def test_new_node_gets_no_taint(admin: client.ApiClient, namespace: str) -> None:
    api = client.CoreV1Api(admin)

    made = await api.create_node(node(f"node-{namespace}"))
    await api.delete_node(made.metadata.name)

    assert not made.spec.taints
    assert made.status.allocatable["cpu"] == "8"


async def test_pod_is_admitted_without_service_account(
    admin: client.ApiClient, namespace: str
) -> None:
    made = await client.CoreV1Api(admin).create_namespaced_pod(
        namespace, pod("alone", scheduler_name="nobody")
    )

    assert made.spec.node_name is None


async def test_requests_are_counted_by_user(control_plane: ControlPlane) -> None:
    async with await connect(control_plane.kubeconfig_for("counted")) as api:
        for _ in range(3):
            with pytest.raises(ApiException):
                await client.CoreV1Api(api).list_node()

    seen = [item for item in audit.read_requests(control_plane.audit_log) if item.user == "counted"]
    assert [(item.verb, item.resource, item.code) for item in seen] == [("list", "nodes", 403)] * 3


# Schedulers and controllers.


async def test_second_scheduler_places_a_pod(full_control_plane: ControlPlane) -> None:
    await full_control_plane.start_scheduler(scheduler_configuration(scheduler_name="second"))
    async with await connect(full_control_plane.kubeconfig) as admin:
        api = client.CoreV1Api(admin)
        await api.create_node(node("node-a"))
        await api.create_namespaced_pod("default", pod("placed", scheduler_name="second"))

        bound = await first_event(
            api.list_namespaced_pod,
            "default",
            wanted=lambda item: item.metadata.name == "placed" and item.spec.node_name,
        )

    assert bound.spec.node_name == "node-a"


async def test_controllers_run(full_control_plane: ControlPlane) -> None:
    spec = pod("unnamed", scheduler_name="nobody")["spec"]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    deployment: Any = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    async with await connect(full_control_plane.kubeconfig) as admin:
        await client.AppsV1Api(admin).create_namespaced_deployment("default", deployment)

        reached = await first_event(
            client.AppsV1Api(admin).list_namespaced_deployment,
            "default",
            wanted=lambda item: item.status.replicas == 2,
        )

    assert reached.metadata.name == "web"


@pytest.mark.skipif(os.geteuid() != 0, reason="a host name of one's own needs root")
async def test_lease_passes_to_the_scheduler_on_the_other_host(
    full_control_plane: ControlPlane,
) -> None:
    configuration = scheduler_configuration(
        scheduler_name="elected", leader_elect=True, lease_name="elected", lease_duration_s=3
    )
    first = await full_control_plane.start_scheduler(
        configuration, name="kube-scheduler-1", hostname="replica-1"
    )
    async with await connect(full_control_plane.kubeconfig) as admin:
        leases = client.CoordinationV1Api(admin)

        async def holder(hostname: str) -> str:
            lease = await first_event(
                leases.list_namespaced_lease,
                "kube-system",
                wanted=lambda item: (
                    item.metadata.name == "elected"
                    and (item.spec.holder_identity or "").startswith(f"{hostname}_")
                ),
            )
            return str(lease.spec.holder_identity)

        before = await holder("replica-1")
        await full_control_plane.start_scheduler(
            configuration, name="kube-scheduler-2", hostname="replica-2"
        )
        first.kill()
        after = await holder("replica-2")

    assert before != after


# What a test may do to one of its own.


async def test_start_takes_less_than_fifteen_seconds(control_plane_program: Path) -> None:
    began = time.monotonic()

    async with ControlPlane():
        took_s = time.monotonic() - began

    assert took_s < 15


async def test_data_survives_a_restart_of_the_api_server(own_control_plane: ControlPlane) -> None:
    async with await connect(own_control_plane.kubeconfig) as admin:
        await client.CoreV1Api(admin).create_node(node("node-a"))

        await own_control_plane.restart("kube-apiserver")

        assert (await client.CoreV1Api(admin).read_node("node-a")).metadata.name == "node-a"


async def test_data_survives_a_killed_database(own_control_plane: ControlPlane) -> None:
    async with await connect(own_control_plane.kubeconfig) as admin:
        await client.CoreV1Api(admin).create_node(node("node-b"))

        own_control_plane.components["etcd"].kill()
        await own_control_plane.restart("etcd")

        assert (await client.CoreV1Api(admin).read_node("node-b")).metadata.name == "node-b"


async def test_paused_api_server_answers_once_it_is_resumed(
    own_control_plane: ControlPlane,
) -> None:
    server = own_control_plane.components["kube-apiserver"]
    async with await connect(own_control_plane.kubeconfig) as admin:
        server.pause()
        asking = asyncio.ensure_future(client.VersionApi(admin).get_code())
        done, _ = await asyncio.wait([asking], timeout=0.5)
        server.resume()

        assert not done
        assert (await asking).major == "1"


async def test_two_control_planes_do_not_meet(own_control_plane: ControlPlane) -> None:
    async with (
        ControlPlane() as other,
        await connect(own_control_plane.kubeconfig) as here,
        await connect(other.kubeconfig) as there,
    ):
        await client.CoreV1Api(here).create_node(node("here"))

        assert (await client.CoreV1Api(there).list_node()).items == []
        assert own_control_plane.server_url != other.server_url


async def test_stop_leaves_no_process_and_no_folder(control_plane_program: Path) -> None:
    async with ControlPlane() as running:
        directory = running.directory
        pids = [component.pid or 0 for component in running.components.values()]

    assert processes_that_remain(pids, limit_s=0) == []
    assert not directory.exists()


async def test_folder_that_was_named_is_kept_and_holds_the_data(
    control_plane_program: Path, tmp_path: Path
) -> None:
    options = ControlPlaneOptions(directory=tmp_path)
    async with (
        ControlPlane(options) as first,
        await connect(first.kubeconfig) as admin,
    ):
        await client.CoreV1Api(admin).create_node(node("kept"))

    async with ControlPlane(options) as second, await connect(second.kubeconfig) as admin:
        assert (await client.CoreV1Api(admin).read_node("kept")).metadata.name == "kept"


async def test_failed_start_is_told_with_the_log_and_leaves_nothing(
    control_plane_program: Path,
) -> None:
    control_plane = ControlPlane(ControlPlaneOptions(extra_apiserver_args=["--no-such-flag"]))

    with pytest.raises(ClusterError, match="unknown flag: --no-such-flag"):
        await control_plane.start()

    assert not control_plane.directory.exists()


async def test_start_that_is_given_up_leaves_no_process(
    control_plane_program: Path, tmp_path: Path
) -> None:
    control_plane = ControlPlane(ControlPlaneOptions(directory=tmp_path))
    starting = asyncio.create_task(control_plane.start())
    while not (tmp_path / "logs/kube-apiserver.log").exists():  # noqa: ASYNC110  # a file, no event
        await asyncio.sleep(0.01)
    pids = [component.pid or 0 for component in control_plane.components.values()]

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert len(pids) == 2
    assert processes_that_remain(pids, limit_s=0) == []


def test_control_plane_that_is_not_running_says_so() -> None:
    with pytest.raises(ClusterError, match="start it first"):
        _ = ControlPlane().kubeconfig


OWNER = """
import asyncio, json, signal
from vgpu_operator.cli.cluster.control_plane import ControlPlane

async def main():
    async with ControlPlane() as running:
        pids = [component.pid for component in running.components.values()]
        print(json.dumps({"pids": pids, "directory": str(running.directory)}), flush=True)
        await asyncio.Event().wait()

# A shell that started the tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""


def start_owner() -> tuple[subprocess.Popen[str], dict[str, Any]]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=os.environ | {"PYTHONPATH": str(OPERATOR_ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    return owner, json.loads(owner.stdout.readline())


def test_ctrl_c_leaves_no_process_and_no_folder(control_plane_program: Path) -> None:
    owner, made = start_owner()

    owner.send_signal(signal.SIGINT)
    _, errors = owner.communicate(timeout=30)

    assert errors.strip().endswith("KeyboardInterrupt")
    assert processes_that_remain(made["pids"], limit_s=0) == []
    assert not Path(made["directory"]).exists()


def test_killed_owner_leaves_no_process(control_plane_program: Path) -> None:
    owner, made = start_owner()

    owner.kill()
    owner.communicate(timeout=30)
    remaining = processes_that_remain(made["pids"])
    shutil.rmtree(made["directory"])

    assert len(made["pids"]) == 2
    assert remaining == []
