"""The figures as JSON, and as a page with plots."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path("docs/performance.md")
PLOTS = Path("docs/images")

Rows = Sequence[Mapping[str, Any]]


def write(found: Mapping[str, Any], *, out: Path, document: Path | None) -> None:
    """Write the raw figures below ``out``; the page and its plots where a path is given."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "figures.json").write_text(json.dumps(found, indent=1, default=str) + "\n")
    (out / "performance.md").write_text(page(found))
    if document is not None:
        document.write_text(page(found))
        plot(found["parts"], PLOTS)


def page(found: Mapping[str, Any]) -> str:
    """Return the page."""
    parts = found["parts"]
    blocks = [
        INTRODUCTION,
        _machine(found["machine"], {name: part["others_cores"] for name, part in parts.items()}),
    ]
    blocks += [WRITERS[name](parts[name]["rows"]) for name in WRITERS if name in parts]
    return "\n\n".join([*blocks, LIMITS]) + "\n"


def _machine(machine: Mapping[str, Any], others: Mapping[str, float]) -> str:
    busy = ", ".join(f"{name} {cores:.2f}" for name, cores in others.items())
    return (
        "## The machine\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Python "
        f"{machine['python']}; a loop of a million additions took {machine['loop_ms']} ms at the "
        "start, and may take twice that a minute later. etcd (without fsync), kube-apiserver, "
        "kube-scheduler, the load client and the device plugins' process run on the same "
        "cores. Cores that other processes of this machine "
        f"used meanwhile, on average: {busy}."
    )


def _in_process(rows: Rows) -> str:
    kinds = [name for name, value in rows[0].items() if isinstance(value, Mapping)]
    table = _table(
        ("nodes", "pods", *kinds, "slow twin / all fit"),
        (
            (
                f"{row['nodes']:,}",
                f"{row['pods']:,}",
                *(f"{row[kind]['p50']:.2f} / {row[kind]['p99']:.2f}" for kind in kinds),
                f"{row['slow twin']['p50'] / row['all fit']['p50']:.0f}",
            )
            for row in rows
        ),
    )
    return (
        "## Filter and scores, in process\n\n"
        "p50 / p99 in milliseconds. *Card by card* is what vendors' own rules cost that judge "
        "each card by itself; *one node* is the choice at bind; the *slow twin* is plain "
        "loops over the same rules, which the tests compare with.\n\n"
        f"{table}\n\n![Time of one filter over the number of nodes](images/filter-growth.svg)"
    )


def _preemption(rows: Rows) -> str:
    kinds = [name for name, value in rows[0].items() if isinstance(value, Mapping)]
    table = _table(
        ("nodes", "pods", "priorities", *kinds, "memory / one filter", "exact", "peak"),
        (
            (
                f"{row['nodes']:,}",
                f"{row['pods']:,}",
                f"{row['levels']:,}",
                *(f"{row[kind]['p50']:.1f} / {row[kind]['p99']:.1f}" for kind in kinds),
                f"{row['memory']['p50'] / row['one filter']['p50']:.1f}",
                f"{row['exact']:.0%}",
                f"{row['memory_mib']:.0f} MiB",
            )
            for row in rows
        ),
    )
    last = rows[-1]
    return (
        "## Preemption, in process\n\n"
        "Who has to leave for a pod of higher priority, on nodes that are all full: p50 / p99 of "
        "the processor's milliseconds for the whole plan. *One filter* is the refusal before it; "
        "*exact*: of how many of the questions no cheaper set was left untried. In the last row "
        f"{last['survey']:.0%} of the time goes into the look at all nodes at once, "
        f"{last['sets']:.0%} into sets of pods on the likeliest of them.\n\n"
        f"{table}"
    )


def _over_http(rows: Rows) -> str:
    kinds = list(rows[0]["asked"])
    asked = _table(
        ("nodes", "pods", *kinds, "an empty handler"),
        (
            (
                f"{row['nodes']:,}",
                f"{row['pods']:,}",
                *(_both(row["asked"][kind]) for kind in kinds),
                _both(row["empty"]) if row["empty"] else "",
            )
            for row in rows
        ),
    )
    started = _table(
        (
            "nodes",
            "pods",
            "start to ready",
            "CPU for it",
            "memory",
            "other pods' events",
            "cores for them",
            "filter meanwhile",
            "longest step",
            "a pod for the last node only",
        ),
        (
            (
                f"{row['nodes']:,}",
                f"{row['pods']:,}",
                f"{row['ready_s']:.1f} s",
                f"{row['start_cpu_s']:.1f} s",
                f"{row['memory_mib']:.0f} MiB",
                f"{row['events_per_s']:.0f}/s",
                f"{row['cores_for_events']:.2f}",
                _both(row["busy"]) if row["busy"] else "",
                f"≤ {1000 * row['longest_step_s']:.0f} ms",
                f"{row['last_node_s']:.2f} s, {row['last_node_filters']:.0f} filter",
            )
            for row in rows
        ),
    )
    return (
        "## A big cluster, over HTTP\n\n"
        "`/filter` and `/prioritize` together, all names sent in a new order each time, p50 / "
        "p99 in milliseconds. The *empty handler* reads the same names in the same framework, "
        "and answers what it always answers: what Python's HTTP alone costs.\n\n"
        f"{asked}\n\nStart and steady state:\n\n{started}"
    )


