"""Cases from real use, area J: scale. Speed itself is measured in ``bench``."""

import asyncio
import time

import aiohttp
import orjson
import pytest

from support import operator_books, played_node
from support.case_cluster import CaseCluster, asks, card, node, pod, taken
from support.desk import NODE_PATH, Shell
from support.extender_calls import bind_body, extender
from support.extender_calls import pod as asked_pod
from support.operator_books import LOCK
from support.played_node import PHASE, TO_ALLOCATE, bind_args, pod_path
from support.waiting import settled
from vgpu_operator.flows import effects, pod_events
from vgpu_operator.kube import listen
from vgpu_operator.metrics import cards_page, collector, instruments, server

BOUND = effects.BindResult()
ROOMY = operator_books.register_text(("GPU-a0", 24576), count=200)


# --- 153, 159: many pods, one node, one lock -------------------------------------------


async def play_the_plugin(shell: Shell, names: list[str]) -> list[str]:
    """Serve whoever the lock names, as the plugin does, until all are; return the order.

    Pod and lock are written by two requests, and other things happen between them.
    """
    served: list[str] = []
    while len(served) < len(names):
        await shell.kube.until(lambda: bool(list(played_node.allocating(shell))))
        (name,) = played_node.allocating(shell)
        owner = shell.notes(NODE_PATH)[LOCK].split(",")[2]
        assert owner == name, "the plugin serves the pod that the lock names"
        shell.show(NODE_PATH)
        shell.show(pod_path(name))
        served.append(name)
        played_node.annotate(shell, pod_path(name), {PHASE: "success", TO_ALLOCATE: ";"})
        await settled(3)
        if shell.notes(NODE_PATH)[LOCK].endswith(f",{name}"):
            played_node.annotate(shell, NODE_PATH, {LOCK: None})
    return served


async def test_case_153_a_hundred_binds_on_one_node_are_all_bound_and_wait_their_turn_only() -> (
    None
):
    shell = Shell()
    shell.put_node(register=ROOMY)
    names = [f"p{n}" for n in range(100)]
    for name in names:
        shell.put_pod(name, mem=100)
    done: list[str] = []

    async def bind(name: str) -> effects.BindResult:
        result = await shell.binder.bind(bind_args(name))
        done.append(name)
        return result

    calls = [asyncio.create_task(bind(name)) for name in names]
    plugin = asyncio.create_task(play_the_plugin(shell, names))

    results = await asyncio.wait_for(asyncio.gather(*calls), timeout=30)  # kube-scheduler's limit

    assert results == [BOUND] * 100
    assert await asyncio.wait_for(plugin, timeout=5) == names
    assert done == names, "first come, first served"
    assert len(shell.kube.sent("POST", "/binding")) == 100
    assert len(shell.kube.sent("GET", "/api/v1/pods")) <= 2
    # One write of the lock for each pod, and one more where the plugin was quicker.
    assert len(shell.kube.sent("PATCH", NODE_PATH)) <= 200


async def test_case_159_the_lock_passes_on_in_the_step_in_which_its_owner_is_served() -> None:
    """It is held from the bind to the Allocate and not longer; nobody waits for a timer."""
    shell = Shell()
    shell.put_node()
    for name in ("p1", "p2"):
        shell.put_pod(name)
    await shell.binder.bind(bind_args("p1"))
    shell.show(pod_path("p1"))
    waiting = asyncio.create_task(shell.binder.bind(bind_args("p2")))
    await settled()
    page = collector.BooksCollector(shell.books)
    values = {family.name: family.samples[0].value for family in page.collect() if family.samples}
    assert (values["vgpu_binds_waiting"], values["vgpu_node_locks"]) == (1, 1)

    played_node.serve(shell, "p1")
    played_node.annotate(shell, NODE_PATH, {LOCK: None})
    await settled()

    assert waiting.done()
    assert waiting.result() == BOUND
    assert shell.notes(NODE_PATH)[LOCK] == "2026-01-15T10:00:00Z,team-a,p2"


PHASES = {"queue", "lock wait", "lock", "list", "binding", "choose"}


