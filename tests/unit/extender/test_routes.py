"""The extender over real HTTP on loopback: always JSON, always a sentence."""

import asyncio
from typing import Any

import pytest

from support.desk import NODE_PATH, REGISTER
from support.extender_calls import bind_body, extender, pod, until
from support.operator_books import ONE_CARD, used_mib
from vgpu_operator.extender import routes


async def test_a_filter_names_the_nodes_that_fit_and_why_the_others_do_not() -> None:
    async with extender() as client:
        client.shell.put_node()
        client.shell.put_node("node-b", register="[]")
        answer = await client.ask(
            "/filter", {"Pod": pod(), "NodeNames": ["node-a", "node-b", "node-x"]}
        )

    assert answer["NodeNames"] == ["node-a"]
    assert set(answer["FailedAndUnresolvableNodes"]) == {"node-b", "node-x"}
    assert answer["Error"] == ""
    assert client.shell.observed == [("filter", "fits")]
    assert client.shell.rejected == {"node unregistered": 2}


async def test_a_full_node_is_one_that_an_eviction_might_open() -> None:
    async with extender() as client:
        client.shell.put_node()
        answer = await client.ask("/filter", {"Pod": pod(mem=24577), "NodeNames": ["node-a"]})
        too_big = answer
        await client.ask("/filter", {"Pod": pod("p1", mem=24576), "NodeNames": ["node-a"]})
        answer = await client.ask("/filter", {"Pod": pod("p2"), "NodeNames": ["node-a"]})

    assert too_big["FailedAndUnresolvableNodes"] == {"node-a": "1/1 CardInsufficientMemory"}
    assert answer["FailedNodes"] == {"node-a": "1/1 CardInsufficientMemory"}
    assert answer["NodeNames"] == []


async def test_whoever_fits_nowhere_is_handed_on_as_one_that_may_preempt_others() -> None:
    async with extender() as client:
        client.shell.put_node()
        await client.ask("/filter", {"Pod": pod("p1", mem=24576), "NodeNames": ["node-a"]})
        assert client.shell.refused == []
        await client.ask("/filter", {"Pod": pod("p2"), "NodeNames": ["node-a"]})

    assert [record.key.name for record in client.shell.refused] == ["p2"]


async def test_a_name_that_comes_twice_is_answered_twice() -> None:
    async with extender() as client:
        client.shell.put_node()
        answer = await client.ask("/filter", {"Pod": pod(), "NodeNames": ["node-a", "node-a"]})

    assert answer["NodeNames"] == ["node-a", "node-a"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the body is empty"),
        (b"not json", "the body is not JSON"),
        ({"NodeNames": ["node-a"]}, "Pod is missing"),
        ({"Pod": None, "NodeNames": ["node-a"]}, "Pod is missing"),
        ({"Pod": pod()}, "neither NodeNames nor a list of named Nodes"),
        ([], "must be a JSON object"),
    ],
    ids=["empty", "no JSON", "no pod", "null pod", "no nodes", "list"],
)
@pytest.mark.parametrize("path", ["/filter", "/prioritize"])
async def test_case_93_and_94_a_bad_body_gets_json_with_a_sentence_and_harms_nothing(
    path: str, body: Any, words: str
) -> None:
    async with extender() as client:
        client.shell.put_node()
        await client.ask("/filter", {"Pod": pod(), "NodeNames": ["node-a"]})
        before = client.shell.books.ledger.generation
        answer = await client.ask(path, body, status=400)
        again = await client.ask("/filter", {"Pod": pod(), "NodeNames": ["node-a"]})

    assert words in answer["Error"]
    assert path in answer["Error"]
    assert client.shell.books.ledger.generation >= before
    assert again["NodeNames"] == ["node-a"]


@pytest.mark.parametrize("body", [b"", b"not json", {}, {**bind_body(), "PodUID": ""}], ids=repr)
async def test_case_93_a_bad_bind_body_gets_json_with_a_sentence(body: Any) -> None:
    async with extender() as client:
        answer = await client.ask("/bind", body, status=400)

    assert answer["Error"].startswith("/bind: ")
    assert client.shell.observed == [("bind", "bad request")]


async def test_an_unknown_path_says_which_there_are() -> None:
    async with extender() as client:
        answer = await client.ask("/preempt", {}, status=404)

    assert answer["Error"] == "no such path /preempt; there is /filter, /prioritize, /bind"


async def test_a_get_is_told_to_post() -> None:
    async with extender() as client:
        answer = await client.ask("/filter", b"", verb="GET", status=405)

    assert answer["Error"] == "/filter takes POST only"


async def test_case_n4_a_body_that_is_too_large_is_refused_with_the_limit() -> None:
    async with extender(body_limit=1000) as client:
        answer = await client.ask(
            "/filter", {"Pod": pod(), "NodeNames": ["n" * 200] * 10}, status=413
        )

    assert answer["Error"] == "the body is larger than 1000 bytes"


async def test_a_body_that_is_not_packed_as_it_says_is_the_callers_fault() -> None:
    async with extender() as client:
        answer = await client.ask("/filter", b"{}", status=400, **{"Content-Encoding": "gzip"})

    assert answer["Error"] == "/filter: the body cannot be decoded as its headers say"


async def test_case_n4_five_megabytes_of_node_objects_are_read_whole() -> None:
    notes = {REGISTER: ONE_CARD, "team/filler": "x" * 50_000}
    nodes = [{"metadata": {"name": f"t{n}", "annotations": notes}} for n in range(100)]
    async with extender() as client:
        answer = await client.ask("/filter", {"Pod": pod(), "Nodes": {"items": nodes}})

    assert len(answer["Nodes"]["items"]) == 100


