"""Shell completion: ``vgpu completion SHELL``, and kubectl's for ``kubectl vgpu``.

kubectl asks a program called ``kubectl_complete-vgpu`` for the words that may follow, and
expects cobra's answer: a word a line, then a line with what to do besides.
"""

import asyncio
import contextlib
import enum
import io
import os
import shlex
import sys
from typing import Any, Final, NoReturn

import typer

PROGRAM: Final = "vgpu"
VARIABLE: Final = "_VGPU_COMPLETE"
"""Environment variable in which a shell's function asks for words."""

LIMIT_S: Final = 2.0
"""A completion that keeps somebody waiting is worse than none."""

MOST_NAMES: Final = "500"

_NO_FILES: Final = ":4"
_FILES: Final = ":0"


class Shell(enum.StrEnum):
    """For which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("completion")(completion)


def completion(shell: Shell) -> None:
    """Print the completion script of a shell.

    Examples: source <(vgpu completion bash); vgpu completion zsh > "${fpath[1]}/_vgpu";
    vgpu completion fish | source
    """
    from typer import completion as typers

    from vgpu_operator.cli import main

    typers.get_completion_inspect_parameters()  # makes the shells known
    command = typer.main.get_command(main.build_app())
    typers.shell_complete(command, {}, PROGRAM, VARIABLE, f"source_{shell.value}")


def prepare() -> None:
    """Have this process answer a shell that asks for words."""
    if VARIABLE in os.environ:
        from typer import completion as typers

        typers.get_completion_inspect_parameters()  # makes the shells known


def kubectl() -> NoReturn:
    """Answer kubectl, which hands over the words so far as arguments."""
    from vgpu_operator.cli import main

    words = sys.argv[1:] or [""]
    os.environ["COMP_WORDS"] = shlex.join([PROGRAM, *words])
    os.environ["COMP_CWORD"] = str(len(words))
    os.environ[VARIABLE] = "complete_bash"
    answered = io.StringIO()
    with contextlib.redirect_stdout(answered), contextlib.suppress(SystemExit):
        main.answer([], program=PROGRAM)
    found = [line for line in answered.getvalue().splitlines() if line]
    sys.stdout.write("\n".join([*found, _NO_FILES if found else _FILES]) + "\n")
    sys.exit(0)


def pod_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the pods of the namespace that begin so; none where they cannot be listed."""
    from vgpu_operator.cli import kube_context
    from vgpu_operator.kube import paths

    given = context.params
    namespace = given.get("namespace") or kube_context.default_namespace(
        kubeconfig=given.get("kubeconfig"), context=given.get("context")
    )
    return _names(paths.namespaced(namespace, "pods"), given, incomplete)


def node_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the nodes that begin so; none where they cannot be listed."""
    from vgpu_operator.kube import paths

    return _names(paths.NODES, context.params, incomplete)


def _names(path: str, given: dict[str, Any], incomplete: str) -> list[str]:
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import errors
    from vgpu_operator.model import errors as model_errors

    async def names() -> list[str]:
        async with (
            asyncio.timeout(LIMIT_S),
            await kube_client.KubeClient.connect(
                kubeconfig=given.get("kubeconfig"), context=given.get("context")
            ) as client,
        ):
            page = await client.get(path, params={"limit": MOST_NAMES})
        return [item["metadata"]["name"] for item in page.get("items") or ()]

    try:
        found = asyncio.run(names())
    except (errors.ApiError, model_errors.VgpuError, TimeoutError, OSError):
        return []
    return [name for name in found if name.startswith(incomplete)]
