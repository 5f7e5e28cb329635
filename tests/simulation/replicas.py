"""One replica: an operator and its side-car, two processes on one host."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulation import operators, schedulers
from simulation.server import Json
from vgpu_operator import app
from vgpu_operator.kube import listen, paths

if TYPE_CHECKING:
    from simulation.world import World

RESTART_S = 2.0
LOOPBACK_S = 0.0005
ASKED_S = 4.5
"""How old the last look at the Lease may be beyond the Lease's time: one poll and its limit."""


LEASE_PATH = paths.lease(*schedulers.LEASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSeen:
    """What a process has seen of the Lease.

    Attributes:
        version: the newest.
        holder: who holds it.
        renewed: the renewal time in it.
        renewal_asked_at: when the answer that showed this renewal first was asked for.
    """

    version: int
    holder: str
    renewed: str
    renewal_asked_at: float


def seen_lease(known: LeaseSeen | None, raw: Json, asked_at: float) -> LeaseSeen:
    """Take in an answer; one that is older than what is known says nothing."""
    version = int(raw["metadata"]["resourceVersion"])
    if known is not None and version < known.version:
        return known
    holder, renewed = raw["spec"]["holderIdentity"], raw["spec"]["renewTime"]
    if known is not None and (known.holder, known.renewed) == (holder, renewed):
        asked_at = known.renewal_asked_at
    return LeaseSeen(version=version, holder=holder, renewed=renewed, renewal_asked_at=asked_at)


class Replica:
    """An operator and a kube-scheduler that may each be killed, stopped, started.

    Attributes:
        operator: None while it does not run.
        scheduler: None while it does not run.
        births: how many operators there have been.
    """

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.operator: operators.SimulatedOperator | None = None
        self.scheduler: schedulers.Scheduler | None = None
        self.births = 0
        self._world = world
        self._lives = 0
        self._asked: dict[asyncio.Future[Json], None] = {}

    @property
    def operator_party(self) -> str:
        """The operator process's name."""
        return f"op-{self.name}"

    @property
    def scheduler_party(self) -> str:
        """The side-car's name."""
        return f"sched-{self.name}"

    @property
    def _host(self) -> str:
        return f"host-{self.name}"

    # Processes.

    def start_operator(self) -> None:
        """Start the operator, unless it runs."""
        if self.operator is not None:
            return
        world, party = self._world, self.operator_party
        self.births += 1

        async def run() -> None:
            self.operator = operator = operators.SimulatedOperator(
                app.Options(
                    settings=world.settings,
                    extender_bind=listen.Address(host="127.0.0.1", port=0),
                    metrics_bind=listen.Address(host="127.0.0.1", port=0),
                    lease=schedulers.LEASE if len(world.replicas) > 1 else None,
                    hostname=self._host,
                ),
                world.connect(party),
                world.clock_of(party),
                chance=world.chance,
                name=f"{party}.{self.births}",
            )
            await operator.run()
            world.report(0, f"{party} has stopped by itself")

        world.loop.start(party, run())

    def kill_operator(self) -> None:
        """End the operator at once; whoever waits for it sees the connection close."""
        world = self._world
        if self.operator is None:
            return
        self.operator = None
        world.clients[self.operator_party].is_dead = True
        world.loop.kill(self.operator_party)
        for answer in tuple(self._asked):
            if not answer.done():
                answer.set_exception(ConnectionResetError("the operator is gone"))

    def start_scheduler(self) -> None:
        """Start the side-car, unless it runs."""
        if self.scheduler is not None:
            return
        world, party = self._world, self.scheduler_party
        self._lives += 1
        life = self._lives

        async def run() -> None:
            self.scheduler = schedulers.Scheduler(
                f"{self._host}_{life}",
                world.connect(party),
                world.clock_of(party),
                chance=world.chance,
                ask=self.ask,
                on_filter=world.filtered,
            )
            with contextlib.suppress(ExceptionGroup):
                await self.scheduler.run()
            # It has lost its Lease and ends itself; the kubelet starts it again.
            world.story.tell(party, "has lost the Lease and ends itself")
            world.loop.call_later(0, self._renew_scheduler)

        world.loop.start(party, run())

    def kill_scheduler(self) -> None:
        """End the side-car at once."""
        if self.scheduler is None:
            return
        self.scheduler = None
        self._world.clients[self.scheduler_party].is_dead = True
        self._world.loop.kill(self.scheduler_party)

    def _renew_scheduler(self) -> None:
        if self.scheduler is not None:
            self.kill_scheduler()
            self._world.loop.call_later(RESTART_S, self.start_scheduler)

    # Between the two.

    async def ask(self, path: str, body: Json) -> Json:
        """Send a request over loopback, as the side-car does."""
        await asyncio.sleep(LOOPBACK_S)
        operator = self.operator
        if operator is None or operator.desk is None:
            raise ConnectionRefusedError("no operator listens")
        world = self._world
        answer: asyncio.Future[Json] = world.loop.create_future()
        self._asked[answer] = None
        task = world.loop.start(self.operator_party, operator.answer(path, body))

        def settle(done: asyncio.Task[Json]) -> None:
            if answer.done():
                return
            if done.cancelled() or done.exception() is not None:
                answer.set_exception(ConnectionResetError("no answer"))
            else:
                answer.set_result(done.result())

        task.add_done_callback(settle)
        try:
            found = await answer
        except asyncio.CancelledError:
            # The side-car hangs up.
            task.cancel()
            raise
        finally:
            self._asked.pop(answer, None)
        await asyncio.sleep(LOOPBACK_S)
        return found

    # Watching.

    def may_not_write(self, now: float) -> str:
        """Return why the operator may not believe that it leads; empty when it may."""
        world = self._world
        if self.operator is None or len(world.replicas) < 2:
            return ""
        seen = world.leases.get(self.operator_party)
        if seen is None:
            return "it has never read the Lease"
        if not seen.holder.startswith(f"{self._host}_"):
            return f"the Lease that it read last is held by {seen.holder}"
        age = (
            now - seen.renewal_asked_at - world.paused_s(self.operator_party, seen.renewal_asked_at)
        )
        if age > schedulers.LEASE_S + ASKED_S:
            return f"it has seen no renewal for {age:.1f} s"
        return ""
