"""A report of ``vgpu doctor`` becomes text for people, or rows for programs."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import typer

from vgpu_operator.cli import render
from vgpu_operator.flows.doctor import catalogue
from vgpu_operator.flows.doctor.cluster import Cluster
from vgpu_operator.flows.doctor.finding import Finding, Severity

SHOWN: Final = 3
"""Places of one finding that are shown without ``--all``."""

_WIDEST: Final = 100
_COLOURS: Final = {Severity.ERROR: typer.colors.RED, Severity.WARNING: typer.colors.YELLOW}


def table(report: catalogue.Report, cluster: Cluster) -> render.Table:
    """Return the whole report for JSON and YAML."""
    rows = [
        {
            "signature": one.signature,
            "severity": one.severity.value,
            "title": one.title,
            "object": {
                "kind": one.place.kind,
                "namespace": one.place.namespace,
                "name": one.place.name,
            },
            "evidence": list(one.evidence),
            "cause": one.cause,
            "fix": one.fix,
            "page": f"docs/{one.page}",
        }
        for one in report.findings
    ]
    extra: dict[str, Any] = {
        "checked": counts(report, cluster),
        "signatures": list(report.judged),
        "notJudged": list(report.skipped),
        "notLookedAt": [
            {"source": source.value, "because": because}
            for source, because in cluster.missing.items()
        ],
        "notes": list(report.notes),
    }
    return render.Table(kind="DoctorReport", columns=(), rows=rows, extra=extra)


def counts(report: catalogue.Report, cluster: Cluster) -> Mapping[str, int]:
    """Return how much was looked at."""
    return {
        "signatures": len(report.judged),
        "nodes": len(cluster.nodes),
        "podsWithCards": sum(1 for _ in cluster.device_pods()),
        "devicePluginPods": sum(1 for _ in cluster.plugins()),
    }


def not_looked_for(report: catalogue.Report) -> tuple[str, ...]:
    """Return the signatures of which not enough could be read.

    Counts that change are looked for only on request, so they are no gap.
    """
    return tuple(one for one in report.skipped if one != "allocatable-flapping")


def lines(
    report: catalogue.Report, cluster: Cluster, screen: render.Screen, *, show_all: bool
) -> Iterator[str]:
    """Yield the report for people: equal findings together, the worst first."""
    width = min(screen.width or _WIDEST, _WIDEST)
    for group in _groups(report.findings):
        yield from _group_lines(group, screen, width=width, show_all=show_all)
        yield ""
    yield _summary(report, cluster)


def _groups(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Put together what has one signature, cause and fix."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.signature, one.cause, one.fix), []).append(one)
    return list(groups.values())


def _group_lines(
    group: Sequence[Finding], screen: render.Screen, *, width: int, show_all: bool
) -> Iterator[str]:
    first = group[0]
    word = first.severity.value.upper()
    if screen.colour:
        word = typer.style(word, fg=_COLOURS[first.severity], bold=True)
    yield f"{word}  {first.title} ({first.signature})"
    shown = group if show_all else group[:SHOWN]
    for one in shown:
        yield from _wrapped(str(one.place), width, indent="  ")
        for text in one.evidence:
            yield from _wrapped(text, width, indent="    ")
    rest = Counter(one.place.kind for one in group[len(shown) :])
    for kind, count in sorted(rest.items()):
        yield f"  and {count} other {kind}{'s' if count > 1 else ''} (--all shows them)"
    yield from _wrapped(f"cause: {first.cause}", width, indent="  ", hang=7)
    yield from _wrapped(f"fix:   {first.fix}", width, indent="  ", hang=7)
    yield f"  page:  docs/{first.page}"


def _wrapped(text: str, width: int, *, indent: str, hang: int = 2) -> list[str]:
    return textwrap.wrap(
        render.shown(text),
        width=max(width, 40),
        initial_indent=indent,
        subsequent_indent=indent + " " * hang,
        break_on_hyphens=False,
    )


def _summary(report: catalogue.Report, cluster: Cluster) -> str:
    found = Counter(one.severity for one in report.findings)
    said = ", ".join(
        f"{count} {word.value}{'s' if count > 1 else ''}"
        for word in Severity
        if (count := found.get(word, 0))
    )
    looked = counts(report, cluster)
    left = len(not_looked_for(report))
    if left:
        part = f"({looked['signatures']} of {looked['signatures'] + left})"
        said = f"{said or 'nothing found'} in what could be read {part}"
    return (
        f"{said or 'nothing found'}: {looked['signatures']} signatures checked on"
        f" {looked['nodes']} nodes, {looked['podsWithCards']} pods with cards,"
        f" {looked['devicePluginPods']} pods of device plugins"
    )
