"""Which set-ups are measured, how often, and what the goal of each figure is."""

import dataclasses
import statistics
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bench import burst, columns, freed, machine, preemption, quantiles, scale, scrape


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured: small set-ups when ``quick``; how often each burst."""

    quick: bool
    repeats: int


Part = Callable[[Effort], Awaitable[list[dict[str, Any]]]]
"""Returns the rows of one part."""


async def in_process(effort: Effort) -> list[dict[str, Any]]:
    """Filter and scores without HTTP, from 100 to 20,000 nodes, beside plain loops."""
    sizes = (100, 1_000, 5_000) if effort.quick else (100, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
    return [columns.measure(nodes=size, pods=10 * size, quick=effort.quick) for size in sizes]


async def preempting(effort: Effort) -> list[dict[str, Any]]:
    """Plans of preemption without HTTP, all pods of one priority, and of many."""
    sizes = (100, 1_000) if effort.quick else (100, 1_000, 5_000)
    return [
        preemption.measure(nodes=size, levels=levels, quick=effort.quick)
        for size in sizes
        for levels in (1, 900)
    ]


async def over_http(effort: Effort) -> list[dict[str, Any]]:
    """Start, memory, and questions over HTTP, on a cluster that is there already."""
    sizes = ((100, 1_000),) if effort.quick else ((100, 1_000), (1_000, 10_000), (5_000, 50_000))
    rows = []
    for nodes, pods in sizes:
        found = await scale.measure(
            nodes=nodes,
            pods=pods,
            repeats=50 if effort.quick else 300,
            events_s=5 if effort.quick else 20,
        )
        rows.append(dataclasses.asdict(found))
    return rows


async def bursts(effort: Effort) -> list[dict[str, Any]]:
    """b, c: many pods over many nodes, beside the floor of the same run."""
    setups: Sequence[tuple[str, int, int, float, str]] = (
        ("b binpack", 500, 50, 0.0, "binpack"),
        ("b spread", 500, 50, 0.0, "spread"),
        ("c binpack", 1_000, 100, 0.0, "binpack"),
        ("c spread", 1_000, 100, 0.0, "spread"),
        ("b binpack, 1 s", 500, 50, 1.0, "binpack"),
        ("c binpack, 1 s", 1_000, 100, 1.0, "binpack"),
    )
    if effort.quick:
        setups = (("b binpack, short", 100, 20, 0.0, "binpack"),)
    rows = []
    for name, pods, nodes, delay_s, policy in setups:
        runs = [
            await burst.measure(pods=pods, nodes=nodes, delay_s=delay_s, node_policy=policy)
            for _ in range(1 if effort.quick or delay_s else effort.repeats)
        ]
        rows.append({"name": name, **_middle(runs)})
    return rows


async def one_node(effort: Effort) -> list[dict[str, Any]]:
    """a: 40 pods that fit on one node only."""
    pods = 10 if effort.quick else 40
    rows = []
    for name, delay_s in (("a instant", 0.0), ("a 1 s", 1.0)):
        runs = [
            await burst.measure(pods=pods, nodes=1, delay_s=delay_s, with_floor=False)
            for _ in range(1 if effort.quick or delay_s else effort.repeats)
        ]
        rows.append({"name": name, **_middle(runs)})
    return rows


async def to_the_last_card(effort: Effort) -> list[dict[str, Any]]:
    """A burst of whole cards that fills the cluster."""
    nodes = 10 if effort.quick else 50
    run = await burst.measure(
        pods=nodes * 8, nodes=nodes, cards=8, slots=1, exclusive=True, with_floor=False
    )
    return [{"name": "last card", **_middle([run])}]


async def freed_cards(effort: Effort) -> list[dict[str, Any]]:
    """d: a freed card until a waiting pod is bound, with few and with many that wait."""
    setups = ((5, 20),) if effort.quick else ((5, 200), (1_000, 40))
    rows = []
    for waiting, rounds in setups:
        found = await freed.measure(rounds=rounds, waiting=waiting)
        took = sorted(found.took_s)
        rows.append(
            {
                "waiting": waiting,
                "rounds": len(took) + found.stuck,
                "stuck": found.stuck,
                "p50_s": statistics.median(took),
                "p99_s": quantiles.p99(took),
                "filters": found.filters,
                "cpu_ms": found.cpu_ms,
            }
        )
    return rows


async def scraped(effort: Effort) -> list[dict[str, Any]]:
    """The page of metrics, and questions while it is read each second and while it is not."""
    sizes = ((100, 1_000),) if effort.quick else ((1_000, 10_000), (5_000, 50_000))
    seconds = 8.0 if effort.quick else 60.0
    return [
        dataclasses.asdict(await scrape.measure(nodes=nodes, pods=pods, seconds=seconds))
        for nodes, pods in sizes
    ]


PARTS: dict[str, Part] = {
    "in process": in_process,
    "preemption": preempting,
    "over http": over_http,
    "scraped": scraped,
    "one node": one_node,
    "bursts": bursts,
    "last card": to_the_last_card,
    "freed": freed_cards,
}


async def run(effort: Effort, *, only: Sequence[str]) -> dict[str, Any]:
    """Measure the wanted parts; return their rows by name, and the machine."""
    unknown = sorted(set(only) - PARTS.keys())
    if unknown:
        raise SystemExit(f"no part is called {unknown[0]!r}; there are {', '.join(PARTS)}")
    found: dict[str, Any] = {"machine": machine.describe(), "quick": effort.quick, "parts": {}}
    for name, part in PARTS.items():
        if only and name not in only:
            continue
        before = machine.busy_s()
        rows = await part(effort)
        found["parts"][name] = {"rows": rows, "others_cores": machine.cores_of_others(before)}
        print(name, *rows, sep="\n  ", flush=True)
    return found


def _middle(runs: Sequence[burst.Burst]) -> dict[str, Any]:
    """Return the run with the middle rate, and how many there were."""
    middle = sorted(runs, key=lambda run: run.rate)[len(runs) // 2]
    rates = [round(run.rate, 1) for run in runs]
    return {**dataclasses.asdict(middle), "rate": middle.rate, "rates": rates}
