import asyncio
import json

import pytest

from support.agent_world import REGISTER, world
from support.fake_kube import FakeKube
from vgpu_operator.kube import errors

TWO_CARDS = {
    "name": "sim-1",
    "cards": [
        {"id": "GPU-a0", "memory": 24576, "type": "NVIDIA A10"},
        {"id": "GPU-a1", "memory": 16384, "type": "NVIDIA-Tesla T4", "count": 4, "numa": 1},
    ],
}


async def test_a_missing_node_is_created_with_cards_and_counts():
    async with world(TWO_CARDS) as w:
        assert json.loads(w.node_notes()[REGISTER]) == [
            {
                "id": "GPU-a0",
                "count": 10,
                "devmem": 24576,
                "devcore": 100,
                "type": "NVIDIA A10",
                "mode": "hami-core",
                "health": True,
            },
            {
                "id": "GPU-a1",
                "index": 1,
                "count": 4,
                "devmem": 16384,
                "devcore": 100,
                "type": "NVIDIA-Tesla T4",
                "numa": 1,
                "mode": "hami-core",
                "health": True,
            },
        ]
        assert w.node()["status"]["capacity"]["nvidia.com/gpu"] == "14"
        assert w.node()["status"]["allocatable"]["nvidia.com/gpu"] == "14"
        assert w.node()["status"]["capacity"]["cpu"] == "64"
        assert "hami.io/node-handshake" not in w.node_notes()


async def test_an_existing_node_keeps_what_is_not_ours():
    kube = FakeKube()
    kube.put(
        "/api/v1/nodes/sim-1",
        {"metadata": {"annotations": {"a": "b"}}, "status": {"capacity": {"cpu": "2"}}},
    )

    async with world(TWO_CARDS, kube) as w:
        assert w.node_notes()["a"] == "b"
        assert REGISTER in w.node_notes()
        assert w.node()["status"]["capacity"] == {"cpu": "2", "nvidia.com/gpu": "14"}


async def test_the_taint_of_a_node_that_is_not_ready_is_removed_and_others_stay():
    kube = FakeKube()
    create = kube.create

    async def create_as_admission_does(path, body):
        made = await create(path, body)
        taints = [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "mine", "effect": "NoSchedule"},
        ]
        return kube.put(f"{path}/{made['metadata']['name']}", {**made, "spec": {"taints": taints}})

    kube.create = create_as_admission_does

    async with world(TWO_CARDS, kube) as w:
        assert [taint["key"] for taint in w.node()["spec"]["taints"]] == ["mine"]


@pytest.mark.parametrize("text", ["garbage", None])
async def test_an_edited_or_removed_register_text_is_repaired_in_the_next_round(text):
    async with world(TWO_CARDS) as w:
        good = w.node_notes()[REGISTER]
        notes = {} if text is None else {REGISTER: text}
        w.kube.put("/api/v1/nodes/sim-1", {**w.node(), "metadata": {"annotations": notes}})

        await settle(w)
        assert w.node_notes() == notes
        w.sleep.end(30.0)
        await w.kube.until(lambda: w.node_notes().get(REGISTER) == good)


async def test_a_round_without_news_writes_nothing():
    async with world(TWO_CARDS) as w:
        await settle(w)
        w.sleep.end(30.0)
        await settle(w)

        assert [r.verb for r in w.kube.requests if r.verb not in ("WATCH",)] == ["GET"]


async def test_a_node_with_a_heartbeat_says_each_round_that_it_is_ready():
    # The node lifecycle controller calls a node unknown whose heartbeat stands still for 50 s.
    async with world({"nodes": [TWO_CARDS], "heartbeat": True}) as w:
        given_up = [
            {"type": "DiskPressure", "status": "False"},
            {
                "type": "Ready",
                "status": "Unknown",
                "lastHeartbeatTime": "2026-01-15T09:00:00Z",
                "lastTransitionTime": "2026-01-15T09:00:50Z",
            },
        ]
        status = {**w.node()["status"], "conditions": given_up}
        w.kube.put("/api/v1/nodes/sim-1", {**w.node(), "status": status})

        await settle(w)
        w.sleep.end(30.0)
        await settle(w)

        other, ready = w.node()["status"]["conditions"]
        assert other == {"type": "DiskPressure", "status": "False"}
        assert (ready["type"], ready["status"]) == ("Ready", "True")
        assert ready["lastHeartbeatTime"] == ready["lastTransitionTime"] == "2026-01-15T10:00:00Z"
        assert w.node()["status"]["capacity"]["nvidia.com/gpu"] == "14"


