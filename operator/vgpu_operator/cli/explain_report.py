"""What ``vgpu explain`` prints: the answer, the changes, the reasons, the nearest nodes."""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from vgpu_operator.cli import ages, core_counts, explain_preemption, explain_words, render
from vgpu_operator.flows import back_then, what_if

NARROW: Final = 100
"""Columns below which cards stand in lines of text instead of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What one node was like when the pod was refused.

    Attributes:
        node: which.
        event: the operator's words; None when no event is left that names the node.
        state: the node then, as far as it is known; None without an event.
        perhaps: the event's list of names is cut, and the node is not among those shown.
    """

    node: str
    event: explain_words.Told | None
    state: back_then.BackThen | None
    perhaps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What becomes of the copies of a workload, placed one after another.

    Attributes:
        wanted: how many there are to be.
        placed: the node of each that finds one.
    """

    wanted: int
    placed: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that is said.

    Attributes:
        found: the explanation; None where the pod is refused at admission.
        answer: one or two sentences.
        scheduler_words: what kube-scheduler last said.
        events: about the pod, the newest first.
        refused: only where one node was asked for.
        copies: of a workload that makes more than one pod.
        preemption: who leaves or would leave for it; None where nothing is to be said.
        left_out: vendors that the pod asks for and the settings leave out.
        operator: what JSON and YAML say of the operator's own view.
        unknown: what could not be looked at.
    """

    pod: str
    answer: Sequence[str]
    now: datetime.datetime
    found: what_if.Explanation | None = None
    scheduler_words: str = ""
    events: Sequence[explain_words.Told] = ()
    refused: Refused | None = None
    copies: Copies | None = None
    preemption: explain_preemption.Preemption | None = None
    left_out: Sequence[str] = ()
    operator: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    unknown: Sequence[str] = ()


def text(report: Report, screen: render.Screen, *, wide: bool) -> str:
    """Return the report as it is read on a terminal."""
    parts = ["\n".join(map(render.shown, report.answer))]
    found = report.found
    if found is not None and found.record.request.wants_devices:
        parts += _details(report, found, screen, wide=wide)
    if report.events and (found is None or not found.record.node):
        parts.append(_section("EVENTS", [_told(event, report.now) for event in report.events[:5]]))
    differences = report.operator.get("operatorDiffers", ())
    notes = [str(line["sentence"]) for line in differences] + list(report.unknown)
    if notes:
        parts.append(_section("NOTES", notes))
    return "\n\n".join(filter(None, parts))


def whole(report: Report) -> dict[str, Any]:
    """Return the report as JSON and YAML show it, without the nodes."""
    found = report.found
    shown: dict[str, Any] = {"pod": report.pod, "answer": list(report.answer)}
    if found is not None:
        shown |= {
            "node": found.record.node,
            "phase": found.record.phase,
            "asked": explain_words.asked(found.record.request),
            "nodePolicy": str(found.node_policy),
            "cardPolicies": [str(one) for one in found.card_policies],
            "ways": [explain_words.way_json(one) for one in found.ways],
            "reasons": [
                {"reason": words, "count": len(names), "nodes": names}
                for words, names in explain_words.groups(found)
            ],
            "fits": [node.name for node in found.takers],
        }
    if report.copies is not None:
        each = report.copies.placed
        placed = {node: each.count(node) for node in dict.fromkeys(each)}
        shown["copies"] = {"wanted": report.copies.wanted, "placed": placed}
    if report.preemption is not None:
        shown["preemption"] = dict(report.preemption.members)
    shown["scheduler"] = report.scheduler_words
    shown["events"] = [
        {
            "reason": event.reason,
            "message": event.message,
            "time": event.time.isoformat() if event.time is not None else None,
            "count": event.count,
        }
        for event in report.events
    ]
    if report.refused is not None:
        shown["refused"] = _refused_json(report.refused)
    shown |= report.operator
    shown["unknown"] = list(report.unknown)
    return shown


def node_rows(found: what_if.Explanation) -> list[render.Row]:
    """Return the nodes that were looked at card by card."""
    return [_node_row(node) for node in found.nodes if node.cards]


