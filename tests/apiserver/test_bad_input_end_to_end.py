"""Bad input gets one clear sentence and costs nothing else."""

import asyncio
import contextlib
import sys

import aiohttp
import pytest

from support.world import fetch, nvidia_pod, world
from vgpu_operator.cli.cluster import ports

pytestmark = pytest.mark.apiserver


async def test_malformed_bodies_are_answered_in_json_and_the_next_pod_is_bound() -> None:
    async with world() as here, here.simulate({"name": "node-a", "cards": 1}):
        await here.until_handshake("node-a", lambda text: text is not None)
        url = here.replica.extender_url
        tls = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(connector=tls) as session:
            for path in ("/filter", "/prioritize", "/bind"):
                for body in (b"", b"not json", b"[]", b"{}", b'{"Pod":null}', b"\xff\xfe"):
                    async with session.post(url + path, data=body) as answer:
                        assert answer.status == 400
                        assert answer.content_type == "application/json"
                        assert (await answer.json())["Error"]
            async with session.post(here.replica.webhook_url, data=b"not json") as answer:
                assert answer.status == 400
                assert answer.content_type == "application/json"
            names = ["node-a", "node-a", "unknown"]
            asked = {"Pod": nvidia_pod("asked", scheduler="hami-scheduler"), "NodeNames": names}
            asked["Pod"]["metadata"]["uid"] = "11111111-0000-4000-8000-000000000001"
            async with session.post(url + "/filter", json=asked) as answer:
                result = await answer.json()
            assert result["NodeNames"] == ["node-a", "node-a"]
            assert "unknown" in result["FailedAndUnresolvableNodes"]
            gone = {
                "PodName": "gone",
                "PodNamespace": "default",
                "PodUID": "11111111-0000-4000-8000-000000000002",
                "Node": "node-a",
            }
            async with session.post(url + "/bind", json=gone) as answer:
                assert answer.status == 200
                assert "does not exist any more" in (await answer.json())["Error"]

        await here.create(nvidia_pod("after-all"))

        await here.until_phase("success", "after-all")


async def run_operator(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "vgpu_operator",
        "run",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout=60)
    return process.returncode or 0, output.decode()


async def test_a_missing_kubeconfig_is_named_in_one_line() -> None:
    code, output = await run_operator("--kubeconfig", "/nonexistent/kubeconfig")

    assert code != 0
    assert "Traceback" not in output
    assert "/nonexistent/kubeconfig does not exist" in output


async def test_a_wrong_setting_is_named_with_its_file_and_path(tmp_path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("lock: {expiryS: soon}\n")

    code, output = await run_operator("--config", str(config))

    assert code != 0
    assert "Traceback" not in output
    assert f"{config}" in output
    assert "lock.expiryS" in output


async def test_a_port_in_use_is_named(tmp_path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        code, output = await run_operator(
            "--kubeconfig",
            str(kubeconfig),
            "--extender-bind",
            f"127.0.0.1:{port}",
            "--metrics-bind",
            "127.0.0.1:0",
            "--state-bind",
            "127.0.0.1:0",
        )
    finally:
        server.close()

    assert code != 0
    assert "Traceback" not in output
    assert f"cannot listen on 127.0.0.1:{port}" in output


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: not-a-secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


async def test_an_unreachable_api_server_is_waited_for_and_not_ready(tmp_path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    with ports.ReservedPort() as metrics:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "vgpu_operator",
            "run",
            "--kubeconfig",
            str(kubeconfig),
            "--extender-bind",
            "127.0.0.1:0",
            "--metrics-bind",
            f"127.0.0.1:{metrics.number}",
            "--state-bind",
            "127.0.0.1:0",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            said = b""
            while b"not reachable" not in said:
                said = await asyncio.wait_for(process.stderr.readline(), timeout=30)
            assert b"not-a-secret" not in said
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{metrics.number}/readyz") as answer,
            ):
                assert answer.status == 503
                assert "127.0.0.1:1" in await answer.text()
            assert process.returncode is None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def test_an_api_server_that_goes_away_later_costs_readiness_and_nothing_known() -> None:
    name = "test_an_api_server_that_goes_away_later_costs_readiness_and_nothing_known"
    async with (
        world(restarted_in=name) as here,
        here.simulate({"name": "node-a", "cards": 2}),
    ):
        await here.create(nvidia_pod("before", memory=2000))
        await here.until_phase("success", "before")
        known = await here.ledger()
        server = here.plane.components["kube-apiserver"]
        server.kill()

        async def unready() -> bool:
            return "does not answer" in await fetch(f"{here.replica.metrics_url}/readyz")

        await here.until("the operator says that it is not ready", unready)
        assert await here.ledger() == known

        await here.plane.restart("kube-apiserver")

        async def ready() -> bool:
            return await fetch(f"{here.replica.metrics_url}/readyz") == "ok\n"

        await here.until("the operator is ready again", ready)
        await here.create(nvidia_pod("after", memory=2000))
        await here.until_phase("success", "after")
        await here.assert_sound()
