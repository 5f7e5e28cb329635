"""The routes: decode what is asked, read the books in short steps, write JSON."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import typedefs, web

import vgpu_operator
from vgpu_operator.flows import shown_nodes, shown_pods
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import clock, steps
from vgpu_operator.state import answers, files, guard, stream, texts
from vgpu_operator.state import rows as state_rows

ANSWER_LIMIT_S: Final = 30.0
"""How long one answer may take, its reader's slowness included; streams have their own limit."""

MOST_ITEMS: Final = 5_000
USUAL_ITEMS: Final = 500
LONGEST_TEXT: Final = 253
"""Of what is searched for: no name is longer."""

MOST_LISTS: Final = 2
"""Lists that are made at once: each has its turn of 2 ms in every round of the event loop."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the routes need.

    Attributes:
        facts: returns whether this replica leads, who holds the Lease, and whether
            the API server answers.
        answered_s: returns how long ago the API server last answered; None = not yet.
        boot: names this process; part of every revision that is told.
    """

    books: Books
    clock: clock.Clock
    facts: Callable[[], Mapping[str, Any]]
    answered_s: Callable[[], float | None]
    boot: str = field(default_factory=lambda: secrets.token_hex(4))


_Maker = Callable[[web.Request], Awaitable[tuple[int, answers.Body]]]


class _Kept:
    """The newest packed answer to a question, and whose turn it is to make it anew.

    Whoever waits for the turn takes what the one before has made: it is newer than the
    question.
    """

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.body: answers.Body | None = None
        self.revision = -1


