"""``vgpu nodes``: every registered card and what pods hold of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_operator.cli import ages, collector, completion, operator_view, options, render, watching

if TYPE_CHECKING:
    import datetime

    from vgpu_operator.cli import cluster_view
    from vgpu_operator.ledger import nodes as ledger_nodes
    from vgpu_operator.model import records, settings


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("nodes")(nodes)


def nodes(
    name: Annotated[
        str | None,
        typer.Argument(help="Only this node.", autocompletion=completion.node_names),
    ] = None,
    selector: options.Selector = None,
    output: options.Output = render.Output.TABLE,
    watch: watching.Watch = False,
    operator: operator_view.Operator = None,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show every card: what it has, what pods hold of it, and how it is.

    Cards of all vendors are shown, of those too that the operator leaves off. Without
    --config and --device-config the installed operator's own settings count.

    Examples: vgpu nodes; vgpu nodes gpu-7 -o wide; vgpu nodes -l zone=a --watch
    """
    from vgpu_operator.cli import installed_settings

    collector.run(
        _nodes(
            name=name,
            selector=selector,
            output=output,
            watch=watch,
            operator=operator,
            given=installed_settings.given(config, device_config),
            kubeconfig=kubeconfig,
            context=context,
        ),
        lasts=watch,
    )


async def _nodes(
    *,
    name: str | None,
    selector: str | None,
    output: render.Output,
    watch: bool,
    operator: str | None,
    given: settings.Settings | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    from vgpu_operator.cli import cluster_view, installed_settings
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import clock

    async with await kube_client.KubeClient.connect(
        kubeconfig=kubeconfig, context=context
    ) as client:
        chosen = await _chosen(client, name=name, selector=selector)
        configured = await installed_settings.announced(client, given)
        if watch:
            await _watch(client, configured, name=name, selector=selector, output=output)
            return
        view = await cluster_view.read_view(client, configured)
        theirs = await operator_view.read(client, operator)
    for node, fault in view.faults:
        if chosen is None or node in chosen:
            options.note(f"warning: node {node}: {fault}")
    differences = operator_view.differences(view.ledger, view.vendors, theirs, nodes=chosen)
    table = card_table(
        view,
        clock.SystemClock().now(),
        only=chosen,
        extra=operator_view.members(theirs, differences),
    )
    operator_view.tell(differences, output)
    empty = f"node {name} has registered no card" if name else "no node has registered a card"
    options.show(table, output, empty=empty)


async def _watch(
    client: Any,
    configured: settings.Settings,
    *,
    name: str | None,
    selector: str | None,
    output: render.Output,
) -> None:
    from vgpu_operator.cli import cluster_view
    from vgpu_operator.kube import clock, paths

    nodes = watching.nodes(client, name=name, selector=selector)
    pods = watching.Follower(client, paths.PODS)

    def make() -> render.Table:
        view = cluster_view.view_of(nodes.objects, pods.objects, configured)
        return card_table(view, clock.SystemClock().now())

    await watching.watch((nodes, pods), make, lambda row: (row["node"], row["card"]), output)


async def _chosen(client: Any, *, name: str | None, selector: str | None) -> frozenset[str] | None:
    """Return the names of the nodes that were asked for; None is all of them.

    Raises:
        NotFound: there is no node of that name.
    """
    from vgpu_operator.kube import paths

    if name:
        await client.get(paths.node(name))
        return frozenset({name})
    if selector:
        found, _ = await client.list(paths.NODES, params={"labelSelector": selector})
        return frozenset(node["metadata"]["name"] for node in found)
    return None


def card_table(
    view: cluster_view.ClusterView,
    now: datetime.datetime,
    *,
    only: frozenset[str] | None = None,
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> render.Table:
    """Return one row per card, by node, vendor and index."""
    rows = [
        _row(view.nodes[node], vendor, usage, view, now)
        for node in sorted(view.nodes)
        if only is None or node in only
        for vendor, usage in view.cards(node)
    ]
    return render.Table(kind="CardList", columns=_COLUMNS, rows=rows, extra=extra)


def _row(
    node: records.NodeRecord,
    vendor: str,
    usage: ledger_nodes.CardUsage,
    view: cluster_view.ClusterView,
    now: datetime.datetime,
) -> render.Row:
    from vgpu_operator.cli import core_counts
    from vgpu_operator.wire import dialects

    card = usage.device
    dialect = dialects.FORERUNNER if vendor in node.older else dialects.HAMI
    lock_key = dialect.lock_key or view.vendors[vendor].spec.lock_key
    return {
        "node": node.name,
        "card": card.id,
        "index": card.index,
        "vendor": vendor,
        "type": card.type,
        "slots": {"used": usage.used_slots, "total": card.slots},
        "memoryMiB": {"used": usage.used_memory_mib, "total": card.memory_mib},
        "coresPercent": {
            "used": core_counts.number(vendor, usage.used_cores_percent),
            "total": core_counts.number(vendor, card.cores_percent),
        },
        "healthy": card.healthy,
        "cordoned": card.id in node.cordoned,
        "numa": card.numa,
        "mode": card.mode,
        "dialect": dialect.name,
        "handshake": _handshake(node.handshakes.get(vendor), now),
        "allocatable": node.allocatable.get(vendor),
        "lock": _lock(node.locks.get(lock_key or ""), now),
    }


def _handshake(text: str | None, now: datetime.datetime) -> dict[str, Any]:
    from vgpu_operator.wire import handshake

    read = handshake.decode_handshake(text)
    return {"state": read.state.value, "ageSeconds": ages.age_s(read.time, now)}


def _lock(text: str | None, now: datetime.datetime) -> dict[str, Any] | None:
    from vgpu_operator.model import errors
    from vgpu_operator.wire import node_lock

    if text is None:
        return None
    try:
        read = node_lock.decode_lock(text)
    except errors.DecodeError:
        return {"holder": "", "ageSeconds": None, "text": text}
    holder = f"{read.namespace}/{read.pod}" if read.owned else ""
    return {"holder": holder, "ageSeconds": ages.age_s(read.time, now), "text": text}


def _share(field: str) -> Any:
    return lambda row: f"{row[field]['used']}/{row[field]['total']}"


def _cores(row: render.Row) -> str:
    from vgpu_operator.cli import core_counts

    return f"{_share('coresPercent')(row)}{core_counts.unit(row['vendor'])}"


def _state(row: render.Row) -> str:
    words = [] if row["healthy"] else ["unhealthy"]
    if row["cordoned"]:
        words.append("cordoned")
    if row["allocatable"] == 0:
        words.append("no plugin")
    return ", ".join(words) or "healthy"


def _handshake_text(row: render.Row) -> str:
    found = row["handshake"]
    if found["state"] in ("absent", "unreadable"):
        return str(found["state"])
    return f"{found['state']} {ages.encode_age(found['ageSeconds'])}"


def _lock_text(row: render.Row) -> str:
    found = row["lock"]
    if found is None:
        return "-"
    return f"{found['holder'] or '(nobody)'} {ages.encode_age(found['ageSeconds'])}"


_COLUMNS = (
    render.Column(header="NODE", text=lambda row: str(row["node"])),
    render.Column(header="CARD", text=lambda row: str(row["card"])),
    render.Column(header="INDEX", text=lambda row: str(row["index"]), right=True),
    render.Column(header="TYPE", text=lambda row: str(row["type"])),
    render.Column(header="SLOTS", text=_share("slots"), right=True),
    render.Column(header="MEMORY(MiB)", text=_share("memoryMiB"), right=True),
    render.Column(header="CORES(%)", text=_cores, right=True),
    render.Column(
        header="STATE",
        text=_state,
        style=lambda row: "green" if _state(row) == "healthy" else "red",
    ),
    render.Column(header="VENDOR", text=lambda row: str(row["vendor"]), wide=True),
    render.Column(header="NUMA", text=lambda row: str(row["numa"]), wide=True, right=True),
    render.Column(header="MODE", text=lambda row: row["mode"] or "-", wide=True),
    render.Column(header="DIALECT", text=lambda row: str(row["dialect"]), wide=True),
    render.Column(header="HANDSHAKE", text=_handshake_text, wide=True),
    render.Column(
        header="ALLOCATABLE",
        text=lambda row: "-" if row["allocatable"] is None else str(row["allocatable"]),
        wide=True,
        right=True,
    ),
    render.Column(header="LOCK", text=_lock_text, wide=True),
)
