"""Tokens, passwords and keys are in no log, no answer and no page of metrics."""

import asyncio
import base64
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from support import loopback
from vgpu_operator.cli.cluster import ports
from vgpu_operator.kube import client, errors
from vgpu_operator.webhook import certificates

TOKEN = "t0ken-0123456789abcdef"  # noqa: S105  # made up, to be looked for
PASSWORD = "passw0rd-0123456789abcdef"  # noqa: S105
BASIC = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
CA_PEM, CERT_PEM, KEY_PEM = certificates.self_signed(["localhost"])
KEY_LINES = [line for line in KEY_PEM.decode().splitlines() if not line.startswith("-")]
KEY_BASE64 = base64.b64encode(KEY_PEM).decode()
SECRETS = (TOKEN, PASSWORD, BASIC, KEY_BASE64, *KEY_LINES)
WAIT_S = 30.0


def assert_no_secret(text: str) -> None:
    leaked = [secret for secret in SECRETS if secret in text]
    assert leaked == []


def kubeconfig(folder: Path, server: str, **user: Any) -> Path:
    """Write a kubeconfig that holds every kind of secret that one may hold."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
    return path


class Chatty:
    """A server that answers every request with an error that repeats what was sent."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.statuses = [401, 403, 500, 409, 429, 404]

    async def answer(self, request: web.Request) -> web.Response:
        self.n_asked += 1
        status = self.statuses[self.n_asked % len(self.statuses)]
        sent = "; ".join(f"{name}: {value}" for name, value in request.headers.items())
        return web.json_response({"message": f"what was sent: {sent}"}, status=status)


@contextlib.asynccontextmanager
async def chatty() -> AsyncIterator[tuple[Chatty, str]]:
    server = Chatty()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield server, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"token": TOKEN}, id="a token"),
        pytest.param({"username": "admin", "password": PASSWORD}, id="a password"),
    ],
)
@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_an_operator_that_is_refused_everything_logs_no_secret(
    tmp_path: Path, user: dict[str, str], log_format: str
) -> None:
    with contextlib.ExitStack() as reserved:
        numbers = []
        for _ in range(3):
            port = ports.ReservedPort()
            reserved.callback(port.release)
            numbers.append(port.number)
        cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        cert.write_bytes(CERT_PEM)
        key.write_bytes(KEY_PEM)
        async with chatty() as (server, url):
            log = tmp_path / "log"
            argv = [
                *(sys.executable, "-m", "vgpu_operator", "run"),
                *("--kubeconfig", str(kubeconfig(tmp_path, url, **user))),
                *("--extender-bind", f"127.0.0.1:{numbers[0]}"),
                *("--metrics-bind", f"127.0.0.1:{numbers[1]}"),
                *("--webhook-bind", f"127.0.0.1:{numbers[2]}"),
                *("--state-bind", "127.0.0.1:0"),
                *("--webhook-cert", str(cert), "--webhook-key", str(key)),
                *("--log-level", "DEBUG", "--log-format", log_format),
            ]
            with log.open("wb") as out:
                process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT)  # noqa: ASYNC220
            try:
                for _ in range(int(WAIT_S / 0.05)):
                    if server.n_asked >= 3 or process.poll() is not None:
                        break
                    await asyncio.sleep(0.05)
                assert server.n_asked >= 3, log.read_text()
                base = f"http://127.0.0.1:{numbers[1]}"
                async with aiohttp.ClientSession() as session:
                    for path in ("/metrics", "/readyz"):
                        async with session.get(base + path) as answer:
                            assert_no_secret(await answer.text())
            finally:
                process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(process.wait, WAIT_S) == 0

    written = log.read_text()
    assert "trying again" in written
    assert_no_secret(written)


@pytest.mark.parametrize(
    "header", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Basic {BASIC}"], ids=["1", "2", "3"]
)
async def test_an_answer_that_repeats_a_header_is_told_without_it(header: str) -> None:
    words = {"message": f"bad header 'Authorization: {header}' was sent"}
    async with loopback.api_server(loopback.always(400, words), token=TOKEN) as served:
        with pytest.raises(errors.Invalid) as caught:
            await served.kube.get("/api/v1/nodes")

    assert "was sent" in str(caught.value)
    assert_no_secret(str(caught.value))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda text: text.replace("contexts:", "contexts: ]"), id="no YAML"),
        pytest.param(lambda text: text.replace("current-context: c", "current-context: d"), id="c"),
        pytest.param(lambda text: text.replace("cluster: c", "cluster: d"), id="no such cluster"),
        pytest.param(lambda text: text + f"\ntoken: {TOKEN}: {TOKEN}\n", id="a stray token"),
        pytest.param(
            lambda text: text.replace("client-key-data: ", "client-key-data: '*"), id="no base64"
        ),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_told_without_its_secrets(
    tmp_path: Path, broken: Any
) -> None:
    path = kubeconfig(
        tmp_path,
        "https://127.0.0.1:1",
        **{
            "token": TOKEN,
            "client-certificate-data": base64.b64encode(CERT_PEM).decode(),
            "client-key-data": KEY_BASE64,
        },
    )
    path.write_text(broken(path.read_text()))

    with pytest.raises(client.ConfigurationError) as caught:
        async with await client.KubeClient.connect(kubeconfig=str(path)):
            pass

    assert str(path) in str(caught.value)
    assert_no_secret(str(caught.value))


async def test_credentials_show_no_token() -> None:
    async with loopback.api_server(loopback.always(200, {}), token=TOKEN) as served:
        credentials = await served.kube.credentials()

        assert credentials.token == TOKEN
        assert_no_secret(repr(credentials))
        assert_no_secret(repr(served.kube))


def test_a_key_that_does_not_fit_is_told_without_it(tmp_path: Path) -> None:
    from vgpu_operator.model import errors as model_errors

    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_bytes(CA_PEM)
    key.write_bytes(KEY_PEM)

    with pytest.raises(model_errors.SettingsError) as caught:
        certificates.CertificateFiles(cert, key)

    assert_no_secret(str(caught.value))
