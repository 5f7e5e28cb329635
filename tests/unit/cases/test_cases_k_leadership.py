"""Cases from real use, area K: several replicas, one leader.

With real Leases and processes: ``tests/apiserver/test_crashes_end_to_end.py``.
"""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from support import pods
from support.case_cluster import asks
from support.case_cluster import pod as case_pod
from support.desk import NODE_PATH, REGISTER
from support.extender_calls import bind_body
from support.extender_calls import pod as asked_pod
from support.fake_kube import FakeKube
from support.operator_books import FRESH_STAMP, ONE_CARD
from support.turned_clock import TurnedClock
from support.waiting import settled
from vgpu_operator import app
from vgpu_operator.kube import listen
from vgpu_operator.model import settings

LOCAL = listen.Address(host="127.0.0.1", port=0)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/hami-scheduler"
FILTER = {"Pod": asked_pod("p1"), "NodeNames": ["node-a"]}


def cluster() -> FakeKube:
    """Return an API server with one node."""
    kube = FakeKube()
    notes = {REGISTER: ONE_CARD, "hami.io/node-handshake": FRESH_STAMP}
    kube.put(
        NODE_PATH,
        {"metadata": {"annotations": notes}, "status": {"allocatable": {"nvidia.com/gpu": "10"}}},
    )
    return kube


def renew(kube: FakeKube, holder: str | None, at: str = "1") -> None:
    """Have kube-scheduler of that identity write the Lease."""
    spec = {"holderIdentity": holder, "renewTime": at, "leaseDurationSeconds": 15}
    kube.put(LEASE, {"spec": spec})


@dataclass(slots=True)
class Replica:
    """One operator with its servers, whose timers are played by hand."""

    operator: app.Operator
    clock: TurnedClock
    session: aiohttp.ClientSession

    async def get(self, path: str) -> tuple[int, str]:
        """Ask the health server."""
        url = f"http://127.0.0.1:{self.operator.ports['metrics']}{path}"
        async with self.session.get(url) as answer:
            return answer.status, await answer.text()

    async def filter(self) -> Any:
        """Ask which nodes fit pod p1, as the side-car does."""
        url = f"http://127.0.0.1:{self.operator.ports['extender']}/filter"
        async with self.session.post(url, data=orjson.dumps(FILTER)) as answer:
            assert answer.status == 200
            return orjson.loads(await answer.read())


@contextlib.asynccontextmanager
async def replica(
    kube: FakeKube, hostname: str = "x-1", *, ca_file: Path | None = None
) -> AsyncIterator[Replica]:
    """Run a replica that follows the Lease, with a complete ledger."""
    options = app.Options(
        settings=settings.Settings(),
        extender_bind=LOCAL,
        metrics_bind=LOCAL,
        webhook_bind=LOCAL if ca_file is not None else None,
        webhook_ca_file=ca_file,
        lease=("kube-system", "hami-scheduler"),
        hostname=hostname,
    )
    clock = TurnedClock()
    operator = app.Operator(options, kube, clock)
    async with asyncio.timeout(20), operator._servers(), aiohttp.ClientSession() as session:
        await operator.leader.refresh()
        await operator._begin_term()
        yield Replica(operator, clock, session)
        await operator._close()


# --- 160: a follower is ready ----------------------------------------------------------


@pytest.mark.parametrize("holder", ["x-2_ef56", "x-10_ab12", None], ids=["other", "x-10", "nobody"])
async def test_case_160_a_follower_is_ready(holder: str | None) -> None:
    kube = cluster()
    renew(kube, holder)

    async with replica(kube) as follower:
        assert not follower.operator.books.leader
        assert await follower.get("/readyz") == (200, "ok\n")
        assert await follower.get("/healthz") == (200, "ok\n")


async def test_case_160_a_replica_that_cannot_serve_yet_is_not_ready() -> None:
    kube = cluster()
    renew(kube, "x-2_ef56")

    async with replica(kube) as follower:
        follower.operator.books.synced = False
        status, why = await follower.get("/readyz")

    assert status == 503
    assert "not complete" in why


# --- 162: a follower that is promoted --------------------------------------------------


async def test_case_162_the_filter_after_a_promotion_is_answered_by_the_new_leader() -> None:
    """No timer, no restart: the call itself reads the Lease."""
    kube = cluster()
    renew(kube, "x-2_ef56")
    async with replica(kube) as follower:
        before = await follower.filter()
        assert "does not lead (x-2_ef56 holds the Lease)" in before["Error"]

        renew(kube, "x-1_ab12", at="2")
        after = await follower.filter()

    assert (after["Error"], after["NodeNames"]) == ("", ["node-a"])


