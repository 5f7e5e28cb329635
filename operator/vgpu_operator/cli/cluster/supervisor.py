"""Starts components, gives them ports, and ends them in order."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpu_operator.cli.cluster import ports, probe
from vgpu_operator.cli.cluster.errors import ClusterError, ComponentDied
from vgpu_operator.cli.cluster.process import Component

_PORT_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to run one component once its ports are known.

    Attributes:
        name: what it is called, and its log file.
        n_ports: how many ports it needs.
        arguments: ports -> arguments after the program's path.
        endpoint: ports -> what answers once it is ready.
        hostname: a host name that only it sees; None for the machine's own.
        stop_limit_s: how long it may take to end by itself when it is told to.
    """

    name: str
    n_ports: int
    arguments: Callable[[Sequence[int]], list[str]]
    endpoint: Callable[[Sequence[int]], probe.Endpoint]
    hostname: str | None = None
    stop_limit_s: float = 15.0


@dataclass(slots=True, kw_only=True)
class _Running:
    plan: Plan
    component: Component
    endpoint: probe.Endpoint
    reserved: list[ports.ReservedPort]

    def release(self) -> None:
        for port in self.reserved:
            port.release()


class Supervisor:
    """Owns the components of one cluster.

    Attributes:
        components: by name; replaced and removed as components come and go.
    """

    def __init__(self, program: Path, *, logs: Path, start_limit_s: float) -> None:
        self._program = program
        self._logs = logs
        self._start_limit_s = start_limit_s
        self._running: dict[str, _Running] = {}
        self.components: dict[str, Component] = {}

    async def start(self, plan: Plan) -> Sequence[int]:
        """Start a component, wait until it is ready, and give its ports.

        Ports are reserved (see ``ports``), so finding one taken is rare: it needs
        somebody who asks for just that number. Then others are tried.
        """
        if plan.name in self._running:
            raise ClusterError(f"{plan.name} is there already; give this one another name")
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            reserved = [ports.ReservedPort() for _ in range(plan.n_ports)]
            numbers = [port.number for port in reserved]
            component = Component(
                plan.name,
                [str(self._program), *plan.arguments(numbers)],
                log_file=self._logs / f"{plan.name}.log",
                hostname=plan.hostname,
            )
            running = _Running(
                plan=plan, component=component, endpoint=plan.endpoint(numbers), reserved=reserved
            )
            # Known before it starts, so that whatever interrupts us can end it.
            self._running[plan.name] = running
            self.components[plan.name] = component
            try:
                component.start()
                await self._ready(running)
            except ComponentDied as fault:
                if not fault.port_taken or attempt == _PORT_ATTEMPTS:
                    raise
                self._forget(plan.name)
            else:
                return numbers
        raise AssertionError("the last attempt returns or raises")

    async def restart(self, name: str) -> None:
        """Stop a component if it runs, start it on its old ports, wait until it is ready."""
        running = self._find(name)
        await running.component.restart(running.plan.stop_limit_s)
        await self._ready(running)

    async def wait_until_ready(self, name: str) -> None:
        """Wait until a component that was started answers again."""
        await self._ready(self._find(name))

    async def stop(self, names: Iterable[str]) -> None:
        """Stop components side by side and give their ports back; unknown names are fine."""
        known = {name: self._running[name] for name in names if name in self._running}
        await asyncio.gather(
            *(item.component.stop(item.plan.stop_limit_s) for item in known.values())
        )
        for name in known:
            self._forget(name)

    def kill_all(self) -> None:
        """End every component at once, for when there is no time left."""
        for name in list(self._running):
            with contextlib.suppress(OSError):
                self._running[name].component.kill()
            self._forget(name)

    def _find(self, name: str) -> _Running:
        running = self._running.get(name)
        if running is None:
            known = ", ".join(self._running) or "none"
            raise ClusterError(f"no component is called {name!r}; there are: {known}")
        return running

    def _forget(self, name: str) -> None:
        self._running.pop(name).release()
        del self.components[name]

    async def _ready(self, running: _Running) -> None:
        await probe.wait_until_ready(
            running.component, running.endpoint, limit_s=self._start_limit_s
        )