def _node_row(node: what_if.Node) -> render.Row:
    return {
        "node": node.name,
        "takes": node.takes,
        "reason": node.rejection.text if node.rejection is not None else "",
        "obstacles": [obstacle.sentence for obstacle in node.obstacles],
        "score": node.score,
        "cards": [
            {
                "card": card.device.id,
                "index": card.device.index,
                "vendor": card.vendor,
                "type": card.device.type,
                "memoryMiB": {"free": card.free_memory_mib, "total": card.device.memory_mib},
                "coresPercent": {"free": _free_cores(card), "total": _total_cores(card)},
                "slots": {"free": card.free_slots, "total": card.device.slots},
                "whyNot": card.why,
                "holders": [
                    {
                        "pod": str(holder.pod),
                        "container": holder.container,
                        "memoryMiB": holder.share.memory_mib,
                        "coresPercent": core_counts.number(card.vendor, holder.share.cores_percent),
                    }
                    for holder in card.holders
                ],
            }
            for card in node.cards
        ],
    }


def _details(
    report: Report, found: what_if.Explanation, screen: render.Screen, *, wide: bool
) -> Iterator[str]:
    yield _section("ASKED", explain_words.asked(found.record.request))
    if found.record.node:
        yield "What follows is as of now, without the pod itself."
    if report.scheduler_words and not found.record.node:
        yield _section("KUBE-SCHEDULER LAST SAID", [report.scheduler_words])
    if report.refused is not None:
        lines = _refused(report.refused, report.now)
        yield _section(f"NODE {report.refused.node} WHEN IT WAS REFUSED", lines)
    if report.preemption is not None:
        yield _section("PREEMPTION", report.preemption.lines)
    if found.ways:
        orders = [
            f"{number}. {explain_words.way(one)}" for number, one in enumerate(found.ways, start=1)
        ]
        yield _section("WHAT WOULD MAKE IT FIT (each by itself)", orders)
    reasons = explain_words.groups(found)
    if reasons and not (found.record.node or report.refused):
        yield _table(
            _REASONS, [{"reason": words, "names": names} for words, names in reasons], screen
        )
    rows = [{"node": node, "card": card} for node in found.nodes for card in (node.cards or ())]
    if rows:
        left = len(found.nodes) - sum(bool(node.cards) for node in found.nodes)
        narrow = screen.width is not None and screen.width < NARROW
        table = _stacked(rows) if narrow else _table(_CARDS, rows, screen, wide=wide)
        more = f"\n({left} more nodes: --all shows them, --node NAME one of them)" if left else ""
        yield f"{table}{more}"


def _refused(refused: Refused, now: datetime.datetime) -> Iterator[str]:
    if refused.event is None or refused.state is None:
        yield (
            f"No event is left that names {refused.node} (Events live for an hour): only what"
            " it is like now is known."
        )
        return
    event, state = refused.event, refused.state
    yield _told(event, now)
    if refused.perhaps:
        yield f"Perhaps: the event's list of names is cut, and {refused.node} is not shown in it."
    then = ", ".join(str(record.key) for record in state.stayed) or "no pod"
    yield f"Pods there then that are still there: {then}."
    came = ", ".join(str(record.key) for record in state.came) or "none"
    yield f"Pods that have come since: {came}."
    for vendor, usages in state.usage.items():
        for usage in usages:
            card = usage.device
            total = core_counts.number(vendor, card.cores_percent)
            cores = core_counts.free(vendor, usage.used_cores_percent, card.cores_percent)
            yield (
                f"{vendor} card {card.id} then had at most"
                f" {card.memory_mib - usage.used_memory_mib} of {card.memory_mib} MiB and"
                f" {cores} of {total} cores free."
            )
    yield "Pods that have left since, and what cards were registered then, the API no longer tells."
    if state.rejection is None:
        yield (
            "By what is still known the pod would have fitted: something that has left kept it off."
        )
    else:
        yield f"By what is still known the refusal was: {state.rejection.text}."


def _refused_json(refused: Refused) -> dict[str, Any]:
    state, event = refused.state, refused.event
    known = event is not None and not refused.perhaps
    shown: dict[str, Any] = {"node": refused.node, "known": known, "perhaps": refused.perhaps}
    if event is None or state is None:
        return shown
    return shown | {
        "time": event.time.isoformat() if event.time is not None else None,
        "words": event.message,
        "stayed": [str(record.key) for record in state.stayed],
        "came": [str(record.key) for record in state.came],
        "byWhatIsKnown": state.rejection.text if state.rejection is not None else "",
        "cards": [
            {
                "card": usage.device.id,
                "vendor": vendor,
                "freeMemoryMiBAtMost": usage.device.memory_mib - usage.used_memory_mib,
                "freeCoresPercentAtMost": core_counts.free(
                    vendor, usage.used_cores_percent, usage.device.cores_percent
                ),
            }
            for vendor, usages in state.usage.items()
            for usage in usages
        ],
    }