class Routes:
    """The API's answers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._books = desk.books
        self._files = files.read_all()
        self._work = asyncio.Semaphore(MOST_LISTS)
        self._turns = answers.Turns()
        self._kept_cards, self._kept_nodes = _Kept(), _Kept()
        self.rows = state_rows.Rows(desk.books)
        self.stream = stream.Stream(desk.books, self.rows, boot=desk.boot, status=self.status)

    def add_to(self, app: web.Application) -> None:
        """Add every route."""
        get = app.router.add_get
        for path, handler in (
            ("/", self._page),
            ("/{file}", self._page),
            ("/api/v1/status", self._status),
            ("/api/v1/cards", self._cards),
            ("/api/v1/nodes", self._nodes),
            ("/api/v1/nodes/{name}", self._node),
            ("/api/v1/pods", self._pods),
            ("/api/v1/pending", self._pending),
        ):
            get(path, _in_time(handler), allow_head=False)
        get("/api/v1/events", self._events, allow_head=False)
        get("/api/v1/openapi.json", self._openapi, allow_head=False)

    def status(self) -> Json:
        """Return what this replica says about itself, without what grows by itself."""
        books = self._books
        return {
            "version": vgpu_operator.__version__,
            "synced": books.synced,
            **self._desk.facts(),
            "nodes": len(books.nodes),
            "pending": len(books.ledger.unbound),
            "vendors": [vendor.spec.keyword for vendor in books.vendors],
        }

    async def _status(self, request: web.Request) -> web.StreamResponse:
        answered_s = self._desk.answered_s()
        return answers.small(
            request,
            {
                **self.status(),
                "revision": self._revision(self._books.ledger.revision),
                "generation": self._books.ledger.generation,
                "time": shown_pods.moment(self._desk.clock.now()),
                "apiAnsweredSecondsAgo": None if answered_s is None else round(answered_s, 1),
            },
        )

    async def _cards(self, request: web.Request) -> web.StreamResponse:
        return await self._alike(request, self._kept_cards, self._map)

    async def _nodes(self, request: web.Request) -> web.StreamResponse:
        return await self._alike(request, self._kept_nodes, self._summaries)

    async def _alike(self, request: web.Request, kept: _Kept, make: _Maker) -> web.StreamResponse:
        """Write what all callers are answered alike, made anew once something has changed."""
        known = self._books.ledger.revision
        async with kept.turn, self._work:
            if kept.body is not None and kept.revision >= known and answers.takes_gzip(request):
                body = kept.body
            else:
                revision, body = await make(request)
                if body.is_packed:
                    kept.body, kept.revision = body, revision
        return await answers.write(request, body, self._turns)

    async def _map(self, request: web.Request) -> tuple[int, answers.Body]:
        shown = await self.rows.refresh()
        revision = self._revision(shown)
        head = texts.encode({"revision": revision, "fields": shown_nodes.CARD_FIELDS})
        pieces = answers.wrapped(head, "nodes", self.rows.pieces())
        body = answers.Body(tag=f'"{revision}"', pieces=pieces)
        return shown, await answers.for_caller(request, body)

    async def _summaries(self, request: web.Request) -> tuple[int, answers.Body]:
        shown = self._books.ledger.revision
        names = sorted(self._books.nodes)
        found = [
            texts.encode(told)
            async for node in steps.through(names, pause_s=steps.PAUSE_S)
            if (told := shown_nodes.summary(self._books, node)) is not None
        ]
        more = {"revision": self._revision(shown)}
        return shown, await answers.listed(request, more, "nodes", found)

    async def _node(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        told = shown_nodes.details(self._books, name)
        if told is None:
            return guard.refusal(
                404, f"no node {name[:LONGEST_TEXT]!r} is known; see /api/v1/nodes"
            )
        return answers.small(request, told)

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        asked = _Asked.of(request)
        if isinstance(asked, web.Response):
            return asked
        async with self._work:
            found, after = await self._holders(asked)
            body = await answers.listed(request, {"continue": after}, "pods", found)
        return await answers.write(request, body, self._turns)

    async def _holders(self, asked: "_Asked") -> tuple[list[bytes], str]:
        """Return the pods that are asked for, and the node after which more may come."""
        found: list[bytes] = []
        after = ""
        async for node in steps.through(
            _names_after(self._books.nodes, asked.after), pause_s=steps.PAUSE_S
        ):
            if len(found) >= asked.limit:
                return found, after
            pods = shown_pods.on_node(self._books, node)
            found += [texts.encode(pod) for pod in pods if asked.wants(pod)]
            after = node
        return found, ""

    async def _pending(self, request: web.Request) -> web.StreamResponse:
        asked = _Asked.of(request)
        if isinstance(asked, web.Response):
            return asked
        async with self._work:
            found = [
                texts.encode(told)
                async for uid in steps.through(
                    tuple(self._books.ledger.unbound), pause_s=steps.PAUSE_S
                )
                if (told := shown_pods.waiting(self._books, uid)) is not None and asked.wants(told)
            ]
            body = await answers.listed(
                request, {"total": len(found)}, "pods", found[: asked.limit]
            )
        return await answers.write(request, body, self._turns)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        seen = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        client = request.remote or ""
        async with self.stream.listening(seen[:64], client=client) as listener:
            if listener is None:
                sentence = f"{stream.MOST_LISTENERS} streams are open; close one and try again"
                return guard.refusal(503, sentence, **{"Retry-After": "10"})
            answer = web.StreamResponse(
                headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
            )
            # Whoever hangs up, even while the greeting is made, is no fault of ours.
            with contextlib.suppress(ConnectionResetError):
                await answer.prepare(request)
                await self._tell(answer, listener)
            if listener.is_slow and request.transport is not None:
                request.transport.abort()  # what it has not read is old news
            return answer

    async def _tell(self, answer: web.StreamResponse, listener: stream.Listener) -> None:
        """Write a stream's messages until it ends, one way or another."""
        writing = asyncio.create_task(_write_all(answer, listener))
        ending = asyncio.create_task(listener.ended.wait())
        try:
            await asyncio.wait(
                (writing, ending),
                timeout=stream.LIFETIME_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in (writing, ending):
                task.cancel()
            await asyncio.gather(writing, ending, return_exceptions=True)

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        return answers.file(request, self._files["openapi.json"])

    async def _page(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info.get("file", "index.html")
        found = self._files.get(name)
        if found is None:
            return guard.refusal(404, f"there is no {name[:LONGEST_TEXT]!r} here; open /")
        return answers.file(request, found)

    def _revision(self, revision: int) -> str:
        return f"{self._desk.boot}-{revision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a list is asked for."""

    text: str
    namespace: str
    limit: int
    after: str

    @classmethod
    def of(cls, request: web.Request) -> "_Asked | web.Response":
        """Read the query, or return the refusal."""
        query = request.query
        limit = query.get("limit", str(USUAL_ITEMS))
        if not (limit.isascii() and limit.isdecimal() and 1 <= len(limit) <= 6 and int(limit)):
            return guard.refusal(400, f"limit {limit[:20]!r} is no number from 1 to {MOST_ITEMS}")
        return cls(
            text=query.get("q", "")[:LONGEST_TEXT].lower(),
            namespace=query.get("namespace", "")[:LONGEST_TEXT],
            limit=min(int(limit), MOST_ITEMS),
            after=query.get("continue", "")[:LONGEST_TEXT],
        )

    def wants(self, pod: Json) -> bool:
        """Whether a pod is among what is asked for."""
        if self.namespace and pod["namespace"] != self.namespace:
            return False
        if not self.text:
            return True
        named = f"{pod['namespace']}/{pod['name']}".lower()
        return (
            self.text in named
            or self.text == pod.get("node", "").lower()
            or any(self.text in share["card"].lower() for share in pod.get("shares", ()))
        )


def _names_after(names: Iterable[str], after: str) -> Iterator[str]:
    return (name for name in sorted(names) if name > after)


def _in_time(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> typedefs.Handler:
    """Return a handler that ends in time, whoever reads how slowly."""

    async def limited(request: web.Request) -> web.StreamResponse:
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                return await handler(request)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # half an answer may be on its way
            return guard.refusal(503, f"the answer took longer than {ANSWER_LIMIT_S:g} s")

    return limited


async def _write_all(answer: web.StreamResponse, listener: stream.Listener) -> None:
    while True:
        await answer.write(await listener.next())
