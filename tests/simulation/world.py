"""One history happens: all parties in one event loop, all invariants watched.

history ─► parties start ─► actions and faults ─► all trouble ends ─► all settles ─► last checks
                 └──── invariants after every commit, write, answer, serving ────┘
"""

import asyncio
import contextlib
import datetime
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import structlog

from simulation import (
    clocks,
    deeds,
    final,
    history,
    invariants,
    nodes,
    oracle,
    preemption,
    replicas,
    server,
    weather,
)
from simulation.chance import Chance
from simulation.client import SimulatedClient
from simulation.loop import SpinsError, StandsStillError, VirtualLoop
from simulation.server import Change, Json
from simulation.story import Story
from vgpu_operator import app
from vgpu_operator.agent import objects
from vgpu_operator.flows import reading
from vgpu_operator.handlers import ticker
from vgpu_operator.kube import intake, paths, preemptor, steps
from vgpu_operator.model import records
from vgpu_operator.model import settings as model_settings

SETTLE_S = 150.0
"""How long after all trouble everything must be in order at the latest."""

CHECK_EVERY_S = 5.0
PATIENCE_S = 12.0
"""How long after all trouble the last checks are first made."""

MEMORY_S = 120.0
"""For how long an operator may be behind: paused, cut off, or told late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What went wrong.

    Attributes:
        invariant: its number; 0 for what no invariant foresaw.
        text: one sentence.
    """

    invariant: int
    text: str

    def __str__(self) -> str:
        name = invariants.NAMES.get(self.invariant, "the operator keeps working")
        return f"invariant {self.invariant} ({name}): {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a history ended.

    Attributes:
        violation: None when all was well.
        fired: the faults that happened, by name.
        done: the names of the actions that were done.
        lines: the story.
        end_s: virtual time.
        steps: how many steps were taken.
        facts: counts of what has happened, to see that histories are worth their time.
    """

    violation: Violation | None
    fired: dict[str, str]
    done: tuple[str, ...]
    lines: tuple[str, ...]
    end_s: float
    steps: int
    facts: dict[str, int]


class World:
    """The state of a running history; ``deeds`` act on it."""

    def __init__(
        self,
        told: history.History,
        *,
        without: Collection[str] = (),
        silent: bool = True,
        full: bool = False,
    ) -> None:
        self.told = told
        self.chance = Chance(told.seed)
        self.loop = VirtualLoop()
        self.story = Story(self.loop.time, full=full, silent=silent)
        self.weather = weather.Weather(self.chance, told.rates, without)
        self.clock = clocks.SimulatedClock(self.loop)
        self.api = server.ApiServer(lambda: clocks.text(self.clock.now()))
        self.settings = model_settings.build(told.settings)
        self.violation: Violation | None = None
        self.capacities = invariants.Capacities()
        self.commits: list[tuple[float, Change]] = []
        self.clocks: dict[str, clocks.SimulatedClock] = {}
        self.replicas = {name: replicas.Replica(self, name) for name in told.replicas}
        self.nodes: dict[str, nodes.SimulatedNode] = {}
        self.clients: dict[str, SimulatedClient] = {}
        self.facts: dict[str, int] = {}
        self.forged: set[str] = set()
        self.meddled: set[str] = set()
        self.trips: dict[str, deeds.Trip] = {}
        self.pauses: dict[str, float] = {}
        self.paused: dict[str, list[tuple[float, float]]] = {}
        self.leases: dict[str, replicas.LeaseSeen] = {}
        self.marks = preemption.Marks()
        self._without = frozenset(without)
        self._done: list[str] = []
        self._over = asyncio.Event()
        self._watching = False
        self._shift_s = 0.0
        self._cards_had: dict[tuple[str, int], dict[oracle.Card, float]] = {}
        self.api.on_commit.append(self._committed)
        self.api.on_eviction.append(self._evicted)
        self.loop.on_fault = self._broke

    # What parties get.

    def clock_of(self, party: str) -> clocks.SimulatedClock:
        """Return the party's own clock."""
        if party not in self.clocks:
            skew = self.told.rates.skew_s
            offset = self.chance.between(-skew, skew, "skew", party.partition("-")[2] or party)
            self.clocks[party] = clocks.SimulatedClock(self.loop, offset)
        return self.clocks[party]

    def connect(self, party: str) -> SimulatedClient:
        """Return a client for a new process of that party; the old one's is dead."""
        old = self.clients.get(party)
        made = SimulatedClient(
            party,
            api=self.api,
            loop=self.loop,
            weather=self.weather,
            story=self.story,
            on_send=lambda verb, path, body: self._sends(party, verb, path, body),
            on_answer=lambda path, raw, asked_at: self._hears(party, path, raw, asked_at),
        )
        self.leases.pop(party, None)
        if old is not None:
            made._counts = old._counts
        self.clients[party] = made
        return made

    def count(self, fact: str) -> None:
        """Count something that has happened."""
        self.facts[fact] = self.facts.get(fact, 0) + 1

    def report(self, invariant: int, text: str) -> None:
        """Note that an invariant is broken; the first counts."""
        if self.violation is None:
            self.violation = Violation(invariant=invariant, text=text)
            self._over.set()

    # Watching.

    def _committed(self, change: Change) -> None:
        self.commits.append((self.loop.time(), change))
        raw = change.after
        if oracle.PODS in change.path:
            self.marks.learn(change)
            if "create_budget" in self.facts:
                deeds.recount_later(self)
        if raw is None:
            return
        if change.path.startswith(oracle.NODES):
            self.capacities.learn(raw)
        elif oracle.PODS in change.path:
            for text in invariants.torn(raw):
                self.report(2, text)
            node = oracle.node_of(raw)
            if node:
                if not oracle.node_of(change.before or raw):
                    self.count("bound")
                for text in invariants.overpromised(self.api.objects, self.capacities, node):
                    self.report(1, text)
                for text in invariants.crowded(self.api.objects, node):
                    self.report(6, text)

    def _evicted(self, victim: Json) -> None:
        """The API server has let a pod be evicted."""
        for text in self.marks.evicted(victim, self.told):
            self.report(10, text)
        for text in self.marks.exchanges(2 + len(self.told.actions)):
            self.report(11, text)
        deeds.replace_evicted(self, victim)

    def _sends(self, party: str, verb: str, path: str, body: Json) -> None:
        """A write leaves a process."""
        if party.startswith("op-"):
            replica = self.replicas[party.removeprefix("op-")]
            problem = replica.may_not_write(self.loop.time())
            if problem:
                self.report(5, f"{party} sends {verb} {path} although {problem}")
            if path.endswith("/eviction") and replica.operator is not None:
                self.count("evictions sent")
                victim = self._evictee(path, body)
                now = self.clock_of(party).now()
                for text in preemption.unfounded(replica.operator.books, victim, self.marks, now):
                    self.report(10, f"{party}: {text}")
        if self.trips:
            deeds.stumble(self, party, oracle.kind_of_write(path, body))

    def _evictee(self, path: str, body: Json) -> str:
        """Return the UID of the pod that an eviction is for, now."""
        wanted = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
        raw = self.api.objects.get(path.removesuffix("/eviction"), {})
        return str(wanted or raw.get("metadata", {}).get("uid", ""))

    def _hears(self, party: str, path: str, raw: Json, asked_at: float) -> None:
        """An answer has reached a process."""
        if path == replicas.LEASE_PATH:
            known = self.leases.get(party)
            self.leases[party] = replicas.seen_lease(known, raw, asked_at)

    def paused_s(self, party: str, since: float) -> float:
        """Return for how long the party has stood still since then."""
        return sum(
            end - max(begin, since) for begin, end in self.paused.get(party, ()) if end > since
        )

    def served(self, node: str, wanted: Json, got: str) -> None:
        """A plugin has served a pod.

        Nobody can protect a pod that is deleted without grace in the middle of its
        Allocate: its kubelet does not ask before its object goes, and its lock ends with it.
        """
        self.count("served")
        name = objects.full_name(wanted)
        path = paths.pod(*name.split("/"))
        lives = self.api.objects.get(path, {}).get("metadata", {}).get("uid") == objects.uid(wanted)
        if not lives:
            self.count("served without a pod")
            return
        for text in invariants.misserved(node, name, got):
            self.report(6, text)

    def filtered(self, pod: Json, names: tuple[str, ...], answer: Json) -> None:
        """A filter has answered."""
        if not answer.get("NodeNames"):
            self.count("refused")
        for text in invariants.unexplained(pod, names, answer):
            self.report(7, text)

    def _broke(self, party: str, fault: BaseException) -> None:
        """What a process does has ended with an exception that nobody caught."""
        where = traceback.format_exception(fault)[-2:]
        self.report(0, f"{party} breaks: {type(fault).__name__}: {fault} {''.join(where)}")

    def logged(self, entry: dict[str, Any]) -> None:
        """Some party has logged a fault."""
        self.report(9, f"a fault in the log: {entry}")

    def _look_inside(self) -> None:
        """4: see whether devices have left any operator's ledger without cause."""
        now = self.loop.time()
        # Clocks are put right when all trouble ends: what was done before was done by wrong ones.
        shifts = (abs(each.offset_s) for each in self.clocks.values())
        self._shift_s = shift = max(self._shift_s, *shifts)
        for replica in self.replicas.values():
            operator = replica.operator
            if operator is None or not operator.books.synced:
                continue
            had = self._cards_had.setdefault((replica.name, replica.births), {})
            has = final.cards(operator.books)
            for card in has:
                had[card] = now
            for card in [card for card in had if card not in has]:
                since = had.pop(card) - MEMORY_S
                changes = [change for at, change in self.commits if at >= since]
                unix = clocks.BEGIN.timestamp() + now
                expiry_s = self.settings.handshake.expiry_s
                if not invariants.may_have_left(
                    changes, card, now_s=unix, limit_s=expiry_s - 2 * shift - 1
                ):
                    self.report(4, f"{replica.name} has lost {card[2]} of {card[0]} for no reason")

    # The course of things.

    def run(self) -> Outcome:
        """Let it happen."""
        with _simulated_surroundings(self):
            try:
                self.loop.run_until_complete(self._happen())
            except (SpinsError, StandsStillError) as fault:
                self.report(0, f"{type(fault).__name__}: {fault}")
            finally:
                if self.violation is not None:
                    self.story.tell("", f"VIOLATION {self.violation}", fault=True)
                self.story.silent = True
                self._watching = False
                self.weather.is_over = True
                for client in self.clients.values():
                    client.is_dead = True
                self.loop.end()
        return Outcome(
            violation=self.violation,
            fired=dict(self.weather.fired),
            done=tuple(self._done),
            lines=tuple(self.story.lines),
            end_s=self.loop.time(),
            steps=self.loop.steps,
            facts=self.facts,
        )

    async def _happen(self) -> None:
        for entry in self.told.nodes:
            deeds.start_node(self, entry)
        for replica in self.replicas.values():
            replica.start_operator()
            replica.start_scheduler()
        course = asyncio.create_task(self._course())
        over = asyncio.create_task(self._over.wait())
        await asyncio.wait((course, over), return_when=asyncio.FIRST_COMPLETED)
        if course.done() and course.exception() is not None:
            raise course.exception()  # type: ignore[misc]

    async def _course(self) -> None:
        watcher = asyncio.create_task(self._watch_inside())
        for action in self.told.actions:
            if action.name in self._without:
                continue
            await self._until(action.at)
            self._done.append(action.name)
            self.story.tell("", f"* {action}")
            deeds.do(self, action)
        await self._until(self.told.end_s)
        self.weather.is_over = True
        self.story.tell("", "* all trouble ends")
        deeds.end_trouble(self)
        end = self.loop.time() + SETTLE_S
        await asyncio.sleep(PATIENCE_S)
        while True:
            found = final.unsettled(self)
            if not found:
                break
            if self.loop.time() > end:
                number, text = found[0]
                self.report(number, f"{SETTLE_S:.0f} s after all trouble {text}")
                break
            await asyncio.sleep(CHECK_EVERY_S)
        watcher.cancel()

    async def _watch_inside(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._look_inside()

    async def _until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self.loop.time()))


