"""``/filter``, ``/prioritize`` and ``/bind``: decode, run one flow, answer.

Every path answers JSON that kube-scheduler can read, whatever went wrong.
"""

import asyncio
import dataclasses
import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import web

from vgpu_operator.extender import phases
from vgpu_operator.flows import dry_run, reading
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import binder, clock, intake
from vgpu_operator.model import errors, reason, records
from vgpu_operator.wire import extender

log = structlog.get_logger(__name__)

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the routes need.

    Attributes:
        may_serve: resolves to an empty text when filter and bind may be
            answered (this process leads and its ledger is complete), else to
            the sentence that says why not. It may read the Lease once.
        observe: told the verb, its outcome and how long it took in seconds.
        reject: told how often each reason kept a node off a pod.
        refused: told each pod that fits nowhere.
        observe_phase: told the verb, a part of answering it, and how long that took in
            seconds: ``read``, ``wait`` (for cards that a moment may free, or for the
            ledger), ``fit`` or ``score``, ``write``.
    """

    books: Books
    clock: clock.Clock
    intake: intake.Intake
    binder: binder.Binder
    may_serve: Callable[[], Awaitable[str]]
    observe: Callable[[str, str, float], None]
    reject: Callable[[Mapping[str, int]], None]
    refused: Callable[[records.PodRecord], None]
    observe_phase: Callable[[str, str, float], None] = lambda _verb, _phase, _seconds: None
    last: "Last" = field(default_factory=lambda: Last())


@dataclass(slots=True)
class Last:
    """What was answered last: the same is often asked or answered again.

    Attributes:
        fitting: the names that the last filter that was not refused from memory answered.
        rejections: those of the last pod that fitted nowhere.
        counts: how often each reason is among them.
        refusal: the answer that they make.
    """

    fitting: extender.Names = extender.NO_NAMES
    rejections: Mapping[str, reason.NodeRejection] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    refusal: bytes = b""


DESK = web.AppKey("desk", Desk)


async def handle_filter(request: web.Request) -> web.Response:
    """Answer which nodes can take the pod."""
    desk = request.app[DESK]
    watch = phases.Stopwatch(functools.partial(desk.observe_phase, "filter"))
    try:
        args = extender.decode_filter(await request.read())
    except errors.DecodeError as fault:
        return _bad_request(desk, "filter", watch.seconds, extender.encode_filter(error=str(fault)))
    pod = reading.decode_pod(desk.books, args.pod)
    if args.nodes is not None:
        result = dry_run.filter_objects(desk.books, pod, args.nodes)
        fitting = set(result.fitting)
        nodes = [node for node in args.nodes if node["metadata"]["name"] in fitting]
        failed, unresolvable = _reasons(result.rejections)
        desk.observe("filter", "dry run", watch.seconds)
        return _json(extender.encode_filter(nodes=nodes, failed=failed, unresolvable=unresolvable))
    watch.lap("read")
    problem = await desk.may_serve()
    watch.lap("wait")
    if problem:
        desk.observe("filter", "not serving", watch.seconds)
        return _json(extender.encode_filter(error=problem))
    names = args.node_names or ()
    result = await _filter(desk, pod, names, watch)
    for event in result.events:
        desk.intake.post(event)
    body, counts = _filter_body(desk.last, result)
    watch.lap("write")
    if result.refused:
        desk.refused(pod)
    outcome = "refused" if result.refused else "fits"
    seconds = watch.seconds
    desk.observe("filter", outcome, seconds)
    if pod.request.wants_devices:
        desk.reject(counts)
        log.info(
            "filter",
            pod=str(pod.key),
            asked=len(names),
            fit=len(result.fitting),
            reasons=counts,
            ms=round(seconds * 1000, 2),
        )
    return _json(body)


def _filter_body(last: Last, result: flow_filter.FilterResult) -> tuple[bytes, Mapping[str, int]]:
    """Return the answer, and how often each reason is in it."""
    if result.refused and result.rejections is last.rejections:
        return last.refusal, last.counts
    failed, unresolvable = _reasons(result.rejections)
    counts = _count(result.rejections)
    last.fitting = extender.names_of(result.fitting)
    body = extender.encode_filter(node_names=last.fitting, failed=failed, unresolvable=unresolvable)
    if result.refused:
        last.rejections, last.counts, last.refusal = result.rejections, counts, body
    return body, counts


async def _filter(
    desk: Desk, pod: records.PodRecord, names: tuple[str, ...], watch: phases.Stopwatch
) -> flow_filter.FilterResult:
    """Filter; let the ledger catch up before a pod that was refused is refused again.

    kube-scheduler often asks again at the very event that frees a card,
    before our own watch has shown it.
    """
    result = flow_filter.filter_nodes(desk.books, pod, names, desk.clock.now())
    watch.lap("fit")
    limit_s = desk.books.settings.wake.catch_up_s
    if not (result.refused and result.again and limit_s > 0):
        return result
    has_freed = await desk.intake.freed(limit_s=limit_s)
    watch.lap("wait")
    if has_freed:
        again = flow_filter.filter_nodes(desk.books, pod, names, desk.clock.now())
        watch.lap("fit")
        if again.refused:
            # What the first look had to say has not been said yet.
            return dataclasses.replace(again, events=(*result.events, *again.events))
        return again
    return result


async def handle_prioritize(request: web.Request) -> web.Response:
    """Answer how well each node would take the pod."""
    desk = request.app[DESK]
    watch = phases.Stopwatch(functools.partial(desk.observe_phase, "prioritize"))
    try:
        args = extender.decode_filter(
            await request.read(), what="/prioritize", expected=desk.last.fitting
        )
    except errors.DecodeError as fault:
        return _bad_request(desk, "prioritize", watch.seconds, _error(str(fault)))
    pod = _just_filtered(desk.books, args.pod) or reading.decode_pod(desk.books, args.pod)
    names = args.node_names
    if names is None:
        names = tuple(str(node["metadata"]["name"]) for node in args.nodes or ())
    watch.lap("read")
    scores = flow_filter.score_nodes(desk.books, pod, names)
    watch.lap("score")
    hosts = desk.last.fitting if names is desk.last.fitting.names else extender.names_of(names)
    body = extender.encode_priorities(hosts, scores)
    watch.lap("write")
    desk.observe("prioritize", "scored", watch.seconds)
    return _json(body)


def _just_filtered(books: Books, raw: Mapping[str, Any]) -> records.PodRecord | None:
    """Return the pod as the filter has just read it, where this is the very same version."""
    scored = books.scored
    metadata = raw["metadata"]
    if (
        scored is None
        or scored.pod.key.uid != metadata.get("uid")
        or scored.pod.resource_version != metadata.get("resourceVersion")
        or not scored.pod.resource_version
    ):
        return None
    return scored.pod


async def handle_bind(request: web.Request) -> web.Response:
    """Bind one pod; the answer may wait for the node's lock."""
    desk, begun = request.app[DESK], time.perf_counter()
    try:
        args = extender.decode_bind(await request.read())
    except errors.DecodeError as fault:
        seconds = time.perf_counter() - begun
        return _bad_request(desk, "bind", seconds, extender.encode_bind(str(fault)))
    problem = await desk.may_serve()
    if problem:
        desk.observe("bind", "not serving", time.perf_counter() - begun)
        return _json(extender.encode_bind(problem))
    try:
        result = await desk.binder.bind(args)
    except asyncio.CancelledError:
        desk.observe("bind", "caller hung up", time.perf_counter() - begun)
        raise
    seconds = time.perf_counter() - begun
    desk.observe("bind", "failed" if result.error else "bound", seconds)
    log.info(
        "bind",
        pod=f"{args.namespace}/{args.name}",
        node=args.node,
        error=result.error,
        ms=round(seconds * 1000, 2),
    )
    return _json(extender.encode_bind(result.error))


