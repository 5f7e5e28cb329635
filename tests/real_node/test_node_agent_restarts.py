"""Restarts while pods are in flight: all ends well, or clearly (issue 9, must hold 2)."""

import asyncio

import pytest

from support import api_audit, node_chain
from support import real_node as on_node
from support.node_chain import PHASE, Chain, asking
from vgpu_operator.node_agent import service

pytestmark = pytest.mark.apiserver

NAMES = ("p1", "p2", "p3")


async def in_flight(chain: Chain, namespace: str) -> None:
    """Create pods, and wait until the first is bound and holds the lock."""
    for name in NAMES:
        await chain.create(namespace, name, asking("main", 2000))

    async def holds() -> bool:
        return any(namespace in text for text in (await chain.locks()).values())

    await chain.until("a pod holds the lock", holds)


async def all_ended_well_or_clearly(chain: Chain, namespace: str, *names: str) -> list[str]:
    """Wait until every pod runs with its slice or was clearly refused; return those that run."""
    ended = await asyncio.gather(*(chain.started_or_refused(namespace, name) for name in names))
    for pod in ended:
        if pod["status"]["phase"] == "Running":
            await chain.assert_sees_its_slices(namespace, pod["metadata"]["name"])
        else:
            assert pod["status"]["reason"] == "UnexpectedAdmissionError", pod["status"]
            assert "Allocate failed due to" in pod["status"]["message"]
    return [pod["metadata"]["name"] for pod in ended if pod["status"]["phase"] == "Running"]


async def test_of_the_kubelet(chain: Chain, real_namespace: str) -> None:
    await chain.create(real_namespace, "before", asking("main", 3000))
    before = await chain.assert_sees_its_slices(real_namespace, "before")
    await in_flight(chain, real_namespace)

    await chain.node.restart_kubelet()
    await chain.until_serving()

    await all_ended_well_or_clearly(chain, real_namespace, *NAMES)
    after = await chain.running(real_namespace, "before")
    assert node_chain.runs_of(after) == node_chain.runs_of(before)
    await chain.create(real_namespace, "after", asking("main", 3000))
    await chain.assert_sees_its_slices(real_namespace, "after")
    await chain.until_all_agree()


async def test_of_a_kubelet_that_is_killed_while_it_waits_for_an_answer(
    chain: Chain, real_namespace: str
) -> None:
    await chain.start_agent("--slow", "2")
    asked = on_node.pod("asked", asking("main", 2000))
    await chain.begin_call(real_namespace, asked)

    await chain.node.kill_kubelet()
    await chain.node.start_kubelet()
    await chain.until_serving()

    await all_ended_well_or_clearly(chain, real_namespace, "asked")
    await chain.create(real_namespace, "after", asking("main", 3000))
    await chain.assert_sees_its_slices(real_namespace, "after")
    await chain.until_all_agree()


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_of_the_agent(chain: Chain, real_namespace: str, how: str) -> None:
    await in_flight(chain, real_namespace)

    if how == "killed":
        chain.agent.kill()
    await chain.start_agent()

    await all_ended_well_or_clearly(chain, real_namespace, *NAMES)
    await chain.create(real_namespace, "after", asking("main", 3000))
    await chain.assert_sees_its_slices(real_namespace, "after")
    await chain.until_all_agree()


@pytest.mark.parametrize(
    ("call", "left"),
    [
        pytest.param(1, "allocating", id="of the first container"),
        pytest.param(2, "success", id="of the last container"),
    ],
)
async def test_of_an_agent_that_dies_inside_allocate(
    chain: Chain, real_namespace: str, call: int, left: str
) -> None:
    await chain.start_agent("--crash-after", str(call))
    await chain.create(real_namespace, "struck", asking("left", 2000), asking("right", 3000))

    refused = await on_node.until_phase(chain.kube, real_namespace, "struck", "Failed")
    assert chain.agent.exit_code == service.CRASHED
    await chain.start_agent()

    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    assert api_audit.annotations(refused)[PHASE] == left
    await chain.create(real_namespace, "after", asking("main", 3000))
    await chain.assert_sees_its_slices(real_namespace, "after")
    await chain.until_all_agree()


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_of_containerd(chain: Chain, real_namespace: str, how: str) -> None:
    await in_flight(chain, real_namespace)

    if how == "killed":
        await chain.node.kill_containerd()
        await chain.node.start_containerd()
    else:
        await chain.node.restart_containerd()

    assert await all_ended_well_or_clearly(chain, real_namespace, *NAMES) == list(NAMES)
    await chain.until_all_agree()
