"""How often each client may ask."""

import contextlib
import datetime
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

from vgpu_operator.kube import listen, rates


class Standing:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def now(self) -> datetime.datetime:
        raise AssertionError("nobody needs the time of day")

    def monotonic_s(self) -> float:
        return self.at_s


def test_a_burst_is_granted_then_so_many_a_second() -> None:
    buckets = rates.Buckets(rates.Rate(per_s=10, burst=3))

    at_once = [buckets.take("a", now_s=0.0) for _ in range(4)]

    assert at_once == [0.0, 0.0, 0.0, 0.1]
    assert buckets.take("a", now_s=0.05) > 0
    assert buckets.take("a", now_s=0.15) == 0.0


def test_a_long_pause_saves_no_more_than_a_burst() -> None:
    buckets = rates.Buckets(rates.Rate(per_s=10, burst=2))
    buckets.take("a", now_s=0.0)

    granted = [buckets.take("a", now_s=1000.0) == 0.0 for _ in range(3)]

    assert granted == [True, True, False]


def test_one_client_costs_another_nothing() -> None:
    buckets = rates.Buckets(rates.Rate(per_s=1, burst=1))
    for _ in range(5):
        buckets.take("a", now_s=0.0)

    assert buckets.take("b", now_s=0.0) == 0.0


def test_no_crowd_of_addresses_fills_the_memory() -> None:
    buckets = rates.Buckets(rates.Rate(per_s=1, burst=1))

    for number in range(5000):
        buckets.take(str(number), now_s=0.0)

    assert len(buckets._left) == rates.MOST_CLIENTS
    assert buckets.take("4999", now_s=0.0) > 0  # the newest are the ones remembered


@contextlib.asynccontextmanager
async def limited(time: Standing) -> AsyncIterator[str]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(
        middlewares=[
            rates.limited(rates.Rate(per_s=0.5, burst=2), free=("/free",), time_source=time)
        ]
    )
    app.add_routes([web.get("/", answer), web.get("/free", answer)])
    listener = await listen.listen(app, listen.Address(host="127.0.0.1", port=0), what="it")
    try:
        yield f"http://{listener.address}"
    finally:
        await listener.close()


async def test_who_asks_too_often_is_told_when_to_come_again() -> None:
    time = Standing()
    async with limited(time) as url, aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str | None, str]:
            async with session.get(url + path) as answer:
                return answer.status, answer.headers.get("Retry-After"), await answer.text()

        early = [(await get("/"))[0] for _ in range(2)]
        late = await get("/")
        free = (await get("/free"))[0]
        time.at_s += 2.0
        later = (await get("/"))[0]

    assert early == [200, 200]
    assert late == (
        429,
        "2",
        '{"error":"127.0.0.1 asks more than 0.5 times a second; ask again later"}',
    )
    assert (free, later) == (200, 200)
