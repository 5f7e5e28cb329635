"""``/webhook`` and ``/healthz``: decode, ask the flow, encode.

Every answer is JSON. A body that is no review is the caller's fault (400); a
fault of ours is logged with its trace and answered without (500), which the
API server treats as its ``failurePolicy`` says.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from aiohttp import typedefs, web

from vgpu_operator.flows import admit
from vgpu_operator.model import errors, quota
from vgpu_operator.model.settings import Settings
from vgpu_operator.vendors import base
from vgpu_operator.webhook import configuration, room
from vgpu_operator.wire import admission, shape

LARGEST_BODY_BYTES = 3 * 2**20
"""The API server's own limit for one object, as JSON."""

HEALTH_PATH = "/healthz"

JSON = "application/json"

_log = structlog.get_logger(__name__)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _nobody(_outcome: str) -> None:
    """Count nothing."""


def _not_timed(_seconds: float) -> None:
    """Time nothing."""


def _unbounded(_namespace: str) -> quota.Standing:
    return quota.UNBOUNDED


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookState:
    """What the routes need.

    Attributes:
        standing: how a namespace stands against its ResourceQuotas, as this replica
            sees it.
        timeout_s: how long a call may wait for its turn and its body take to come.
        most_calls: bodies that may be read at once; more wait for their turn.
        observe: told each call's outcome (``allowed``, ``changed``,
            ``refused``, ``skipped``, ``bad``, ``busy``, ``late``, ``hung up``,
            ``failed``).
        observe_seconds: told how long each call took.
    """

    settings: Settings
    vendors: Sequence[base.Vendor]
    standing: Callable[[str], quota.Standing] = _unbounded
    timeout_s: float = 5.0
    most_calls: int = 128
    observe: Callable[[str], None] = _nobody
    observe_seconds: Callable[[float], None] = _not_timed


def build(state: WebhookState, *middlewares: typedefs.Middleware) -> web.Application:
    """Return the application with both routes, behind further middlewares."""
    app = web.Application(
        client_max_size=LARGEST_BODY_BYTES, middlewares=[*middlewares, _json_errors]
    )
    app.router.add_post(configuration.PATH, _Webhook(state).answer)
    app.router.add_get(HEALTH_PATH, _healthz)
    return app


class _Webhook:
    """Keeps one slow or eager caller from taking the process; then decides."""

    def __init__(self, state: WebhookState) -> None:
        self._state = state
        self._room = room.Room(state.most_calls)

    async def answer(self, call: web.Request) -> web.Response:
        """Answer one AdmissionReview within the limits of time and calls."""
        begun = time.perf_counter()
        limit = asyncio.timeout(self._state.timeout_s)
        place = room.Call(client=call.remote or "", limit=limit)
        try:
            async with limit:
                await self._room.enter(place)
                body = await call.read()
            outcome, response = _decide(body, self._state)
        except TimeoutError:
            outcome, response = self._too_late(place)
        except web.HTTPRequestEntityTooLarge:
            outcome = "bad"
            response = failure(413, f"the body is larger than {LARGEST_BODY_BYTES} bytes")
        except ConnectionResetError:
            self._state.observe("hung up")
            raise
        except Exception:
            self._state.observe("failed")
            raise
        finally:
            self._room.leave(place)
            self._state.observe_seconds(time.perf_counter() - begun)
        self._state.observe(outcome)
        return response

    def _too_late(self, place: room.Call) -> tuple[str, web.Response]:
        if place.gave_way:
            return "busy", failure(503, "the body had not come when others needed room; try again")
        if not place.is_inside:
            return "busy", failure(503, f"{len(self._room)} calls are running; try again")
        late = f"the body took longer than {self._state.timeout_s} s to come"
        return "late", failure(408, late)


def _decide(body: bytes, state: WebhookState) -> tuple[str, web.Response]:
    """Return the outcome's word and the answer to one body."""
    try:
        asked = admission.decode_review(body)
    except errors.DecodeError as fault:
        return "bad", failure(400, str(fault))
    if not _is_new_pod(asked):
        return "skipped", _reviewed(asked, admit.UNTOUCHED)
    verdict = admit.admit(
        asked.object,
        settings=state.settings,
        vendors=state.vendors,
        standing=state.standing(asked.namespace),
    )
    outcome = _outcome(verdict)
    if outcome != "allowed":
        _log_verdict(asked, verdict, outcome)
    return outcome, _reviewed(asked, verdict)


async def _healthz(_call: web.Request) -> web.Response:
    return web.Response(body=orjson.dumps({"status": "ok"}), content_type=JSON)


def failure(status: int, message: str) -> web.Response:
    """Return an error as JSON: ``{"error": message}``."""
    return web.Response(status=status, body=orjson.dumps({"error": message}), content_type=JSON)


@web.middleware
async def _json_errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as fault:
        allowed = ", ".join(sorted(fault.allowed_methods))
        return failure(405, f"{request.path} takes {allowed}, not {request.method}")
    except web.HTTPNotFound:
        return failure(404, f"there is no {request.path}; see {configuration.PATH} and /healthz")
    except web.HTTPException as fault:
        return failure(fault.status, fault.reason)
    except ConnectionResetError:
        raise  # the caller hung up: nobody to answer, and no fault of ours
    except Exception:
        _log.exception("webhook call failed", path=request.path)
        return failure(500, "the webhook failed on this call; see the operator's log")


def _is_new_pod(asked: admission.AdmissionRequest) -> bool:
    return (
        (asked.group, asked.kind) == ("", "Pod")
        and asked.operation == "CREATE"
        and not asked.subresource
    )


def _reviewed(asked: admission.AdmissionRequest, verdict: admit.Verdict) -> web.Response:
    body = admission.encode_response(
        asked.uid,
        allowed=verdict.allowed,
        patch=verdict.patch,
        message=verdict.message,
        code=verdict.code,
        warnings=verdict.warnings,
    )
    return web.Response(body=body, content_type=JSON)


def _outcome(verdict: admit.Verdict) -> str:
    if not verdict.allowed:
        return "refused"
    return "changed" if verdict.patch else "allowed"


def _log_verdict(asked: admission.AdmissionRequest, verdict: admit.Verdict, outcome: str) -> None:
    metadata: Mapping[str, Any] = shape.mapping(asked.object.get("metadata"))
    name = shape.text(metadata.get("name")) or shape.text(metadata.get("generateName"))
    _log.info(
        "pod admission",
        outcome=outcome,
        namespace=asked.namespace,
        pod=name,
        changes=len(verdict.patch),
        message=verdict.message,
        dry_run=asked.dry_run,
    )
