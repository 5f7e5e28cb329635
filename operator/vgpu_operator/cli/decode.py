"""``vgpu decode``: any annotation of the protocol as a table."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vgpu_operator.cli import errors, options, render


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("decode")(decode)


def decode(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[KEY] TEXT",
            help="The annotation's key (guessed when left out) and its value; - reads the value "
            "from standard input.",
            show_default=False,
        ),
    ],
    output: options.Output = render.Output.TABLE,
) -> None:
    """Show what an annotation says, and what in it cannot be read (then the exit code is 1).

    Examples: vgpu decode 'GPU-a0,NVIDIA,4000,30:;'; vgpu decode hami.io/mutex.lock
    '2026-01-15T10:00:00Z,team-a,p1'; kubectl get node gpu-1 -o
    jsonpath='{.metadata.annotations.hami\\.io/node-nvidia-register}' | vgpu decode -
    """
    from vgpu_operator.cli import annotation_kinds

    if len(words) > 2:
        raise typer.BadParameter("give one KEY and one TEXT; put quotes around the text")
    key, text = words if len(words) == 2 else ("", words[0])
    if text == "-":
        text = sys.stdin.read().strip("\r\n")
    reading = annotation_kinds.read(text, key=key)
    table = annotation_kinds.table(reading)
    if table.rows or not reading.faults or output in (render.Output.JSON, render.Output.YAML):
        options.show(table, output, empty=f"{reading.title}: empty")
    for fault in reading.faults:
        options.note(f"unreadable: {fault}")
    if reading.faults:
        raise typer.Exit(errors.FAILED)
