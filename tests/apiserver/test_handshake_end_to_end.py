"""Cards come and go by the handshake's rules, on the real API server (must hold 2, 8)."""

import datetime

import pytest

from support import api_audit
from support.world import World, nvidia_pod, world

pytestmark = pytest.mark.apiserver

FAST = {"handshake": {"intervalS": 0.5, "expiryS": 3.0}}
HANDSHAKE = "hami.io/node-handshake"
REGISTER = "hami.io/node-nvidia-register"


def stamp(age_s: float) -> str:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age_s)  # noqa: TID251
    return f"Requesting_{then:%Y-%m-%d %H:%M:%S}"


def is_requesting(text: str | None) -> bool:
    return text is not None and text.startswith("Requesting_")


async def cards_known(here: World) -> set[str]:
    return set(await here.ledger())


async def until_cards(here: World, wanted: set[str]) -> None:
    async def reached() -> bool:
        return await cards_known(here) == wanted

    await here.until(f"the ledger holds {sorted(wanted)}", reached)


async def test_2_an_absent_or_reported_handshake_is_answered_with_a_request() -> None:
    async with world(configured=FAST) as here, here.simulate({"name": "node-a", "cards": 1}):
        await here.until_handshake("node-a", is_requesting)

        await here.annotate_node("node-a", **{HANDSHAKE: "Reported_2026-01-15 10:00:00"})

        await here.until_handshake("node-a", is_requesting)
        annotations = api_audit.annotations(await here.node("node-a"))
        ours = {key for key in annotations if key.startswith(("hami.io/", "vgpu-operator.io/"))}
        assert ours == {HANDSHAKE, REGISTER}


async def test_2_an_expired_handshake_matters_only_when_nothing_is_allocatable() -> None:
    async with (
        world(configured=FAST) as here,
        here.simulate({"name": "node-a", "cards": 1}) as sim,
    ):
        await here.until_handshake("node-a", is_requesting)
        old = stamp(600)
        await here.annotate_node("node-a", **{HANDSHAKE: old})
        await here.create(nvidia_pod("still-fits"))
        await here.until_phase("success", "still-fits")
        assert api_audit.annotations(await here.node("node-a"))[HANDSHAKE] == old
        await here.until_no_lock()

        await sim.node("node-a").vanish()

        await here.until_handshake("node-a", lambda text: text is None)
        await until_cards(here, set())
        await here.until_event("DevicesExpired", "node-a")
        await here.create(nvidia_pod("too-late"))
        told = await here.until_event("FilteringFailed", "too-late")
        assert "node unregistered" in told["message"]

        await sim.node("node-a").come_back()

        await here.until_handshake("node-a", is_requesting)
        await until_cards(here, {"GPU-node-a-0"})
        await here.until_phase("success", "too-late")
        await here.assert_sound()


async def test_2_nothing_allocatable_stops_new_pods_at_once_and_removes_no_card() -> None:
    slow = {"handshake": {"intervalS": 0.5, "expiryS": 600.0}}
    async with (
        world(configured=slow) as here,
        here.simulate({"name": "node-a", "cards": 1}) as sim,
    ):
        await here.until_handshake("node-a", is_requesting)
        await sim.node("node-a").vanish()

        await here.create(nvidia_pod("waits"))
        await here.until_event("FilteringFailed", "waits")

        assert await cards_known(here) == {"GPU-node-a-0"}
        await sim.node("node-a").come_back()
        await here.until_phase("success", "waits")


async def test_2_malformed_text_on_one_node_costs_that_node_nothing_it_had() -> None:
    async with world(configured=FAST) as here:
        bad = {"name": "node-bad", "cards": 1}
        good = {"name": "node-good", "cards": 1}
        async with here.simulate(bad, good, round_interval=3600.0):
            await until_cards(here, {"GPU-node-bad-0", "GPU-node-good-0"})

            await here.annotate_node("node-bad", **{REGISTER: "{{"})

            told = await here.until_event("RegisterUnreadable", "node-bad")
            assert REGISTER in told["message"]
            assert await cards_known(here) == {"GPU-node-bad-0", "GPU-node-good-0"}
            whole = [f"whole-{i}" for i in range(2)]
            for name in whole:
                await here.create(nvidia_pod(name, memory=24576))
            await here.until_phase("success", *whole)
            assert await here.events("RegisterUnreadable") == [told]
