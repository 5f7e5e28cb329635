"""``vgpu pods``: which pod holds which card, and which pods wait for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_operator.cli import (
    collector,
    completion,
    errors,
    operator_view,
    options,
    render,
    watching,
)

if TYPE_CHECKING:
    from vgpu_operator.cli import card_names, cluster_view
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.ledger import residents
    from vgpu_operator.model import records, settings


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("pods")(pods)


def pods(
    name: Annotated[
        str | None,
        typer.Argument(help="Only this pod.", autocompletion=completion.pod_names),
    ] = None,
    namespace: options.Namespace = None,
    all_namespaces: options.AllNamespaces = False,
    selector: options.Selector = None,
    card: Annotated[
        str | None,
        typer.Option(
            "--card",
            metavar="ID|NODE/INDEX",
            help="Only those that share this card, of every namespace unless -n is given.",
        ),
    ] = None,
    surplus: Annotated[
        bool,
        typer.Option(
            "--surplus",
            help="Who promised too much: pods whose annotations promise more than they ask for, "
            "and cards that are promised beyond what they have.",
            show_default=False,
        ),
    ] = False,
    output: options.Output = render.Output.TABLE,
    watch: watching.Watch = False,
    operator: operator_view.Operator = None,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show the pods that hold cards, and those that wait for one with the scheduler's words.

    Cards of all vendors count, of those too that the operator leaves off. Without
    --config and --device-config the installed operator's own settings count. With
    --surplus the exit code is 1 when something was found.

    Examples: vgpu pods -A; vgpu pods --card gpu-7/0; vgpu pods --surplus
    """
    from vgpu_operator.cli import installed_settings

    if all_namespaces and name:
        raise typer.BadParameter("a pod is named within one namespace: leave out -A or the name")
    if surplus and (name or card or watch):
        raise typer.BadParameter("--surplus looks at all pods: leave out the name, --card, --watch")
    everywhere = all_namespaces or ((card is not None or surplus) and namespace is None)
    question = _Question(
        name=name,
        namespace=None if everywhere else namespace or "",
        selector=selector,
        card=card or "",
        output=output,
        operator=operator,
        given=installed_settings.given(config, device_config),
        kubeconfig=kubeconfig,
        context=context,
    )
    if surplus:
        collector.run(_surplus(question))
    else:
        collector.run(_pods(question, watch=watch), lasts=watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked; an empty namespace is the context's own, None is every one."""

    name: str | None
    namespace: str | None
    selector: str | None
    card: str
    output: render.Output
    operator: str | None
    given: settings.Settings | None
    kubeconfig: str | None
    context: str | None

    def in_namespace(self) -> str | None:
        from vgpu_operator.cli import kube_context

        if self.namespace != "":
            return self.namespace
        return kube_context.default_namespace(kubeconfig=self.kubeconfig, context=self.context)


async def _pods(question: _Question, *, watch: bool) -> None:
    from vgpu_operator.cli import card_names, cluster_view, installed_settings
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import paths

    name, namespace = question.name, question.in_namespace()
    async with await kube_client.KubeClient.connect(
        kubeconfig=question.kubeconfig, context=question.context
    ) as client:
        if name and namespace:
            await client.get(paths.pod(namespace, name))
        configured = await installed_settings.announced(client, question.given)
        if watch:
            await _watch(client, question, configured, namespace)
            return
        view = await cluster_view.read_view(
            client,
            configured,
            namespace=namespace,
            pod_labels=question.selector,
            nodes_needed=bool(question.card),
        )
        whole = namespace is None and not question.selector
        theirs = (
            await operator_view.read(client, question.operator)
            if whole or question.operator
            else operator_view.View()
        )
    differences: list[dict[str, Any]] = []
    on = card_names.find(view, question.card) if question.card else None
    if whole:
        nodes = None if on is None else {on.node}
        differences = operator_view.differences(view.ledger, view.vendors, theirs, nodes=nodes)
        operator_view.tell(differences, question.output)
    table = pod_table(view, only=name, on=on, extra=operator_view.members(theirs, differences))
    options.show(table, question.output, empty=_empty(question, namespace))


def _empty(question: _Question, namespace: str | None) -> str:
    where = f"in namespace {namespace}" if namespace else "in the cluster"
    if question.card:
        return f"no pod {where} holds a share of card {question.card}"
    if question.name:
        return f"pod {namespace}/{question.name} asks for no card"
    return f"no pod {where} asks for a card"


async def _watch(
    client: kube_client.KubeClient,
    question: _Question,
    configured: settings.Settings,
    namespace: str | None,
) -> None:
    from vgpu_operator.cli import card_names, cluster_view
    from vgpu_operator.kube import paths

    where = paths.PODS if namespace is None else paths.namespaced(namespace, "pods")
    selects = {"labelSelector": question.selector} if question.selector else None
    nodes = watching.Follower(client, paths.NODES, needed=bool(question.card))
    pods = watching.Follower(client, where, selects)

    def make() -> render.Table:
        view = cluster_view.view_of(nodes.objects, pods.objects, configured)
        on = card_names.find(view, question.card) if question.card else None
        return pod_table(view, only=question.name, on=on)

    await watching.watch(
        (nodes, pods),
        make,
        lambda row: (row["namespace"], row["pod"], row["container"], row["card"]),
        question.output,
    )


async def _surplus(question: _Question) -> None:
    from vgpu_operator.cli import installed_settings, promised_too_much
    from vgpu_operator.kube import client as kube_client

    async with await kube_client.KubeClient.connect(
        kubeconfig=question.kubeconfig, context=question.context
    ) as client:
        found = await promised_too_much.read(
            client,
            await installed_settings.announced(client, question.given),
            namespace=question.in_namespace(),
            pod_labels=question.selector,
        )
    options.show(
        promised_too_much.table(found),
        question.output,
        empty="no pod is promised more than it asks for, and no card more than it has",
    )
    if found:
        raise typer.Exit(errors.FAILED)


def pod_table(
    view: cluster_view.ClusterView,
    *,
    only: str | None = None,
    on: card_names.Place | None = None,
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> render.Table:
    """Return one row per share of a card, and one per pod that holds none yet.

    Args:
        view: the cluster.
        only: the pod of that name.
        on: shares of that card.
        extra: further members in JSON and YAML.
    """
    from vgpu_operator.cli import core_counts

    held_by: dict[str, list[residents.Holder]] = {}
    for node in {record.node for record in view.ledger.records() if record.node}:
        for holder in view.ledger.holders(node):
            held_by.setdefault(holder.pod.uid, []).append(holder)
    rows: list[render.Row] = []
    for record in sorted(view.ledger.records(), key=lambda record: record.key):
        if record.ended or (only is not None and record.key.name != only):
            continue
        held = held_by.get(record.key.uid, [])
        if on is not None:
            held = [one for one in held if record.node == on.node and one.share.card_id == on.card]
            if not held:
                continue
        if not held and not record.request.wants_devices:
            continue
        rows.extend(
            _row(
                record,
                container=_container(record, holder.container),
                vendor=holder.vendor,
                card=holder.share.device_id,
                memory_mib=holder.share.memory_mib,
                cores_percent=core_counts.number(holder.vendor, holder.share.cores_percent),
                message=_fault(record),
            )
            for holder in held
        )
        if not held:
            rows.append(_row(record, message=_why_none(record, view)))
    return render.Table(kind="PodShareList", columns=_COLUMNS, rows=rows, extra=extra)


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


def _container(record: records.PodRecord, place: int) -> str:
    """Return a container's name; its place where a promise has more entries than the pod has.

    Where annotations alone are trusted such an entry is charged too.
    """
    containers = record.request.containers
    return containers[place].name if place < len(containers) else f"(number {place + 1})"


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


def _cores(row: render.Row) -> str:
    from vgpu_operator.cli import core_counts

    return f"{_or_dash(row['coresPercent'])}{core_counts.unit(row['vendor'])}"


def _or_dash(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


_COLUMNS = (
    render.Column(header="NAMESPACE", text=lambda row: str(row["namespace"])),
    render.Column(header="POD", text=lambda row: str(row["pod"])),
    render.Column(header="NODE", text=lambda row: _or_dash(row["node"])),
    render.Column(header="CONTAINER", text=lambda row: _or_dash(row["container"])),
    render.Column(header="CARD", text=lambda row: _or_dash(row["card"])),
    render.Column(header="MEMORY(MiB)", text=lambda row: _or_dash(row["memoryMiB"]), right=True),
    render.Column(header="CORES(%)", text=_cores, right=True),
    render.Column(
        header="PHASE",
        text=_phase,
        style=lambda row: {"Running": "green", "Pending": "yellow"}.get(_phase(row), ""),
    ),
    render.Column(header="VENDOR", text=lambda row: _or_dash(row["vendor"]), wide=True),
    render.Column(header="MESSAGE", text=lambda row: str(row["message"])),
)