@web.middleware
async def answer_in_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn every failure into JSON with one sentence; a fault of ours is logged in full."""
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        limit = request.app[BODY_LIMIT]
        return _json(_error(f"the body is larger than {limit} bytes"), status=413)
    except web.HTTPNotFound:
        return _json(
            _error(f"no such path {request.path}; there is /filter, /prioritize, /bind"), 404
        )
    except web.HTTPMethodNotAllowed:
        return _json(_error(f"{request.path} takes POST only"), 405)
    except web.RequestPayloadError:
        return _json(_error(f"{request.path}: the body cannot be decoded as its headers say"), 400)
    except (ConnectionResetError, asyncio.CancelledError):
        raise
    except Exception:
        log.exception("request failed", path=request.path)
        return _json(_error("the operator failed to answer; its log says why"), 500)


BODY_LIMIT = web.AppKey("body_limit", int)


def application(desk: Desk, *, body_limit: int) -> web.Application:
    """Return the extender's aiohttp application."""
    app = web.Application(client_max_size=body_limit, middlewares=[answer_in_json])
    app[DESK] = desk
    app[BODY_LIMIT] = body_limit
    app.add_routes(
        [
            web.post("/filter", handle_filter),
            web.post("/prioritize", handle_prioritize),
            web.post("/bind", handle_bind),
        ]
    )
    return app


def _reasons(
    rejections: Mapping[str, reason.NodeRejection],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts for nodes that eviction might open, and for those that it cannot."""
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for node, rejection in rejections.items():
        (failed if rejection.resolvable else unresolvable)[node] = rejection.text
    return failed, unresolvable


def _count(rejections: Mapping[str, reason.NodeRejection]) -> dict[str, int]:
    """Return how many nodes each reason kept off."""
    counts: dict[str, int] = {}
    for rejection in rejections.values():
        for count in rejection.counts:
            word = str(count.reason)
            counts[word] = counts.get(word, 0) + 1
    return counts


def _error(text: str) -> bytes:
    return extender.encode_bind(text)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=JSON)


def _bad_request(desk: Desk, verb: str, seconds: float, body: bytes) -> web.Response:
    desk.observe(verb, "bad request", seconds)
    return _json(body, status=400)
