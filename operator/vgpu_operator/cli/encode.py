"""``vgpu encode``: the text of an annotation, of what ``vgpu decode -o json`` prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from vgpu_operator.cli import forms, options, render

if TYPE_CHECKING:
    from typing import BinaryIO

_LARGEST_INPUT: Final = 16 * 1024 * 1024
"""What ``vgpu decode`` makes of the largest text that it reads takes less."""


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("encode")(encode)


def encode(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The annotation's key.", show_default=False)
    ],
    decoded: Annotated[
        str | None,
        typer.Argument(
            metavar="[JSON|-]",
            help="What vgpu decode -o json prints; - or nothing reads it from standard input.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--filename", "-f", metavar="FILE", help="Read the JSON from this file."),
    ] = None,
    form: Annotated[
        forms.Form | None,
        typer.Option(
            "--as",
            help="Form of a list of cards: JSON, or fields with colons between the cards (nine, "
            "or only the first seven). Without it the form of the decoded text counts.",
        ),
    ] = None,
) -> None:
    """Print the text that an annotation must have to say this.

    The text is read back before it is printed: what it cannot say is an error.

    Examples: vgpu decode -o json hami.io/node-nvidia-register "$TEXT" | vgpu encode
    hami.io/node-nvidia-register --as legacy; vgpu encode hami.io/bind-phase
    '{"items": [{"phase": "success"}]}'
    """
    from vgpu_operator.cli import annotation_writers

    if decoded is not None and file is not None:
        raise typer.BadParameter("give either JSON or -f FILE")
    parsed = _parsed(_read(decoded, file))
    reading, text = annotation_writers.write(parsed, key=key, form=form)
    _print(text)
    left_out = _faults(parsed) - len(reading.faults)
    if left_out > 0:
        options.note(
            f"warning: the decoded text had {left_out} unreadable parts, which are left out"
        )


def _read(decoded: str | None, file: str | None) -> bytes:
    """Return the JSON, whoever gives it.

    Raises:
        DecodeError: there is too much of it.
        SettingsError: the file cannot be read.
    """
    from vgpu_operator.model import errors

    if file is not None and file != "-":
        try:
            with Path(file).open("rb") as source:
                return _limited(source)
        except OSError as fault:
            reason = fault.strerror or fault
            raise errors.SettingsError(f"{file} cannot be read: {reason}") from fault
    if decoded is None or decoded == "-":
        return _limited(sys.stdin.buffer)
    return decoded.encode(errors="surrogateescape")


def _limited(source: BinaryIO) -> bytes:
    from vgpu_operator.model import errors

    found = source.read(_LARGEST_INPUT + 1)
    if len(found) > _LARGEST_INPUT:
        raise errors.DecodeError(f"at most {_LARGEST_INPUT} bytes are read", key="JSON")
    return found


def _parsed(found: bytes) -> object:
    import json

    from vgpu_operator.model import errors

    try:
        return json.loads(found)
    except json.JSONDecodeError as fault:
        raise errors.DecodeError(
            f"it does not parse at offset {fault.pos}: {fault.msg}; give what vgpu decode -o json "
            "prints",
            key="JSON",
        ) from fault
    except (ValueError, RecursionError) as fault:  # no UTF-8, a huge number, lists in lists
        raise errors.DecodeError(
            f"it cannot be read: {fault}; give what vgpu decode -o json prints", key="JSON"
        ) from fault


def _faults(parsed: object) -> int:
    faults = parsed.get("faults") if isinstance(parsed, dict) else None
    return len(faults) if isinstance(faults, list) else 0


def _print(text: str) -> None:
    """Print the text as it is; a terminal gets no characters that move its cursor."""
    if sys.stdout.isatty() and render.shown(text) != text:
        sys.stdout.write(render.shown(text) + "\n")
        options.note("warning: control characters are written out; a pipe gets them as they are")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode() + b"\n")
