"""Whatever is sent to the listeners: an answer that the caller understands, and they live on."""

import asyncio
import contextlib
import io
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from fuzz import changes, judge, kept, rounds
from support.desk import Shell
from vgpu_operator.extender import server as extender_server
from vgpu_operator.kube import listen, rates
from vgpu_operator.metrics import cards_page, instruments
from vgpu_operator.metrics import server as metrics_server
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry
from vgpu_operator.webhook import certificates, routes
from vgpu_operator.webhook import server as webhook_server

IN_CI_S = 6.0
"""What all bodies together may take when nothing else is asked for."""

ROUND = 60
WAIT_S = 20.0
BODIES = {
    "/filter": "filter-body",
    "/prioritize": "filter-body",
    "/bind": "bind-body",
    "/webhook": "review-body",
}
"""Each path, and the corpus of its bodies."""

LOCAL = listen.Address(host="127.0.0.1", port=0)
CA_PEM, CERT_PEM, KEY_PEM = certificates.self_signed(["localhost", "127.0.0.1"])
TRUST = ssl.create_default_context(cadata=CA_PEM.decode())
Ask = Callable[[str, bytes], Awaitable[tuple[int, Any]]]


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[Ask]:
    """Run extender and webhook as they run in a cluster, with one node and no real API."""
    shell = Shell()
    shell.put_node()
    extender = await extender_server.start(shell.desk(), LOCAL)
    every = settings.with_every_vendor(settings.Settings())
    state = routes.WebhookState(settings=every, vendors=registry.build(every))
    webhook = await webhook_server.start(
        state,
        LOCAL.host,
        0,
        certificates.context_from_pem(CERT_PEM, KEY_PEM),
        rate=rates.Rate(per_s=1e9, burst=10**9),
    )
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=TRUST))

    async def ask(path: str, body: bytes) -> tuple[int, Any]:
        base = f"http://{extender.address}"
        if path == "/webhook":
            base = f"https://127.0.0.1:{webhook.port}"
        async with session.post(base + path, data=io.BytesIO(body)) as answer:
            assert answer.content_type == "application/json"
            return answer.status, json.loads(await answer.read())

    try:
        yield ask
    finally:
        await session.close()
        await extender.close()
        await webhook.stop()


def assert_understood(path: str, body: bytes, status: int, answer: Any) -> None:
    """Check that the answer is one that the caller knows, and says what is wrong in a sentence."""
    assert status in (200, 400), f"{path} answers {status}"
    if path == "/webhook" and status == 200:
        response = answer["response"]
        sent = json.loads(body)["request"]["uid"]
        assert response["uid"] == sent
        if not response["allowed"]:
            judge.assert_one_sentence(response["status"]["message"])
        for warning in response.get("warnings", ()):
            judge.assert_one_sentence(warning)
        return
    if path == "/prioritize" and status == 200:
        assert all(0 <= host["Score"] <= 100 for host in answer)
        return
    error = answer.get("error" if path == "/webhook" else "Error", "")
    assert error or status == 200
    if error:
        judge.assert_one_sentence(error)
    for reasons in (answer.get("FailedNodes"), answer.get("FailedAndUnresolvableNodes")):
        for text in (reasons or {}).values():
            judge.assert_one_sentence(text)


@pytest.mark.parametrize("path", BODIES)
def test_any_body_is_answered_in_a_way_that_the_caller_understands(path: str) -> None:
    corpus = BODIES[path]
    inputs = list(kept.of(corpus).values())
    budget_s = judge.seconds(IN_CI_S) / len(BODIES)
    latest = b""

    with asyncio.Runner() as runner:
        context = served()
        ask = runner.run(context.__aenter__())

        def one(body: bytes) -> None:
            nonlocal latest
            latest = body
            begun = time.process_time()
            status, answer = runner.run(asyncio.wait_for(ask(path, body), WAIT_S))
            assert time.process_time() - begun < judge.SLOWEST_S
            assert_understood(path, body, status, answer)

        try:
            for body in inputs:
                one(body)
            drawn = changes.json_like([data for data in inputs if data[:1] == b"{"])
            rounds.rounds(drawn, one, budget_s=budget_s, at_once=ROUND)
        except BaseException:
            print(f"kept as {kept.keep(corpus, latest)}")
            raise
        finally:
            runner.run(context.__aexit__(None, None, None))


HEADS = (
    b"",
    b"\r\n\r\n",
    b"GET",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST /bind HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 0\r\n\r\n",
    b"GET /%00%ff%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /../../metrics HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X-A: b\r\n" * 300 + b"\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
    bytes(range(256)),
)
"""Heads that no good client sends, each with what it is wrong by."""


@pytest.mark.parametrize("head", HEADS, ids=[str(head[:48]) for head in HEADS])
async def test_a_head_that_is_no_http_costs_the_connection_and_nothing_else(
    head: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logging

    monkeypatch.setattr(logging.getLogger("aiohttp.server"), "filters", [listen.is_worth_a_line])
    shell = Shell()
    extender = await extender_server.start(shell.desk(), LOCAL)
    page = metrics_server.application(
        instruments.Instruments().registry,
        cards=lambda: cards_page.pieces(shell.books),
        not_ready_because=lambda: "",
    )
    metrics = await metrics_server.start(page, LOCAL)
    try:
        for listener in (extender, metrics):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.address.port)
            writer.write(head)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(WAIT_S):
                    await reader.read()
            writer.transport.abort()
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{metrics.address}/healthz") as alive,
        ):
            assert alive.status == 200
    finally:
        await extender.close()
        await metrics.close()
    assert [entry.getMessage() for entry in caplog.records] == []


async def test_a_body_that_unpacks_to_more_than_the_limit_is_refused() -> None:
    """A gzip of 3 KB may stand for megabytes: what counts is what it unpacks to."""
    import gzip

    packed = gzip.compress(b" " * (routes.LARGEST_BODY_BYTES + 1))
    assert len(packed) < 10_000
    state = routes.WebhookState(settings=settings.Settings(), vendors=())
    webhook = await webhook_server.start(
        state, LOCAL.host, 0, certificates.context_from_pem(CERT_PEM, KEY_PEM)
    )
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=TRUST)) as session,
            session.post(
                f"https://127.0.0.1:{webhook.port}/webhook",
                data=packed,
                headers={"Content-Encoding": "gzip"},
            ) as answer,
        ):
            assert answer.status == 413
    finally:
        await webhook.stop()


async def test_a_pod_of_as_many_containers_as_a_body_holds_is_refused_at_once() -> None:
    async with served() as ask:
        container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        kept_review = json.loads(kept.of("review-body")["pod"])
        kept_review["request"]["object"]["spec"] = {"containers": [container] * 40_000}
        body = json.dumps(kept_review, separators=(",", ":")).encode()
        assert 2**21 < len(body) < routes.LARGEST_BODY_BYTES
        begun = time.process_time()

        status, answer = await ask("/webhook", body)

    assert time.process_time() - begun < judge.SLOWEST_S
    assert (status, answer["response"]["status"]) == (
        200,
        {
            "code": 422,
            "message": "the pod has 40000 containers, and one that asks for cards may have 512; "
            "put them into several pods",
        },
    )
