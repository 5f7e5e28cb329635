"""The way to the simulated API server, behind the face of the real ``KubeClient``.

Requests travel, wait, get lost or are done although nobody hears of it; watch
streams lag, break and repeat themselves. Each process has a client of its own.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from simulation import server
from simulation.loop import VirtualLoop
from simulation.server import ApiServer, Json
from simulation.story import Story
from simulation.weather import Fate, Weather
from support import api_objects
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors

WAY_S = (0.0005, 0.004)
"""How long a request takes one way."""

SLOW_S = (0.2, 8.0)
GIVEN_UP_S = (0.1, 3.0)
LATE_S = (0.2, 15.0)
BOOKMARK_S = 15.0

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class SimulatedClient(kube_client.KubeClient):
    """One process's connections.

    Args:
        party: whose.
        on_send: told verb, path and body of every write that leaves the process.
        on_answer: told the path, every good answer, and when it was asked for.
    """

    def __init__(
        self,
        party: str,
        *,
        api: ApiServer,
        loop: VirtualLoop,
        weather: Weather,
        story: Story,
        on_send: Callable[[str, str, Json], None] = lambda *_: None,
        on_answer: Callable[[str, Json, float], None] = lambda *_: None,
    ) -> None:
        self.on_answer = lambda *_: None
        self.party = party
        self.is_dead = False
        self._api = api
        self._loop = loop
        self._weather = weather
        self._story = story
        self._on_send = on_send
        self._on_answer = on_answer
        self._counts: dict[str, int] = {}
        self._outside = contextvars.Context()

    @property
    def server_url(self) -> str:
        return "https://simulated"

    async def close(self) -> None:
        return

    async def request(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        limit_s: float | None = None,
    ) -> Json:
        """Send one request over the simulated way."""
        if self.is_dead:
            await self._loop.create_future()
        name = self._name(f"{self.party} {verb} {path}")
        asked_at = self._loop.time()
        if verb in _WRITES:
            self._on_send(verb, path, body)
            if self.is_dead:
                await self._loop.create_future()
        weather, chance = self._weather, self._weather.chance
        fate = weather.fate(name)
        answer: asyncio.Future[Json] = self._loop.create_future()
        there = chance.between(*WAY_S, "there", name)
        back = chance.between(*WAY_S, "back", name)
        limit = kube_client.REQUEST_LIMIT_S if limit_s is None else limit_s
        match fate:
            case Fate.LOST:
                self._later(there, _fail, answer, _unreachable(verb, path))
            case Fate.TOO_MANY:
                refusal = errors.TooMany(f"{verb} {path}: 429", status=429, retry_after_s=1.0)
                self._later(there + back, _fail, answer, refusal)
            case Fate.BROKEN:
                self._later(
                    there + back,
                    _fail,
                    answer,
                    errors.ServerFault(f"{verb} {path}: 500", status=500),
                )
            case Fate.LATE:
                given_up = chance.between(*GIVEN_UP_S, "given up", name)
                late = given_up + chance.between(*LATE_S, "late", name)
                self._later(given_up, _fail, answer, _unreachable(verb, path))
                self._later(late, self._arrive, name, verb, path, body, params, None, 0.0, fate)
            case _:
                if fate is Fate.SLOW:
                    there += chance.between(*SLOW_S, "slow there", name)
                    back += chance.between(*SLOW_S, "slow back", name)
                self._later(there, self._arrive, name, verb, path, body, params, answer, back, fate)
        if limit < there + back + 1:
            self._later(limit, _fail, answer, _unreachable(verb, path))
        result = await answer
        self._on_answer(path, result, asked_at)
        return result

    async def watch(
        self, path: str, *, resource_version: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[Json]:
        """Yield watch events until the stream ends."""
        if self.is_dead:
            await self._loop.create_future()
        name = self._name(f"{self.party} WATCH {path}")
        fate = self._weather.fate(name)
        await asyncio.sleep(self._weather.chance.between(*WAY_S, "there", name))
        if fate in (Fate.LOST, Fate.UNANSWERED, Fate.LATE, Fate.BROKEN, Fate.DONE_BUT_BROKEN):
            if not self._weather.outages:
                self._story.tell(self.party, f"WATCH {path}: {fate}", fault=True)
            raise _unreachable("WATCH", path)
        stream = _Stream(
            self._api, path, params or {}, loop=self._loop, weather=self._weather, name=name
        )
        stream.open(int(resource_version))
        try:
            while True:
                event = await stream.next()
                if event is None:
                    self._story.tell(self.party, f"WATCH {path} breaks", fault=True)
                    raise _unreachable("WATCH", path)
                yield event
        finally:
            stream.close()

    def _later(self, after_s: float, do: Callable[..., None], *args: Any) -> None:
        """Do something outside of the process, whatever becomes of it meanwhile."""
        self._loop.call_later(after_s, do, *args, context=self._outside)

    def _arrive(
        self,
        name: str,
        verb: str,
        path: str,
        body: Any,
        params: Mapping[str, str] | None,
        answer: asyncio.Future[Json] | None,
        back_s: float,
        fate: Fate,
    ) -> None:
        """Have the server do it, and send the answer back."""
        fault: errors.ApiError | None = None
        result: Json = {}
        try:
            result = self._api.handle(verb, path, body, params, author=self.party)
        except errors.ApiError as refusal:
            fault = refusal
        self._story.tell_request(self.party, verb, path, body, fault, fate)
        if answer is None:
            return
        if fate is Fate.UNANSWERED:
            self._later(back_s, _fail, answer, _unreachable(verb, path))
        elif fate is Fate.DONE_BUT_BROKEN:
            broken = errors.ServerFault(f"{verb} {path}: 500", status=500)
            self._later(back_s, _fail, answer, broken)
        elif fault is not None:
            self._later(back_s, _fail, answer, fault)
        else:
            self._later(back_s, _settle, answer, result)

    def _name(self, what: str) -> str:
        count = self._counts[what] = self._counts.get(what, 0) + 1
        return f"{what} #{count}"


class _Stream:
    """One watch: the server's changes, each after its lag, in their order."""

    def __init__(
        self,
        api: ApiServer,
        path: str,
        params: Mapping[str, str],
        *,
        loop: VirtualLoop,
        weather: Weather,
        name: str,
    ) -> None:
        self._api = api
        self._path = path
        self._selects = api_objects.selector(params)
        self._bookmarks = params.get("allowWatchBookmarks", "true") == "true"
        self._loop = loop
        self._weather = weather
        self._name = name
        self._events: deque[Json | None] = deque()
        self._more: asyncio.Future[None] | None = None
        self._last_at = 0.0
        self._count = 0
        self._is_cut = False
        self._is_broken = False
        self._is_open = False
        self._outside = contextvars.Context()

    def open(self, version: int) -> None:
        """Begin after that version."""
        for change in self._api.changes_since(version):
            self._commit(change)
        self._api.on_commit.append(self._commit)
        self._api.on_break.append(self._break)
        self._is_open = True
        self._bookmark_later()

    def close(self) -> None:
        """End."""
        if self._is_open:
            self._is_open = False
            self._api.on_commit.remove(self._commit)
            self._api.on_break.remove(self._break)

    async def next(self) -> Json | None:
        """Return the next event; None when the stream breaks."""
        while not self._events:
            self._more = self._loop.create_future()
            await self._more
        return self._events.popleft()

    def _commit(self, change: server.Change) -> None:
        if self._is_cut or not api_objects.is_in(change.path, self._path):
            return
        event = server.event_of(change, self._selects)
        if event is None:
            return
        self._count += 1
        name = f"{self._name} event {self._count}"
        self._deliver_after(self._weather.lag_s(name), event)
        if self._weather.repeats(name):
            self._deliver_after(0.0, event)
        if self._weather.cuts(name):
            self._is_cut = True
            self._deliver_after(0.0, None)

    def _break(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._events.clear()
            self._deliver(None)

    def _bookmark_later(self) -> None:
        if self._bookmarks:
            self._loop.call_later(BOOKMARK_S, self._bookmark, context=self._outside)

    def _bookmark(self) -> None:
        if not self._is_open:
            return
        metadata = {"resourceVersion": str(self._api.version)}
        self._deliver_after(0.001, {"type": "BOOKMARK", "object": {"metadata": metadata}})
        self._bookmark_later()

    def _deliver_after(self, lag_s: float, event: Json | None) -> None:
        # Timers of one moment come in any order: what follows comes a little later.
        self._last_at = max(self._last_at + 1e-6, self._loop.time() + lag_s)
        self._loop.call_at(self._last_at, self._deliver, event, context=self._outside)

    def _deliver(self, event: Json | None) -> None:
        if self._is_broken:
            return
        self._is_broken = event is None
        self._events.append(event)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)


def _unreachable(verb: str, path: str) -> errors.Unreachable:
    return errors.Unreachable(f"{verb} {path}: no answer")


def _fail(answer: asyncio.Future[Json], fault: errors.ApiError) -> None:
    if not answer.done():
        answer.set_exception(fault)


def _settle(answer: asyncio.Future[Json], result: Json) -> None:
    if not answer.done():
        answer.set_result(result)
