"""``vgpu simulate``: where pods would go, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from vgpu_operator.cli import errors, options, render

if TYPE_CHECKING:
    import datetime

    from vgpu_operator.cli import manifests
    from vgpu_operator.flows import simulate as flow
    from vgpu_operator.flows.preemption.forecast import Forecast
    from vgpu_operator.model.allocation import Allocation
    from vgpu_operator.model.budgets import Budget
    from vgpu_operator.model.records import PodRecord


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("simulate")(simulate)


def simulate(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Nodes, Pods and ResourceQuotas as YAML or JSON, Lists too; - reads standard "
            "input; repeatable.",
        ),
    ] = None,
    preempt: Annotated[
        bool,
        typer.Option(
            "--preempt",
            help="Say who would be evicted for a pod that finds no node. PriorityClasses and "
            "PodDisruptionBudgets of the files count.",
            show_default=False,
        ),
    ] = False,
    cases: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="One case a line (JSON), - for standard input: answers one line for each.",
        ),
    ] = None,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    output: options.Output = render.Output.TABLE,
) -> None:
    """Place the pending pods of these files, one after another, with the operator's own rules.

    Pods with a node hold the cards that their annotations say. Only cards are
    judged: taints, affinity, CPU and memory are kube-scheduler's business. The
    exit code is 1 when some pod finds no node, with --preempt not even once others have
    left. With -o yaml or json the answer holds
    every annotation that would be written too.

    Examples: kubectl get nodes,pods,resourcequotas -A -o yaml | vgpu simulate -f -;
    vgpu simulate -f cluster.yaml -f new-pods.yaml -o json;
    vgpu simulate -f cluster.yaml -f new-pods.yaml --preempt
    """
    if bool(files) == bool(cases):
        raise typer.BadParameter("give either -f FILE or --cases FILE")
    if cases:
        if config is not None or device_config is not None:
            raise typer.BadParameter(
                "--cases brings its own settings: leave out --config and --device-config"
            )
        if preempt:
            raise typer.BadParameter("--preempt needs -f FILE: a case is answered as HAMi does")
        given = context.get_parameter_source("output")
        if given is not None and given.name != "DEFAULT":
            raise typer.BadParameter("--cases answers lines of JSON: leave out --output")
        _answer_cases(cases)
        return
    from vgpu_operator.cli import manifests, run
    from vgpu_operator.kube import clock

    found = manifests.read(files or ())
    for kind, number in sorted(found.others.items()):
        options.note(
            f"{number} of kind {kind} passed over: only Nodes, Pods, ResourceQuotas and, with"
            " --preempt, PriorityClasses and PodDisruptionBudgets count"
        )
    settings = run.load_settings(config, device_config=device_config)
    columns: tuple[render.Column, ...] = _COLUMNS
    budgets = None
    if preempt:
        from vgpu_operator.cli import simulate_preemption

        columns = (*_COLUMNS[:2], _PRIORITY, *_COLUMNS[2:4], _EVICTS, *_COLUMNS[4:])
        budgets = simulate_preemption.prepare(found)
    rows = list(placements(found, settings, clock.SystemClock().now(), budgets=budgets))
    table = render.Table(kind="PlacementList", columns=columns, rows=rows)
    options.show(table, output, empty=_nothing_to_place(found))
    if not all(row["fits"] or row.get("preemption", {}).get("node") for row in rows):
        raise typer.Exit(errors.FAILED)


def _answer_cases(path: str) -> None:
    import gc

    from vgpu_operator.cli import simulate_cases

    # Thousands of short worlds: looking through the modules again and again costs a fifth.
    gc.freeze()
    if path == "-":
        _write_lines(simulate_cases.answers(sys.stdin.buffer))
        return
    with _opened(path) as lines:
        _write_lines(simulate_cases.answers(lines))


def _write_lines(lines: Iterator[str]) -> None:
    """Write lines of JSON, which is UTF-8 whatever the terminal speaks."""
    sys.stdout.flush()
    for line in lines:
        sys.stdout.buffer.write(f"{line}\n".encode())


def _opened(path: str) -> BinaryIO:
    from vgpu_operator.model import errors as model_errors

    try:
        return Path(path).open("rb")
    except OSError as fault:
        raise model_errors.SettingsError(
            f"{path} cannot be read: {fault.strerror or fault}"
        ) from fault


def _nothing_to_place(found: manifests.Manifests) -> str:
    """Return why the answer is empty."""
    words = "no pod is pending that asks for a card"
    if any(_is_pending(raw) for raw in found.pods):
        words += " (no limit names a resource of these settings; see docs/vendors)"
    return words


def placements(
    found: manifests.Manifests,
    settings: Any,
    now: datetime.datetime,
    *,
    budgets: Sequence[Budget] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield what becomes of each pending pod that concerns us, in the order of the files.

    Args:
        found: what the files hold.
        settings: the operator's.
        now: the time.
        budgets: what keeps pods from being evicted; None = nobody is to be evicted.
    """
    from vgpu_operator.flows import simulate as flow
    from vgpu_operator.model import settings as model_settings
    from vgpu_operator.vendors import registry

    world = flow.Simulation(settings, registry.build(settings), patient=True)
    every = registry.build(model_settings.with_every_vendor(settings))
    world.see_quotas(found.quotas)
    world.see_pods(raw for raw in found.pods if not _is_pending(raw))
    nodes = tuple(world.see_nodes(found.nodes, now))
    for raw in found.pods:
        if not _is_pending(raw):
            continue
        admitted = world.admit(raw)
        record = world.record(admitted.pod)
        if not admitted.verdict.allowed:
            yield _row(record, message=f"refused at admission: {admitted.verdict.message}")
        elif record.scheduler == settings.scheduler_name:
            placed = world.place(record, nodes, now)
            row = _placed_row(placed, nodes, _written(raw, admitted.pod, placed))
            if budgets is not None:
                row["priority"] = record.priority
                if not row["fits"] and placed.bound is None:
                    row |= _preempting(world.preempt(placed, nodes, budgets, now), placed, nodes)
            yield row
        elif record.request.wants_devices:
            yield _row(
                record,
                message=f"it asks for cards, but its scheduler is {record.scheduler}",
            )
        elif chips := _switched_off(raw, every):
            yield _row(record, message=f"it asks for {chips}, which the settings leave out")


