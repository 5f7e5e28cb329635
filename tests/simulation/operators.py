"""One operator process: the real composition root without sockets and without Kopf."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson

from simulation.chance import Chance
from simulation.server import Json
from vgpu_operator import app
from vgpu_operator.extender import routes
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import deliver, errors, paths

QUEUE_S = 0.05
"""How long an event may wait in Kopf's queue of its object."""

BODY_LIMIT = 2**20

_HANDLERS = {
    "/filter": routes.handle_filter,
    "/prioritize": routes.handle_prioritize,
    "/bind": routes.handle_bind,
}


class SimulatedOperator(app.Operator):
    """The real operator; only what needs sockets is replaced.

    Kopf's place is taken by two watches that do what Kopf does: events of one
    object in order, objects independent of each other.
    """

    def __init__(
        self,
        options: app.Options,
        kube: kube_client.KubeClient,
        time: kube_clock.Clock,
        *,
        chance: Chance,
        name: str,
    ) -> None:
        super().__init__(options, kube, time)
        self.desk: routes.Desk | None = None
        self._chance = chance
        self._name = name

    @contextlib.asynccontextmanager
    async def _servers(self) -> AsyncIterator[None]:
        self.desk = routes.Desk(
            books=self.books,
            clock=self.clock,
            intake=self.intake,
            binder=self.binder,
            may_serve=self.may_serve,
            observe=lambda *_: None,
            reject=lambda _: None,
            refused=self.preemptor.refused,
        )
        yield

    async def _watch(self) -> None:
        self.ticker.start()
        await asyncio.gather(
            self._feed(paths.NODES, self.intake.node_event),
            self._feed(paths.QUOTAS, self.intake.quota_event),
        )

    async def _feed(self, path: str, take_in: Callable[..., None]) -> None:
        """List, then watch, as Kopf does for one kind of objects."""
        workers = _Workers(take_in, chance=self._chance, name=f"{self._name} {path}")
        version = ""
        while True:
            try:
                if not version:
                    items, version = await self.client.list(path)
                    for raw in items:
                        workers.put(None, raw)
                async for event in self.client.watch(path, resource_version=version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        workers.put(event["type"], event["object"])
            except errors.Expired:
                version = ""
            except errors.ApiError:
                pass
            await asyncio.sleep(0.1)

    async def answer(self, path: str, body: Json) -> Json:
        """Answer the side-car's request as the extender's server does."""
        assert self.desk is not None
        asked: Any = _Asked(path, orjson.dumps(body), self.desk)
        found: Any = await routes.answer_in_json(asked, _HANDLERS[path])
        value = orjson.loads(found.body)
        return value if isinstance(value, dict) else {"Scores": value}


class _Asked:
    """As much of an aiohttp request as the handlers look at."""

    def __init__(self, path: str, body: bytes, desk: routes.Desk) -> None:
        self.path = path
        self.app = {routes.DESK: desk, routes.BODY_LIMIT: BODY_LIMIT}
        self._body = body

    async def read(self) -> bytes:
        return self._body


class _Workers:
    """Kopf's queues: one for each object, by UID."""

    def __init__(self, take_in: Callable[..., None], *, chance: Chance, name: str) -> None:
        self._take_in = take_in
        self._chance = chance
        self._name = name
        self._queues: dict[str, deque[tuple[str | None, Json]]] = {}
        self._count = 0

    def put(self, kind: str | None, raw: Json) -> None:
        uid = raw["metadata"]["uid"]
        queue = self._queues.setdefault(uid, deque())
        queue.append((kind, raw))
        if len(queue) == 1:
            self._later(uid)

    def _later(self, uid: str) -> None:
        self._count += 1
        pause_s = self._chance.between(0, QUEUE_S, "queue", self._name, self._count)
        asyncio.get_running_loop().call_later(pause_s, self._hand_on, uid)

    def _hand_on(self, uid: str) -> None:
        queue = self._queues[uid]
        kind, raw = queue.popleft()
        if queue:
            self._later(uid)
        deliver.deliver(self._take_in, kind, raw)