async def test_case_162_a_promoted_follower_schedules_after_one_refresh() -> None:
    kube = cluster()
    renew(kube, "x-2_ef56")
    async with replica(kube) as follower:
        kube.put(
            "/api/v1/namespaces/team-a/pods/p1",
            {**case_pod("p1", asks(1, 1000)), "metadata": {"uid": "uid-of-p1"}},
        )
        renew(kube, "x-1_ab12", at="2")
        await follower.operator.leader.refresh()
        await follower.operator._term_synced.wait()

        url = f"http://127.0.0.1:{follower.operator.ports['extender']}/bind"
        async with follower.session.post(url, data=orjson.dumps(bind_body("p1"))) as answer:
            assert await answer.json() == {"Error": ""}

    assert kube.objects["/api/v1/namespaces/team-a/pods/p1"]["spec"]["nodeName"] == "node-a"


async def test_case_162_of_many_changes_in_a_row_the_last_one_counts() -> None:
    """The notice of a promotion cannot get lost behind others that nobody has read."""
    kube = cluster()
    renew(kube, "x-2_ef56")
    async with replica(kube) as follower:
        for number in range(50):
            renew(kube, ("x-1_ab12", "x-2_ef56")[number % 2], at=str(number + 2))
            await follower.operator.leader.refresh()
        renew(kube, "x-1_ab12", at="100")
        await follower.operator.leader.refresh()
        answer = await follower.filter()

    assert (answer["Error"], answer["NodeNames"]) == ("", ["node-a"])


# --- 164: a Lease that says nothing ----------------------------------------------------


@pytest.mark.parametrize(
    "lease",
    [
        None,
        {},
        {"spec": None},
        {"spec": {"leaseDurationSeconds": 15, "renewTime": "2"}},
        {"spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2"}},
        {"spec": {"holderIdentity": "x-1_ab12", "renewTime": "2"}},
        {"spec": {"holderIdentity": "x-1_ab12", "leaseDurationSeconds": 0, "renewTime": "2"}},
    ],
    ids=["deleted", "empty", "no spec", "no holder", "empty holder", "no duration", "duration 0"],
)
async def test_case_164_a_replica_whose_lease_says_nothing_follows_and_lives(lease: Any) -> None:
    kube = cluster()
    renew(kube, "x-1_ab12")
    async with replica(kube) as one:
        assert (await one.filter())["Error"] == ""
        if lease is None:
            kube.remove(LEASE)
        else:
            kube.put(LEASE, lease)
        await one.operator.leader.refresh()

        answer = await one.filter()
        assert "does not lead" in answer["Error"]
        assert await one.get("/readyz") == (200, "ok\n")

        renew(kube, "x-1_ab12", at="3")
        assert (await one.filter())["Error"] == ""


# --- 165: one writer -------------------------------------------------------------------


async def test_case_165_for_five_minutes_only_the_leader_writes_to_nodes() -> None:
    """Its plugin answers every thirty seconds, so there is always something to write."""
    kubes = {"x-1": cluster(), "x-2": cluster()}
    async with contextlib.AsyncExitStack() as stack:
        replicas = {}
        for hostname, kube in kubes.items():
            renew(kube, "x-2_ef56")
            replicas[hostname] = await stack.enter_async_context(replica(kube, hostname))
            kube.requests.clear()
        for second in range(0, 300, 15):
            for hostname, kube in kubes.items():
                one = replicas[hostname]
                renew(kube, "x-2_ef56", at=f"at {second}")
                await one.operator.leader.refresh()
                if second % 30 == 0:
                    whole = kube.objects[NODE_PATH]
                    reported = f"Reported_2026-01-15 10:{second // 60:02}:{second % 60:02}"
                    notes = {
                        **whole["metadata"]["annotations"],
                        "hami.io/node-handshake": reported,
                    }
                    metadata = {**whole["metadata"], "annotations": notes}
                    kube.put(NODE_PATH, {**whole, "metadata": metadata})
                one.operator.intake.node_event("MODIFIED", kube.objects[NODE_PATH])
                one.operator.intake.tick()
                one.operator.intake.quick_tick()
                await settled(100)
                one.clock.turn(15)

    written = {
        hostname: [request for request in kube.requests if request.verb not in ("GET", "WATCH")]
        for hostname, kube in kubes.items()
    }
    assert written["x-1"] == []
    assert len(written["x-2"]) == 10, "one stamp for each answer of the plugin"
    assert {request.path for request in written["x-2"]} == {NODE_PATH}


# --- 166: admission without a leader ---------------------------------------------------


async def test_case_166_without_a_leader_every_ready_replica_still_changes_pods(
    tmp_path: Path,
) -> None:
    kube = cluster()
    raw = pods.pod(pods.container(gpu=1, mem=1000))
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": "team-a",
            "operation": "CREATE",
            "object": raw,
        },
    }
    async with replica(kube, ca_file=tmp_path / "ca.crt") as follower:
        assert not follower.operator.books.leader
        assert "does not lead (nobody holds the Lease)" in (await follower.filter())["Error"]
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        url = f"https://127.0.0.1:{follower.operator.ports['webhook']}/webhook"
        async with follower.session.post(url, data=orjson.dumps(review), ssl=trust) as answer:
            response = orjson.loads(await answer.read())["response"]

    assert response["allowed"] is True
    assert orjson.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}
    ]
    assert [request for request in kube.requests if request.verb != "GET"] == []