def _switched_off(raw: Mapping[str, Any], every: Sequence[Any]) -> str:
    """Return which chips of vendors that are off by default the pod asks for."""
    from vgpu_operator.vendors import requests

    return ", ".join(requests.without_weights(raw, every, aliases={}).vendors)


def _is_pending(raw: Mapping[str, Any]) -> bool:
    status = raw.get("status") or {}
    return not raw["spec"].get("nodeName") and status.get("phase", "Pending") == "Pending"


def _written(
    sent: Mapping[str, Any], admitted: Mapping[str, Any], placed: flow.Placed
) -> dict[str, Mapping[str, str | None]]:
    """Return every annotation that is written, by who writes it; None = removed."""
    from vgpu_operator.wire import shape

    had, has = shape.annotations(sent), shape.annotations(admitted)
    by_admission: dict[str, str | None] = dict.fromkeys(had.keys() - has.keys())
    by_admission |= {key: text for key, text in has.items() if had.get(key) != text}
    bound = placed.bound
    return {
        "admission": by_admission,
        "binding": dict(bound.annotations) if bound is not None else {},
        "node": dict(bound.node_annotations) if bound is not None else {},
    }


def _placed_row(
    placed: flow.Placed, nodes: tuple[str, ...], written: Mapping[str, Any]
) -> dict[str, Any]:
    if not placed.record.request.wants_devices:
        message = "it asks for no card: any node"
        return _row(placed.record, fits=True, message=message, written=written)
    if placed.granted is None or placed.bound is None or placed.bound.error:
        message = placed.bound.error if placed.bound is not None else _why_not(placed, nodes)
        return _row(placed.record, message=message, rejections=placed.rejections, written=written)
    return _row(
        placed.record,
        fits=True,
        node=placed.node or "",
        shares=_shares(placed.record, placed.granted),
        rejections=placed.rejections,
        scores={name: round(score, 2) for name, score in placed.scores.items()},
        written=written,
    )


