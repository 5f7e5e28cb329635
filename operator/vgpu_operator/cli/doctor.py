"""``vgpu doctor``: known failures, each with its evidence, its cause and the fix."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from vgpu_operator.cli import collector, errors, options, render

if TYPE_CHECKING:
    from vgpu_operator.flows.doctor import catalogue
    from vgpu_operator.flows.doctor.cluster import Cluster
    from vgpu_operator.model import settings

_DURATION: Final = re.compile(r"(?P<number>\d{1,6})(?P<unit>s|m|)")


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("doctor")(doctor)


def doctor(
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="Only this namespace's pods and quotas."
        ),
    ] = None,
    watch_for: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Watch the nodes so long for counts that change (30s, 2m)."
        ),
    ] = None,
    audit_log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The API server's audit log: whom the admission policy noted."
        ),
    ] = None,
    known_writer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROGRAM",
            help="A program that may write the protocol's annotations; may come again.",
        ),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every place of a finding.", show_default=False)
    ] = False,
    output: options.Output = render.Output.TABLE,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Look for known failures: what shows each, why it comes, and what to do.

    Reads only, and needs no operator. What cannot be read for lack of rights is said and
    left out. Without --config and --device-config the installed operator's own settings
    count. Ends with 1 when something is wrong in what could be read.
    """
    from vgpu_operator.cli import installed_settings

    seconds = None if watch_for is None else parse_seconds(watch_for)
    report, cluster = collector.run(
        _examine(
            namespace=namespace,
            watch_for_s=seconds,
            audit_file=audit_log,
            known_writers=tuple(known_writer or ()),
            configured=installed_settings.given(config, device_config),
            kubeconfig=kubeconfig,
            context=context,
        )
    )
    _show(report, cluster, output, show_all=show_all)
    if report.findings:
        raise typer.Exit(errors.FAILED)


def parse_seconds(text: str) -> float:
    """Read a time such as ``30s`` or ``2m``; a bare number is seconds.

    >>> parse_seconds("2m"), parse_seconds("30")
    (120.0, 30.0)

    Raises:
        BadParameter: it is none.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"--watch-for {text!r} is no time; write 30s or 2m")
    return float(match["number"]) * (60 if match["unit"] == "m" else 1)


async def _examine(
    *,
    namespace: str | None,
    watch_for_s: float | None,
    audit_file: Path | None,
    known_writers: tuple[str, ...],
    configured: settings.Settings | None,
    kubeconfig: str | None,
    context: str | None,
) -> tuple[catalogue.Report, Cluster]:
    import dataclasses

    from vgpu_operator.cli import doctor_reader, installed_settings
    from vgpu_operator.flows.doctor import catalogue
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.model import settings

    async with await kube_client.KubeClient.connect(
        kubeconfig=kubeconfig, context=context
    ) as client:
        assumed: tuple[str, ...] = ()
        if configured is None:
            # Wrong ones end the look: the operator does not start with them either.
            installed = await installed_settings.read(client)
            configured = settings.Settings() if installed is None else installed
            assumed = (installed_settings.ASSUMED,) if installed is None else ()
        reader = doctor_reader.Reader(
            client, configured, namespace=namespace, known_writers=known_writers
        )
        cluster, notes = await reader.read(watch_for_s=watch_for_s, audit_file=audit_file)
    report = catalogue.examine(cluster)
    return dataclasses.replace(report, notes=(*assumed, *notes, *report.notes)), cluster


def _show(
    report: catalogue.Report, cluster: Cluster, output: render.Output, *, show_all: bool
) -> None:
    from vgpu_operator.cli import doctor_text

    for source, because in cluster.missing.items():
        options.note(f"not looked at: {source.value}, because {because}")
    left = doctor_text.not_looked_for(report)
    if left:
        options.note(f"so these were not looked for: {', '.join(left)}")
    screen = options.screen()
    if output in (render.Output.JSON, render.Output.YAML):
        text = render.render(doctor_text.table(report, cluster), output, screen)
    else:
        for sentence in report.notes:
            options.note(f"note: {sentence}")
        shown = doctor_text.lines(report, cluster, screen, show_all=show_all)
        text = "\n".join(shown)
    sys.stdout.write(text + "\n")
