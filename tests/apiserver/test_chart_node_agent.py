"""The agent of one node writes annotations of that node and of its pods, and nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from support import account_token, chart_cluster, waiting
from support.helm import CHART, NAMESPACE, RELEASE, Helm
from support.world import nvidia_pod
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.kube import client, errors, paths
from vgpu_operator.node_agent import agent as node_agent
from vgpu_operator.node_agent import configuration

pytestmark = [pytest.mark.apiserver, pytest.mark.asyncio(loop_scope="module")]

ACCOUNT = f"{RELEASE}-vgpu-operator-node-agent"
NODES = ("n1", "n2")
LIMIT_S = 30.0

REGISTERED = {"hami.io/node-nvidia-register": "[]"}
SERVED = {"hami.io/bind-phase": "success", "hami.io/vgpu-devices-to-allocate": ";;"}

Json = dict[str, Any]

UNSERVED = nvidia_pod("waits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What the tests work with."""

    plane: ControlPlane
    admin: client.KubeClient
    folder: Path
    helm_said: str

    async def agent(self, *, pod: str | None) -> client.KubeClient:
        """Return a client that shows the token of one of the agent's pods, or of none."""
        token = await account_token.token_of(self.admin, ACCOUNT, NAMESPACE, pod=pod)
        file = self.folder / f"{pod}.yaml"
        return await client.KubeClient.connect(
            kubeconfig=str(account_token.kubeconfig(self.plane, token, file))
        )


def bound(pod: Json, node: str | None) -> Json:
    """Return a pod as it is once it is bound; without a kubelet it may be created so."""
    return pod if node is None else {**pod, "spec": {**pod["spec"], "nodeName": node}}


def agents_pod(node: str) -> Json:
    return {
        "metadata": {"name": f"agent-{node}", "namespace": NAMESPACE},
        "spec": {
            "serviceAccountName": ACCOUNT,
            "nodeName": node,
            "containers": [{"name": "nvidia-agent", "image": "none"}],
        },
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Here]:
    folder = tmp_path_factory.mktemp("agents")
    async with (
        ControlPlane() as plane,
        await client.KubeClient.connect(kubeconfig=str(plane.kubeconfig)) as kube,
    ):
        helm = Helm(program=helm_program, home=folder, kubeconfig=plane.kubeconfig)
        answer = helm.run(
            *("install", RELEASE, str(CHART), "-n", NAMESPACE, "--create-namespace"),
            values={
                "scheduler": {"admissionWebhook": {"enabled": False}},
                "devicePlugin": {"enabled": False},
                "agent": {"enabled": True, "backend": "simulated"},
                # Nobody else is refused: so whatever is refused here, the agent's policy refuses.
                "admissionPolicy": {"action": "Warn"},
            },
        )
        assert answer.code == 0, answer.complaint
        for node in NODES:
            await kube.create(paths.NODES, {"metadata": {"name": node}})
            await kube.create(paths.namespaced(NAMESPACE, "pods"), agents_pod(node))
            await kube.create(
                paths.namespaced("default", "pods"), bound(nvidia_pod(f"on-{node}"), node)
            )
        await kube.create(paths.namespaced("default", "pods"), UNSERVED)
        found = Here(plane=plane, admin=kube, folder=folder, helm_said=answer.out)
        async with await found.agent(pod="agent-n1") as agent:

            async def in_force() -> bool:
                return bool(await refusal(agent, paths.node("n2"), noted(REGISTERED)))

            await waiting.until("the policy is in force", in_force, limit_s=LIMIT_S, every_s=0.2)
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def agent(here: Here) -> AsyncIterator[client.KubeClient]:
    """Give the agent of node n1."""
    async with await here.agent(pod="agent-n1") as found:
        yield found


def noted(annotations: Json) -> Json:
    return {"metadata": {"annotations": annotations}}


async def refusal(agent: client.KubeClient, path: str, change: Json) -> str:
    """Write and return the refusal; empty when it was taken."""
    try:
        await agent.patch(path, change)
    except (errors.Denied, errors.Invalid) as fault:
        return str(fault)
    return ""


@contextlib.contextmanager
def no_right() -> Iterator[None]:
    with pytest.raises(errors.Denied, match="cannot"):
        yield


async def test_it_registers_on_its_own_node_and_serves_the_pods_that_are_bound_there(
    here: Here, agent: client.KubeClient
) -> None:
    assert await refusal(agent, paths.node("n1"), noted(REGISTERED)) == ""
    assert await refusal(agent, paths.pod("default", "on-n1"), noted(SERVED)) == ""

    node = await here.admin.get(paths.node("n1"))
    pod = await here.admin.get(paths.pod("default", "on-n1"))
    assert node["metadata"]["annotations"].items() >= REGISTERED.items()
    assert pod["metadata"]["annotations"].items() >= SERVED.items()


