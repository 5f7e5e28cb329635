"""Grafana dashboards, from a short description of their panels.

Grafana's own schema, as types, makes the JSON (grafana-foundation-sdk), so a file that is
written here is one that Grafana reads. ``chart_files.py`` writes them into the chart.

Units: memory is bytes; a ratio of cores is 0 to 100, of memory 0 to 1. Grafana's unit for
the first is ``percent``, for the second ``percentunit``: with the other one a full card
reads "1 %".
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmap_models

SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG: Final = "vgpu-operator"

Kind: TypeAlias = Literal["stat", "lines", "bars", "table", "heatmap"]

CARDS: Final = '{node=~"$node",device_type=~"$type"}'
SHARES: Final = '{node=~"$node",namespace=~"$namespace"}'
RATE: Final = "[$__rate_interval]"
OURS: Final = "and on (instance, job) vgpu_leader"
"""Every process has metrics of these names; only an operator's replica has this one, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query and what Grafana calls its lines."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        width: of 24.
        full: the value at which a gauge is full.
        warn_above: values above are shown in orange; None where no value is bad.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Kind = "lines"
    width: int = 8
    height: int = 7
    full: float | None = None
    warn_above: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A heading and its panels."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """What a reader may choose from: the values of one label."""

    name: str
    label: str
    metric: str
    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()


def q(expr: str, legend: str = "") -> Query:
    """Return a query."""
    return Query(expr=expr, legend=legend)


def one(title: str, about: str, expr: str, unit: str = "short", **more: Any) -> Panel:
    """Return a panel that shows one number."""
    return Panel(
        title=title,
        about=about,
        queries=(q(expr),),
        unit=unit,
        kind="stat",
        **({"width": 4, "height": 4} | more),
    )


NODE: Final = Variable(name="node", label="Node", metric="hami_gpu_memory_limit_bytes", of="node")
TYPE: Final = Variable(
    name="type", label="Model", metric="hami_gpu_memory_limit_bytes", of="device_type"
)
NAMESPACE: Final = Variable(
    name="namespace",
    label="Namespace",
    metric="hami_vgpu_memory_allocated_bytes",
    of="namespace",
)

OVERVIEW: Final = Board(
    uid="vgpu-overview",
    title="vGPU / Cluster",
    about="How full the cluster's cards are, who holds them, and who waits.",
    variables=(TYPE,),
    rows=(
        Row(
            title="Cards",
            panels=(
                one(
                    "Cards",
                    "Registered cards.",
                    'count(hami_gpu_memory_limit_bytes{device_type=~"$type"})',
                ),
                one(
                    "Memory",
                    "Schedulable memory of all cards.",
                    'sum(hami_gpu_memory_limit_bytes{device_type=~"$type"})',
                    "bytes",
                ),
                one(
                    "Memory promised",
                    "What pods hold of it.",
                    'sum(hami_gpu_memory_allocated_bytes{device_type=~"$type"})'
                    ' / sum(hami_gpu_memory_limit_bytes{device_type=~"$type"})',
                    "percentunit",
                ),
                one(
                    "Cores promised",
                    "What pods hold of all cores.",
                    'sum(hami_gpu_core_allocated_ratio{device_type=~"$type"})'
                    ' / sum(hami_gpu_core_limit_ratio{device_type=~"$type"})',
                    "percentunit",
                ),
                one(
                    "Shares",
                    "Containers that hold a card or a part of one.",
                    'sum(hami_gpu_shared_count{device_type=~"$type"})',
                ),
                one(
                    "Largest free memory",
                    "The most that one container can get on one card, as far as memory goes.",
                    'max(hami_gpu_memory_limit_bytes{device_type=~"$type"}'
                    " - ignoring(device_cores)"
                    ' hami_gpu_memory_allocated_bytes{device_type=~"$type"})',
                    "bytes",
                ),
                Panel(
                    title="Memory by model",
                    about="Promised and schedulable memory of each model.",
                    unit="bytes",
                    width=12,
                    queries=(
                        q(
                            "sum by (device_type)"
                            ' (hami_gpu_memory_allocated_bytes{device_type=~"$type"})',
                            "{{device_type}} promised",
                        ),
                        q(
                            "sum by (device_type)"
                            ' (hami_gpu_memory_limit_bytes{device_type=~"$type"})',
                            "{{device_type}} schedulable",
                        ),
                    ),
                ),
                Panel(
                    title="Cards by state",
                    about="Unhealthy and cordoned cards take no new pod.",
                    width=6,
                    queries=(q("sum by (state) (vgpu_cards)", "{{state}}"),),
                ),
                Panel(
                    title="Empty and shared cards",
                    about="Cards by how many containers share them.",
                    width=6,
                    queries=(
                        q('sum(hami_gpu_shared_count{device_type=~"$type"} == bool 0)', "empty"),
                        q('sum(hami_gpu_shared_count{device_type=~"$type"} == bool 1)', "one"),
                        q('sum(hami_gpu_shared_count{device_type=~"$type"} > bool 1)', "several"),
                    ),
                ),
            ),
        ),
        Row(
            title="Who holds what",
            panels=(
                Panel(
                    title="Memory by namespace",
                    about="What each namespace's pods hold.",
                    unit="bytes",
                    width=12,
                    queries=(
                        q(
                            "topk(10, sum by (namespace) (hami_vgpu_memory_allocated_bytes))",
                            "{{namespace}}",
                        ),
                    ),
                ),
                Panel(
                    title="Quotas in use",
                    about="Of each limited resource of a namespace.",
                    unit="percentunit",
                    kind="bars",
                    width=12,
                    full=1.0,
                    queries=(
                        q(
                            "topk(20, sum without (limit) (hami_resource_quota_used)"
                            " / (hami_resource_quota_limit > 0))",
                            "{{namespace}} {{quota_name}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            title="Who waits",
            panels=(
                Panel(
                    title="Pods",
                    about="Refused: fitted nowhere when last asked. Pending: bound, and their"
                    " device plugin is not done with them.",
                    queries=(
                        q("max(vgpu_pods_refused)", "refused"),
                        q("max(vgpu_binds_waiting)", "waiting for a lock"),
                        q("max(vgpu_allocations_pending)", "pending allocation"),
                    ),
                ),
                Panel(
                    title="Why nodes refuse",
                    about="Nodes kept off pods by the filter, by reason.",
                    unit="cps",
                    queries=(
                        q(
                            f"sum by (reason) (rate(vgpu_node_rejections_total{RATE}))",
                            "{{reason}}",
                        ),
                    ),
                ),
                Panel(
                    title="Nodes by registration",
                    about="What their device plugins' registrations are worth.",
                    queries=(q("max by (vendor, state) (vgpu_node_registrations)", "{{state}}"),),
                ),
            ),
        ),
    ),
)

NODES: Final = Board(
    uid="vgpu-cards",
    title="vGPU / Nodes and cards",
    about="Every card of the chosen nodes, and the pods on it.",
    variables=(NODE, TYPE, NAMESPACE),
    rows=(
        Row(
            title="Cards",
            panels=(
                Panel(
                    title="Memory promised",
                    about="Of each card's memory, from 0 to 1 in the metric.",
                    unit="percentunit",
                    kind="bars",
                    width=12,
                    height=10,
                    full=1.0,
                    queries=(
                        q(
                            f"hami_node_gpu_memory_allocated_ratio{CARDS}",
                            "{{node}} {{device_index}}",
                        ),
                    ),
                ),
                Panel(
                    title="Cores promised",
                    about="Of each card's cores, in percent of one card.",
                    unit="percent",
                    kind="bars",
                    width=12,
                    height=10,
                    full=100.0,
                    queries=(
                        q(f"hami_gpu_core_allocated_ratio{CARDS}", "{{node}} {{device_index}}"),
                    ),
                ),
                Panel(
                    title="Memory by node",
                    about="What pods hold on each node.",
                    unit="bytes",
                    width=12,
                    queries=(
                        q(f"sum by (node) (hami_gpu_memory_allocated_bytes{CARDS})", "{{node}}"),
                    ),
                ),
                Panel(
                    title="Shares by node",
                    about="Containers that share the node's cards.",
                    width=12,
                    queries=(q(f"sum by (node) (hami_gpu_shared_count{CARDS})", "{{node}}"),),
                ),
            ),
        ),
        Row(
            title="Pods",
            panels=(
                Panel(
                    title="Memory of each container on each card",
                    about="What the ledger charges; an init container that has ended shows 0.",
                    unit="bytes",
                    kind="table",
                    width=24,
                    height=10,
                    queries=(
                        q(
                            "sum by (namespace, pod, container, node, device_uuid)"
                            f" (hami_vgpu_memory_allocated_bytes{SHARES})"
                        ),
                    ),
                ),
                Panel(
                    title="Memory by pod",
                    about="The ten that hold the most.",
                    unit="bytes",
                    width=12,
                    queries=(
                        q(
                            "topk(10, sum by (namespace, pod)"
                            f" (hami_vgpu_memory_allocated_bytes{SHARES}))",
                            "{{namespace}}/{{pod}}",
                        ),
                    ),
                ),
                Panel(
                    title="Cores by pod",
                    about="The ten that hold the most, in percent of one card.",
                    unit="percent",
                    width=12,
                    queries=(
                        q(
                            "topk(10, sum by (namespace, pod)"
                            f" (hami_vgpu_core_allocated_ratio{SHARES}))",
                            "{{namespace}}/{{pod}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)


def _quantile(quantile: float, series: str, *by: str) -> str:
    labels = ", ".join(("le", *by))
    return f"histogram_quantile({quantile}, sum by ({labels}) (rate({series}_bucket{RATE})))"


HEALTH: Final = Board(
    uid="vgpu-scheduler",
    title="vGPU / Scheduler",
    about="Whether the operator itself is well, and where its time goes.",
    rows=(
        Row(
            title="At a glance",
            panels=(
                one("Leaders", "Exactly one is right.", "sum(vgpu_leader)", warn_above=1.5),
                one("Replicas ready", "Ledger complete.", "sum(vgpu_synced)"),
                one("Nodes", "Known to the leader.", "max(vgpu_nodes)"),
                one(
                    "Locks stuck",
                    "Locks that can pass to nobody: their nodes take no further pod.",
                    "max(vgpu_node_locks_stuck)",
                    warn_above=0.5,
                ),
                one(
                    "Allocations stuck",
                    "Bound pods that their device plugin does not serve.",
                    "max(vgpu_allocations_stuck)",
                    warn_above=0.5,
                ),
                one(
                    "By-passed pods",
                    "Pods that never passed the webhook.",
                    "max(vgpu_pods_bypassed)",
                    warn_above=0.5,
                ),
            ),
        ),
        Row(
            title="Answers to kube-scheduler",
            panels=(
                Panel(
                    title="Requests",
                    about="By verb and outcome.",
                    unit="reqps",
                    queries=(
                        q(
                            "sum by (verb, outcome)"
                            f" (rate(vgpu_extender_request_duration_seconds_count{RATE}))",
                            "{{verb}} {{outcome}}",
                        ),
                    ),
                ),
                Panel(
                    title="Time, 99th percentile",
                    about="A bind's includes waiting for its node's lock.",
                    unit="s",
                    queries=(
                        q(
                            _quantile(0.99, "vgpu_extender_request_duration_seconds", "verb"),
                            "{{verb}}",
                        ),
                    ),
                ),
                Panel(
                    title="Where the time goes",
                    about="Mean seconds of each part of an answer.",
                    unit="s",
                    queries=(
                        q(
                            "sum by (verb, phase)"
                            f" (rate(vgpu_extender_phase_duration_seconds_sum{RATE}))"
                            " / sum by (verb, phase)"
                            f" (rate(vgpu_extender_phase_duration_seconds_count{RATE}))",
                            "{{verb}} {{phase}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            title="Locks and allocations",
            panels=(
                Panel(
                    title="Lock held, 99th percentile",
                    about="From bind to the device plugin's answer: a node takes one pod at a"
                    " time meanwhile.",
                    unit="s",
                    queries=(
                        q(_quantile(0.5, "vgpu_node_lock_hold_seconds"), "half"),
                        q(_quantile(0.99, "vgpu_node_lock_hold_seconds"), "99 %"),
                    ),
                ),
                Panel(
                    title="Allocations",
                    about="How device plugins were done with bound pods.",
                    unit="cps",
                    queries=(
                        q(
                            "sum by (outcome)"
                            f" (rate(vgpu_allocation_duration_seconds_count{RATE}))",
                            "{{outcome}}",
                        ),
                    ),
                ),
                Panel(
                    title="Time to allocate",
                    about="From bound to success.",
                    kind="heatmap",
                    unit="s",
                    queries=(
                        q(
                            "sum by (le) (increase(vgpu_allocation_duration_seconds_bucket"
                            '{outcome="success"}[$__rate_interval]))',
                            "{{le}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            title="Process and API server",
            panels=(
                Panel(
                    title="Event loop lag, 99th percentile",
                    about="How late a timer is woken: everybody waits as long.",
                    unit="s",
                    queries=(q(_quantile(0.99, "vgpu_event_loop_lag_seconds", "pod"), "{{pod}}"),),
                ),
                Panel(
                    title="API requests",
                    about="By verb, resource and status; 0 is no answer.",
                    unit="reqps",
                    queries=(
                        q(
                            "sum by (verb, resource, status)"
                            f" (rate(vgpu_api_requests_total{RATE}))",
                            "{{verb}} {{resource}} {{status}}",
                        ),
                    ),
                ),
                Panel(
                    title="API time, 99th percentile",
                    about="How long the API server takes to answer.",
                    unit="s",
                    queries=(
                        q(_quantile(0.99, "vgpu_api_request_duration_seconds", "verb"), "{{verb}}"),
                    ),
                ),
                Panel(
                    title="Memory",
                    about="Resident memory of each replica.",
                    unit="bytes",
                    queries=(q(f"process_resident_memory_bytes {OURS}", "{{pod}}"),),
                ),
                Panel(
                    title="CPU",
                    about="Cores in use; one is all that the event loop can have.",
                    unit="cores",
                    queries=(q(f"rate(process_cpu_seconds_total{RATE}) {OURS}", "{{pod}}"),),
                ),
                Panel(
                    title="Admission",
                    about="Reviews by the webhook, by outcome.",
                    unit="reqps",
                    queries=(
                        q(
                            f"sum by (outcome) (rate(vgpu_admission_reviews_total{RATE}))",
                            "{{outcome}}",
                        ),
                    ),
                ),
                Panel(
                    title="What should stay 0",
                    about="Differences found by audits, writes that failed, events dropped,"
                    " requests sent again.",
                    unit="cps",
                    width=24,
                    queries=(
                        q(
                            f"sum(rate(vgpu_ledger_audit_differences_total{RATE}))",
                            "ledger differences",
                        ),
                        q(
                            f"sum by (kind) (rate(vgpu_effects_failed_total{RATE}))",
                            "failed {{kind}}",
                        ),
                        q(
                            f"sum by (reason) (rate(vgpu_events_dropped_total{RATE}))",
                            "dropped {{reason}}",
                        ),
                        q(f"sum(rate(vgpu_api_retries_total{RATE}))", "retries"),
                    ),
                ),
            ),
        ),
    ),
)

BOARDS: Final = (OVERVIEW, NODES, HEALTH)


def text(board: Board) -> str:
    """Return a dashboard as JSON."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags([TAG])
        .refresh("30s")
        .time("now-6h", "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
    )
    for variable in board.variables:
        made.with_variable(
            dashboard.QueryVariable(variable.name)
            .label(variable.label)
            .query(f"label_values({variable.metric}, {variable.of})")
            .datasource(SOURCE)
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
    number = itertools.count(1)
    for row in board.rows:
        made.with_row(dashboard.Row(row.title).id(next(number)))
        for panel in row.panels:
            made.with_panel(_panel(panel).id(next(number)))
    # What stands for "Grafana's default" is left out instead of null.
    found = json.loads(JSONEncoder().encode(made.build()))
    for panel in found["panels"]:
        if panel.get("options", ...) is None:
            del panel["options"]
    return json.dumps(found, sort_keys=True, indent=1) + "\n"


def _panel(panel: Panel) -> Any:
    builders = {
        "stat": stat.Panel,
        "lines": timeseries.Panel,
        "bars": bargauge.Panel,
        "table": table.Panel,
        "heatmap": heatmap.Panel,
    }
    made: Any = builders[panel.kind]()
    made.title(panel.title).description(panel.about).datasource(SOURCE)
    made.span(panel.width).height(panel.height).unit(panel.unit)
    for place, query in enumerate(panel.queries):
        made.with_target(_target(query, place, panel.kind))
    if panel.full is not None:
        made.min(0.0).max(panel.full)
    if panel.kind == "lines":
        made.min(0.0).fill_opacity(10.0)
        made.legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(common_models.LegendDisplayMode.LIST)
            .placement(common_models.LegendPlacement.BOTTOM)
        )
    if panel.kind == "bars":
        made.orientation(common_models.VizOrientation.HORIZONTAL)
        made.display_mode(common_models.BarGaugeDisplayMode.BASIC)
    if panel.kind == "heatmap":
        made.calculate(False)
        made.y_axis(heatmap.YAxisConfig().unit(panel.unit))
        made.rows_frame(heatmap.RowsHeatmapOptions().layout(common_models.HeatmapCellLayout.LE))
        made.color(
            heatmap.HeatmapColorOptions()
            .mode(heatmap_models.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
        )
    made.thresholds(_thresholds(panel.warn_above))
    return made


def _thresholds(warn_above: float | None) -> Any:
    steps: Sequence[models.Threshold] = [models.Threshold(value=None, color="green")]
    if warn_above is not None:
        steps = [*steps, models.Threshold(value=warn_above, color="orange")]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(list(steps))


def _target(query: Query, place: int, kind: Kind) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(query.expr).ref_id(chr(ord("A") + place)).datasource(SOURCE)
    if query.legend:
        made.legend_format(query.legend)
    if kind in ("table", "bars", "stat"):
        made.instant()
    if kind == "table":
        made.format("table")
    if kind == "heatmap":
        made.format("heatmap")
    return made


def queries() -> list[tuple[str, str, str]]:
    """Return dashboard, panel and query of everything that is shown."""
    return [
        (board.title, panel.title, query.expr)
        for board in BOARDS
        for row in board.rows
        for panel in row.panels
        for query in panel.queries
    ]
