"""A real Prometheus scrapes the operator, and is asked what dashboards ask it.

One cluster for all: two nodes with two cards each, pods that hold them, one that fits
nowhere, a quota, and both switches of further names on.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dashboards
import pytest
import pytest_asyncio
import yaml

from support import prometheus
from support.prometheus import Programs, Running
from support.resource_quotas import MEMORY
from support.world import World, fetch, nvidia_pod, world
from vgpu_operator.kube import paths
from vgpu_operator.metrics import older_families, web_ui_families

pytestmark = pytest.mark.apiserver

QUERIES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "golden" / "dashboard-queries.yaml").read_text()
)

VARIABLES = {"$__rate_interval": "10s", "$node": ".*", "$type": ".*", "$namespace": ".*"}

NO_DATA = {
    "sum by (kind) (rate(vgpu_effects_failed_total[$__rate_interval]))": (
        "there is no such series before a write has failed"
    ),
    "sum by (reason) (rate(vgpu_events_dropped_total[$__rate_interval]))": (
        "there is no such series before an event was dropped"
    ),
}
"""Queries of our dashboards that return nothing while all is well, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """The cluster, its Prometheus, and a page as the operator writes it."""

    prometheus: Running
    page: str


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scraped(
    prometheus_programs: Programs,
    control_plane_program: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Scraped]:
    configured = {"metrics": {"legacyNames": True, "webUiNames": True}}
    folder = tmp_path_factory.mktemp("prometheus")
    async with world(configured=configured) as here:
        target = {"vgpu-0": here.replica.metrics_url.removeprefix("http://")}
        nodes = {"prefix": "sim-", "count": 2, "cards": 2, "delay": 0.05}
        async with (
            here.simulate(nodes),
            prometheus.running(prometheus_programs, folder, target) as running,
        ):
            await running.until("vgpu_leader == 1")
            await _make_pods(here)
            await running.until("vgpu_pods_refused == 1")
            await running.until('vgpu_allocation_duration_seconds_count{outcome="success"} == 3')
            await running.until("hami_gpu_memory_allocated_bytes > 0")
            await running.until_scraped(3)
            page = await fetch(f"{here.replica.metrics_url}/metrics")
            yield Scraped(prometheus=running, page=page)


async def _make_pods(here: World) -> None:
    limit = {"metadata": {"name": "cards"}, "spec": {"hard": {MEMORY: "50000"}}}
    await here.kube.create(paths.namespaced("default", "resourcequotas"), limit)
    names = ("held-0", "held-1", "held-2")
    await asyncio.gather(*(here.create(nvidia_pod(name, memory=4000, cores=10)) for name in names))
    await here.create(nvidia_pod("too-large", memory=40000))
    await here.until_phase("success", *names)


@pytest.mark.parametrize(
    "query",
    [row["query"] for row in QUERIES["hami"] if "monitor" not in row],
)
async def test_a_query_of_hamis_own_dashboard_returns_data(scraped: Scraped, query: str) -> None:
    assert await scraped.prometheus.until(query)


def test_what_hamis_dashboard_lacks_comes_from_the_monitor_on_the_nodes(scraped: Scraped) -> None:
    missing = {row["monitor"] for row in QUERIES["hami"] if "monitor" in row}

    assert missing
    assert not [name for name in missing if f"\n{name}{{" in scraped.page]


@pytest.mark.parametrize("query", QUERIES["web-ui"])
async def test_a_query_of_hamis_web_ui_returns_data(scraped: Scraped, query: str) -> None:
    assert await scraped.prometheus.until(query)


async def test_every_name_of_the_web_ui_is_there_or_measured_on_the_card(scraped: Scraped) -> None:
    """Source of the names: HAMi-WebUI 1.2.0's exporter."""
    ours = {family.name for family in (*web_ui_families.CARDS, *web_ui_families.SHARES)}
    ours |= {family.name for family in web_ui_families.POOLS}

    assert not ours & set(QUERIES["web-ui-measured"])
    for name in ours:
        assert await scraped.prometheus.until(name), name


@pytest.mark.parametrize(
    "name",
    [
        family.name
        for family in (
            *older_families.CARDS,
            *older_families.SHARES,
            older_families.QUOTA_USED,
        )
    ],
)
async def test_every_earlier_name_returns_data(scraped: Scraped, name: str) -> None:
    assert await scraped.prometheus.until(name)


def _filled(query: str) -> str:
    for variable, text in VARIABLES.items():
        query = query.replace(variable, text)
    return query


@pytest.mark.parametrize(
    ("board", "panel", "query"), dashboards.queries(), ids=lambda text: text[:60]
)
async def test_a_query_of_our_dashboards_returns_data(
    scraped: Scraped, board: str, panel: str, query: str
) -> None:
    if query in NO_DATA:
        assert not await scraped.prometheus.query(_filled(query))
    else:
        assert await scraped.prometheus.until(_filled(query)), f"{board}, {panel}: {query}"


async def test_numbers_are_what_the_pods_hold(scraped: Scraped) -> None:
    async def value(query: str) -> float:
        (one,) = await scraped.prometheus.until(query)
        return float(one["value"][1])

    assert await value("sum(hami_gpu_memory_allocated_bytes)") == 3 * 4000 * 1024 * 1024
    assert await value("sum(hami_vgpu_memory_allocated_bytes)") == 3 * 4000 * 1024 * 1024
    assert await value("sum(hami_gpu_shared_count)") == 3
    assert await value("sum(hami_gpu_core_allocated_ratio)") == 30
    assert await value('hami_resource_quota_used{quota_name="nvidia.com/gpumem"}') == 12000
    assert await value('hami_resource_quota_limit{quota_name="nvidia.com/gpumem"}') == 50000
    assert await value('sum(vgpu_node_registrations{vendor="nvidia",state="ready"})') == 2


async def test_how_long_the_lock_was_held_has_a_99th_percentile(scraped: Scraped) -> None:
    query = "histogram_quantile(0.99, sum by (le) (vgpu_node_lock_hold_seconds_bucket))"

    (one,) = await scraped.prometheus.until(query)

    assert 0 < float(one["value"][1]) < 60


def test_our_names_and_units_are_as_prometheus_wants_them(
    scraped: Scraped, prometheus_programs: Programs
) -> None:
    ours = [
        line
        for line in scraped.page.splitlines(keepends=True)
        if re.match(r"(# (HELP|TYPE) )?(vgpu|process)_", line)
    ]

    answer = prometheus_programs.tool("check", "metrics", text="".join(ours))

    assert (answer.returncode, answer.stdout + answer.stderr) == (0, "")