def _told(event: explain_words.Told, now: datetime.datetime) -> str:
    age = ages.encode_age(ages.age_s(event.time, now))
    return f"{event.reason}, {age} ago: {event.message}"


def _section(title: str, lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join([title, *(f"  {render.shown(line)}" for line in lines)])


def _table(
    columns: Sequence[render.Column],
    rows: Sequence[render.Row],
    screen: render.Screen,
    *,
    wide: bool = False,
) -> str:
    table = render.Table(kind="", columns=columns, rows=rows)
    return render.render(table, render.Output.WIDE if wide else render.Output.TABLE, screen)


def _stacked(rows: Sequence[render.Row]) -> str:
    """Return two lines a card, for a screen on which a table would be folded to bits."""
    lines = []
    for row in rows:
        card = row["card"]
        lines.append(f"{row['node'].name} {card.device.id}: {_why(row)}")
        lines.append(
            f"  free {card.free_memory_mib}/{card.device.memory_mib} MiB,"
            f" {_free_cores(card)}/{_total_cores(card)}{core_counts.unit(card.vendor) or '%'},"
            f" {card.free_slots}/{card.device.slots} slots; held by: {_held_by(row)}"
        )
    return "\n".join(map(render.shown, lines))


def _free_cores(card: what_if.Card) -> int:
    return core_counts.free(card.vendor, card.used_cores, card.device.cores_percent)


def _total_cores(card: what_if.Card) -> int:
    return core_counts.number(card.vendor, card.device.cores_percent)


def _why(row: render.Row) -> str:
    node, card = row["node"], row["card"]
    if card.why:
        return str(card.why)
    if node.obstacles:
        return "; ".join(obstacle.sentence for obstacle in node.obstacles)
    if node.rejection is not None:
        return "would do, but the node has too few such cards"
    return "fits"


def _held_by(row: render.Row) -> str:
    return (
        ", ".join(f"{holder.pod} ({holder.share.memory_mib} MiB)" for holder in row["card"].holders)
        or "-"
    )


_REASONS = (
    render.Column(header="NODES", text=lambda row: str(len(row["names"])), right=True),
    render.Column(header="WHY NOT", text=lambda row: str(row["reason"])),
    render.Column(header="NAMES", text=lambda row: explain_words.listed(row["names"])),
)

_CARDS = (
    render.Column(header="NODE", text=lambda row: str(row["node"].name)),
    render.Column(header="CARD", text=lambda row: str(row["card"].device.id)),
    render.Column(
        header="FREE(MiB)",
        text=lambda row: f"{row['card'].free_memory_mib}/{row['card'].device.memory_mib}",
        right=True,
    ),
    render.Column(
        header="FREE(%)",
        text=lambda row: (
            f"{_free_cores(row['card'])}/{_total_cores(row['card'])}"
            f"{core_counts.unit(row['card'].vendor)}"
        ),
        right=True,
    ),
    render.Column(
        header="SLOTS",
        text=lambda row: f"{row['card'].free_slots}/{row['card'].device.slots}",
        right=True,
    ),
    render.Column(
        header="FOR THIS POD",
        text=_why,
        style=lambda row: "green" if _why(row) == "fits" else "red",
    ),
    render.Column(header="HELD BY", text=_held_by),
    render.Column(header="TYPE", text=lambda row: str(row["card"].device.type), wide=True),
)


def names(message: str, node: str) -> bool:
    """Whether an event's message names the node.

    >>> names("2 nodes CardNotHealth (n1, n2)", "n1"), names("1 nodes x (n10)", "n1")
    (True, False)
    """
    return re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w.-])", message) is not None


def is_cut(message: str) -> bool:
    """Whether an event's message cuts its list of names short.

    >>> is_cut("9 nodes CardNotHealth (n1, …)"), is_cut("1 nodes CardNotHealth (n1)")
    (True, False)
    """
    return "…" in message
