"""The API says what its OpenAPI document promises, to whoever asks for it, at once and again."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import openapi_schema_validator
import openapi_spec_validator
import pytest
import pytest_asyncio

from support import operator_books, state_world
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import pod_events
from vgpu_operator.kube import steps
from vgpu_operator.state import answers, files, routes, rows

DOCUMENT: dict[str, Any] = json.loads(files.read_all()["openapi.json"].content)


@pytest.fixture
def books() -> flow_books.Books:
    held = operator_books.open_books()
    state_world.fill(held, nodes=5, cards=4)
    state_world.wait_for_cards(held, "too-large", memory_mib=90000)
    operator_books.put_node(
        held, "bare", register=None, handshake=None, allocatable=None, lock="2026-01-15T09:59:30Z"
    )
    return held


@pytest_asyncio.fixture
async def page(books: flow_books.Books) -> AsyncIterator[aiohttp.ClientSession]:
    async with state_world.served(books) as url, aiohttp.ClientSession(url) as session:
        yield session


async def read(page: aiohttp.ClientSession, path: str, status: int = 200) -> Any:
    async with page.get(path) as answer:
        assert answer.status == status, await answer.text()
        assert answer.content_type == "application/json"
        return await answer.json()


def check(value: Any, path: str, status: str = "200") -> None:
    """Check an answer against the schema that the document names for it."""
    content = DOCUMENT["paths"][path]["get"]["responses"][status]["content"]
    schema = {**content["application/json"]["schema"], "components": DOCUMENT["components"]}
    openapi_schema_validator.OAS31Validator(
        schema, format_checker=openapi_schema_validator.oas31_format_checker
    ).validate(value)


def test_the_document_is_good_openapi() -> None:
    openapi_spec_validator.validate(DOCUMENT)


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("/api/v1/status", "/api/v1/status"),
        ("/api/v1/cards", "/api/v1/cards"),
        ("/api/v1/nodes", "/api/v1/nodes"),
        ("/api/v1/nodes/{name}", "/api/v1/nodes/gpu-node-1"),
        ("/api/v1/nodes/{name}", "/api/v1/nodes/bare"),
        ("/api/v1/pods", "/api/v1/pods"),
        ("/api/v1/pending", "/api/v1/pending"),
    ],
)
async def test_an_answer_is_what_the_document_promises(
    page: aiohttp.ClientSession, template: str, path: str
) -> None:
    check(await read(page, path), template)


async def test_every_path_of_the_document_is_served_and_no_other(
    page: aiohttp.ClientSession,
) -> None:
    served = await read(page, "/api/v1/openapi.json")

    assert served == DOCUMENT
    for path in DOCUMENT["paths"]:
        async with page.get(path.replace("{name}", "gpu-node-1")) as answer:
            assert answer.status == 200
    await read(page, "/api/v1/nodes/nobody", status=404)
    async with page.get("/api/v2/nodes") as answer:
        assert answer.status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(page: aiohttp.ClientSession, method: str) -> None:
    async with page.request(method, "/api/v1/nodes/gpu-node-1") as answer:
        assert answer.status == 405


async def test_an_error_is_what_the_document_promises(page: aiohttp.ClientSession) -> None:
    check(await read(page, "/api/v1/nodes/nobody", 404), "/api/v1/nodes/{name}", "404")
    for limit in ("0", "-1", "x", "9999999", "1e3"):
        check(await read(page, f"/api/v1/pods?limit={limit}", 400), "/api/v1/pods", "400")


@pytest.mark.parametrize("path", ["cards", "nodes", "nodes/gpu-node-1", "pods", "pending"])
async def test_who_has_an_answer_is_told_so_until_something_changes(
    page: aiohttp.ClientSession, books: flow_books.Books, path: str
) -> None:
    async with page.get(f"/api/v1/{path}") as answer:
        tag = answer.headers["ETag"]
        before = await answer.read()

    async with page.get(f"/api/v1/{path}", headers={"If-None-Match": f'"x", W/{tag}'}) as answer:
        assert answer.status == 304
        assert await answer.read() == b""

    state_world.hold(books, "newcomer", 0, 0, 4000)
    state_world.wait_for_cards(books, "another", memory_mib=95000)
    async with page.get(f"/api/v1/{path}", headers={"If-None-Match": tag}) as answer:
        assert answer.status == 200
        assert await answer.read() != before


@pytest.mark.parametrize("path", ["cards", "nodes", "nodes/gpu-node-1"])
async def test_a_large_answer_is_packed_for_who_takes_it_so(
    page: aiohttp.ClientSession, path: str
) -> None:
    plain = await read(page, f"/api/v1/{path}")
    raw = aiohttp.ClientSession(page._base_url, auto_decompress=False)
    asks = {"Accept-Encoding": "gzip"}
    async with raw as session, session.get(f"/api/v1/{path}", headers=asks) as answer:
        packed = await answer.read()

        assert answer.headers["Content-Encoding"] == "gzip"
        assert "Accept-Encoding" in answer.headers["Vary"]
    assert json.loads(gzip.decompress(packed)) == plain


@pytest.mark.parametrize("path", ["cards", "nodes"])
async def test_what_all_are_answered_alike_is_packed_once_until_it_changes(
    page: aiohttp.ClientSession,
    books: flow_books.Books,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    made = []
    pack = answers.packed

    async def counted(body: answers.Body) -> answers.Body:
        made.append(body.tag)
        return await pack(body)

    monkeypatch.setattr(answers, "packed", counted)
    first = await asyncio.gather(*(read(page, f"/api/v1/{path}") for _ in range(20)))
    assert len(made) == 1
    assert all(one == first[0] for one in first)

    state_world.hold(books, "newcomer", 0, 0, 4000)
    assert await read(page, f"/api/v1/{path}") != first[0]
    assert len(made) == 2


@pytest.mark.parametrize("path", ["cards", "nodes", "pods", "pending"])
async def test_large_answers_are_made_a_few_at_a_time(
    page: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    at_once, most = 0, 0
    pack = answers.packed

    async def counted(body: answers.Body) -> answers.Body:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        made = await pack(body)
        at_once -= 1
        return made

    monkeypatch.setattr(answers, "packed", counted)
    await asyncio.gather(*(read(page, f"/api/v1/{path}") for _ in range(20)))

    assert 1 <= most <= routes.MOST_LISTS


async def test_all_that_write_share_one_step_and_then_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resting, most = 0, 0
    pause = asyncio.sleep

    async def rest(_: float) -> None:
        nonlocal resting, most
        resting += 1
        most = max(most, resting)
        await pause(0)
        resting -= 1

    monkeypatch.setattr(steps, "STEP_S", 0.0)
    turns = answers.Turns()
    monkeypatch.setattr(asyncio, "sleep", rest)
    await asyncio.wait([asyncio.create_task(turns.take()) for _ in range(90)])

    assert most == 1  # each behind the other, not all in one turn of the loop


async def test_who_takes_no_gzip_gets_none(page: aiohttp.ClientSession) -> None:
    raw = aiohttp.ClientSession(page._base_url, auto_decompress=False)
    asks = {"Accept-Encoding": "br, gzip;q=0"}
    async with raw as session:
        for path in ("api/v1/cards", "api/v1/nodes", "api/v1/nodes/gpu-node-1", "app.js"):
            async with session.get(f"/{path}", headers=asks) as answer:
                assert "Content-Encoding" not in answer.headers, path


async def test_pods_come_in_pages_that_hold_each_pod_once(
    page: aiohttp.ClientSession, books: flow_books.Books
) -> None:
    found: list[str] = []
    after = ""
    while True:
        answer = await read(page, f"/api/v1/pods?limit=3&continue={after}")
        found += [pod["uid"] for pod in answer["pods"]]
        after = answer["continue"]
        if not after:
            break

    holding = {holder.pod.uid for node in books.nodes for holder in books.ledger.holders(node)}
    assert sorted(found) == sorted(holding)
    assert len(found) > 6


async def test_pods_are_found_by_name_namespace_node_and_card(
    page: aiohttp.ClientSession, books: flow_books.Books
) -> None:
    state_world.hold(books, "needle", 2, 1, 4000)

    async def names(query: str) -> list[str]:
        return [pod["name"] for pod in (await read(page, f"/api/v1/pods?{query}"))["pods"]]

    assert await names("q=NEEDLE") == ["needle"]
    assert await names("q=team-a/needle") == ["needle"]
    assert "needle" in await names("q=gpu-node-3")
    assert "needle" in await names(f"q={state_world.card_id(2, 1)}")
    assert await names("q=needle&namespace=team-b") == []
    assert await names("q=no-such-thing") == []


async def test_a_name_that_utf8_cannot_carry_breaks_no_answer(
    page: aiohttp.ClientSession, books: flow_books.Books
) -> None:
    cards = operator_books.register_text(("GPU-\ud800", 100))
    operator_books.put_node(books, "odd", register=cards)
    pod = operator_books.bound(operator_books.pending("odd\udfff"), "odd", card="GPU-\ud800")
    pod_events.pod_seen(books, pod)

    for path in ("cards", "nodes", "nodes/odd", "pods"):
        async with page.get(f"/api/v1/{path}") as answer:
            json.loads(await answer.read())


async def test_a_follower_answers_and_says_that_it_follows(books: flow_books.Books) -> None:
    books.leader = False
    books.refused.clear()
    async with (
        state_world.served(books, leader=False) as url,
        aiohttp.ClientSession(url) as session,
    ):
        status = await read(session, "/api/v1/status")
        pending = await read(session, "/api/v1/pending")

    assert (status["leader"], status["holder"]) == (False, "vgpu-operator-scheduler-7c9d_1")
    assert status["apiAnsweredSecondsAgo"] == 0.5
    assert [pod["reasons"] for pod in pending["pods"]] == [[]]


async def test_rows_of_many_nodes_are_written_in_short_steps_and_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = operator_books.open_books()
    state_world.fill_quickly(held, nodes=200, cards=2)
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    written = rows.Rows(held)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    await written.refresh()
    first, turns = turns, 0
    state_world.hold(held, "newcomer", 7, 0, 1000)
    await written.refresh()
    other.cancel()

    assert first >= 200
    assert turns <= 2
    assert len(written._rows) == 200
    (row,), gone = written.of(["gpu-node-8"])
    assert json.loads(row)[0] == "gpu-node-8"
    assert gone == []
