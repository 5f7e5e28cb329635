"""Cases from real use, area E: what kube-scheduler asks, and pods that are not what it thinks."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from support import played_node
from support.desk import NODE_PATH, Shell
from support.extender_calls import Client, bind_body, extender, pod
from support.operator_books import LOCK, lock_of, used_mib
from support.played_node import PHASE, pod_path
from support.waiting import settled

WHOLE_CARD = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100"}
NAMES = ["node-a"]
EXPIRED = "2026-01-15T09:54:59Z"
"""Five minutes and a second before ten o'clock."""


def asks_for_the_card(name: str, *, uid: str = "") -> dict[str, Any]:
    """Return the pod as kube-scheduler sends it."""
    raw = pod(name, uid=uid)
    raw["spec"]["containers"][0]["resources"]["limits"] = WHOLE_CARD
    return raw


async def fits(client: Client, raw: dict[str, Any]) -> bool:
    """Whether the filter says that the pod fits on the node."""
    answer = await client.ask("/filter", {"Pod": raw, "NodeNames": NAMES})
    assert answer["Error"] == ""
    return bool(answer["NodeNames"] == NAMES)


# --- 89, 91: the pod of the filter is not there at the bind ----------------------------


@pytest.mark.parametrize("seen", [("ADDED", "DELETED"), ("ADDED",), ()], ids=repr)
async def test_case_89_a_pod_deleted_between_filter_and_bind_leaves_nothing_reserved(
    seen: tuple[str, ...],
) -> None:
    """Whatever of its life our watch has shown by then."""
    async with extender(wake={"catchUpS": 0}) as client:
        shell = client.shell
        shell.put_node()
        path = played_node.put_pod(shell, "p1", WHOLE_CARD, show="ADDED" in seen)
        assert await fits(client, asks_for_the_card("p1"))
        assert not await fits(client, asks_for_the_card("p2")), "p1's claim counts"

        raw = shell.kube.objects[path]
        shell.kube.remove(path)
        if "DELETED" in seen:
            shell.intake.pod_event("DELETED", raw)
        answer = await client.ask("/bind", bind_body("p1"))

        assert answer["Error"]
        assert await fits(client, asks_for_the_card("p2"))
        assert used_mib(shell.books) == {"GPU-a0": 0}
        assert LOCK not in shell.notes(NODE_PATH)


async def test_case_89_a_pod_that_only_cannot_be_read_keeps_what_it_has() -> None:
    """Not knowing is no proof that the UID is gone: its own bind may be on its way."""
    async with extender(wake={"catchUpS": 0}) as client:
        shell = client.shell
        shell.put_node()
        played_node.put_pod(shell, "p1", WHOLE_CARD)
        first = await client.ask("/bind", bind_body("p1"))
        assert first == {"Error": ""}

        again = await client.ask("/bind", bind_body("p1"))

        assert again["Error"] == ""
        assert used_mib(shell.books) == {"GPU-a0": 24576}
        assert not await fits(client, asks_for_the_card("p2"))


@pytest.mark.parametrize("delivered", [True, False], ids=["seen by us", "not seen by us"])
async def test_case_91_a_pod_replaced_by_one_of_its_name_gets_nothing_of_the_old_ones(
    delivered: bool,
) -> None:
    async with extender() as client:
        shell = client.shell
        shell.put_node()
        path = played_node.put_pod(shell, "web-0", WHOLE_CARD, uid="u1")
        assert await fits(client, asks_for_the_card("web-0", uid="u1"))

        raw = shell.kube.objects[path]
        shell.kube.remove(path)
        reborn = {**raw, "metadata": {"uid": "u2", "labels": {"statefulset": "web"}}}
        shell.kube.put(path, reborn)
        if delivered:
            shell.intake.pod_event("DELETED", raw)
            shell.show(path)
        answer = await client.ask("/bind", bind_body("web-0", uid="u1"))

        assert answer["Error"]
        assert [key for key in shell.notes(path) if key.startswith("hami.io/")] == []
        assert shell.kube.objects[path]["metadata"]["labels"] == {"statefulset": "web"}
        assert "nodeName" not in shell.kube.objects[path]["spec"]
        assert await fits(client, asks_for_the_card("web-0", uid="u2"))
        assert await client.ask("/bind", bind_body("web-0", uid="u2")) == {"Error": ""}
        assert shell.notes(path)[PHASE] == "allocating"


async def test_case_91_every_write_to_a_pod_carries_its_uid_and_version() -> None:
    async with extender() as client:
        shell = client.shell
        shell.put_node()
        path = played_node.put_pod(shell, "web-0", WHOLE_CARD, uid="u1")
        version = shell.kube.objects[path]["metadata"]["resourceVersion"]

        await client.ask("/bind", bind_body("web-0", uid="u1"))

        writes = [r for r in shell.kube.requests if r.verb != "GET" and "/pods/" in r.path]
        assert [
            (r.body["metadata"]["uid"], r.body["metadata"]["resourceVersion"]) for r in writes
        ] == [("u1", version)]


# --- 92, 93: an answer that kube-scheduler can read ------------------------------------


@contextlib.contextmanager
def bound_and_unseen(shell: Shell, *, lock_at: str) -> Iterator[None]:
    """Have node-a locked by p9, which is bound there and which no kubelet has seen."""
    shell.put_node(lock=lock_of("p9", at=lock_at))
    path = shell.put_pod("p9")
    whole = shell.kube.objects[path]
    shell.kube.put(path, {**whole, "spec": {**whole["spec"], "nodeName": "node-a"}})
    promise = {
        "hami.io/vgpu-node": "node-a",
        played_node.ALLOCATED: "GPU-a0,NVIDIA,1000,0:;",
        played_node.TO_ALLOCATE: "GPU-a0,NVIDIA,1000,0:;",
        "hami.io/bind-time": "1768471170",
        PHASE: "allocating",
    }
    played_node.annotate(shell, path, promise)
    shell.put_pod("p1")
    before = shell.notes(NODE_PATH)[LOCK]
    yield
    assert shell.notes(NODE_PATH)[LOCK] == before


