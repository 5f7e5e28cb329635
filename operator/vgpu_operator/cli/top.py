"""``vgpu top``: how full nodes and cards are, as bars."""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vgpu_operator.cli import bars, collector, completion, operator_view, options, render, watching

if TYPE_CHECKING:
    from vgpu_operator.cli import cluster_view
    from vgpu_operator.ledger import nodes as ledger_nodes
    from vgpu_operator.model import records, settings

MOST_FREE: Final = 10
"""Cards that ``--free`` shows unless all are asked for."""

_WIDEST: Final = 20
_NARROWEST: Final = 4
_PIPE: Final = 10
_BARS: Final = (("memoryMiB", "MEMORY(MiB)"), ("coresPercent", "CORES(%)"), ("slots", "SLOTS"))


class SortBy(enum.StrEnum):
    """What ``--sort-by`` may say."""

    NAME = "name"
    MEMORY = "memory"
    CORES = "cores"
    SLOTS = "slots"


_MEMBERS: Final = {
    SortBy.MEMORY: "memoryMiB",
    SortBy.CORES: "coresPercent",
    SortBy.SLOTS: "slots",
}


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("top")(top)


def top(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NODE", help="Only this node.", autocompletion=completion.node_names
        ),
    ] = None,
    selector: options.Selector = None,
    sort_by: Annotated[
        SortBy, typer.Option("--sort-by", help="What comes first: the fullest, or by name.")
    ] = SortBy.MEMORY,
    free: Annotated[
        bool,
        typer.Option(
            "--free",
            help="How much is free on one card: the cards that take new pods, the most free "
            "memory first.",
            show_default=False,
        ),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="With --free: every card.", show_default=False)
    ] = False,
    output: options.Output = render.Output.TABLE,
    watch: watching.Watch = False,
    operator: operator_view.Operator = None,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show how much of each node's cards is promised to pods: nodes in total, then cards.

    What is shown is what was promised, not what programs use just now. Without --config
    and --device-config the installed operator's own settings count.

    Examples: vgpu top; vgpu top -l zone=a --watch; vgpu top --free
    """
    from vgpu_operator.cli import installed_settings

    if everything and not free:
        raise typer.BadParameter("--all goes with --free; without it every card is shown anyway")
    collector.run(
        _top(
            name=name,
            selector=selector,
            make=_free_table(everything) if free else _use_table(sort_by),
            key=_card_key if free else _use_key,
            free=free,
            output=output,
            watch=watch,
            operator=operator,
            given=installed_settings.given(config, device_config),
            kubeconfig=kubeconfig,
            context=context,
        ),
        lasts=watch,
    )


_Make = Callable[["cluster_view.ClusterView"], render.Table]


async def _top(
    *,
    name: str | None,
    selector: str | None,
    make: _Make,
    key: Callable[[render.Row], object],
    free: bool,
    output: render.Output,
    watch: bool,
    operator: str | None,
    given: settings.Settings | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    from vgpu_operator.cli import cluster_view, installed_settings
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import paths

    async with await kube_client.KubeClient.connect(
        kubeconfig=kubeconfig, context=context
    ) as client:
        if name:
            await client.get(paths.node(name))
        configured = await installed_settings.announced(client, given)
        nodes = watching.nodes(client, name=name, selector=selector)
        pods = watching.Follower(client, paths.PODS)
        if watch:
            await watching.watch(
                (nodes, pods),
                lambda: make(cluster_view.view_of(nodes.objects, pods.objects, configured)),
                key,
                output,
            )
            return
        await nodes.list()
        await pods.list()
        theirs = await operator_view.read(client, operator)
    view = cluster_view.view_of(nodes.objects, pods.objects, configured)
    differences = operator_view.differences(view.ledger, view.vendors, theirs)
    table = make(view)
    members = operator_view.members(theirs, differences)
    table = dataclasses.replace(table, extra={**table.extra, **members})
    operator_view.tell(differences, output)
    if free and table.rows and output in (render.Output.TABLE, render.Output.WIDE):
        sys.stdout.write(render.shown(table.extra["answer"]) + "\n\n")
    empty = "no card takes a new pod" if free else "no node has registered a card"
    options.show(table, output, empty=empty)


def use_rows(view: cluster_view.ClusterView, sort_by: SortBy) -> list[render.Row]:
    """Return for each node its total and its cards."""
    groups = []
    for node in sorted(view.nodes):
        cards = _cards(view, [node])
        if cards:
            total = {"what": "node", "node": node, "card": "", "type": "", "state": ""}
            groups.append(({**total, **_sums(cards)}, cards))
    if sort_by is not SortBy.NAME:
        member = _MEMBERS[sort_by]
        groups.sort(key=lambda group: -_share(group[0][member]))
        for _, cards in groups:
            cards.sort(key=lambda row: -_share(row[member]))
    return [row for total, cards in groups for row in (total, *cards)]


def _cards(view: cluster_view.ClusterView, nodes: Iterable[str]) -> list[dict[str, Any]]:
    return [
        _card(view.nodes[node], vendor, usage)
        for node in nodes
        for vendor, usage in view.cards(node)
    ]


def _card(node: records.NodeRecord, vendor: str, usage: ledger_nodes.CardUsage) -> dict[str, Any]:
    from vgpu_operator.cli import core_counts

    card = usage.device
    words = [] if card.healthy else ["unhealthy"]
    words += ["cordoned"] * (card.id in node.cordoned)
    words += ["no plugin"] * (not node.allocatable.get(vendor))
    return {
        "what": "card",
        "node": node.name,
        "card": card.id,
        "index": card.index,
        "vendor": vendor,
        "type": card.type,
        "state": ", ".join(words),
        "memoryMiB": {"used": usage.used_memory_mib, "total": card.memory_mib},
        "coresPercent": {
            "used": core_counts.number(vendor, usage.used_cores_percent),
            "total": core_counts.number(vendor, card.cores_percent),
        },
        "slots": {"used": usage.used_slots, "total": card.slots},
    }


def _sums(cards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        member: {part: sum(row[member][part] for row in cards) for part in ("used", "total")}
        for member, _ in _BARS
    }


def _share(amounts: Mapping[str, int]) -> float:
    return amounts["used"] / amounts["total"] if amounts["total"] > 0 else 0.0


def _use_table(sort_by: SortBy) -> _Make:
    def make(view: cluster_view.ClusterView) -> render.Table:
        rows = use_rows(view, sort_by)
        total = _sums([row for row in rows if row["what"] == "card"])
        return render.Table(
            kind="UseList", columns=_columns(rows), rows=rows, extra={"total": total}
        )

    return make


def _free_table(everything: bool) -> _Make:
    def make(view: cluster_view.ClusterView) -> render.Table:
        rows = [
            {**row, "freeMemoryMiB": row["memoryMiB"]["total"] - row["memoryMiB"]["used"]}
            for row in _cards(view, sorted(view.nodes))
            if not row["state"] and row["slots"]["used"] < row["slots"]["total"]
        ]
        rows.sort(key=lambda row: (-row["freeMemoryMiB"], row["node"], row["index"]))
        answer = "no card takes a new pod"
        if rows:
            first = rows[0]
            answer = (
                f"The most memory free on one card is {first['freeMemoryMiB']} MiB: card"
                f" {first['card']} on {first['node']} ({_taking(len(rows))})."
            )
        shown = rows if everything else rows[:MOST_FREE]
        extra = {"answer": answer, "cards": len(rows)}
        return render.Table(kind="FreeCardList", columns=_columns(shown), rows=shown, extra=extra)

    return make


def _taking(number: int) -> str:
    return "1 card takes new pods" if number == 1 else f"{number} cards take new pods"


def _card_key(row: render.Row) -> object:
    return row["node"], row["card"]


def _use_key(row: render.Row) -> object:
    return row["what"], row["node"], row["card"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How an amount is shown.

    Attributes:
        width: of the bar; 0 is none.
        percent: behind it stands the share that is used, instead of both numbers.
        plain: the bar is of ASCII.
    """

    width: int = 0
    percent: bool = False
    plain: bool = True

    def text(self, row: render.Row, member: str) -> str:
        amounts = row[member]
        used, total = amounts["used"], amounts["total"]
        label = f"{_share(amounts):.0%}" if self.percent else f"{used}/{total}{_unit(row, member)}"
        if not self.width:
            return label
        return f"{bars.bar(used, total, width=self.width, plain=self.plain)} {label}"


