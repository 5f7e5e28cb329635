"""Pods that came past webhook and scheduler never get another's slice (issue 9, must hold 5)."""

import re

import pytest

from support import api_audit, node_chain
from support import real_node as on_node
from support.node_chain import PHASE, Chain, asking
from vgpu_operator.kube import paths

pytestmark = pytest.mark.apiserver

CHECKPOINT = "kubelet_internal_checkpoint"
"""Where the kubelet's device manager keeps who has which devices."""


async def phases(chain: Chain, namespace: str) -> dict[str, str | None]:
    """Return the bind phase of every pod of a namespace."""
    found, _ = await chain.kube.list(paths.namespaced(namespace, "pods"))
    return {pod["metadata"]["name"]: api_audit.annotations(pod).get(PHASE) for pod in found}


async def never_started(chain: Chain, namespace: str, name: str) -> bool:
    """Whether no container of a pod was ever started."""
    pod = await chain.pod(namespace, name)
    ran = [one for one in pod["status"].get("containerStatuses", ()) if one.get("containerID")]
    return not ran and not chain.node.logs(namespace, name, "main")


async def test_with_no_lock_its_allocate_is_an_error_that_names_the_cause(
    chain: Chain, real_namespace: str
) -> None:
    await chain.create(real_namespace, "served", asking("main", 3000))
    await chain.running(real_namespace, "served")
    await chain.until_all_agree()
    before = await chain.held()
    stranger = node_chain.by_passed("stranger", chain.node)

    await on_node.create(chain.kube, real_namespace, stranger)
    refused = await on_node.until_phase(chain.kube, real_namespace, "stranger", "Failed")

    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    assert (
        f"no pod holds the lock hami.io/mutex.lock of node {chain.node.name}"
        in refused["status"]["message"]
    )
    assert "the pod came past the scheduler" in refused["status"]["message"]
    assert await phases(chain, real_namespace) == {"served": "success", "stranger": None}
    assert await chain.held() == before
    await chain.until_all_agree()


async def test_that_asks_for_another_count_does_not_disturb_the_one_whose_turn_it_is(
    chain: Chain, real_namespace: str
) -> None:
    await chain.start_agent("--slow", "2")
    stranger = node_chain.by_passed("stranger", chain.node, count=2)
    await chain.begin_call(real_namespace, stranger)

    # The kubelet asks for one pod after the other: this one is bound, and waits.
    await chain.create(real_namespace, "awaited", asking("main", 3000))
    await chain.until_bound(real_namespace, "awaited")
    refused = await on_node.until_phase(chain.kube, real_namespace, "stranger", "Failed")
    await chain.assert_sees_its_slices(real_namespace, "awaited")

    assert "container main asks for 1 of nvidia.com/gpu, not 2" in refused["status"]["message"]
    assert await phases(chain, real_namespace) == {"awaited": "success", "stranger": None}
    await chain.until_all_agree()


async def test_never_runs_with_the_slice_of_the_one_whose_turn_it_is(
    chain: Chain, real_namespace: str
) -> None:
    await chain.start_agent("--slow", "2")
    await chain.begin_call(real_namespace, node_chain.by_passed("stranger", chain.node))

    await chain.create(real_namespace, "robbed", asking("main", 3000))
    await chain.until_bound(real_namespace, "robbed")

    why = await chain.until_start_is_refused(real_namespace, "stranger")
    robbed = await on_node.until_phase(chain.kube, real_namespace, "robbed", "Failed")

    assert f"pod {real_namespace}/stranger may not use the devices that it holds" in why
    assert "it came past the scheduler" in why
    assert "no pod holds the lock" in robbed["status"]["message"]
    assert "failed" not in (await phases(chain, real_namespace)).values()
    assert await never_started(chain, real_namespace, "stranger")

    await on_node.delete(chain.kube, real_namespace, "stranger")
    await chain.create(real_namespace, "next", asking("main", 3000))
    await chain.assert_sees_its_slices(real_namespace, "next")
    await chain.until_all_agree()


async def test_a_copy_of_a_served_pod_does_not_pass_for_one(
    chain: Chain, real_namespace: str
) -> None:
    await chain.put_cards(1)
    await chain.create(real_namespace, "original", asking("main", 3000))
    original = await chain.assert_sees_its_slices(real_namespace, "original")
    await on_node.delete(chain.kube, real_namespace, "original")
    await chain.until_gone(real_namespace, "original")
    copy = node_chain.by_passed("copy", chain.node)
    copy["metadata"]["annotations"] = original["metadata"]["annotations"]
    await chain.start_agent("--slow", "2")

    # The kubelet gives it the ids of its original, which are free and the first again.
    await chain.begin_call(real_namespace, copy)
    await chain.create(real_namespace, "robbed", asking("main", 4000))
    await chain.until_bound(real_namespace, "robbed")

    await chain.until_start_is_refused(real_namespace, "copy")
    ids = node_chain.served_ids(original)["main"]
    assert (await chain.held())[real_namespace, "copy", "main"] == frozenset(ids)
    assert await never_started(chain, real_namespace, "copy")


async def test_a_kubelet_that_lost_its_checkpoint_marks_no_pod_failed(
    chain: Chain, real_namespace: str
) -> None:
    for name in ("stays", "ended"):
        await chain.create(real_namespace, name, asking("main", 3000))
        await chain.assert_sees_its_slices(real_namespace, name)
    before = await chain.pod(real_namespace, "stays")

    await chain.node.kill_kubelet()
    (chain.node.plugin_dir / CHECKPOINT).unlink()
    await chain.end_container(real_namespace, "ended", "main")
    await chain.node.start_kubelet()
    # Its container is not there, so the kubelet takes it in anew, and asks for devices.
    refused = await on_node.until_phase(chain.kube, real_namespace, "ended", "Failed")
    await chain.until_serving()

    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    # The kubelet asks only an agent that has registered before it looks at its pods.
    assert re.search(
        "no pod holds the lock .* it was served before|cannot allocate unregistered device",
        refused["status"]["message"],
    )
    assert await phases(chain, real_namespace) == {"stays": "success", "ended": "success"}
    after = await chain.running(real_namespace, "stays")
    assert node_chain.runs_of(after) == node_chain.runs_of(before)

    await chain.create(real_namespace, "next", asking("main", 3000))
    await chain.assert_sees_its_slices(real_namespace, "next")
    assert await chain.locks() == {}
