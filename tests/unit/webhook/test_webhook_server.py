"""The webhook over real TLS: answers, limits, and errors that are always JSON."""

import asyncio
import base64
import contextlib
import io
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
import pytest

from support import waiting
from support.pods import container, pod
from vgpu_operator.model import errors, quota, settings
from vgpu_operator.vendors import registry
from vgpu_operator.webhook import certificates, routes, server

CA_PEM, CERT_PEM, KEY_PEM = certificates.self_signed(["localhost", "127.0.0.1"])
SETTINGS = settings.Settings()


@dataclass
class Calls:
    """A running webhook and a client that trusts it."""

    session: aiohttp.ClientSession
    base: str
    port: int
    outcomes: list[str] = field(default_factory=list)

    async def post(self, body: bytes | io.BytesIO) -> tuple[int, Any]:
        async with self.session.post(f"{self.base}/webhook", data=body) as answer:
            assert answer.content_type == "application/json"
            return answer.status, orjson.loads(await answer.read())


@contextlib.asynccontextmanager
async def webhook(**limits: Any) -> AsyncIterator[Calls]:
    outcomes: list[str] = []
    state = routes.WebhookState(
        settings=SETTINGS,
        vendors=registry.build(SETTINGS),
        observe=outcomes.append,
        **limits,
    )
    context = certificates.context_from_pem(CERT_PEM, KEY_PEM)
    running = await server.start(state, "127.0.0.1", 0, context)
    trust = ssl.create_default_context(cadata=CA_PEM.decode())
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
            base = f"https://127.0.0.1:{running.port}"
            yield Calls(session=session, base=base, port=running.port, outcomes=outcomes)
    finally:
        await running.stop()


def review(raw: object, *, kind: str = "Pod", operation: str = "CREATE") -> bytes:
    return orjson.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u1",
                "kind": {"group": "", "version": "v1", "kind": kind},
                "namespace": "team-a",
                "operation": operation,
                "object": raw,
            },
        }
    )


async def test_a_pod_beyond_the_quota_of_its_namespace_is_refused() -> None:
    limits = {"NVIDIA": quota.Allowance(memory_mib=999)}
    standings = {"team-a": quota.Standing(limits=limits)}
    raw = pod(container(gpu=1, mem=1000))
    del raw["metadata"]["namespace"]

    async with webhook(standing=standings.__getitem__) as calls:
        _, answer = await calls.post(review(raw))

    assert answer["response"]["allowed"] is False
    assert answer["response"]["status"]["code"] == 403
    assert answer["response"]["status"]["message"].startswith("exceeding resource quota: ")
    assert calls.outcomes == ["refused"]


async def test_a_gpu_pod_is_answered_with_its_patch() -> None:
    async with webhook() as calls:
        status, answer = await calls.post(review(pod(container(gpu=1, mem=1000))))

    assert status == 200
    assert (answer["response"]["uid"], answer["response"]["allowed"]) == ("u1", True)
    assert orjson.loads(base64.b64decode(answer["response"]["patch"])) == [
        {"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}
    ]
    assert calls.outcomes == ["changed"]


async def test_a_refused_pod_is_answered_with_the_sentence() -> None:
    async with webhook() as calls:
        status, answer = await calls.post(review(pod(container(gpu=1, percent=101))))

    assert status == 200
    assert answer["response"] == {
        "uid": "u1",
        "allowed": False,
        "status": {
            "code": 422,
            "message": "container main: nvidia.com/gpumem-percentage: '101' is more than 100; "
            "write an integer between 0 and 100",
        },
    }
    assert calls.outcomes == ["refused"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(review({"spec": {}}, kind="Deployment"), id="another kind"),
        pytest.param(review(pod(container(gpu=-1)), operation="UPDATE"), id="an update"),
        pytest.param(review(None, operation="DELETE"), id="a deletion"),
    ],
)
async def test_what_is_no_new_pod_is_allowed_untouched(body: bytes) -> None:
    async with webhook() as calls:
        status, answer = await calls.post(body)

    assert (status, answer["response"]) == (200, {"uid": "u1", "allowed": True})
    assert calls.outcomes == ["skipped"]


async def test_malformed_json_is_the_callers_fault_and_says_so() -> None:
    async with webhook() as calls:
        status, answer = await calls.post(b"not json")
        again, _ = await calls.post(review(pod(container())))

    assert status == 400
    assert answer["error"].startswith("/webhook: the body is not JSON: ")
    assert again == 200
    assert calls.outcomes == ["bad", "allowed"]


async def test_a_body_beyond_the_limit_is_refused() -> None:
    async with webhook() as calls:
        status, answer = await calls.post(io.BytesIO(b" " * (3 * 2**20 + 1)))

    assert (status, answer) == (413, {"error": "the body is larger than 3145728 bytes"})


async def test_a_body_that_does_not_come_ends_in_time() -> None:
    async with webhook(timeout_s=0.05) as calls:
        request = b"POST /webhook HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        head = await exchange(calls.port, request)

    assert head.startswith(b"HTTP/1.1 408 ")
    assert calls.outcomes == ["late"]


