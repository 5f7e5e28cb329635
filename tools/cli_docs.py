"""The reference in ``docs/cli.md``: every command with its words, arguments and options."""

import enum
import inspect
from typing import Final

import doc_tables
import typer

from vgpu_operator.cli import main

_EVERYWHERE: Final = ("--help",)
_EXAMPLES: Final = ("Examples: ", "Example: ")


def commands() -> str:
    """Every command, in the order of ``vgpu --help``."""
    parser = typer.main.get_command(main.build_app())
    return "\n\n".join(_command(name, one) for name, one in parser.commands.items())


def _command(name: str, command: typer.core.TyperCommand) -> str:
    words = inspect.cleandoc(command.help or "").replace("\f", "").split("\n\n")
    parts = [f"### vgpu {name}", *(" ".join(text.split()) for text in words if not _given(text))]
    for text in filter(_given, words):
        lines = " ".join(text.split()).partition(": ")[2]
        parts.append("```text\n" + "\n".join(lines.split("; ")) + "\n```")
    rows = [_row(one) for one in command.params if not set(one.opts) & set(_EVERYWHERE)]
    if rows:
        parts.append(doc_tables.table(("Argument or option", "What it is"), rows))
    return "\n\n".join(parts)


def _given(text: str) -> bool:
    return text.startswith(_EXAMPLES)


def _row(one: typer.core.TyperOption | typer.core.TyperArgument) -> tuple[str, str]:
    if isinstance(one, typer.core.TyperArgument):
        shown = one.metavar or str(one.name).upper()
        name = doc_tables.code(shown if one.required else f"[{shown.strip('[]')}]")
    else:
        value = f" {one.metavar}" if one.metavar else ""
        name = ", ".join(doc_tables.code(f"{option}{value}") for option in one.opts)
    help_text = " ".join((one.help or "").split())
    kind = one.type_descriptor.annotation
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        words = ", ".join(doc_tables.code(word.value) for word in kind)
        help_text = f"{help_text} One of {words}."
    return name, help_text.strip()
