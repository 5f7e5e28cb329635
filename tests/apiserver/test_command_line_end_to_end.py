"""The reading commands on a real cluster, with rights to read and no others.

One cluster serves all tests here, in their order. Two nodes with one card of 10,000 MiB
each; ``holder`` has 6,000 on one, ``other`` 7,000 on the other.
"""

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from support import cluster_roles
from support.world import World, nvidia_pod, world
from vgpu_operator.cli import installed_settings, main
from vgpu_operator.kube import paths

pytestmark = pytest.mark.apiserver

READER = "reader"
RULE = {
    "apiGroups": [""],
    "resources": ["pods", "nodes", "resourcequotas", "events"],
    "verbs": ["get", "list", "watch"],
}


@dataclass
class Told:
    code: int
    out: str
    err: str


@dataclass
class Here:
    world: World
    kubeconfig: str

    async def vgpu(self, *arguments: str, admin: bool = False) -> Told:
        """Run a command line beside the simulated nodes, and give what it printed."""
        kubeconfig = str(self.world.plane.kubeconfig) if admin else self.kubeconfig
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = await asyncio.to_thread(main.answer, [*arguments, "--kubeconfig", kubeconfig])
        return Told(code=code, out=out.getvalue(), err=err.getvalue())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def here() -> AsyncIterator[Here]:
    nodes = {"prefix": "sim-", "count": 2, "cards": 1, "memory": 10_000}
    async with world() as made, made.simulate(nodes):
        subject = {"kind": "User", "name": READER}
        await cluster_roles.grant(made.kube, READER, [RULE], subject=subject)
        for name, memory in (("holder", 6000), ("other", 7000)):
            await made.create(nvidia_pod(name, memory=memory))
            await made.until_phase("success", name)
        await made.create(nvidia_pod("waiting", memory=5000))
        await made.until_event("FilteringFailed", "waiting")
        yield Here(world=made, kubeconfig=str(made.plane.kubeconfig_for(READER)))