async def test_a_caller_that_hangs_up_is_no_fault_of_ours(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with webhook() as calls:
        trust = ssl.create_default_context(cadata=CA_PEM.decode())
        _, writer = await asyncio.open_connection("localhost", calls.port, ssl=trust)
        writer.write(b"POST /webhook HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.sleep(0.1)

    assert calls.outcomes == ["hung up"]
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_more_calls_than_the_limit_are_turned_away() -> None:
    async with webhook(most_calls=0, timeout_s=0.05) as calls:
        status, answer = await calls.post(review(pod(container())))
        async with calls.session.get(f"{calls.base}/healthz") as health:
            alive = (health.status, await health.json())

    assert (status, answer) == (503, {"error": "0 calls are running; try again"})
    assert alive == (200, {"status": "ok"})


async def test_a_call_that_ended_makes_room_for_the_next() -> None:
    async with webhook(most_calls=1) as calls:
        statuses = [(await calls.post(b"x"))[0], (await calls.post(b"x"))[0]]

    assert statuses == [400, 400]


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/webhook", 405, "/webhook takes POST, not GET"),
        ("GET", "/mutate", 404, "there is no /mutate; see /webhook and /healthz"),
    ],
)
async def test_wrong_paths_and_methods_are_answered_as_json(
    method: str, path: str, status: int, message: str
) -> None:
    async with (
        webhook() as calls,
        calls.session.request(method, f"{calls.base}{path}") as answer,
    ):
        assert answer.status == status
        assert await answer.json() == {"error": message}


async def test_a_fault_of_ours_is_a_500_without_a_trace() -> None:
    class Broken:
        spec = registry.build(SETTINGS)[0].spec

        def admit(self, _container: object, _pod: object) -> None:
            raise ZeroDivisionError("secret detail")

    async with webhook() as calls:
        state = routes.WebhookState(settings=SETTINGS, vendors=(Broken(),))  # type: ignore[arg-type]
        context = certificates.context_from_pem(CERT_PEM, KEY_PEM)
        broken = await server.start(state, "127.0.0.1", 0, context)
        url = f"https://127.0.0.1:{broken.port}/webhook"
        async with calls.session.post(url, data=review(pod(container(gpu=1)))) as answer:
            status, body = answer.status, await answer.json()
        await broken.stop()

    assert (status, body) == (
        500,
        {"error": "the webhook failed on this call; see the operator's log"},
    )


async def test_a_port_in_use_says_what_to_change() -> None:
    async with webhook() as calls:
        state = routes.WebhookState(settings=SETTINGS, vendors=())
        context = certificates.context_from_pem(CERT_PEM, KEY_PEM)
        with pytest.raises(
            errors.SettingsError, match=rf"--webhook-bind.*127\.0\.0\.1:{calls.port}: "
        ):
            await server.start(state, "127.0.0.1", calls.port, context)


async def exchange(port: int, request: bytes) -> bytes:
    """Send bytes over TLS and return the first line of the answer."""
    trust = ssl.create_default_context(cadata=CA_PEM.decode())
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=trust, server_hostname="localhost"
    )
    writer.write(request)
    line = await reader.readline()
    writer.close()
    with contextlib.suppress(OSError, ssl.SSLError):
        await writer.wait_closed()
    return line


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, str]:
    """Ask once more on a connection that is kept open; return the answer's headers."""
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
    await reader.readexactly(int(headers["content-length"]))
    return headers


async def test_a_caller_with_an_open_connection_is_answered_once_more_and_sent_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "DRAIN_S", 60.0)  # a loaded machine is not in time for less
    state = routes.WebhookState(settings=SETTINGS, vendors=())
    context = certificates.context_from_pem(CERT_PEM, KEY_PEM)
    running = await server.start(state, "127.0.0.1", 0, context)
    trust = ssl.create_default_context(cadata=CA_PEM.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port, ssl=trust)
    assert "connection" not in await ask(reader, writer)

    running.drain()
    ending = asyncio.create_task(running.stop())
    await waiting.settled()
    assert not ending.done(), "it waits for the caller's next call"
    headers = await ask(reader, writer)

    assert headers["connection"] == "close"
    assert await reader.read() == b""
    writer.close()
    await asyncio.wait_for(ending, timeout=30)  # nobody was left to wait for


async def test_a_caller_who_asks_no_more_is_not_waited_for_longer_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "DRAIN_S", 0.1)
    state = routes.WebhookState(settings=SETTINGS, vendors=())
    context = certificates.context_from_pem(CERT_PEM, KEY_PEM)
    running = await server.start(state, "127.0.0.1", 0, context)
    trust = ssl.create_default_context(cadata=CA_PEM.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port, ssl=trust)
    await ask(reader, writer)

    await asyncio.wait_for(running.stop(), timeout=10)

    assert await reader.read() == b""
    writer.close()
