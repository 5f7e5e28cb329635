"""``/metrics``, ``/healthz``, ``/readyz`` over real HTTP, and the counters behind them."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from support.operator_books import open_books, put_node
from vgpu_operator.flows import books
from vgpu_operator.kube import listen
from vgpu_operator.metrics import cards_page, collector, instruments, server


class Page:
    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.port = port
        self._url = f"http://127.0.0.1:{port}"
        self._session = session

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self._url + path) as answer:
            return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def served(
    tools: instruments.Instruments,
    problem: Callable[[], str] = lambda: "",
    *,
    held: books.Books | None = None,
) -> AsyncIterator[Page]:
    shown = held or open_books()
    app = server.application(
        tools.registry, cards=lambda: cards_page.pieces(shown), not_ready_because=problem
    )
    listener = await server.start(app, listen.Address(host="127.0.0.1", port=0))
    try:
        async with aiohttp.ClientSession() as session:
            yield Page(listener.address.port, session)
    finally:
        await listener.close()


async def test_a_scrape_is_one_page_with_books_and_instruments() -> None:
    tools = instruments.Instruments()
    held = open_books()
    put_node(held)
    tools.registry.register(collector.BooksCollector(held))
    tools.observe_verb("filter", "fits", 0.003)

    async with served(tools, held=held) as page:
        status, text = await page.get("/metrics")

    assert status == 200
    assert 'vgpu_extender_request_duration_seconds_count{outcome="fits",verb="filter"} 1.0' in text
    assert "hami_gpu_memory_limit_bytes" in text


async def test_case_160_ready_means_can_serve_and_says_why_not() -> None:
    why = ["the first list of nodes and pods is not complete"]
    async with served(instruments.Instruments(), lambda: why[0]) as page:
        before = await page.get("/readyz")
        why[0] = ""
        after = await page.get("/readyz")
        alive = await page.get("/healthz")

    assert before == (503, "the first list of nodes and pods is not complete\n")
    assert after == (200, "ok\n")
    assert alive == (200, "ok\n")


def value(tools: instruments.Instruments, name: str, **labels: str) -> float | None:
    return tools.registry.get_sample_value(name, labels)


def test_api_requests_are_counted_by_resource_and_never_by_name() -> None:
    tools = instruments.Instruments()

    tools.count_api_request("POST", "/api/v1/namespaces/a/pods/p1/binding", "201", 0.01)
    tools.count_api_request("POST", "/api/v1/namespaces/b/pods/p2/binding", "201", 0.01)
    tools.count_api_request("GET", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "0", 0.01)

    requests = "vgpu_api_requests_total"
    assert value(tools, requests, verb="POST", resource="pods/binding", status="201") == 2
    assert value(tools, requests, verb="GET", resource="leases", status="0") == 1


def test_rejections_audits_and_lost_writes_are_counted() -> None:
    tools = instruments.Instruments()

    tools.count_rejections({"CardCordoned": 3})
    tools.count_rejections({"CardCordoned": 2, "NumaNotFit": 1})
    tools.count_audit_differences(4)
    tools.count_failed_effect("PatchNode")

    assert value(tools, "vgpu_node_rejections_total", reason="CardCordoned") == 5
    assert value(tools, "vgpu_ledger_audit_differences_total") == 4
    assert value(tools, "vgpu_effects_failed_total", kind="PatchNode") == 1


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/nodes/node-a", "nodes"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/team-a", "namespaces"),
        ("/api/v1/namespaces/team-a/events", "events"),
        ("/", ""),
    ],
)
def test_a_path_is_about_one_resource(path: str, resource: str) -> None:
    assert instruments.resource_of(path) == resource


async def test_bytes_that_are_no_http_cost_no_trace_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_log = logging.getLogger("aiohttp.server")
    monkeypatch.setattr(server_log, "filters", [listen.is_worth_a_line])
    async with served(instruments.Instruments()) as page:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.port)
        writer.write(b"GARBAGE\r\n\r\n")
        answer = await reader.read()
        writer.close()
        server_log.error("a fault of ours")

    assert answer.startswith(b"HTTP/1.0 400 ")
    assert [entry.getMessage() for entry in caplog.records] == ["a fault of ours"]


async def test_a_page_is_not_asked_for_without_its_body() -> None:
    """Pieces after a HEAD would stand before the next answer of the connection."""
    async with (
        served(instruments.Instruments()) as page,
        aiohttp.ClientSession() as session,
        session.head(f"http://127.0.0.1:{page.port}/metrics") as answer,
    ):
        assert answer.status == 405


async def test_a_reader_that_hangs_up_in_the_middle_costs_no_trace_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_over = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
                await asyncio.sleep(0)
        finally:
            is_over.set()

    app = server.application(
        instruments.Instruments().registry, cards=endless, not_ready_because=lambda: ""
    )
    listener = await server.start(app, listen.Address(host="127.0.0.1", port=0))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.address.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        assert (await reader.read(12)) == b"HTTP/1.1 200"
        writer.transport.abort()
        await asyncio.wait_for(is_over.wait(), timeout=20)
    finally:
        await listener.close()

    assert not caplog.records