async def card_of(here: Here, pod: str) -> tuple[str, str]:
    raw = await here.world.pod(pod)
    text = raw["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]
    return raw["spec"]["nodeName"], text.split(",")[0]


async def test_which_pods_share_a_card(here: Here) -> None:
    node, card = await card_of(here, "holder")

    by_id = await here.vgpu("pods", "--card", card, "-o", "json")
    by_place = await here.vgpu("pods", "--card", f"{node}/0", "-o", "json")

    assert [row["pod"] for row in json.loads(by_id.out)["items"]] == ["holder"]
    assert json.loads(by_place.out) == json.loads(by_id.out)


async def test_why_a_pod_waits_and_what_would_help(here: Here) -> None:
    told = await here.vgpu("explain", "waiting")

    assert told.code == 1
    first, second, *_ = told.out.splitlines()
    assert first == "default/waiting waits: none of 2 nodes has the cards that it asks for."
    assert "ask for at most 4000 of nvidia.com/gpumem (now 5000)" in second
    assert "end 1 pod on sim-" in told.out
    assert "FilteringFailed" in told.out
    assert "KUBE-SCHEDULER LAST SAID" in told.out


async def test_how_much_memory_is_free_on_one_card(here: Here) -> None:
    node, card = await card_of(here, "holder")

    told = await here.vgpu("top", "--free")

    assert told.out.splitlines()[0].startswith(
        f"The most memory free on one card is 4000 MiB: card {card} on {node}"
    )


async def test_what_a_node_was_like_when_it_refused_a_pod(here: Here) -> None:
    node, _ = await card_of(here, "other")

    told = await here.vgpu("explain", "waiting", "--node", node)

    first = told.out.splitlines()[0]
    assert re.match(rf"{node} refused the pod \d+s ago: .*CardInsufficientMemory", first)
    assert "Pods there then that are still there: default/other." in told.out
    assert "then had at most 3000 of 10000 MiB" in told.out


async def test_the_manifest_of_what_is_proposed_would_fit_and_one_more_would_not(
    here: Here, tmp_path
) -> None:
    codes = []
    for memory in (4000, 4001):
        path = tmp_path / f"{memory}.json"
        path.write_text(json.dumps(nvidia_pod("asked", memory=memory)))
        codes.append((await here.vgpu("explain", "-f", str(path))).code)

    assert codes == [0, 1]


async def test_the_operators_own_view_is_the_same_until_somebody_forges(here: Here) -> None:
    where = ("--operator", here.world.replica.metrics_url)

    # The reader may not list Deployments: that the usual settings are assumed is all it is told.
    (note,) = (await here.vgpu("nodes", *where)).err.splitlines()
    assert note == f"note: {installed_settings.ASSUMED}"
    node, card = await card_of(here, "holder")
    await here.world.kube.patch(
        paths.pod("default", "holder"),
        {
            "metadata": {
                "annotations": {"hami.io/vgpu-devices-allocated": f"{card},NVIDIA,60000,0:;"}
            }
        },
    )

    surplus = await here.vgpu("pods", "--surplus", "-o", "json")
    assert surplus.code == 1
    assert [
        (row["what"], row["node"], row["promised"]["memoryMiB"], row["measure"]["memoryMiB"])
        for row in json.loads(surplus.out)["items"]
    ] == [("pod", node, 60_000, 6000), ("card", node, 60_000, 10_000)]
    told = await here.vgpu("top", *where)  # the operator charges what the pod asks for too
    assert "operator differs" not in told.err


async def test_a_view_that_differs_is_said(here: Here, tmp_path) -> None:
    """Told to believe annotations, the command sees the forged 60,000; the operator does not."""
    _, card = await card_of(here, "holder")
    path = tmp_path / "settings.yaml"
    path.write_text("ledger: {trust: annotations}\n")

    told = await here.vgpu(
        "nodes", "--config", str(path), "--operator", here.world.replica.metrics_url
    )

    (line,) = told.err.splitlines()
    assert line.startswith(f"operator differs: card {card} on ")
    assert "60000 MiB" in line
    assert "the operator says 6000 MiB" in line


async def test_a_watch_appends_what_comes_and_ends_on_interrupt(here: Here) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vgpu_operator", "pods", "--watch"),
        *("--kubeconfig", here.kubeconfig),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    lines: list[str] = []

    async def until(word: str) -> None:
        async with asyncio.timeout(30):
            while not any(word in line for line in lines):
                lines.append((await process.stdout.readline()).decode())

    await until("waiting")
    await here.world.create(nvidia_pod("late", memory=99_000))
    await until("late")
    process.send_signal(signal.SIGINT)

    assert await process.wait() == 130
    await here.world.delete("late")


async def test_cordoning_needs_the_right_and_does_what_it_says(here: Here) -> None:
    node, card = await card_of(here, "holder")

    denied = await here.vgpu("cordon", card)
    assert denied.code == 1
    assert "ask for rights" in denied.err
    assert denied.err.count("\n") == 1

    assert (await here.vgpu("cordon", f"{node}/0", admin=True)).code == 0
    await here.world.create(nvidia_pod("small", memory=3500))
    event = await here.world.until_event("FilteringFailed", "small")
    assert "CardCordoned" in " ".join(
        one["message"]
        for one in await here.world.events("FilteringFailed")
        if one["involvedObject"] == event["involvedObject"]
    )
    assert f"vgpu uncordon {card}" in (await here.vgpu("explain", "small")).out
    assert (await here.vgpu("uncordon", card, admin=True)).code == 0
    await here.world.until_phase("success", "small")
    await here.world.delete("small")


async def test_the_pod_that_would_have_to_go_is_enough(here: Here) -> None:
    told = await here.vgpu("explain", "waiting", "-o", "json")
    (eviction,) = [one for one in json.loads(told.out)["ways"] if one["kind"] == "endPods"]

    for name in eviction["pods"]:
        await here.world.delete(name.split("/")[1])

    await here.world.until_phase("success", "waiting")
    assert (await here.world.pod("waiting"))["spec"]["nodeName"] == eviction["node"]


async def test_no_operator_is_needed_and_nothing_was_written(here: Here) -> None:
    here.world.replica.component.kill()

    told = await here.vgpu("explain", "waiting")
    assert told.code == 0
    assert "default/waiting is on sim-" in told.out
    assert (await here.vgpu("top", "--free")).code == 0
    assert (await here.vgpu("pods", "-A", "-o", "yaml")).code == 0

    asked = here.world.requests(READER)
    assert {one.verb for one in asked if one.code < 400} <= {"get", "list", "watch"}
    assert {one.resource for one in asked if one.code == 403} <= {
        "services",
        "nodes",
        "deployments",
        "poddisruptionbudgets",
        "priorityclasses",
    }
