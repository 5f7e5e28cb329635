"""A real Prometheus for tests: Debian's package, unpacked into the cache without root.

Loaded as a plugin: ``pytest_plugins = ["support.prometheus"]``.
"""

import asyncio
import contextlib
import dataclasses
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from support import missing_tools, waiting
from vgpu_operator.cli.cluster import cache, ports, probe
from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.cli.cluster.process import Component

PACKAGE = "prometheus"
FETCH_LIMIT_S = 300.0
START_LIMIT_S = 60.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What the package brings."""

    prometheus: Path
    promtool: Path

    def tool(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``promtool``."""
        return subprocess.run(
            [str(self.promtool), *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def fetch(*, report: Callable[[str], None]) -> Programs:
    """Return the programs: those of the machine, else of the cache, else the package's.

    Raises:
        ClusterError: no such package can be had here.
    """
    installed = shutil.which("prometheus"), shutil.which("promtool")
    if all(installed):
        return Programs(prometheus=Path(str(installed[0])), promtool=Path(str(installed[1])))
    folder = cache.cache_directory(os.environ)
    kept = folder / "prometheus-debian"
    found = Programs(prometheus=kept / "prometheus", promtool=kept / "promtool")
    if os.access(found.promtool, os.X_OK):
        return found
    lock = folder / "prometheus.lock"
    with cache.exclusive(lock, report=report, abort=threading.Event()):
        if not os.access(found.promtool, os.X_OK):
            report(f"fetching Debian's package {PACKAGE} (19 MB, once)")
            _unpack(lock, kept)
    return found


def _unpack(folder: Path, kept: Path) -> None:
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise ClusterError(f"there is no {program} here, and no prometheus on the PATH")
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as name:
        work = Path(name)
        answer = _run(["apt-get", "download", PACKAGE], work)
        if answer.returncode != 0:
            # No lists of packages yet: ours, in a folder of our own, need no root.
            for part in ("lists/partial", "archives/partial"):
                (work / part).mkdir(parents=True)
            own = [
                *("-o", f"Dir::State::Lists={work / 'lists'}"),
                *("-o", f"Dir::Cache={work}"),
                *("-o", "APT::Sandbox::User="),
            ]
            _run(["apt-get", *own, "update", "-qq"], work)
            answer = _run(["apt-get", *own, "download", PACKAGE], work)
        packages = sorted(work.glob("*.deb"))
        if answer.returncode != 0 or not packages:
            last = (answer.stderr.strip().splitlines() or ["no word"])[-1]
            raise ClusterError(f"apt-get download {PACKAGE} failed: {last}")
        unpacked = work / "unpacked"
        _run(["dpkg-deb", "--extract", str(packages[0]), str(unpacked)], work)
        if not (unpacked / "usr/bin/promtool").is_file():
            raise ClusterError(f"{packages[0].name} has no usr/bin/promtool")
        kept.mkdir(exist_ok=True)
        # promtool last: it is what a later run looks for.
        for program in ("prometheus", "promtool"):
            (unpacked / "usr/bin" / program).replace(kept / program)


def _run(argv: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, timeout=FETCH_LIMIT_S, check=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A Prometheus on loopback."""

    url: str
    _session: aiohttp.ClientSession = dataclasses.field(repr=False)

    async def query(self, expr: str) -> list[Json]:
        """Return the samples of an instant query; fails the test when it is no query."""
        async with self._session.post(f"{self.url}/api/v1/query", data={"query": expr}) as answer:
            body = await answer.json()
        assert body["status"] == "success", f"{expr}: {body.get('error')}"
        found: list[Json] = body["data"]["result"]
        return found

    async def until(self, expr: str, *, limit_s: float = 60.0) -> list[Json]:
        """Wait until a query returns data: a scrape that was too slow leaves a gap."""
        found: list[Json] = await waiting.until(
            expr, lambda: self.query(expr), limit_s=limit_s, every_s=0.2
        )
        return found

    async def until_scraped(self, times: int, *, limit_s: float = 60.0) -> None:
        """Wait until every target was scraped so many times more."""
        before = await self._scrapes()

        async def scraped() -> bool:
            now = await self._scrapes()
            return bool(now) and all(
                count >= before.get(pod, 0) + times for pod, count in now.items()
            )

        await waiting.until(f"{times} scrapes", scraped, limit_s=limit_s, every_s=0.2)

    async def _scrapes(self) -> dict[str, int]:
        """Return how often each target was scraped."""
        found = await self.query("count_over_time(up[1h])")
        return {one["metric"]["pod"]: int(one["value"][1]) for one in found}


@contextlib.asynccontextmanager
async def running(
    programs: Programs, folder: Path, targets: Mapping[str, str], *, every: str = "1s"
) -> AsyncIterator[Running]:
    """Run a Prometheus that scrapes these addresses, by the name of their pod."""
    jobs = [
        {"targets": [address], "labels": {"pod": pod, "namespace": "vgpu-system"}}
        for pod, address in targets.items()
    ]
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [
            # As the chart's ServiceMonitor has it: a share's namespace is the share's own.
            {"job_name": "vgpu-operator", "honor_labels": True, "static_configs": jobs}
        ],
    }
    await asyncio.to_thread((folder / "prometheus.yml").write_text, yaml.safe_dump(config))
    port = ports.ReservedPort()
    address = f"127.0.0.1:{port.number}"
    component = Component(
        "prometheus",
        [
            str(programs.prometheus),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ],
        log_file=folder / "prometheus.log",
    )
    component.start()
    try:
        ready = probe.Endpoint(url=f"http://{address}/-/ready", tls=None)
        await probe.wait_until_ready(component, ready, limit_s=START_LIMIT_S)
        async with aiohttp.ClientSession() as session:
            yield Running(url=f"http://{address}", _session=session)
    finally:
        await component.stop()
        port.release()


@pytest.fixture(scope="session")
def prometheus_programs(request: pytest.FixtureRequest) -> Programs:
    """Have a Prometheus; where that is impossible, skip, or fail in CI."""
    try:
        return fetch(report=missing_tools.progress(request.config))
    except ClusterError as fault:
        missing_tools.skip_or_fail(f"no Prometheus: {fault}")
