"""Nobody who can reach the page of metrics keeps the operator busy with it."""

import aiohttp

from support.operator_books import open_books
from vgpu_operator.kube import listen
from vgpu_operator.metrics import cards_page, instruments, server


async def test_pages_are_limited_by_client_and_probes_are_not() -> None:
    books = open_books()
    app = server.application(
        instruments.Instruments().registry,
        cards=lambda: cards_page.pieces(books),
        not_ready_because=lambda: "",
    )
    listener = await server.start(app, listen.Address(host="127.0.0.1", port=0))
    try:
        async with aiohttp.ClientSession(f"http://{listener.address}") as session:

            async def get(path: str) -> int:
                async with session.get(path) as answer:
                    return answer.status

            pages = [await get("/metrics") for _ in range(4 * server.RATE.burst)]
            probes = [await get(path) for path in ("/healthz", "/readyz")]
    finally:
        await listener.close()

    assert pages[: server.RATE.burst] == [200] * server.RATE.burst
    assert 429 in pages
    assert probes == [200, 200]


def test_every_limit_of_the_page_is_set() -> None:
    limits = server.CONNECTIONS

    assert None not in (limits.most, limits.most_each, limits.idle_s, limits.request_s)