async def test_case_92_a_bind_on_a_locked_node_is_a_200_with_the_error_when_its_time_is_over() -> (
    None
):
    async with extender(bind={"timeLimitS": 2.05}) as client:
        with bound_and_unseen(client.shell, lock_at="2026-01-15T09:59:50Z"):
            answer = await client.ask("/bind", bind_body())

    assert "the lock of node-a did not become free in time" in answer["Error"]


async def test_case_92_a_bind_on_a_node_whose_lock_is_stuck_is_a_200_with_the_error_at_once() -> (
    None
):
    async with extender() as client:
        with bound_and_unseen(client.shell, lock_at=EXPIRED):
            answer = await client.ask("/bind", bind_body())

    assert "the node lock is stuck on pod team-a/p9" in answer["Error"]


@pytest.mark.parametrize(
    ("verb", "path", "body", "status"),
    [
        ("POST", "/filter", b"not json", 400),
        ("POST", "/prioritize", b"not json", 400),
        ("POST", "/bind", b"not json", 400),
        ("POST", "/filter", b"\xff\xfe\xfa", 400),
        ("POST", "/filter", b"[" * 100_000, 400),
        ("POST", "/filter", b'{"Pod":NaN}', 400),
        ("POST", "/filter", b" " * 1001, 413),
        ("POST", "/nothing", b"{}", 404),
        ("POST", "/filter/", b"{}", 404),
        ("POST", "/%zz", b"{}", 404),
        ("GET", "/filter", b"", 405),
        ("PUT", "/bind", b"{}", 405),
        ("DELETE", "/prioritize", b"", 405),
    ],
    ids=lambda value: str(value)[:14],
)
async def test_case_93_every_error_is_json_with_a_sentence(
    verb: str, path: str, body: bytes, status: int
) -> None:
    limit = 1000 if status == 413 else 10**6
    async with extender(body_limit=limit) as client:
        answer = await client.ask(path, body, verb=verb, status=status)

    assert isinstance(answer["Error"], str)
    assert answer["Error"]


# --- 94: bodies that lack something ----------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        {"NodeNames": NAMES},
        {"Pod": None},
        {"Pod": pod("p1")},
        {"Pod": pod("p1"), "Nodes": None, "NodeNames": None},
        {"Pod": {"metadata": None, "spec": None}, "NodeNames": NAMES},
    ],
    ids=["empty", "no Pod", "Pod null", "no nodes", "nodes null", "Pod empty"],
)
@pytest.mark.parametrize("path", ["/filter", "/prioritize"])
async def test_case_94_a_body_that_lacks_something_leaves_the_pods_reservation_alone(
    path: str, body: Any
) -> None:
    async with extender(wake={"catchUpS": 0}) as client:
        shell = client.shell
        shell.put_node()
        played_node.put_pod(shell, "p1", WHOLE_CARD)
        assert await fits(client, asks_for_the_card("p1"))

        answer = await client.ask(path, body, status=400)

        assert answer["Error"].startswith(f"{path}: ")
        assert not await fits(client, asks_for_the_card("p2")), "p1's claim still counts"
        assert await client.ask("/bind", bind_body("p1")) == {"Error": ""}


@pytest.mark.parametrize("lacking", ["PodName", "PodNamespace", "PodUID", "Node"])
@pytest.mark.parametrize("value", [None, ""], ids=["missing", "empty"])
async def test_case_86_and_94_a_bind_that_names_no_pod_or_node_asks_nothing_of_the_api_server(
    lacking: str, value: str | None
) -> None:
    async with extender() as client:
        shell = client.shell
        shell.put_node(lock=lock_of("p9"))
        shell.put_pod("p1")
        body = bind_body() | {lacking: value}
        body = {key: text for key, text in body.items() if text is not None}

        answer = await client.ask("/bind", body, status=400)

        assert lacking in answer["Error"]
        assert shell.kube.requests == []
        assert shell.notes(NODE_PATH)[LOCK] == lock_of("p9")
        assert used_mib(shell.books) == {"GPU-a0": 0}


# --- 99: pods past the webhook ---------------------------------------------------------


async def test_case_99_a_pod_that_the_default_scheduler_took_holds_nothing_and_warns_once() -> None:
    shell = Shell()
    shell.put_node()
    sending = asyncio.create_task(shell.sink.run())
    path = pod_path("stray")
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
    shell.kube.put(
        path,
        {
            "metadata": {"uid": "u1"},
            "spec": {
                "schedulerName": "default-scheduler",
                "nodeName": "node-a",
                "containers": [{"name": "main", "resources": {"limits": limits}}],
            },
            "status": {"phase": "Pending"},
        },
    )
    shell.show(path)

    for minutes, phase in enumerate(("Pending", "Failed", "Failed")):
        await settled()
        shell.clock.turn(600)
        played_node.annotate(shell, path, {"minutes": str(10 * minutes)}, phase=phase)
    await settled()
    sending.cancel()

    assert len(shell.sink) == 0, "nothing more is to be sent"
    (event,) = [request.body for request in shell.kube.sent("POST", "/events")]
    assert (event["type"], event["reason"]) == ("Warning", "WebhookBypassed")
    assert event["involvedObject"]["name"] == "stray"
    assert used_mib(shell.books) == {"GPU-a0": 0}
    assert shell.books.ledger.holding("u1") is None
