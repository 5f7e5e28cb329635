"""Answers in JSON: made in short steps, tagged, packed, and written in turns.

What is made holds one of few places; what is written holds none, because nobody
knows how slowly it is read.
"""

import asyncio
import contextlib
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from vgpu_operator.kube import steps
from vgpu_operator.state import files, texts
from vgpu_operator.state import rows as state_rows

Json = dict[str, Any]

_PACK_FROM_BYTES: Final = 1_400
"""Less fits into one packet anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A large answer.

    Attributes:
        tag: of its content, in quotes.
        pieces: some KiB each.
        is_packed: with gzip.
    """

    tag: str
    pieces: Iterable[bytes]
    is_packed: bool = False


class Turns:
    """Lets all answers together write for one step's time, then everybody else go on."""

    def __init__(self) -> None:
        self._line = asyncio.Lock()
        self._steps: steps.Steps | None = None

    async def take(self) -> None:
        """Wait for the turn to write one piece."""
        async with self._line:
            if self._steps is None:
                self._steps = steps.Steps(pause_s=steps.PAUSE_S)
            await self._steps.rest()


async def write(request: web.Request, body: Body, turns: Turns) -> web.StreamResponse:
    """Write a large answer piece by piece, or that the caller has it already."""
    headers = _tagged(body.tag)
    if has(request, body.tag):
        return web.Response(status=304, headers=headers)
    answer = web.StreamResponse(headers={**headers, "Content-Type": "application/json"})
    if body.is_packed:
        answer.headers["Content-Encoding"] = "gzip"
    # A reader that hangs up is no fault of ours.
    with contextlib.suppress(ConnectionResetError):
        await answer.prepare(request)
        for piece in body.pieces:
            await turns.take()
            await answer.write(piece)
        await answer.write_eof()
    return answer


async def listed(
    request: web.Request, more: Mapping[str, Any], name: str, items: Sequence[bytes]
) -> Body:
    """Return a list of JSON values under that name, with more beside it, tagged by its content."""
    head = texts.encode(more)
    digest = hashlib.blake2b(head, digest_size=10)
    async for item in steps.through(items, pause_s=steps.PAUSE_S):
        digest.update(item)
    pieces = wrapped(head, name, state_rows.joined(items))
    return await for_caller(request, Body(tag=f'"{digest.hexdigest()}"', pieces=pieces))


async def for_caller(request: web.Request, body: Body) -> Body:
    """Return the same, with gzip for who takes it so and does not have it already."""
    if takes_gzip(request) and not has(request, body.tag):
        return await packed(body)
    return body


async def packed(body: Body) -> Body:
    """Return the same with gzip."""
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    pieces = [
        some
        async for piece in steps.through(body.pieces, pause_s=steps.PAUSE_S)
        if (some := packer.compress(piece))
    ]
    return Body(tag=body.tag, pieces=(*pieces, packer.flush()), is_packed=True)


def wrapped(head: bytes, name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a JSON object that has the pieces' list, under that name, behind what it has."""
    yield head[:-1] + f',"{name}":['.encode()
    yield from pieces
    yield b"]}"


def small(request: web.Request, value: Json) -> web.Response:
    """Return a small answer in one piece, with a tag of its content."""
    body = texts.encode(value)
    tag = f'"{hashlib.blake2b(body, digest_size=10).hexdigest()}"'
    if has(request, tag):
        return web.Response(status=304, headers={"ETag": tag})
    response = web.Response(
        body=body,
        content_type="application/json",
        headers=_tagged(tag),
    )
    if len(body) >= _PACK_FROM_BYTES and takes_gzip(request):
        response.enable_compression(web.ContentCoding.gzip)
    return response


def file(request: web.Request, found: files.File) -> web.Response:
    """Return one of the page's own files."""
    headers = _tagged(found.tag)
    if has(request, found.tag):
        return web.Response(status=304, headers=headers)
    body = found.content
    if takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
        body = found.packed
    return web.Response(body=body, content_type=found.kind, charset="utf-8", headers=headers)


def _tagged(tag: str) -> dict[str, str]:
    """Return the headers of an answer that its caller may keep and ask about again."""
    return {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


def has(request: web.Request, tag: str) -> bool:
    """Whether the caller has this answer already."""
    known = request.headers.get("If-None-Match", "")
    return tag in [one.strip().removeprefix("W/") for one in known.split(",")]


def takes_gzip(request: web.Request) -> bool:
    """Whether the caller can unpack gzip."""
    return _allows_gzip(request.headers.get("Accept-Encoding", ""))


def _allows_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header allows gzip; its weight 0 means "not that".

    >>> _allows_gzip("br, GZIP;q=0.5"), _allows_gzip("*"), _allows_gzip("*, gzip;q=0.000")
    (True, True, False)
    >>> _allows_gzip("identity"), _allows_gzip("gzip;q=x"), _allows_gzip("")
    (False, False, False)
    """
    weights: dict[str, float] = {}
    for one in accepted.lower().split(","):
        coding, _, parameter = one.partition(";")
        _, _, weight = parameter.partition("=")
        try:
            weights[coding.strip()] = float(weight or 1)
        except ValueError:
            weights[coding.strip()] = 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0
