"""``vgpu pods``: which pod holds which card, and which pods wait for one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_operator.cli import options, render

if TYPE_CHECKING:
    from vgpu_operator.cli import cluster_view
    from vgpu_operator.ledger import residents
    from vgpu_operator.model import records, settings


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("pods")(pods)


def pods(
    name: Annotated[str | None, typer.Argument(help="Only this pod.")] = None,
    namespace: options.Namespace = None,
    all_namespaces: options.AllNamespaces = False,
    selector: options.Selector = None,
    output: options.Output = render.Output.TABLE,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show the pods that hold cards, and those that wait for one with the scheduler's words.

    Cards of all vendors count, of those too that the operator leaves off. Give its
    settings where they rename resources or chips.
    """
    from vgpu_operator.cli import run

    if all_namespaces and name:
        raise typer.BadParameter("a pod is named within one namespace: leave out -A or the name")
    asyncio.run(
        _pods(
            name=name,
            namespace=None if all_namespaces else namespace or "",
            selector=selector,
            output=output,
            configured=run.load_settings(config, device_config=device_config),
            kubeconfig=kubeconfig,
            context=context,
        )
    )


async def _pods(
    *,
    name: str | None,
    namespace: str | None,
    selector: str | None,
    output: render.Output,
    configured: settings.Settings,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print the table; an empty namespace is the context's own, None is every one."""
    from vgpu_operator.cli import cluster_view, kube_context
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import paths

    if namespace == "":
        namespace = kube_context.default_namespace(kubeconfig=kubeconfig, context=context)
    async with await kube_client.KubeClient.connect(
        kubeconfig=kubeconfig, context=context
    ) as client:
        if name and namespace:
            await client.get(paths.pod(namespace, name))
        view = await cluster_view.read_view(
            client, configured, namespace=namespace, pod_labels=selector, nodes_needed=False
        )
    where = f"in namespace {namespace}" if namespace else "in the cluster"
    who = f"pod {namespace}/{name}" if name else "no pod"
    empty = f"{who} asks for no card" if name else f"{who} {where} asks for a card"
    options.show(pod_table(view, only=name), output, empty=empty)


def pod_table(view: cluster_view.ClusterView, *, only: str | None = None) -> render.Table:
    """Return one row per share of a card, and one per pod that holds none yet."""
    held_by: dict[str, list[residents.Holder]] = {}
    for node in {record.node for record in view.ledger.records() if record.node}:
        for holder in view.ledger.holders(node):
            held_by.setdefault(holder.pod.uid, []).append(holder)
    rows: list[render.Row] = []
    for record in sorted(view.ledger.records(), key=lambda record: record.key):
        if record.ended or (only is not None and record.key.name != only):
            continue
        held = held_by.get(record.key.uid, [])
        if not held and not record.request.wants_devices:
            continue
        rows.extend(
            _row(
                record,
                container=record.request.containers[holder.container].name,
                vendor=holder.vendor,
                card=holder.share.device_id,
                memory_mib=holder.share.memory_mib,
                cores_percent=holder.share.cores_percent,
                message=_fault(record),
            )
            for holder in held
        )
        if not held:
            rows.append(_row(record, message=_why_none(record, view)))
    return render.Table(kind="PodShareList", columns=_COLUMNS, rows=rows)


def _row(
    record: records.PodRecord,
    *,
    container: str = "",
    vendor: str = "",
    card: str = "",
    memory_mib: int | None = None,
    cores_percent: int | None = None,
    message: str = "",
) -> render.Row:
    return {
        "namespace": record.key.namespace,
        "pod": record.key.name,
        "node": record.node,
        "container": container,
        "vendor": vendor,
        "card": card,
        "memoryMiB": memory_mib,
        "coresPercent": cores_percent,
        "phase": record.phase or "Pending",
        "deleting": record.deleting,
        "bindPhase": record.bind_phase.value if record.bind_phase else "",
        "message": message,
    }


def _fault(record: records.PodRecord) -> str:
    """Return what cannot be read of a pod's promise."""
    return "; ".join(str(fault) for fault in record.faults.values())


def _why_none(record: records.PodRecord, view: cluster_view.ClusterView) -> str:
    """Return why a pod that asks for cards holds none."""
    if not record.node:
        said = view.messages.get(record.key.uid, "")
        return said or record.request.impossible or "not looked at by a scheduler yet"
    return _fault(record) or "bound without a promise: it went past the scheduler"


def _phase(row: render.Row) -> str:
    if row["deleting"]:
        return "Terminating"
    if row["phase"] == "Pending" and row["bindPhase"]:
        return f"Pending ({row['bindPhase']})"
    if row["bindPhase"] == "failed":
        return f"{row['phase']} (failed)"
    return str(row["phase"])


def _or_dash(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


_COLUMNS = (
    render.Column(header="NAMESPACE", text=lambda row: str(row["namespace"])),
    render.Column(header="POD", text=lambda row: str(row["pod"])),
    render.Column(header="NODE", text=lambda row: _or_dash(row["node"])),
    render.Column(header="CONTAINER", text=lambda row: _or_dash(row["container"])),
    render.Column(header="CARD", text=lambda row: _or_dash(row["card"])),
    render.Column(header="MEMORY(MiB)", text=lambda row: _or_dash(row["memoryMiB"]), right=True),
    render.Column(header="CORES(%)", text=lambda row: _or_dash(row["coresPercent"]), right=True),
    render.Column(
        header="PHASE",
        text=_phase,
        style=lambda row: {"Running": "green", "Pending": "yellow"}.get(_phase(row), ""),
    ),
    render.Column(header="VENDOR", text=lambda row: _or_dash(row["vendor"]), wide=True),
    render.Column(header="MESSAGE", text=lambda row: str(row["message"])),
)
