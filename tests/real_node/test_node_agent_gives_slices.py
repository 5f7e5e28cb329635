"""Containers see the slices that the scheduler has chosen for them (issue 9, must hold 1)."""

import pytest

from support import api_audit, node_chain
from support import real_node as on_node
from support.node_chain import Chain, asking
from vgpu_operator.cli.cluster.real_node import images

pytestmark = pytest.mark.apiserver

PRINT = f"env; echo '{images.END_OF_ENVIRONMENT}'"


async def test_pods_on_one_card_see_their_own_limits_and_a_third_waits_until_one_leaves(
    chain: Chain, real_namespace: str
) -> None:
    await chain.put_cards(1)
    await chain.create(real_namespace, "one", asking("main", 10000, cores=30))
    await chain.create(real_namespace, "two", asking("main", 12000, cores=20))

    one = await chain.slices(await chain.running(real_namespace, "one"))
    two = await chain.slices(await chain.running(real_namespace, "two"))
    await chain.create(real_namespace, "three", asking("main", 10000))
    why = await chain.until_unplaced(real_namespace, "three")
    await chain.until_all_agree()
    await on_node.delete(chain.kube, real_namespace, "one")
    three = await chain.slices(await chain.running(real_namespace, "three"))

    assert one == {
        "main": {
            "CUDA_DEVICE_MEMORY_LIMIT_0": "10000m",
            "CUDA_DEVICE_SM_LIMIT": "30",
            "NVIDIA_VISIBLE_DEVICES": chain.card(0),
        }
    }
    assert two == {
        "main": {
            "CUDA_DEVICE_MEMORY_LIMIT_0": "12000m",
            "CUDA_DEVICE_SM_LIMIT": "20",
            "NVIDIA_VISIBLE_DEVICES": chain.card(0),
        }
    }
    assert "0/1 nodes" in why
    assert three["main"]["CUDA_DEVICE_MEMORY_LIMIT_0"] == "10000m"
    await chain.until_all_agree()


async def test_nvidia_smi_in_a_container_shows_its_slice(chain: Chain, real_namespace: str) -> None:
    shows = ["sh", "-c", f"nvidia-smi; {images.SHOW}"]
    await chain.create(real_namespace, "shows", asking("main", 3000, command=shows))

    await chain.assert_sees_its_slices(real_namespace, "shows")

    assert "/ 3000MiB" in " ".join(chain.node.logs(real_namespace, "shows", "main").split())


async def test_each_container_gets_its_own_slice_in_the_order_of_the_spec(
    chain: Chain, real_namespace: str
) -> None:
    await chain.create(
        real_namespace,
        "several",
        on_node.container("plain"),
        asking("left", 2000, cores=10),
        asking("right", 5000, cores=40),
        asking("both", 7000, cores=20, count=2),
    )

    pod = await chain.running(real_namespace, "several")
    seen = await chain.slices(pod)

    limits = "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT"
    assert {name: tuple(parts[limit] for limit in limits) for name, parts in seen.items()} == {
        "left": ("2000m", "10"),
        "right": ("5000m", "40"),
        "both": ("7000m", "20"),
    }
    assert seen["both"]["CUDA_DEVICE_MEMORY_LIMIT_1"] == "7000m"
    assert sorted(seen["both"]["NVIDIA_VISIBLE_DEVICES"].split(",")) == [
        chain.card(0),
        chain.card(1),
    ]
    assert seen == node_chain.promised_environment(pod)
    plain = await chain.node.container_env(real_namespace, "several", "plain")
    assert node_chain.slice_of(plain) == {}
    await chain.until_all_agree()


async def test_the_kubelet_counts_slots_of_the_very_cards_that_the_annotation_names(
    chain: Chain, real_namespace: str
) -> None:
    for name in ("one", "two", "three"):
        await chain.create(real_namespace, name, asking("main", 9000))

    for name in ("one", "two", "three"):
        pod = await chain.assert_sees_its_slices(real_namespace, name)
        (ids,) = [ids for place, ids in (await chain.held()).items() if place[1] == name]
        ((((card, _, _),)),) = api_audit.shares(api_audit.annotations(pod)[api_audit.ALLOCATED])
        assert [one.rpartition("-")[0] for one in ids] == [card]
    await chain.until_all_agree()


async def test_an_init_container_and_a_sidecar_get_their_own(
    chain: Chain, real_namespace: str
) -> None:
    ends = asking("first", 3000, cores=30, command=["sh", "-c", PRINT])
    stays = asking("beside", 4000, cores=20, restartPolicy="Always")
    await chain.create(
        real_namespace, "prepared", asking("main", 6000, cores=10), initContainers=[ends, stays]
    )

    seen = await chain.slices(await chain.running(real_namespace, "prepared"))

    limits = "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT"
    assert {name: tuple(parts[limit] for limit in limits) for name, parts in seen.items()} == {
        "first": ("3000m", "30"),
        "beside": ("4000m", "20"),
        "main": ("6000m", "10"),
    }
    await chain.assert_sees_its_slices(real_namespace, "prepared")
    await chain.until_all_agree()


async def test_a_container_that_starts_again_keeps_its_slice(
    chain: Chain, real_namespace: str
) -> None:
    once = f"{PRINT}; test -e /shared/done && {{ {images.WAIT}; }}; touch /shared/done; exit 1"
    volume = {"name": "shared", "emptyDir": {}}
    mount = {"name": "shared", "mountPath": "/shared"}
    await chain.create(
        real_namespace,
        "again",
        asking("main", 3000, command=["sh", "-c", once], volumeMounts=[mount]),
        volumes=[volume],
    )

    async def restarted() -> bool:
        found = (await chain.pod(real_namespace, "again"))["status"]
        states = found.get("containerStatuses", ())
        return any(one["restartCount"] and "running" in one["state"] for one in states)

    await chain.until("the container runs a second time", restarted)

    await chain.assert_sees_its_slices(real_namespace, "again")
    await chain.until_all_agree()


async def test_a_pod_that_has_ended_leaves_its_slots_to_the_next(
    chain: Chain, real_namespace: str
) -> None:
    await chain.put_cards(1)
    ends = asking("main", 20000, command=["sh", "-c", PRINT])
    await chain.create(real_namespace, "ends", ends, restartPolicy="Never")
    ended = await on_node.until_phase(chain.kube, real_namespace, "ends", "Succeeded")

    # Its Pod stays, as that of a Job; its memory and its very slot are the next one's.
    await chain.create(real_namespace, "next", asking("main", 21000))
    after = await chain.assert_sees_its_slices(real_namespace, "next")

    noted = [node_chain.served_ids(pod) for pod in (ended, after)]
    assert noted == [{"main": [f"{chain.card(0)}-0"]}] * 2
    await chain.until_all_agree()


async def test_a_pod_that_takes_anothers_name_gets_its_own_slice(
    chain: Chain, real_namespace: str
) -> None:
    await chain.create(real_namespace, "same", asking("main", 3000))
    await chain.assert_sees_its_slices(real_namespace, "same")
    await on_node.delete(chain.kube, real_namespace, "same")
    await chain.until_gone(real_namespace, "same")

    await chain.create(real_namespace, "same", asking("left", 4000), asking("right", 5000))

    again = await chain.assert_sees_its_slices(real_namespace, "same")
    seen = await chain.slices(again)
    assert [parts["CUDA_DEVICE_MEMORY_LIMIT_0"] for parts in seen.values()] == ["4000m", "5000m"]
    await chain.until_all_agree()