def _shares(record: PodRecord, granted: Allocation) -> list[dict[str, Any]]:
    containers = record.request.containers
    return [
        {
            "container": containers[number].name,
            "vendor": vendor,
            "card": share.device_id,
            "memoryMiB": share.memory_mib,
            "cores": share.cores_percent,
        }
        for vendor, entries in granted.shares.items()
        for number, entry in enumerate(entries)
        for share in entry
    ]


def _preempting(forecast: Forecast, placed: flow.Placed, nodes: tuple[str, ...]) -> dict[str, Any]:
    """Return what preemption adds to the row of a pod that finds no node."""
    from vgpu_operator.cli import forecasts

    found, granted = forecasts.row(forecast), forecasts.granted(forecast)
    if granted is None:
        message = f"{_why_not(placed, nodes)}. {forecast.sentence}"
        return {"preemption": found, "message": message}
    shares = _shares(placed.record, granted)
    return {"preemption": found, "shares": shares, "message": forecast.sentence}


def _why_not(placed: flow.Placed, nodes: tuple[str, ...]) -> str:
    if not nodes:
        return "there is no node"
    impossible = placed.record.request.impossible
    return impossible or "no node fits: " + "; ".join(
        f"{name}: {why}" for name, why in placed.rejections.items()
    )


def _row(
    record: Any,
    *,
    fits: bool = False,
    node: str = "",
    message: str = "",
    shares: list[dict[str, Any]] | None = None,
    rejections: Mapping[str, Any] | None = None,
    scores: Mapping[str, float] | None = None,
    written: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "namespace": record.key.namespace,
        "pod": record.key.name,
        "fits": fits,
        "node": node,
        "shares": shares or [],
        "message": message,
        "scores": dict(scores or {}),
        "rejections": {name: str(why) for name, why in (rejections or {}).items()},
        "written": written or {},
    }


def _cards(row: render.Row) -> str:
    found = []
    for share in row["shares"]:
        cores = f", {share['cores']} cores" if share["cores"] else ""
        found.append(f"{share['container']}: {share['card']} ({share['memoryMiB']} MiB{cores})")
    return "; ".join(found)


def _evicts(row: render.Row) -> str:
    found = row.get("preemption", {})
    if not found.get("node"):
        return ""
    victims = [f"{one['namespace']}/{one['pod']}" for one in found["victims"]]
    return f"{', '.join(victims) or '<nobody>'} from {found['node']}"


_PRIORITY = render.Column(
    header="PRIORITY", text=lambda row: str(row.get("priority", "")), right=True
)
_EVICTS = render.Column(header="EVICTS", text=_evicts, style=lambda _: "yellow")

_COLUMNS = (
    render.Column(header="NAMESPACE", text=lambda row: str(row["namespace"])),
    render.Column(header="POD", text=lambda row: str(row["pod"])),
    render.Column(
        header="NODE",
        text=lambda row: str(row["node"] or ("<any>" if row["fits"] else "<none>")),
        style=lambda row: "" if row["fits"] else "red",
    ),
    render.Column(header="CARDS", text=_cards),
    render.Column(
        header="SCORES",
        text=lambda row: ", ".join(f"{name} {score:.2f}" for name, score in row["scores"].items()),
        wide=True,
    ),
    render.Column(header="MESSAGE", text=lambda row: str(row["message"])),
)
