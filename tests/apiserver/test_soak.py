"""Churn for a while: the operator costs no more at the end than in the middle (issue 6).

``make soak MINUTES=60`` runs an hour of it; the test run itself takes 20 seconds.
"""

import asyncio
import dataclasses
import os
import time

import pytest

from support import reliability_report, soak
from support.world import world

pytestmark = pytest.mark.apiserver

MINUTES = float(os.environ.get("VGPU_SOAK_MINUTES", "0.34"))

CONFIGURED = {
    "lock": {"expiryS": 5.0},
    "handshake": {"intervalS": 2.0, "expiryS": 4.0},
    "ledger": {"auditIntervalS": 5.0},
}
"""The rare things often: an hour's worth of expiries and audits in minutes."""


async def test_churn_leaves_memory_tasks_connections_and_latency_flat() -> None:
    nodes = {"prefix": "sim-", "count": soak.NODES, "cards": soak.CARDS}
    async with world(configured=CONFIGURED) as here, here.simulate(nodes) as sim:
        churn = soak.Churn(here, sim)
        thirds: list[soak.Third] = []
        for _ in range(3):
            end = time.monotonic() + 60 * MINUTES / 3
            samples, _ = await asyncio.gather(soak.samples_until(here, end), churn.go_on(end))
            rest = await soak.rested(here, thirds[-1] if thirds else None)
            thirds.append(soak.third(samples, rest))
        reliability_report.note(
            "soak",
            f"{MINUTES:g} minutes",
            thirds=[dataclasses.asdict(third) for third in thirds],
            **dataclasses.asdict(churn.done),
        )
        assert churn.done.pods > 10 * MINUTES
        assert soak.growth(thirds[1], thirds[2]) == []

        await here.until_no_lock()
        await here.assert_sound()

        async def nothing_left() -> bool:
            held = [await here.metric(name) for name in ("vgpu_binds_waiting", "vgpu_node_locks")]
            shared = await here.metric("hami_gpu_shared_count")
            return [*held, shared, await here.metric("vgpu_pods_refused")] == [0, 0, 0, 0]

        await here.until("the operator holds nothing for pods that are gone", nothing_left)
