"""The agent between a kubelet (real gRPC, on a Unix socket) and an API server."""

import asyncio
import errno
import gc
import json
from typing import Any

import grpc.aio
import pytest

from support.node_agent_world import DEVICE_IDS, NODE, NODE_PATH, PATIENCE_S, World, entry, until
from vgpu_operator.kube import errors, perform
from vgpu_operator.node_agent import agent, service

TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"


async def test_it_registers_and_lists_a_device_for_each_slot(world: World):
    await world.start_and_register()

    request = world.kubelet.registrations[0]
    assert (request.version, request.resource_name) == ("v1beta1", "nvidia.com/gpu")
    assert request.options.pre_start_required
    assert request.options.get_preferred_allocation_available
    assert set(world.kubelet.devices) == {
        f"GPU-{NODE}-{card}-{slot}" for card in (0, 1) for slot in range(4)
    }
    assert world.kubelet.healthy == 8


async def test_a_container_gets_what_its_pod_s_annotation_names(world: World):
    """Must hold 1: the limit is the container's own, the ids speak of the card."""
    await world.start_and_register()
    world.bind("p1", entry(1, memory=5000, cores=40) + ";")

    env = await world.kubelet.admit("p1")

    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "5000m"
    assert env["CUDA_DEVICE_SM_LIMIT"] == "40"
    assert env["NVIDIA_VISIBLE_DEVICES"] == f"GPU-{NODE}-1"
    assert world.kubelet.ids_of("p1") == (f"GPU-{NODE}-1-0",)
    assert world.notes("p1")[TO_ALLOCATE] == ";"
    assert json.loads(world.notes("p1")[DEVICE_IDS]) == {
        "uid": world.uid("p1"),
        "containers": {"c0": [f"GPU-{NODE}-1-0"]},
    }
    assert (world.phase("p1"), world.lock_text) == ("success", None)
    await world.kubelet.start_container("p1")


async def test_a_call_that_no_lock_explains_is_refused_and_marks_no_pod(world: World):
    """Must hold 5."""
    await world.start_and_register()
    world.put_plain_pod("bypassed")
    world.put_pod("innocent", entry(0) + ";")

    with pytest.raises(grpc.aio.AioRpcError, match=f"no pod holds the lock .* of node {NODE}"):
        await world.kubelet.admit("bypassed")

    assert world.phase("innocent") == "allocating"
    assert world.kube.sent("PATCH", "/pods/") == []


async def test_containers_get_their_slices_in_the_order_of_the_pod(world: World):
    """Must hold 1: init container first, each its own; ``success`` with the last only."""
    await world.start_and_register()
    slices = entry(0, 2000, 10) + ";" + entry(0, 1000, 5) + ";" + entry(1, 4000, 20) + ";"
    world.bind("p1", slices, asks=(1, 1), init_asks=(1,))

    limits, phases = [], []
    for container in ("i0", "c0", "c1"):
        env = await world.kubelet.admit("p1", container, listed=container != "i0")
        limits.append((env["CUDA_DEVICE_MEMORY_LIMIT_0"], env["NVIDIA_VISIBLE_DEVICES"]))
        phases.append(world.phase("p1"))

    assert limits == [
        ("2000m", f"GPU-{NODE}-0"),
        ("1000m", f"GPU-{NODE}-0"),
        ("4000m", f"GPU-{NODE}-1"),
    ]
    assert phases == ["allocating", "allocating", "success"]
    assert world.lock_text is None
    for container in ("i0", "c0", "c1"):
        await world.kubelet.start_container("p1", container)


async def test_two_cards_for_one_container_are_handed_out_together(world: World):
    await world.start_and_register()
    world.bind("p1", entry(1, 7000, 25) + entry(0, 6000, 15) + ";", asks=(2,))

    env = await world.kubelet.admit("p1", count=2)

    assert env["NVIDIA_VISIBLE_DEVICES"] == f"GPU-{NODE}-1,GPU-{NODE}-0"
    assert (env["CUDA_DEVICE_MEMORY_LIMIT_0"], env["CUDA_DEVICE_MEMORY_LIMIT_1"]) == (
        "7000m",
        "6000m",
    )
    assert world.kubelet.ids_of("p1") == (f"GPU-{NODE}-1-0", f"GPU-{NODE}-0-0")


async def test_a_pod_of_one_container_costs_the_api_server_four_requests(world: World):
    await world.start_and_register()
    world.bind("p1", entry(0) + ";")
    await until(lambda: world.sees_lock)
    world.kube.requests.clear()

    await world.kubelet.admit("p1")

    assert [(one.verb, one.path.rsplit("/", 1)[1]) for one in world.kube.requests] == [
        ("GET", "p1"),
        ("GET", NODE),
        ("PATCH", "p1"),
        ("PATCH", NODE),
    ]