async def test_case_159_it_is_told_how_long_the_lock_was_held_and_where_each_bind_waited() -> None:
    shell = Shell()
    shell.put_node()
    for name in ("p1", "p2", "p3"):
        shell.put_pod(name)
    await shell.binder.bind(bind_args("p1"))
    shell.show(pod_path("p1"))
    shell.show(NODE_PATH)
    waiting = [asyncio.create_task(shell.binder.bind(bind_args(name))) for name in ("p2", "p3")]
    await settled()

    shell.clock.turn(4.0)
    played_node.serve(shell, "p1")
    played_node.annotate(shell, NODE_PATH, {LOCK: None})
    await settled()

    held = shell.books.tallies.lock_held
    assert (sum(held.counts), held.sum_s) == (1, 4.0)
    page = collector.BooksCollector(shell.books)
    (family,) = [one for one in page.collect() if one.name == "vgpu_node_lock_hold_seconds"]
    buckets = {one.labels["le"]: one.value for one in family.samples if "le" in one.labels}
    assert (buckets["2.5"], buckets["5.0"], buckets["+Inf"]) == (0, 1, 1)
    assert await waiting[0] == BOUND
    took = [{}, {}]
    for _, phase, seconds in shell.phases:
        bind = took[0 if len(took[0]) < len(PHASES) else 1]
        bind[phase] = seconds
    first, second = took
    assert first.keys() == PHASES
    assert (first["queue"], first["lock wait"]) == (0, 0)
    assert second["queue"] == 0, "it was next from the start"
    assert second["lock wait"] > 0
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


# --- 155: requests for each pod --------------------------------------------------------


async def test_case_155_a_filter_asks_nothing_and_a_bind_writes_node_and_pod_once_each() -> None:
    async with extender() as client:
        shell = client.shell
        shell.put_node()
        for name in ("p1", "p2"):
            shell.put_pod(name)
        assert await client.ask("/bind", bind_body("p1")) == {"Error": ""}
        shell.show(pod_path("p1"))
        played_node.serve(shell, "p1")
        played_node.annotate(shell, NODE_PATH, {LOCK: None})
        shell.kube.requests.clear()

        body = {"Pod": asked_pod("p2"), "NodeNames": ["node-a"]}
        await client.ask("/filter", body)
        await client.ask("/prioritize", body)
        assert shell.kube.requests == []
        assert await client.ask("/bind", bind_body("p2")) == {"Error": ""}

    assert [(request.verb, request.path) for request in shell.kube.requests] == [
        ("PATCH", NODE_PATH),
        ("POST", f"{pod_path('p2')}/binding"),
    ]


# --- 157: scrapes ----------------------------------------------------------------------


async def test_case_157_scrapes_of_5000_pods_make_no_api_request_and_take_less_than_a_second() -> (
    None
):
    shell = Shell()
    for n in range(100):
        cards = [(f"GPU-{n}-{i}", 24576) for i in range(8)]
        shell.put_node(f"node-{n}", register=operator_books.register_text(*cards))
    for n in range(5000):
        where, place = divmod(n % 800, 8)
        held = operator_books.bound(
            operator_books.pending(f"p{n}"), f"node-{where}", card=f"GPU-{where}-{place}"
        )
        pod_events.pod_seen(shell.books, held)
    tools = instruments.Instruments()
    tools.registry.register(collector.BooksCollector(shell.books))
    app = server.application(
        tools.registry,
        cards=lambda: cards_page.pieces(shell.books),
        not_ready_because=lambda: "",
    )
    listener = await server.start(app, listen.Address(host="127.0.0.1", port=0))
    shell.kube.requests.clear()
    took_s = []
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                began = time.process_time()
                async with session.get(f"http://{listener.address}/metrics") as answer:
                    text = await answer.text()
                took_s.append(time.process_time() - began)
    finally:
        await listener.close()

    assert text.count("\nhami_vgpu_memory_allocated_bytes{") == 5000
    assert shell.kube.requests == []
    assert min(took_s) < 1


# --- 158: the search for linked cards --------------------------------------------------


@pytest.mark.parametrize(("linked", "others"), [(0, 0), (220, 20)], ids=["no links", "links"])
def test_case_158_eight_of_sixteen_cards_are_chosen_by_their_links_in_less_than_100_ms(
    linked: int, others: int
) -> None:
    """Cards of even number are linked with each other, and so are those of odd number."""
    names = [f"GPU-{n}" for n in range(16)]
    scores = [
        {
            "uuid": names[a],
            "score": {names[b]: others if (a + b) % 2 else linked for b in range(16) if b != a},
        }
        for a in range(16)
    ]
    cards = [card(name, index=n) for n, name in enumerate(names)]
    notes = {"hami.io/node-nvidia-score": orjson.dumps(scores).decode()}
    cluster = CaseCluster(node(*cards, notes=notes))
    wish = pod("p1", asks(8, 1000), notes={"hami.io/gpu-scheduler-policy": "topology-aware"})
    took_s = []
    for _ in range(3):
        began = time.process_time()
        assert cluster.outlook(wish).granted is not None
        took_s.append(time.process_time() - began)

    (chosen,) = taken(cluster.place(wish))

    assert min(took_s) < 0.1
    assert len(set(chosen)) == 8
    assert not linked or len({names.index(name) % 2 for name in chosen}) == 1
