"""Options that several commands share, spelled as kubectl spells them."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from vgpu_operator.cli import render

Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig to use.")
]
Context = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig to use.")
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="Only this namespace."),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Every namespace.", show_default=False)
]
Selector = Annotated[
    str | None,
    typer.Option("--selector", "-l", metavar="LABELS", help="Only objects with these labels."),
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings file (YAML).")
]
DeviceConfig = Annotated[
    Path | None,
    typer.Option(
        "--device-config",
        metavar="FILE",
        help="HAMi's device-config.yaml; a field that --config names wins.",
    ),
]
Output = Annotated[render.Output, typer.Option("--output", "-o", help="How the answer is written.")]


def screen() -> render.Screen:
    """Return what standard output can show: colours and a width only on a terminal."""
    if not sys.stdout.isatty():
        return render.Screen()
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return render.Screen(width=shutil.get_terminal_size().columns, colour=colour)


def show(table: render.Table, output: render.Output, *, empty: str) -> None:
    """Print a table; one without rows is a sentence on standard error, as kubectl does it."""
    if not table.rows and output in (render.Output.TABLE, render.Output.WIDE):
        note(empty)
        return
    sys.stdout.write(render.render(table, output, screen()) + "\n")


def note(sentence: str) -> None:
    """Say something beside the answer, on standard error."""
    sys.stderr.write(render.shown(sentence) + "\n")
