"""The ``demo`` command: sets the scene, prints the story, cleans up."""

import asyncio
import contextlib
import enum
import json
import logging
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_operator.cli import errors, options

if TYPE_CHECKING:
    from vgpu_operator.cli import grounds
    from vgpu_operator.cli.cluster import sources
    from vgpu_operator.cli.demo import scene, story
    from vgpu_operator.kube import client

NAMESPACE = "default"


class Where(enum.StrEnum):
    """Which cluster the demo runs on."""

    LOCAL = "local"
    KIND = "kind"
    CURRENT = "current"


class DemoOutput(enum.StrEnum):
    """What ``-o`` may say."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    cluster: Annotated[
        Where,
        typer.Option(
            help="local: made here for the demo; kind; current: the kubeconfig's context."
        ),
    ] = Where.LOCAL,
    real_node: Annotated[
        bool,
        typer.Option(
            "--real-node",
            help="Run containers: a kubelet and containerd on this machine, with the node agent on"
            " simulated cards. Needs root, containerd, runc and busybox-static.",
            show_default=False,
        ),
    ] = False,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave it up until Ctrl-C or SIGTERM; print the kubeconfig."),
    ] = False,
    output: Annotated[DemoOutput, typer.Option("--output", "-o", help="text or json.")] = (
        DemoOutput.TEXT
    ),
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show the whole protocol on a cluster without GPUs, step by step."""
    if real_node and cluster is not Where.LOCAL:
        raise typer.BadParameter(
            f"--real-node makes a cluster of its own; leave out --cluster {cluster.value}"
        )
    work = _demo(
        where=cluster,
        real_node=real_node,
        keep=keep,
        output=output,
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        context=context,
    )
    raise typer.Exit(asyncio.run(_until_terminated(work)))


async def _until_terminated(work: Coroutine[Any, Any, int]) -> int:
    """Do the work; SIGTERM ends it as Ctrl-C does, with everything removed that was made."""
    task = asyncio.ensure_future(work)
    terminated = asyncio.Event()

    def end() -> None:
        if not terminated.is_set():  # the second signal must not break off the removal
            terminated.set()
            task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        return await task
    except asyncio.CancelledError:
        if not terminated.is_set():
            raise  # Ctrl-C
        return errors.TERMINATED


async def _demo(
    *,
    where: Where,
    real_node: bool,
    keep: bool,
    output: DemoOutput,
    kubeconfig: Path | None,
    context: str | None,
) -> int:
    from vgpu_operator.cli.cluster import sources
    from vgpu_operator.kube import client

    begun = time.monotonic()
    quieten()
    if real_node:
        _require_containers()
    source = sources.cluster_source(
        where.value, report=_progress, kubeconfig_file=kubeconfig, context=context
    )
    _progress(f"demo: starting on a {where.value} cluster")
    async with source as cluster, contextlib.AsyncExitStack() as stack:
        kube = await stack.enter_async_context(
            await client.KubeClient.connect(
                kubeconfig=str(cluster.kubeconfig), context=cluster.context
            )
        )
        play = _on_a_real_node if real_node else _on_simulated_nodes
        played = await stack.enter_async_context(play(cluster, kube))
        ready_s = time.monotonic() - begun
        _progress(f"demo: cluster, operator and {played.nodes} are up after {ready_s:.1f} s")
        steps = []
        async for step in played.steps:
            steps.append(step)
            if output is DemoOutput.TEXT:
                _print_step(len(steps), step)
        holds = all(step.holds for step in steps)
        took_s = time.monotonic() - begun
        if output is DemoOutput.JSON:
            sys.stdout.write(json.dumps(_as_json(steps, holds=holds, took_s=took_s), indent=2))
            sys.stdout.write("\n")
        else:
            await _print_end(kube, holds=holds, took_s=took_s)
        if keep:
            await _keep(cluster, where, hint=played.hint)
    return 0 if holds else 1