def _columns(rows: Sequence[render.Row]) -> tuple[render.Column, ...]:
    """Return the columns, the bars as wide as the screen leaves room for."""
    form = _form(rows, options.screen().width)
    return (
        render.Column(header="NODE/CARD", text=_name),
        *(_bar_column(member, header, form) for member, header in _BARS),
        render.Column(header="STATE", text=lambda row: str(row["state"])),
        render.Column(header="TYPE", text=lambda row: str(row["type"]), wide=True),
    )


def _bar_column(member: str, header: str, form: _Form) -> render.Column:
    return render.Column(
        header=header,
        text=lambda row: form.text(row, member),
        style=lambda row: bars.colour(row[member]["used"], row[member]["total"]),
    )


def _unit(row: render.Row, member: str) -> str:
    from vgpu_operator.cli import core_counts

    return core_counts.unit(row.get("vendor", "")) if member == "coresPercent" else ""


def _name(row: render.Row) -> str:
    if row["what"] == "node":
        return str(row["node"])
    return f"  {row['card']}" if "freeMemoryMiB" not in row else f"{row['node']}/{row['card']}"


def _form(rows: Sequence[render.Row], screen_width: int | None) -> _Form:
    """Return the form with which a line holds: bars with numbers, else with percent, else none."""
    plain = not _can_draw()
    if screen_width is None:
        return _Form(width=_PIPE, plain=plain)
    for percent in (False, True):
        label = _Form(percent=percent)
        taken = max((len(_name(row)) for row in rows), default=0)
        taken += max((len(row["state"]) for row in rows), default=0) or len("STATE")
        taken += sum(
            max(len(header), *(len(label.text(row, member)) + 1 + _NARROWEST for row in rows))
            - _NARROWEST
            for member, header in _BARS
            if rows
        )
        left = (screen_width - taken - render.GAP * (len(_BARS) + 2)) // len(_BARS)
        if left >= _NARROWEST:
            return _Form(width=min(_WIDEST, left), percent=percent, plain=plain)
    return _Form(percent=True)


def _can_draw() -> bool:
    """Whether standard output shows block characters."""
    try:
        "█▏".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return sys.stdout.isatty()