async def test_what_is_remembered_of_a_pod_never_refuses_it(world: World):
    await world.start_and_register()
    world.bind("p1", entry(0) + ";", phase="failed")
    ids = await world.kubelet.choose(1)

    world.bind("p1", entry(0) + ";")
    await world.kubelet.allocate(ids)

    assert (world.phase("p1"), world.lock_text) == ("success", None)


async def test_a_wrong_entry_fails_its_pod_and_frees_the_lock(world: World):
    await world.start_and_register()
    world.bind("p1", "GPU-elsewhere,NVIDIA,1,1:;")

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await world.kubelet.admit("p1")

    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert refused.value.details() == (
        "pod default/p1, container c0: card GPU-elsewhere is not on this node"
    )
    assert (world.phase("p1"), world.lock_text) == ("failed", None)
    assert world.notes("p1")[TO_ALLOCATE] == "GPU-elsewhere,NVIDIA,1,1:;"


async def test_a_by_passed_pod_that_took_another_s_entry_never_starts(world: World):
    """Must hold 5: nothing at Allocate tells the two apart; before the start the ids do."""
    await world.start_and_register()
    world.put_plain_pod("thief")
    world.bind("victim", entry(1) + ";")
    await world.kubelet.admit("thief")

    with pytest.raises(grpc.aio.AioRpcError, match="pod default/thief may not use the devices"):
        await world.kubelet.start_container("thief")
    with pytest.raises(grpc.aio.AioRpcError, match="no pod holds the lock"):
        await world.kubelet.admit("victim")


@pytest.mark.parametrize("listed", [True, False], ids=["container", "init container"])
async def test_a_copied_manifest_that_took_another_s_entry_never_starts(
    world: World, monkeypatch: pytest.MonkeyPatch, listed: bool
):
    """Must hold 5: it bears the phase and the note of the pod it is a copy of, the ids too."""
    monkeypatch.setattr(service, "SUSPECT_LIMIT_S", 0.0)
    await world.start_and_register()
    kinds = {} if listed else {"asks": (0,), "init_asks": (1,)}
    name = "c0" if listed else "i0"
    world.bind("model", entry(1) + ";", **kinds)
    await world.kubelet.admit("model", name, listed=listed)
    copied = world.notes("model")
    world.end_pod("model")
    world.put_copy("thief", copied, **kinds)
    world.bind("victim", entry(1) + ";", **kinds)

    await world.kubelet.admit("thief", name, listed=listed)

    noted = json.loads(copied[DEVICE_IDS])["containers"]
    assert noted[name] == list(world.kubelet.ids_of("thief", name)), "it names its very ids"
    with pytest.raises(grpc.aio.AioRpcError, match="pod default/thief"):
        await world.kubelet.start_container("thief", name)