async def test_case_167_a_dry_run_answers_with_nodes_and_leaves_no_trace() -> None:
    template = {"metadata": {"name": "template", "annotations": {REGISTER: ONE_CARD}}}
    fresh = {"metadata": {"name": "fresh"}}
    async with extender() as client:
        client.shell.not_serving = "this replica does not lead"
        answer = await client.ask("/filter", {"Pod": pod(), "Nodes": {"items": [template, fresh]}})

    assert answer["Nodes"]["items"] == [template]
    assert set(answer["FailedAndUnresolvableNodes"]) == {"fresh"}
    assert client.shell.books.refused == {}
    assert client.shell.books.ledger.generation == 0
    assert client.shell.kube.requests == []


@pytest.mark.parametrize(
    ("path", "body"),
    [("/filter", {"Pod": pod(), "NodeNames": ["node-a"]}), ("/bind", bind_body())],
)
async def test_a_follower_refuses_with_its_reason_and_does_nothing(path: str, body: Any) -> None:
    async with extender() as client:
        client.shell.put_node()
        client.shell.not_serving = "this replica does not lead (x-2_ab holds the Lease)"
        answer = await client.ask(path, body)

    assert answer["Error"] == "this replica does not lead (x-2_ab holds the Lease)"
    assert client.shell.kube.requests == []
    assert client.shell.observed == [(path[1:], "not serving")]


async def test_a_bind_binds() -> None:
    async with extender() as client:
        client.shell.put_node()
        path = client.shell.put_pod("p1")
        answer = await client.ask("/bind", bind_body())

    assert answer == {"Error": ""}
    assert client.shell.kube.objects[path]["spec"]["nodeName"] == "node-a"
    assert client.shell.observed == [("bind", "bound")]


async def test_case_92_a_bind_that_fails_is_a_200_with_the_error_in_it() -> None:
    async with extender() as client:
        client.shell.put_node()
        answer = await client.ask("/bind", bind_body())

    assert answer == {"Error": "pod team-a/p1 with UID uid-of-p1 does not exist any more"}
    assert client.shell.observed == [("bind", "failed")]


async def test_a_bind_to_a_node_that_is_not_known_is_refused() -> None:
    async with extender() as client:
        client.shell.put_pod("p1")
        answer = await client.ask("/bind", bind_body(node="node-x"))

    assert "node-x" in answer["Error"]
    assert "not known" in answer["Error"]


async def test_a_caller_that_hangs_up_leaves_the_queue() -> None:
    async with extender() as client:
        shell = client.shell
        shell.put_node()
        for name in ("p1", "p2"):
            shell.put_pod(name)
        await client.ask("/bind", bind_body("p1"))
        call = asyncio.create_task(client.ask("/bind", bind_body("p2")))
        await until(lambda: len(shell.books.turns) == 1)

        call.cancel()
        await until(lambda: len(shell.books.turns) == 0)
        await until(lambda: ("bind", "caller hung up") in shell.observed)

    assert used_mib(shell.books) == {"GPU-a0": 1000}


async def test_scores_come_in_the_order_asked() -> None:
    async with extender() as client:
        client.shell.put_node()
        answer = await client.ask("/prioritize", {"Pod": pod(), "NodeNames": ["node-x", "node-a"]})

    assert answer == [{"Host": "node-x", "Score": 0}, {"Host": "node-a", "Score": 0}]


async def test_a_refused_pod_is_told_by_one_event() -> None:
    async with extender(wake={"catchUpS": 0}) as client:
        for _ in range(3):
            await client.ask("/filter", {"Pod": pod(), "NodeNames": ["node-x"]})
        sink = client.shell.sink
        await until(lambda: len(sink) > 0)
        await asyncio.sleep(0)

    assert len(sink) == 1
    assert (await sink._next()).reason == "FilteringFailed"


async def test_a_retried_pod_waits_a_moment_for_the_watch_before_it_is_refused_again() -> None:
    async with extender(wake={"catchUpS": 2, "delayS": 5}) as client:
        shell = client.shell
        shell.put_node()
        holder = shell.put_pod("p9", mem=24000)
        assert await client.ask("/bind", bind_body("p9")) == {"Error": ""}
        shell.show(holder)
        body = {"Pod": pod(), "NodeNames": ["node-a"]}
        assert (await client.ask("/filter", body))["NodeNames"] == []

        retry = asyncio.create_task(client.ask("/filter", body))
        await until(lambda: len(shell.observed) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        raw = shell.kube.objects[holder]
        shell.kube.remove(holder)
        shell.intake.pod_event("DELETED", raw)

        assert (await retry)["NodeNames"] == ["node-a"]


async def test_a_fault_of_ours_is_a_500_with_a_sentence_and_the_process_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    async with extender() as client:
        with monkeypatch.context() as patch:
            patch.setattr(routes.reading, "decode_pod", broken)
            answer = await client.ask(
                "/filter", {"Pod": pod(), "NodeNames": ["node-a"]}, status=500
            )
        after = await client.ask("/filter", {"Pod": pod(), "NodeNames": []})

    assert answer == {"Error": "the operator failed to answer; its log says why"}
    assert after["Error"] == ""


async def test_a_lock_that_cannot_be_taken_is_a_200_with_the_error_in_it() -> None:
    async with extender() as client:
        client.shell.put_node()
        client.shell.put_pod("p1")
        client.shell.kube.fail_next(
            "PATCH", NODE_PATH, routes.binder.perform.errors.Denied("403 forbidden", status=403)
        )
        answer = await client.ask("/bind", bind_body())

    assert answer == {"Error": "the lock of node-a cannot be taken: 403 forbidden"}
