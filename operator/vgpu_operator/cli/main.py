"""Entry of ``vgpu`` and ``kubectl-vgpu``: parser, exit codes, errors in one line.

Each command lives in a module of its own that offers ``register(app)``. Heavy
imports stand inside the commands, so that ``vgpu --help`` answers at once.
"""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated, NoReturn

import typer

import vgpu_operator
from vgpu_operator.cli import (
    agent,
    cleanup,
    completion,
    cordon,
    decode,
    doctor,
    encode,
    errors,
    explain,
    nodes,
    options,
    pods,
    run,
    simulate,
    top,
    ui,
)
from vgpu_operator.cli.demo import command as demo

_COMMANDS = (
    demo,
    nodes,
    pods,
    top,
    ui,
    explain,
    doctor,
    simulate,
    decode,
    encode,
    cordon,
    run,
    agent,
    cleanup,
    completion,
)
"""In the order of ``--help``."""

TRACEBACK = "VGPU_TRACEBACK"
"""Environment variable: any value shows where an unexpected error came from."""


def main() -> NoReturn:
    """Run the command line of this process and end it."""
    program = PurePath(sys.argv[0]).name
    if program.startswith("kubectl-"):
        program = program.replace("-", " ", 1)
    if isinstance(sys.stdout, io.TextIOWrapper):  # of what the terminal cannot show, the number
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(answer(sys.argv[1:], program=program))


def answer(arguments: Sequence[str], *, program: str = "vgpu") -> int:
    """Run one command line and return its exit code."""
    completion.prepare()
    command = typer.main.get_command(build_app())
    try:
        code = command.main(args=list(arguments), prog_name=program, standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except typer.Abort:
        return errors.INTERRUPTED
    except typer.TyperException as fault:
        words = " ".join(fault.format_message().split())
        if fault.exit_code == errors.WRONG_USAGE:
            words = f"{words.rstrip('.')} (see '{program} --help')"
        _complain(words)
        return fault.exit_code
    except BrokenPipeError:
        # The reader has gone (``| head``). Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.FAILED
    except Exception as fault:
        if os.environ.get(TRACEBACK):
            raise
        if errors.is_expected(fault):
            _complain(errors.sentence(fault))
        else:
            _complain(
                f"{type(fault).__name__}: {errors.sentence(fault)}; this is a fault of vgpu: "
                f"please report it with what {TRACEBACK}=1 shows"
            )
        return errors.FAILED
    return code if isinstance(code, int) else 0


def build_app() -> typer.Typer:
    """Return the parser with every command."""
    app = typer.Typer(
        name="vgpu",
        help="Share accelerators on Kubernetes: see who holds what, and run the operator.",
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_options)
    for command in _COMMANDS:
        command.register(app)
    return app


def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", show_default=False)
    ] = False,
) -> None:
    if version:
        sys.stdout.write(f"vgpu {vgpu_operator.__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def _complain(sentence: str) -> None:
    options.note(f"error: {sentence}")
