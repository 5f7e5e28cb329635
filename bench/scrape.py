"""What being scraped costs: the page, and questions asked while it is read each second."""

import asyncio
import statistics
import sys
import time
from dataclasses import dataclass

import aiohttp

from bench import cluster, machine, quantiles, reads, scale

EVERY_S = 1.0


@dataclass(slots=True, kw_only=True)
class Scrape:
    """One size.

    Attributes:
        lines: of the page, and its size.
        first_s: how long the first page after the start takes.
        page_s: the middle of the later ones, while nobody asks anything.
        cpu_s: what the operator computes for one of those.
        quiet: questions while nobody scrapes, in turns with ``scraped``.
        scraped: the same questions while the page is read each second.
        scrapes: how often it was read then.
    """

    nodes: int
    pods: int
    lines: int = 0
    size_mb: float = 0.0
    first_s: float = 0.0
    page_s: float = 0.0
    cpu_s: float = 0.0
    quiet: scale.Asked | None = None
    scraped: scale.Asked | None = None
    scrapes: int = 0


async def measure(*, nodes: int, pods: int, seconds: float, turns: int = 4) -> Scrape:
    """Fill the API server, start the operator on it, scrape, ask, and do both.

    Quiet and scraped turns alternate: what else the machine does concerns both alike.
    """
    found = Scrape(nodes=nodes, pods=pods)
    async with cluster.bed(operator=False) as made:
        await made.add_nodes(nodes)
        await scale.place_pods(made, pods)
        await cluster.start_operator(made)
        pid = made.running.component.pid or 0
        url = f"{made.running.metrics_url}/metrics"
        begun = time.perf_counter()
        page = await _first(url)
        found.first_s = time.perf_counter() - begun
        found.lines, found.size_mb = page.count(b"\n"), len(page) / 1e6
        pages_s = []
        before_s = machine.process_cpu_s(pid)
        for _ in range(5):
            begun = time.perf_counter()
            await _read(url)
            pages_s.append(time.perf_counter() - begun)
        found.cpu_s = (machine.process_cpu_s(pid) - before_s) / len(pages_s)
        found.page_s = statistics.median(pages_s)
        quiet: list[float] = []
        scraped: list[float] = []
        await _ask(made, seconds / 4)
        for _ in range(turns):
            quiet += await _ask(made, seconds / turns)
            took, pages = await _while_scraped(made, url, seconds / turns)
            scraped += took
            found.scrapes += pages
        found.quiet, found.scraped = _asked(quiet), _asked(scraped)
    return found


async def _ask(made: cluster.Bed, seconds: float) -> list[float]:
    """Ask again and again for that long; return how long each answer took, in ms."""
    took: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        took += await scale.times(made, scale.QUESTIONS["one container"], repeats=10, pause_s=0.05)
    return took


def _asked(took: list[float]) -> scale.Asked:
    return scale.Asked(p50_ms=statistics.median(took), p99_ms=quantiles.p99(sorted(took)))


async def _while_scraped(made: cluster.Bed, url: str, seconds: float) -> tuple[list[float], int]:
    """Ask while a process of its own reads the page each second, as Prometheus does.

    Reading 70 MB in this process would keep it from asking, and that is not what is
    measured.
    """
    reader = await asyncio.create_subprocess_exec(
        *(sys.executable, reads.__file__, url, str(EVERY_S)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        took = await _ask(made, seconds)
        told, _ = await reader.communicate(b"")
    except BaseException:
        reader.kill()
        raise
    return took, int(told)


async def _first(url: str) -> bytes:
    """Return the first whole page.

    On a busy machine it may take longer than the server lets one request take; what was
    made until then is kept.
    """
    while True:
        try:
            return await _read(url)
        except aiohttp.ClientPayloadError:
            continue


async def _read(url: str) -> bytes:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.read()
