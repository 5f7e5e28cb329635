"""Nodes of the forerunner's dialect on the real control plane, beside today's (must hold 4)."""

import pytest

from support import api_audit
from support.world import World, nvidia_pod, world

pytestmark = pytest.mark.apiserver

OLD_REGISTER, OLD_HANDSHAKE = "4pd.io/node-nvidia-register", "4pd.io/node-handshake"


def on(node: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": node}


async def notes(here: World, name: str) -> dict[str, str]:
    return api_audit.annotations(await here.pod(name))


async def until_old_phase(here: World, phase: str, *names: str) -> None:
    """Wait until all these pods are in that bind phase of the forerunner's."""

    async def reached() -> bool:
        return all([(await notes(here, name)).get("4pd.io/bind-phase") == phase for name in names])

    await here.until(f"{names} in {phase}", reached)


async def until_old_lock_is_gone(here: World) -> None:
    async def free() -> bool:
        return not any("4pd.io/mutex.lock" in api_audit.annotations(n) for n in await here.nodes())

    await here.until("no node has the forerunner's lock", free)


async def test_4_pods_on_nodes_of_three_kinds_of_keys_all_go_to_success_side_by_side() -> None:
    async with (
        world() as here,
        here.simulate(
            {"name": "old", "cards": 1, "dialect": "4pd"},
            {"name": "walk", "cards": 1, "dialect": "HAMi.sh"},
            {"name": "new", "cards": 1},
        ),
    ):
        await here.create(nvidia_pod("p-new", memory=3000, node_selector=on("new")))
        await here.create(
            nvidia_pod("p-old", memory=3000, cores=20, containers=2, node_selector=on("old"))
        )
        await here.create(nvidia_pod("q-old", memory=1000, node_selector=on("old")))
        await here.create(nvidia_pod("p-walk", memory=5000, node_selector=on("walk")))

        await here.until_phase("success", "p-new")
        await until_old_phase(here, "success", "p-old", "q-old", "p-walk")
        await here.until_no_lock()
        await until_old_lock_is_gone(here)

        found = await notes(here, "p-old")
        entry = "GPU-old-0,NVIDIA,3000,20:"
        assert found["4pd.io/vgpu-ids-new"] == f"{entry};{entry}"
        assert found["4pd.io/devices-to-allocate"].strip(";") == ""
        assert found["4pd.io/vgpu-node"] == "old"
        assert not [key for key in found if key.startswith("hami.io/")]
        assert (await notes(here, "p-walk"))["4pd.io/vgpu-ids-new"] == "GPU-walk-0,NVIDIA,5000,0:"
        assert not [key for key in await notes(here, "p-new") if key.startswith("4pd.io/")]

        stamped = api_audit.annotations(await here.node("old"))
        assert "hami.io/node-handshake" not in stamped
        assert OLD_HANDSHAKE in stamped
        charged = await here.ledger()
        assert charged["GPU-old-0"] == (3, 7000 * 2**20, 40)


async def test_4_a_node_moving_from_4pd_to_hami_keys_keeps_its_pods_cards() -> None:
    async with world() as here:
        async with here.simulate({"name": "moves", "cards": 1, "dialect": "4pd"}):
            await here.create(nvidia_pod("stays", memory=20000))
            await until_old_phase(here, "success", "stays")
            await until_old_lock_is_gone(here)
            before = (await here.ledger())["GPU-moves-0"]
            assert before[:2] == (1, 20000 * 2**20)

        async with here.simulate({"name": "moves", "cards": 1}):

            async def is_todays() -> bool:
                texts = api_audit.annotations(await here.node("moves"))
                return "Requesting" in texts.get("hami.io/node-handshake", "")

            await here.until("the node is asked under today's key", is_todays)
            assert (await here.ledger())["GPU-moves-0"] == before
            await here.annotate_node("moves", **{OLD_REGISTER: None, OLD_HANDSHAKE: None})

            await here.create(nvidia_pod("too-big", memory=5000))
            await here.until_event("FilteringFailed", "too-big")
            await here.create(nvidia_pod("fits", memory=4000))
            await here.until_phase("success", "fits")

            assert (await here.ledger())["GPU-moves-0"][:2] == (2, 24000 * 2**20)
            await here.delete("stays")
            await here.until_phase("success", "too-big")