def _require_containers() -> None:
    """Say at once, and not after minutes, where containers cannot run."""
    from vgpu_operator.cli.cluster import errors as cluster_errors
    from vgpu_operator.cli.cluster.real_node import requirements

    reason = requirements.why_not()
    if reason:
        raise cluster_errors.ClusterError(
            f"--real-node: {reason}; `vgpu demo` without it needs no containers"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """A story that is about to be told.

    Attributes:
        nodes: what it plays on, for the line that tells that all is up.
        hint: one more thing to look at in a cluster that stays; may be empty.
    """

    steps: "AsyncIterator[scene.Step]"
    nodes: str
    hint: str = ""


@contextlib.asynccontextmanager
async def _on_a_real_node(
    cluster: "sources.Cluster", kube: "client.KubeClient"
) -> AsyncIterator[_Played]:
    """Run operator, scheduler, a real node and its agent, all on our own control plane."""
    from vgpu_operator.cli import grounds
    from vgpu_operator.cli import stack as cli_stack
    from vgpu_operator.cli.cluster.real_node import node as real_nodes
    from vgpu_operator.cli.demo import real_story

    plane = cluster.control_plane
    if plane is None:
        raise TypeError("a real node stands beside a control plane of ours")
    async with contextlib.AsyncExitStack() as stack:
        node = await stack.enter_async_context(
            real_nodes.RealNode(plane, name=real_story.NODE, report=_progress)
        )
        running, replica = await stack.enter_async_context(
            cli_stack.running(grounds.LocalGround(plane), kube)
        )
        cards = node.folder / "cards.json"
        cards.write_text(real_story.cards_file())
        agent = cli_stack.node_agent(node, cards=cards)
        stack.push_async_callback(agent.stop)
        agent.start()
        set_up = real_story.Scene(
            kube=kube,
            node=node,
            agent=agent,
            metrics_url=replica.metrics_url,
            scheduler_name=running.settings.scheduler_name,
            namespace=NAMESPACE,
        )
        yield _Played(
            steps=real_story.tell(set_up),
            nodes="a real node",
            hint=f"ls {node.pod_logs}  # what the containers wrote",
        )


@contextlib.asynccontextmanager
async def _on_simulated_nodes(
    cluster: "sources.Cluster", kube: "client.KubeClient"
) -> AsyncIterator[_Played]:
    """Run operator, scheduler and nodes; remove what was made on a cluster that stays."""
    from vgpu_operator.agent import simulator
    from vgpu_operator.cli import stack as cli_stack
    from vgpu_operator.cli.demo import story
    from vgpu_operator.kube import clock

    async with contextlib.AsyncExitStack() as stack:
        ground = await _ground(cluster, stack)
        running, replica = await stack.enter_async_context(
            cli_stack.running(ground, kube, configured=story.SETTINGS)
        )
        if cluster.control_plane is None:
            stack.push_async_callback(running.withdraw, kube)
            stack.push_async_callback(_remove_nodes, kube, story.NODES)
        sim = await stack.enter_async_context(
            simulator.Simulator(kube, story.simulation(), clock.SystemClock())
        )
        set_up = story.Scene(
            kube=kube,
            sim=sim,
            metrics_url=replica.metrics_url,
            scheduler_name=running.settings.scheduler_name,
            namespace=NAMESPACE,
        )
        if cluster.control_plane is None:
            stack.push_async_callback(_remove_pods, set_up)
        yield _Played(steps=story.tell(set_up), nodes="two simulated nodes")


async def _ground(cluster: "sources.Cluster", stack: contextlib.AsyncExitStack) -> "grounds.Ground":
    from vgpu_operator.cli import grounds

    if cluster.control_plane is not None:
        return grounds.LocalGround(cluster.control_plane)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vgpu-demo-"))
    return await grounds.ForeignGround.prepare(cluster, Path(folder), report=_progress)


async def _remove_pods(scene: "story.Scene") -> None:
    from vgpu_operator.kube import errors as kube_errors
    from vgpu_operator.kube import paths

    for name in scene.pods:
        with contextlib.suppress(kube_errors.ApiError):
            await scene.kube.delete(paths.pod(scene.namespace, name), grace_s=0)


async def _remove_nodes(kube: "client.KubeClient", names: tuple[str, ...]) -> None:
    from vgpu_operator.kube import errors as kube_errors
    from vgpu_operator.kube import paths

    for name in names:
        with contextlib.suppress(kube_errors.ApiError):
            await kube.delete(paths.node(name))


def quieten() -> None:
    """Let the simulated nodes work without a word: the story tells what they did."""
    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )


def _print_step(number: int, step: "scene.Step") -> None:
    say: Callable[[str], Any] = sys.stdout.write
    say(f"\n{number}. {step.title}  ({step.took_s:.1f} s)\n")
    say("   " + step.told.replace("\n", "\n   ") + "\n")
    for check in step.checks:
        mark = "ok  " if check.holds else "FAIL"
        say(f"   [{mark}] {check.what}: {check.observed}")
        say("\n" if check.holds else f"   (expected {check.expected})\n")
    if step.shown:
        say("\n" + "\n".join(f"     {line}" for line in step.shown.splitlines()) + "\n")
    sys.stdout.flush()


async def _print_end(kube: "client.KubeClient", *, holds: bool, took_s: float) -> None:
    """Print every card with its holders, as ``vgpu nodes`` and ``vgpu pods`` show them."""
    from vgpu_operator.cli import cluster_view, nodes, pods, render
    from vgpu_operator.kube import clock
    from vgpu_operator.model import settings

    view = await cluster_view.read_view(kube, settings.Settings())
    cards = nodes.card_table(view, clock.SystemClock().now())
    holders = pods.pod_table(view)
    screen = options.screen()
    sys.stdout.write("\nCards, as the annotations say (vgpu nodes):\n")
    sys.stdout.write(render.render(cards, render.Output.TABLE, screen) + "\n")
    sys.stdout.write("\nHolders (vgpu pods):\n")
    sys.stdout.write(render.render(holders, render.Output.TABLE, screen) + "\n")
    verdict = "Everything went as expected" if holds else "Something went otherwise than expected"
    sys.stdout.write(f"\n{verdict}; the demo took {took_s:.1f} s.\n")


def _as_json(steps: list["scene.Step"], *, holds: bool, took_s: float) -> dict[str, Any]:
    return {
        "kind": "Demo",
        "ok": holds,
        "tookSeconds": round(took_s, 2),
        "steps": [
            {
                "title": step.title,
                "ok": step.holds,
                "tookSeconds": round(step.took_s, 2),
                "checks": [
                    {
                        "what": check.what,
                        "expected": check.expected,
                        "observed": check.observed,
                        "ok": check.holds,
                    }
                    for check in step.checks
                ],
            }
            for step in steps
        ],
    }


async def _keep(cluster: "sources.Cluster", where: Where, *, hint: str = "") -> None:
    """Say how to reach the cluster, and wait for Ctrl-C or SIGTERM."""
    sys.stdout.write(
        f"\nThe {where.value} cluster stays up until Ctrl-C. Look around in another terminal:\n"
        f"  export KUBECONFIG={cluster.kubeconfig}\n"
        "  kubectl get nodes,pods -o wide\n"
        "  vgpu nodes; vgpu pods -A\n"
    )
    if hint:
        sys.stdout.write(f"  {hint}\n")
    sys.stdout.flush()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


def _progress(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
