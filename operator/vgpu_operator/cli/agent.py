"""``vgpu agent``: the node agent of a real node, or any number of nodes that are objects only."""

from __future__ import annotations

import asyncio
import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_operator.cli import options, render

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping

    from vgpu_operator.agent import spec
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.node_agent import configuration

_FAILURES = "Failure switches"
_REAL_NODE = "On a real node"

KUBELET_DIR = "/var/lib/kubelet/device-plugins"
POD_RESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"
HOST_DIR = "/usr/local/vgpu"


class Backend(enum.StrEnum):
    """Where the node agent has its cards from."""

    SIMULATED = "simulated"
    NVML = "nvml"


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("agent")(agent)


def agent(
    simulate: Annotated[
        Path | None,
        typer.Option("--simulate", metavar="FILE", help="YAML or JSON that describes the nodes."),
    ] = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    backend: Annotated[
        Backend | None,
        typer.Option(
            help="Serve this machine's kubelet with cards from a file, or from NVIDIA's driver.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="NODE_NAME",
            help="Name of this machine's Node.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = None,
    cards: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The simulated cards, YAML or JSON; read again when it changes.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the kubelet counts; by default the vendor's own: nvidia.com/gpu.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = None,
    kubelet_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="The kubelet's folder of device plugin sockets.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = Path(KUBELET_DIR),
    pod_resources: Annotated[
        Path,
        typer.Option(
            metavar="SOCKET",
            help="The kubelet's socket that tells who holds which devices.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = Path(POD_RESOURCES),
    host_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder of the host with what is mounted into containers.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = Path(HOST_DIR),
    ready_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file that is there while the kubelet follows the list of devices.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = None,
    split_count: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="How many containers may share one of the driver's cards.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = 10,
    memory_scaling: Annotated[
        float,
        typer.Option(
            metavar="FACTOR",
            min=0.01,
            help="What the memory of the driver's cards is multiplied by.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = 1.0,
    memory_where_untold: Annotated[
        int,
        typer.Option(
            metavar="MIB",
            min=0,
            help="Memory of a card that tells of none of its own; 0 leaves such a card out.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = 0,
    ignore_xid: Annotated[
        list[int] | None,
        typer.Option(
            metavar="NUMBER",
            help="A fault that does not make a card unhealthy; may be given several times.",
            rich_help_panel=_REAL_NODE,
        ),
    ] = None,
    slow: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="Take so long over each Allocate call.",
            rich_help_panel=_FAILURES,
        ),
    ] = 0.0,
    never: Annotated[
        bool,
        typer.Option(
            "--never",
            help="Take Allocate calls and never answer.",
            show_default=False,
            rich_help_panel=_FAILURES,
        ),
    ] = False,
    fail: Annotated[
        bool,
        typer.Option(
            "--fail",
            help="Find the pod, then fail it.",
            show_default=False,
            rich_help_panel=_FAILURES,
        ),
    ] = False,
    crash_after: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Die inside the Nth Allocate call, once the entry is taken.",
            rich_help_panel=_FAILURES,
        ),
    ] = None,
    wrong_count: Annotated[
        bool,
        typer.Option(
            "--wrong-count",
            help="Count one device more than the kubelet asks for.",
            show_default=False,
            rich_help_panel=_FAILURES,
        ),
    ] = False,
    unhealthy_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="Call the first card unhealthy so long after the start.",
            rich_help_panel=_FAILURES,
        ),
    ] = None,
    clock_skew: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Tell a time so far ahead of the clock; behind it with a minus.",
            rich_help_panel=_FAILURES,
        ),
    ] = 0.0,
) -> None:
    """Serve this machine's kubelet as its device plugin, or play nodes that are objects only.

    --backend: registers the cards with the kubelet and on the Node, keeps both up, and gives
    each container the slice that its pod's annotation names. docs/node-agent.md.

    --simulate: registers cards, reports, and serves bound pods as device plugins and kubelets
    do, for any number of nodes and every vendor. docs/simulated-nodes.md describes the file.

    Ends on Ctrl-C or SIGTERM and leaves the nodes as they are.
    """
    if (simulate is None) == (backend is None):
        raise typer.BadParameter(
            "give either --backend simulated or --backend nvml to serve this machine's kubelet, "
            "or --simulate FILE to play nodes"
        )
    if simulate is not None:
        from vgpu_operator.agent import spec

        simulation = spec.load(simulate)
        _log_plain_lines()
        asyncio.run(_simulate(simulation, kubeconfig=kubeconfig, context=context))
        return
    from vgpu_operator.node_agent import configuration

    settings = configuration.Configuration(
        node=node or "",
        backend=str(backend),
        cards=cards,
        resource=resource or "",
        kubelet_dir=kubelet_dir,
        pod_resources=pod_resources,
        host_dir=host_dir,
        split_count=split_count,
        memory_scaling=memory_scaling,
        memory_where_untold_mib=memory_where_untold,
        ignored_xids=frozenset(ignore_xid or ()),
        switches=configuration.Switches(
            slow_s=slow,
            never=never,
            fail=fail,
            crash_after=crash_after,
            wrong_count=wrong_count,
            unhealthy_after_s=unhealthy_after,
            clock_skew_s=clock_skew,
        ),
    )
    _log_plain_lines()
    asyncio.run(_serve(settings, ready_file=ready_file, kubeconfig=kubeconfig, context=context))