async def test_the_agent_that_runs_registers_its_cards_and_repairs_what_somebody_edits(
    here: Here, agent: client.KubeClient, tmp_path: Path
) -> None:
    cards = tmp_path / "cards.yaml"
    cards.write_text("cards: 2")
    configured = configuration.Configuration(
        node="n1",
        backend="simulated",
        cards=cards,
        kubelet_dir=tmp_path,  # no kubelet is there: that costs the cards nothing on the Node
        pod_resources=tmp_path / "none.sock",
        host_dir=tmp_path / "host",
    )

    async def registered() -> bool:
        node = await here.admin.get(paths.node("n1"))
        text = node["metadata"]["annotations"].get("hami.io/node-nvidia-register", "")
        return text.count("NVIDIA A10") == 2

    running = await node_agent.prepare(configured, agent)
    working = asyncio.ensure_future(running.run())
    try:
        for _ in range(2):
            await waiting.until(
                "two cards are registered", registered, limit_s=LIMIT_S, every_s=0.1
            )
            await here.admin.patch(paths.node("n1"), noted(REGISTERED))
    finally:
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working


@pytest.mark.parametrize(
    ("path", "said"),
    [
        pytest.param(paths.node("n2"), "may not change nodes n2", id="another node"),
        pytest.param(
            paths.pod("default", "on-n2"),
            "may not change pods on-n2, which is not bound there",
            id="a pod of another node",
        ),
        pytest.param(
            paths.pod("default", "waits"),
            "may not change pods waits, which is not bound there",
            id="a pod that is bound nowhere",
        ),
    ],
)
async def test_it_writes_on_nothing_of_another_node(
    agent: client.KubeClient, path: str, said: str
) -> None:
    assert f"the agent of node n1 {said}" in await refusal(agent, path, noted(REGISTERED))


@pytest.mark.parametrize(
    ("path", "change"),
    [
        pytest.param(paths.node("n1"), {"spec": {"unschedulable": True}}, id="cordon"),
        pytest.param(
            paths.node("n1"),
            {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
            id="taint",
        ),
        pytest.param(
            paths.node("n1"), {"metadata": {"labels": {"gpu": "off"}}}, id="label of the node"
        ),
        pytest.param(
            paths.node("n1"), {"metadata": {"finalizers": ["example.com/mine"]}}, id="finalizer"
        ),
        pytest.param(
            paths.pod("default", "on-n1"),
            {"spec": {"containers": [{**UNSERVED["spec"]["containers"][0], "image": "mine"}]}},
            id="image",
        ),
        pytest.param(
            paths.pod("default", "on-n1"), {"spec": {"activeDeadlineSeconds": 1}}, id="its end"
        ),
        pytest.param(
            paths.pod("default", "on-n1"), {"metadata": {"labels": {"app": "x"}}}, id="label"
        ),
    ],
)
async def test_of_its_own_it_writes_annotations_only(
    agent: client.KubeClient, path: str, change: Json
) -> None:
    assert "may change nothing but annotations" in await refusal(agent, path, change)


async def test_a_token_that_names_no_node_writes_nowhere_and_is_told_why(here: Here) -> None:
    async with await here.agent(pod=None) as nowhere:
        said = await refusal(nowhere, paths.node("n1"), noted(REGISTERED))
        read = await nowhere.get(paths.node("n1"))

    assert "only by the token of its pod, which says on which node it runs" in said
    assert read["metadata"]["name"] == "n1"


async def test_it_reads_what_it_serves_and_has_no_right_to_more(agent: client.KubeClient) -> None:
    assert len((await agent.list(paths.NODES))[0]) == len(NODES)
    assert (await agent.get(paths.pod("default", "on-n1")))["spec"]["nodeName"] == "n1"
    with no_right():
        await agent.create(paths.namespaced("default", "pods"), nvidia_pod("mine"))
    with no_right():
        await agent.delete(paths.pod("default", "on-n1"))
    with no_right():
        await agent.patch(f"{paths.node('n1')}/status", {"status": {"capacity": {"a.b/c": "1"}}})
    with no_right():
        await agent.patch(f"{paths.pod('default', 'on-n1')}/status", {"status": {}})
    with no_right():
        await agent.list(paths.namespaced(NAMESPACE, "secrets"))


async def test_helm_tells_where_the_agents_are(here: Here) -> None:
    assert "node agent (simulated) runs on nodes with the labels gpu=on." in here.helm_said
    assert "component=node-agent" in here.helm_said


async def test_others_are_not_held_to_a_node(here: Here) -> None:
    scheduler = here.plane.kubeconfig_for(
        f"system:serviceaccount:{NAMESPACE}:{RELEASE}-vgpu-operator-scheduler", ["system:masters"]
    )
    async with await client.KubeClient.connect(kubeconfig=str(scheduler)) as other:
        for path in (paths.node("n1"), paths.node("n2"), paths.pod("default", "waits")):
            assert await refusal(other, path, noted(REGISTERED)) == ""


async def test_the_api_server_finds_nothing_wrong_with_the_policies(here: Here) -> None:
    policies, _ = await here.admin.list(chart_cluster.collection("ValidatingAdmissionPolicy"))

    assert len(policies) == 2
    for policy in policies:
        checked = policy.get("status", {}).get("typeChecking", {})
        assert not checked.get("expressionWarnings"), yaml.safe_dump(checked)