def _scraped(rows: Rows) -> str:
    table = _table(
        (
            "nodes",
            "pods",
            "lines",
            "size",
            "first page",
            "a later page",
            "CPU for it",
            "filter, nobody reads",
            "filter, read each second",
            "p99 by p99",
        ),
        (
            (
                f"{row['nodes']:,}",
                f"{row['pods']:,}",
                f"{row['lines']:,}",
                f"{row['size_mb']:.1f} MB",
                f"{row['first_s']:.2f} s",
                f"{row['page_s']:.2f} s",
                f"{row['cpu_s']:.2f} s",
                _both(row["quiet"]),
                _both(row["scraped"]),
                f"{row['scraped']['p99_ms'] / row['quiet']['p99_ms']:.2f}",
            )
            for row in rows
        ),
    )
    return (
        "## While it is scraped\n\n"
        "The page of metrics with HAMi's names of today, and `/filter` and `/prioritize` "
        "together (p50 / p99 in milliseconds, 20 questions a second) in turns with and without "
        "another process that reads the page each second.\n\n"
        f"{table}"
    )


def _bursts(rows: Rows) -> str:
    return (
        "## Bursts\n\n"
        "From the first creation until the last pod is bound **and** served. The *floor* is "
        "the same writes (creation, lock, Binding, the plugins' four requests) by a bare client "
        "at full speed, in the same run on the same cluster. Requests are the operator's, a "
        f"pod.\n\n{_burst_table(rows)}"
    )


def _one_node(rows: Rows) -> str:
    return f"## a: pods that fit on one node only\n\n{_burst_table(rows)}"


def _last_card(rows: Rows) -> str:
    return (
        "## A burst that fills the cluster to the last card\n\n"
        "Whole cards only; a failed bind would mean that another pod took the cards.\n\n"
        f"{_burst_table(rows)}"
    )


def _freed(rows: Rows) -> str:
    table = _table(
        ("waiting pods", "rounds", "stuck", "p50", "p99", "filter calls", "operator CPU"),
        (
            (
                f"{row['waiting']:,}",
                row["rounds"],
                row["stuck"],
                f"{row['p50_s']:.3f} s",
                f"{row['p99_s']:.3f} s",
                f"{row['filters']:.0f} a round",
                f"{row['cpu_ms']:.0f} ms a round",
            )
            for row in rows
        ),
    )
    return (
        "## d: a full cluster, one pod leaves\n\n"
        "From the answered deletion until the API shows a waiting pod bound.\n\n"
        f"{table}"
    )


def _burst_table(rows: Rows) -> str:
    return _table(
        (
            "set-up",
            "pods/s",
            "floor",
            "of the floor",
            "took",
            "nodes used",
            "requests",
            "409",
            "failed binds",
            "operator CPU",
            "scheduler CPU",
            "apiserver CPU",
        ),
        (
            (
                row["name"],
                f"{row['rate']:.1f}",
                f"{row['floor']:.1f}" if row["floor"] else "",
                f"{100 * row['rate'] / row['floor']:.0f} %" if row["floor"] else "",
                f"{row['served_s']:.1f} s",
                row["nodes_used"],
                f"{row['requests']:.2f}",
                row["conflicts"],
                row["failed_binds"],
                f"{row['cpu_ms']['operator']:.1f} ms",
                f"{row['cpu_ms']['kube-scheduler']:.1f} ms",
                f"{row['cpu_ms']['kube-apiserver']:.1f} ms",
            )
            for row in rows
        ),
    )


def _both(asked: Mapping[str, float]) -> str:
    return f"{asked['p50_ms']:.1f} / {asked['p99_ms']:.1f}"


def _table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def plot(parts: Mapping[str, Any], folder: Path) -> None:
    """Draw the growth of one filter with the number of nodes."""
    if "in process" not in parts:
        return
    import matplotlib as mpl  # slow to load, and only wanted here

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "vgpu-operator"
    from matplotlib import pyplot as plt

    rows = parts["in process"]["rows"]
    sizes = [row["nodes"] for row in rows]
    figure, axes = plt.subplots(figsize=(7, 4))
    for kind in ("all fit", "two containers", "all refused", "slow twin"):
        axes.plot(sizes, [row[kind]["p50"] for row in rows], marker="o", label=kind)
    axes.set(xscale="log", yscale="log", xlabel="nodes, 8 cards each", ylabel="p50 in ms")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "filter-growth.svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


WRITERS = {
    "in process": _in_process,
    "preemption": _preemption,
    "over http": _over_http,
    "scraped": _scraped,
    "one node": _one_node,
    "bursts": _bursts,
    "last card": _last_card,
    "freed": _freed,
}

INTRODUCTION = """# Performance

Written by `make bench`; the figures are of the last run on the machine below. Shared
machines are noisy: compare ratios within one run, not figures of two runs.

Set-ups: nodes have 8 NVIDIA cards of 24,576 MiB and 10 slots; pods ask for one slot and
1,000 MiB; pods name the scheduler themselves, so the webhook is not part of it. Device
plugins are simulated by one process for all nodes: two PATCHes of the pod, a GET and a
PATCH of the node, one pod after another on each node."""

LIMITS = """## What limits it

- *A question over HTTP.* The same question takes twice to three times as long when nothing
  was asked for 5 ms as when the last answer has just been given: its data and code are
  out of the processor's caches by then, and the time goes into fetching them. Of 5,000
  names, reading, finding rows, writing, and HTTP itself are two thirds; fit and scores
  of 40,000 cards are the rest. See decisions 0022 and 0023.
- *A burst.* API server, etcd, kube-scheduler, plugins and operator share two cores, so
  a pod takes what all of them compute for it. The operator's part is spread evenly: a
  quarter answers HTTP, a fifth each goes into API requests, into binding, and into
  reading what the watches show, a tenth into filter and scores.
- *A start.* A pod costs 0.2 to 0.4 ms: JSON, what it asks for, what it holds, what that
  costs its cards and its quota. One core reads them one after another.
- *Requests beyond two a pod* are locks handed over while the plugin was removing them.
  The operator leaves a plugin longer when that has happened (decision 0017)."""