async def test_a_vendor_that_reports_writes_its_own_time_each_round():
    async with world({**TWO_CARDS, "handshake": True}) as w:
        assert w.node_notes()["hami.io/node-handshake"] == "Reported_2026-01-15 10:00:00"
        stamped = {**w.node_notes(), "hami.io/node-handshake": "Requesting_2026-01-15 10:00:05"}
        w.kube.put("/api/v1/nodes/sim-1", {**w.node(), "metadata": {"annotations": stamped}})

        await settle(w)
        w.sleep.end(30.0)
        await w.kube.until(
            lambda: w.node_notes()["hami.io/node-handshake"] == "Reported_2026-01-15 10:00:00"
        )


async def test_a_vanished_plugin_leaves_allocatable_0_and_repairs_nothing():
    async with world(TWO_CARDS) as w:
        await w.sim.node("sim-1").vanish()
        assert w.node()["status"]["allocatable"]["nvidia.com/gpu"] == "0"
        assert w.node()["status"]["capacity"]["nvidia.com/gpu"] == "14"
        w.kube.put("/api/v1/nodes/sim-1", {**w.node(), "metadata": {"annotations": {}}})

        await settle(w)
        w.sleep.end(30.0)
        await settle(w)
        assert w.node_notes() == {}

        await w.sim.node("sim-1").come_back()
        assert REGISTER in w.node_notes()
        assert w.node()["status"]["allocatable"]["nvidia.com/gpu"] == "14"


async def test_a_plugin_vanishes_by_itself_when_the_file_says_so():
    async with world({**TWO_CARDS, "failures": {"vanishAfter": "5s"}}) as w:
        await settle(w)
        w.sleep.end(5.0)
        await w.kube.until(lambda: w.node()["status"]["allocatable"]["nvidia.com/gpu"] == "0")


async def test_an_unhealthy_card_is_registered_without_health_and_offers_no_slots():
    async with world(TWO_CARDS) as w:
        await w.sim.node("sim-1").set_healthy("GPU-a1", False)

        assert "health" not in json.loads(w.node_notes()[REGISTER])[1]
        assert w.node()["status"]["allocatable"]["nvidia.com/gpu"] == "10"
        assert w.node()["status"]["capacity"]["nvidia.com/gpu"] == "14"


async def test_an_unknown_card_is_named():
    async with world(TWO_CARDS) as w:
        with pytest.raises(KeyError, match="sim-1 has no card GPU-zz"):
            await w.sim.node("sim-1").set_healthy("GPU-zz", False)


async def test_many_nodes_come_from_one_entry():
    async with world({"prefix": "sim-", "count": 3, "cards": 2}) as w:
        assert sorted(w.sim.nodes) == ["sim-1", "sim-2", "sim-3"]
        ids = [card["id"] for card in json.loads(w.node_notes("sim-3")[REGISTER])]
        assert ids == ["GPU-sim-3-0", "GPU-sim-3-1"]


async def test_a_refusal_at_the_start_is_raised_as_it_is():
    kube = FakeKube()
    kube.fail_next("POST", "/nodes", errors.Denied("POST /api/v1/nodes: 403 no", status=403))

    with pytest.raises(errors.Denied, match="403 no"):
        async with world(TWO_CARDS, kube):
            pass


async def test_credentials_that_are_not_accepted_end_the_start():
    kube = FakeKube()
    kube.fail_next("GET", "/version", errors.Unauthorized("401", status=401))

    with pytest.raises(errors.Unauthorized):
        async with world(TWO_CARDS, kube):
            pass


async def test_a_node_that_somebody_deleted_stays_deleted():
    async with world(TWO_CARDS) as w:
        w.kube.remove("/api/v1/nodes/sim-1")

        await w.sim.node("sim-1").vanish()

        assert "/api/v1/nodes/sim-1" not in w.kube.objects


async def settle(w):
    """Let everything run that can run without time passing."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("dialect", "register", "handshake"),
    [
        ("4pd", "4pd.io/node-nvidia-register", "4pd.io/node-handshake"),
        ("HAMi.sh", "HAMi.sh/node-register-nvidia", "HAMi.sh/node-handshake-nvidia"),
    ],
)
async def test_a_forerunners_plugin_registers_in_its_own_keys_and_reports(
    dialect, register, handshake
):
    async with world(TWO_CARDS | {"dialect": dialect}) as w:
        assert w.node_notes()[register] == (
            "GPU-a0,10,24576,100,NVIDIA A10,0,true:GPU-a1,4,16384,100,NVIDIA-Tesla T4,1,true:"
        )
        assert w.node_notes()[handshake].startswith("Reported_")
        assert REGISTER not in w.node_notes()
