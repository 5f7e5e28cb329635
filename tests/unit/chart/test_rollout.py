"""The stand-in for kubelets judges a probe as they do."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import test_utils, web

from support import chart_pod, rollout


class Probed:
    """A pod whose probe answers as it is told, and who counts it among a Service's ends."""

    def __init__(self, port: int, **probe: Any) -> None:
        asked = {"httpGet": {"path": "/readyz", "port": "metrics"}, **probe}
        operator = {"name": chart_pod.OPERATOR, "readinessProbe": asked}
        number = SimpleNamespace(number=port)
        self.in_service: set[int] = set()
        self.pod = rollout.Pod(
            name="pod-1",
            template={"spec": {"containers": [operator]}},
            at=SimpleNamespace(metrics=number, webhook=number),
            parts={chart_pod.OPERATOR: SimpleNamespace(check_running=lambda: None)},
        )
        service = SimpleNamespace(add=self.in_service.add, remove=self.in_service.discard)
        self._rollout = rollout.Rollout(SimpleNamespace(), service)

    async def probe(self) -> bool:
        async with aiohttp.ClientSession() as session:
            await self._rollout._probe(session, self.pod)
        assert bool(self.in_service) == self.pod.ready
        return self.pod.ready


class Site:
    def __init__(self) -> None:
        self.status = 200
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def answer(self, _: web.Request) -> web.Response:
        await self.may_answer.wait()
        return web.Response(status=self.status)


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, int]]:
    made, app = Site(), web.Application()
    app.router.add_get("/readyz", made.answer)
    async with test_utils.TestServer(app, host="127.0.0.1") as server:
        assert server.port is not None
        yield made, server.port


async def test_a_pod_stays_ready_while_the_next_answer_is_on_its_way(
    site: tuple[Site, int],
) -> None:
    made, port = site
    probed = Probed(port)
    assert not probed.pod.ready
    assert await probed.probe()

    made.may_answer.clear()
    asking = asyncio.create_task(probed.probe())
    for _ in range(20):
        await asyncio.sleep(0)
        assert probed.pod.ready
    made.may_answer.set()

    assert await asking


@pytest.mark.parametrize(("probe", "tries"), [({}, 3), ({"failureThreshold": 1}, 1)])
async def test_a_pod_is_ready_no_longer_after_as_many_failures_as_its_probe_says(
    site: tuple[Site, int], probe: dict[str, int], tries: int
) -> None:
    made, port = site
    probed = Probed(port, **probe)
    assert await probed.probe()

    made.status = 503
    assert [await probed.probe() for _ in range(tries)] == [True] * (tries - 1) + [False]

    made.status = 200
    assert await probed.probe()