@contextlib.contextmanager
def _simulated_surroundings(world: World) -> Iterator[None]:
    """Put the few things in place that code reaches for by itself."""

    def note(_logger: Any, level: str, entry: Any) -> Any:
        if level in ("error", "critical"):
            world.logged({name: str(value) for name, value in entry.items()})
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.format_exc_info, note],
        wrapper_class=structlog.make_filtering_bound_logger(40),
        cache_logger_on_first_use=False,
    )
    try:
        with (
            mock.patch.object(app, "_lasting", contextlib.nullcontext),
            mock.patch.object(ticker, "LAG_PROBE_S", 3600.0),
            mock.patch.object(steps, "STEP_S", 0.0),
            mock.patch.object(intake, "PAGE", 3),
            mock.patch.object(preemptor, "REST_PER_LOOK", 0.0),
            preemption.watched(lambda text: world.report(10, text)),
            mock.patch.object(reading, "decode_pod", _decoded_once()),
            nodes.watched(world.served, blind=world.told.blind),
        ):
            yield
    finally:
        structlog.configure(**before)


def _decoded_once() -> Callable[[Any, Json], records.PodRecord]:
    """Return the decoder of Pods with a memory: both operators read every version of each."""
    decode = reading.decode_pod
    known: dict[tuple[str, str], records.PodRecord] = {}

    def decode_pod(books: Any, raw: Json) -> records.PodRecord:
        place = (raw["metadata"]["uid"], raw["metadata"]["resourceVersion"])
        record = known.get(place)
        if record is None:
            record = known[place] = decode(books, raw)
        return record

    return decode_pod


def run(
    seed: int,
    *,
    without: Collection[str] = (),
    silent: bool = True,
    full: bool = False,
) -> Outcome:
    """Let the history of that seed happen, some of its actions and faults left out."""
    return World(history.write(seed), without=without, silent=silent, full=full).run()


def moment(world: World) -> datetime.datetime:
    """Return the true time in a world."""
    return world.clock.now()
