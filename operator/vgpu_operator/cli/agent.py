"""``vgpu agent``: play the node side of any number of nodes that are objects only."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_operator.cli import options, render

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from vgpu_operator.agent import spec


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("agent")(agent)


def agent(
    simulate: Annotated[
        Path,
        typer.Option("--simulate", metavar="FILE", help="YAML or JSON that describes the nodes."),
    ],
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Register cards, report, and serve bound pods as device plugins and kubelets do.

    A card's vendor is the keyword of any back end (NVIDIA, MLU, DCU, Ascend910B3 …), NVIDIA
    where none is named; a node may have cards of several. docs/simulated-nodes.md describes
    the file. Ends on Ctrl-C or SIGTERM and leaves the nodes as they are.
    """
    from vgpu_operator.agent import spec

    simulation = spec.load(simulate)
    _log_plain_lines()
    asyncio.run(_simulate(simulation, kubeconfig=kubeconfig, context=context))


async def _simulate(
    simulation: spec.Simulation, *, kubeconfig: str | None, context: str | None
) -> None:
    """Run until a signal asks to stop, or something breaks."""
    import contextlib
    import signal

    from vgpu_operator.agent import simulator
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import clock

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with await kube_client.KubeClient.connect(
        kubeconfig=kubeconfig, context=context
    ) as client:
        stopped = asyncio.ensure_future(stop.wait())
        working = asyncio.ensure_future(
            _work(simulator.Simulator(client, simulation, clock.SystemClock()))
        )
        await asyncio.wait({stopped, working}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopped, working):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    options.note("stopped")


async def _work(simulation: Any) -> None:
    """Simulate until cancelled, or until something inside breaks."""
    async with simulation:
        await simulation.failure()


def _log_plain_lines() -> None:
    """Have every action appear as one line on standard error."""
    import sys

    import structlog

    structlog.configure(
        processors=[structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), _plain_line],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
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
