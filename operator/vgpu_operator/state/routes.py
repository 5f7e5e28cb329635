"""The routes: decode what is asked, read the books in short steps, write JSON."""

import asyncio
import hashlib
import zlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import typedefs, web

import vgpu_operator
from vgpu_operator.flows import shown_nodes, shown_pods
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import clock, steps
from vgpu_operator.state import files, guard, stream, texts
from vgpu_operator.state import rows as state_rows

ANSWER_LIMIT_S: Final = 30.0
"""How long one answer may take, its reader's slowness included; streams have their own limit."""

MOST_ITEMS: Final = 5_000
USUAL_ITEMS: Final = 500
LONGEST_TEXT: Final = 253
"""Of what is searched for: no name is longer."""

MOST_LISTS: Final = 2
"""Lists that are made at once: each has its turn of 2 ms in every round of the event loop."""

_PACK_FROM_BYTES: Final = 1_400
"""Less fits into one packet anyway."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the routes need.

    Attributes:
        boot: names this process; part of every revision that is told.
        facts: returns whether this replica leads, who holds the Lease, and whether
            the API server answers.
        answered_s: returns how long ago the API server last answered; None = not yet.
    """

    books: Books
    clock: clock.Clock
    boot: str
    facts: Callable[[], Mapping[str, Any]]
    answered_s: Callable[[], float | None]


class Routes:
    """The API's answers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._books = desk.books
        self._files = files.read_all()
        self._work = asyncio.Semaphore(MOST_LISTS)
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
        return _answer(
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
        await self.rows.refresh()
        revision = self._revision(self.rows.revision)
        head = texts.encode({"revision": revision, "fields": shown_nodes.CARD_FIELDS})
        body = _wrapped(head[:-1] + b',"nodes":[', self.rows.pieces(), b"]}")
        return await _in_pieces(request, body, tag=f'"{revision}"')

    async def _nodes(self, request: web.Request) -> web.StreamResponse:
        revision = self._revision(self._books.ledger.revision)
        async with self._work:
            found = [
                texts.encode(told)
                async for node in steps.through(sorted(self._books.nodes))
                if (told := shown_nodes.summary(self._books, node)) is not None
            ]
        return await _list(request, {"revision": revision}, "nodes", found)

    async def _node(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        told = shown_nodes.details(self._books, name)
        if told is None:
            return guard.refusal(
                404, f"no node {name[:LONGEST_TEXT]!r} is known; see /api/v1/nodes"
            )
        return _answer(request, told)

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        asked = _Asked.of(request)
        if isinstance(asked, web.Response):
            return asked
        async with self._work:
            found, after = await self._holders(asked)
        return await _list(request, {"continue": after}, "pods", found)

    async def _holders(self, asked: "_Asked") -> tuple[list[bytes], str]:
        """Return the pods that are asked for, and the node after which more may come."""
        found: list[bytes] = []
        after = ""
        async for node in steps.through(_names_after(self._books.nodes, asked.after)):
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
                async for uid in steps.through(tuple(self._books.ledger.unbound))
                if (told := shown_pods.waiting(self._books, uid)) is not None and asked.wants(told)
            ]
        return await _list(request, {"total": len(found)}, "pods", found[: asked.limit])

    async def _events(self, request: web.Request) -> web.StreamResponse:
        seen = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        async with self.stream.listening(seen[:64]) as listener:
            if listener is None:
                sentence = f"{stream.MOST_LISTENERS} streams are open; close one and try again"
                return guard.refusal(503, sentence, **{"Retry-After": "10"})
            answer = web.StreamResponse(
                headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
            )
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
        return _serve_file(request, self._files["openapi.json"])

    async def _page(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info.get("file", "index.html")
        found = self._files.get(name)
        if found is None:
            return guard.refusal(404, f"there is no {name[:LONGEST_TEXT]!r} here; open /")
        return _serve_file(request, found)

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


def _answer(request: web.Request, value: Json) -> web.Response:
    """Return a small answer in one piece, with a tag of its content."""
    body = texts.encode(value)
    tag = f'"{hashlib.blake2b(body, digest_size=10).hexdigest()}"'
    if _has(request, tag):
        return web.Response(status=304, headers={"ETag": tag})
    response = web.Response(
        body=body,
        content_type="application/json",
        headers={"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"},
    )
    if len(body) >= _PACK_FROM_BYTES:
        response.enable_compression()
    return response


async def _list(
    request: web.Request, more: Json, name: str, items: Sequence[bytes]
) -> web.StreamResponse:
    """Write a list of JSON values under that name, with more beside it, tagged by its content."""
    head = texts.encode(more)
    digest = hashlib.blake2b(head, digest_size=10)
    async for item in steps.through(items):
        digest.update(item)
    body = _wrapped(head[:-1] + f',"{name}":['.encode(), state_rows.joined(items), b"]}")
    return await _in_pieces(request, body, tag=f'"{digest.hexdigest()}"')


async def _in_pieces(
    request: web.Request, pieces: Iterable[bytes], *, tag: str
) -> web.StreamResponse:
    """Write a large answer piece by piece; others get their turn in between."""
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if _has(request, tag):
        return web.Response(status=304, headers=headers)
    answer = web.StreamResponse(headers={**headers, "Content-Type": "application/json"})
    packed = _takes_gzip(request)
    if packed:
        answer.headers["Content-Encoding"] = "gzip"
    await answer.prepare(request)
    async for piece in _packed(pieces) if packed else steps.through(pieces):
        await answer.write(piece)
    await answer.write_eof()
    return answer


async def _packed(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    async for piece in steps.through(pieces):
        packed = packer.compress(piece)
        if packed:
            yield packed
    yield packer.flush()


def _wrapped(head: bytes, pieces: Iterable[bytes], tail: bytes) -> Iterator[bytes]:
    yield head
    yield from pieces
    yield tail


def _serve_file(request: web.Request, file: files.File) -> web.Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if _has(request, file.tag):
        return web.Response(status=304, headers=headers)
    body = file.content
    if _takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
        body = file.packed
    return web.Response(body=body, content_type=file.kind, charset="utf-8", headers=headers)


def _has(request: web.Request, tag: str) -> bool:
    """Whether the caller has this answer already."""
    known = request.headers.get("If-None-Match", "")
    return tag in [one.strip().removeprefix("W/") for one in known.split(",")]


def _takes_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "").lower()