async def test_an_init_container_waits_for_a_pod_that_was_bound_just_now(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """Its own call is a moment away, and shows whose the ids are."""
    monkeypatch.setattr(service, "SUSPECT_PAUSE_S", 0.02)
    await world.start_and_register()
    only_init = {"asks": (0,), "init_asks": (1,)}
    world.bind("p1", entry(1) + ";", **only_init)
    await world.kubelet.admit("p1", "i0", listed=False)
    world.bind("p2", entry(0) + ";", **only_init)
    world.kube.requests.clear()

    start = asyncio.ensure_future(world.kubelet.start_container("p1", "i0"))
    await until(lambda: bool(world.kube.sent("GET", "/api/v1/pods")))
    await world.kubelet.admit("p2", "i0", listed=False)
    await start


async def test_an_api_server_that_is_away_for_a_moment_only_takes_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(perform, "RETRY_PAUSE_S", 0.01)
    await world.start_and_register()
    world.bind("p1", entry(0) + ";")
    for verb in ("GET", "PATCH", "PATCH"):
        world.kube.fail_next(verb, "/default/pods/p1", errors.Unreachable("connection refused"))

    await world.kubelet.admit("p1")

    assert (world.phase("p1"), world.lock_text) == ("success", None)


async def test_an_api_server_that_stays_away_ends_the_call_with_its_name(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(perform, "RETRY_PAUSE_S", 0.01)
    monkeypatch.setattr(service, "ALLOCATE_LIMIT_S", 0.1)
    await world.start_and_register()
    world.bind("p1", entry(0) + ";")
    for _ in range(100):
        world.kube.fail_next("PATCH", "/default/pods/p1", errors.Unreachable("connection refused"))

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await world.kubelet.admit("p1")

    assert refused.value.details() == (
        "the container cannot be served: the API server has not answered in time: "
        "connection refused"
    )
    assert world.phase("p1") == "allocating"


async def test_an_api_server_that_stays_away_ends_every_further_call_too(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """The kubelet waits for ever and admits nobody meanwhile, not even pods without devices."""
    monkeypatch.setattr(perform, "RETRY_PAUSE_S", 0.01)
    monkeypatch.setattr(service, "ALLOCATE_LIMIT_S", 0.3)
    monkeypatch.setattr(service, "PREFERENCE_LIMIT_S", 0.1)
    monkeypatch.setattr(agent, "TIDY_LIMIT_S", 0.02)
    monkeypatch.setattr(agent, "RETRY_S", 0.01)
    monkeypatch.setattr(agent, "MOST_LOOKS", 1)
    await world.start_and_register()
    world.bind("p1", entry(0) + ";")
    ids = await world.kubelet.choose(1)
    away = _Away(world)

    async with asyncio.timeout(PATIENCE_S):
        for _ in range(3):
            with pytest.raises(grpc.aio.AioRpcError, match="has not answered in time"):
                await world.kubelet.allocate(ids)
            assert await world.kubelet.choose(1) == ids

    # What was left half done is looked after once it is back, however long that takes.
    asked = away.refused
    await until(lambda: away.refused > asked + 20)
    world.change_pod("p1", phase="Failed")
    away.end()
    await until(lambda: world.lock_text is None)


async def test_a_lock_that_becomes_unsure_while_another_is_looked_after_is_not_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent, "RETRY_S", 0.2)
    monkeypatch.setattr(agent, "MOST_LOOKS", 1)
    await world.start_and_register()
    # It has looked once, and now pauses after this last look.
    await until(lambda: any(one.verb == "GET" for one in world.kube.requests))
    world.bind("p1", ";", phase="success")
    world.agent._unsure.set()

    await until(lambda: world.lock_text is None)


async def test_a_card_that_goes_inside_the_call_is_still_handed_out(world: World):
    """It was there when the entry was checked, and the entry is taken."""
    await world.start_and_register()
    world.bind("p1", entry(1, memory=5000) + ";")
    ids = await world.kubelet.choose(1)
    unlocking = _Held(world, "PATCH")

    call = asyncio.ensure_future(world.kubelet.allocate(ids))
    await unlocking.came.wait()
    world.cards.write_text("{cards: 1, memory: 24576, slots: 4}")
    await world.kubelet.until_listed(healthy=4)
    unlocking.goes_on.set()

    env = dict((await call).container_responses[0].envs)
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "5000m"


async def test_a_container_whose_files_cannot_be_made_fails_its_pod(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """Must hold 2: never a pod that is failed to the kubelet and served by its annotations."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    await world.start_and_register()
    monkeypatch.setattr(world.agent.service._around.backend, "grant", full)
    world.bind("p1", entry(0) + ";")

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await world.kubelet.admit("p1")

    assert refused.value.details() == (
        "pod default/p1, container c0: its files cannot be made on the node: "
        "[Errno 28] No space left on device"
    )
    assert (world.phase("p1"), world.lock_text) == ("failed", None)
    assert world.notes("p1")[TO_ALLOCATE] == entry(0) + ";"


async def test_an_answer_that_comes_after_the_kubelet_s_restart_is_not_the_new_one_s(
    world: World,
):
    """Must hold 2, 5: it asks for the first container again, whose entry is taken."""
    await world.start_and_register()
    world.bind("p1", entry(0, 1000) + ";" + entry(0, 9000) + ";", asks=(1, 1))
    ids = await world.kubelet.choose(1)
    writing = _Held(world, "PATCH", "/api/v1/namespaces/default/pods/p1")
    call = asyncio.ensure_future(world.kubelet.allocate(ids))
    await writing.came.wait()

    await world.kubelet.stop()
    await world.kubelet.start()
    await world.kubelet.until(lambda: world.kubelet.healthy > 0)
    writing.goes_on.set()
    await asyncio.wait([call])
    assert call.cancelled()

    with pytest.raises(grpc.aio.AioRpcError, match="half served when kubelet or agent were"):
        await world.kubelet.admit("p1", "c0")
    assert (world.phase("p1"), world.lock_text) == ("failed", None)


async def test_a_call_that_breaks_after_the_kubelet_hung_up_is_no_unheard_fault(
    world: World, caplog: pytest.LogCaptureFixture
):
    await world.start_and_register()
    world.bind("p1", "GPU-elsewhere,NVIDIA,1,1:;")
    ids = await world.kubelet.choose(1)
    read = _Held(world, "GET")
    call = asyncio.ensure_future(world.kubelet.allocate(ids))
    await read.came.wait()
    call.cancel()
    await until(lambda: world.hung_up)

    read.goes_on.set()
    await until(lambda: not world.hung_up)
    gc.collect()

    assert "never retrieved" not in caplog.text


async def test_a_sentence_with_a_long_annotation_in_it_still_reaches_the_kubelet(world: World):
    await world.start_and_register()
    world.bind("p1", f"GPU-{'x' * 100_000},NVIDIA,1,1:;")

    with pytest.raises(grpc.aio.AioRpcError, match=r"xxx … xxx.* is not on this node"):
        await world.kubelet.admit("p1")


async def test_a_kubelet_that_hung_up_takes_no_entry(world: World):
    """Must hold 2: killed inside the call, it asks again when it is back."""
    await world.start_and_register()
    world.bind("p1", entry(0) + ";")
    ids = await world.kubelet.choose(1)
    read = _Held(world, "GET")

    call = asyncio.ensure_future(world.kubelet.allocate(ids))
    await read.came.wait()
    call.cancel()
    await until(lambda: world.hung_up)
    read.goes_on.set()

    await world.kubelet.admit("p1")
    assert (world.phase("p1"), world.lock_text) == ("success", None)
    assert len(world.kube.sent("PATCH", "/pods/p1")) == 1


async def test_an_agent_that_is_asked_to_stop_ends_what_it_has_begun(world: World):
    """Must hold 2: the pod is served already, so its turn is ended too."""
    await world.start_and_register()
    world.bind("p1", entry(0) + ";")
    ids = await world.kubelet.choose(1)
    unlocking = _Held(world, "PATCH")

    call = asyncio.ensure_future(world.kubelet.allocate(ids))
    await unlocking.came.wait()
    stop = asyncio.ensure_future(world.stop())
    with pytest.raises(grpc.aio.AioRpcError):
        await call
    unlocking.goes_on.set()
    await stop

    assert (world.phase("p1"), world.lock_text) == ("success", None)


class _Away:
    """The API server answers nobody any more, until the end.

    Attributes:
        refused: how many reads of the Node were tried.
    """

    def __init__(self, world: World) -> None:
        self.refused = 0
        self._kube = world.kube
        self._ask = world.kube.request
        world.kube.request = self._refuse

    def end(self) -> None:
        self._kube.request = self._ask

    async def _refuse(self, verb: str, path: str, **rest: Any) -> Any:
        self.refused += (verb, path) == ("GET", NODE_PATH)
        raise errors.Unreachable("connection refused")


class _Held:
    """Holds the next request of one kind about an object, the Node, until told otherwise."""

    def __init__(self, world: World, verb: str, path: str = NODE_PATH) -> None:
        self.came = asyncio.Event()
        self.goes_on = asyncio.Event()
        self._wanted = (verb, path)
        self._ask = world.kube.request
        world.kube.request = self._request

    async def _request(self, verb: str, path: str, **rest: Any) -> Any:
        if (verb, path) == self._wanted and not self.came.is_set():
            self.came.set()
            await self.goes_on.wait()
        return await self._ask(verb, path, **rest)


# Failure switches.


async def test_slow_takes_its_time(world: World):
    await world.start_and_register(slow_s=0.05)
    world.bind("p1", entry(0) + ";")
    begun = asyncio.get_running_loop().time()

    await world.kubelet.admit("p1")

    assert asyncio.get_running_loop().time() - begun >= 0.05


async def test_never_does_not_answer_and_takes_nothing(world: World):
    await world.start_and_register(never=True)
    world.bind("p1", entry(0) + ";")
    ids = await world.kubelet.choose(1)
    world.kube.requests.clear()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await world.kubelet.allocate(ids)

    assert world.kube.requests == []


@pytest.mark.parametrize(
    ("switch", "says"),
    [("fail", "the agent was told to fail"), ("wrong_count", "the kubelet asks for 2")],
)
async def test_switches_that_fail_a_pod_say_so(world: World, switch: str, says: str):
    await world.start_and_register(**{switch: True})
    world.bind("p1", entry(0) + ";")

    with pytest.raises(grpc.aio.AioRpcError, match=says):
        await world.kubelet.admit("p1")

    assert (world.phase("p1"), world.lock_text) == ("failed", None)


async def test_an_agent_that_died_inside_a_call_frees_the_lock_at_its_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """Must hold 2: the kubelet fails the pod, as its connection breaks."""
    monkeypatch.setattr(service.os, "_exit", _die)
    await world.start_and_register(crash_after=2)
    world.bind("p1", entry(0) + ";")
    await world.kubelet.admit("p1")
    world.bind("p2", entry(1) + ";")

    with pytest.raises(grpc.aio.AioRpcError):
        await world.kubelet.admit("p2")
    await world.stop()

    assert (world.notes("p2")[TO_ALLOCATE], world.lock_text) == (
        ";",
        "2026-01-15T10:00:00Z,default,p2",
    )
    await world.start_and_register()
    await world.kube.until(lambda: world.lock_text is None)


def _die(code: int) -> None:
    raise RuntimeError(f"the process would be gone with code {code}")