async def _serve(
    settings: configuration.Configuration,
    *,
    ready_file: Path | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Serve the kubelet until a signal asks to stop, or something breaks."""
    from vgpu_operator.node_agent import agent as node_agent

    async def serve(client: kube_client.KubeClient) -> None:
        made = await node_agent.prepare(settings, client)
        if ready_file is not None:
            made.socket.show_in(ready_file)
        await made.run()

    await _until_stopped(serve, kubeconfig=kubeconfig, context=context)


async def _simulate(
    simulation: spec.Simulation, *, kubeconfig: str | None, context: str | None
) -> None:
    """Play the nodes until a signal asks to stop, or something breaks."""
    from vgpu_operator.agent import simulator
    from vgpu_operator.kube import clock

    async def play(client: kube_client.KubeClient) -> None:
        async with simulator.Simulator(client, simulation, clock.SystemClock()) as playing:
            await playing.failure()

    await _until_stopped(play, kubeconfig=kubeconfig, context=context)


async def _until_stopped(
    work: Callable[[kube_client.KubeClient], Coroutine[Any, Any, None]],
    *,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Work at the API server until a signal asks to stop, or something breaks."""
    import contextlib
    import signal

    from vgpu_operator.kube import client as kube_client

    async with await kube_client.KubeClient.connect(
        kubeconfig=kubeconfig, context=context
    ) as client:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        stopped = asyncio.ensure_future(stop.wait())
        working = asyncio.ensure_future(work(client))
        await asyncio.wait({stopped, working}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopped, working):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    options.note("stopped")


def _log_plain_lines() -> None:
    """Have every action appear as one line on standard error."""
    import sys

    import structlog

    structlog.configure(
        processors=[structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), _plain_line],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def _plain_line(_: object, __: str, event: MutableMapping[str, Any]) -> str:
    """Return ``time [node: ]event key=value …``.

    >>> _plain_line(None, "", {"timestamp": "10:00:00", "event": "served", "node": "sim-1",
    ...                        "pod": "default/p1"})
    '10:00:00 sim-1: served pod=default/p1'
    """
    rest = dict(event)
    time, what, node = rest.pop("timestamp"), rest.pop("event"), rest.pop("node", "")
    words = [f"{name}={value}" for name, value in rest.items()]
    start = f"{time} {node}:" if node else str(time)
    return render.shown(" ".join([start, str(what), *words]))
