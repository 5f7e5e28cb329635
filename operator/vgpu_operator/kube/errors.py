"""What the API server (or the way to it) answers when it does not do as asked.

ApiError
 ├── Unreachable       no answer: connection refused, reset, timed out
 ├── Unauthorized 401  our credentials are not accepted
 ├── Denied       403  our rights do not reach that far, or admission refused
 ├── NotFound     404  the object is not there
 ├── Conflict     409  a precondition failed: version, UID, already bound; 422 where
 │                     a patch names the UID of an earlier object of that name
 ├── Expired      410  the resourceVersion is too old: list again
 ├── Invalid      400, 422  the object is not acceptable
 ├── TooMany      429  asked to slow down
 └── ServerFault  5xx
"""

import re
from typing import Any

import orjson

from vgpu_operator.model import errors
from vgpu_operator.wire import shape

_LONGEST_MESSAGE = 500


class ApiError(errors.VgpuError):
    """An API request failed.

    Attributes:
        status: HTTP status; 0 when there was no answer.
        retry_after_s: what the server asks for; None when it does not.
    """

    def __init__(
        self, message: str, *, status: int = 0, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class Unreachable(ApiError):
    """No answer came: it is unknown whether the request took effect."""


class Unauthorized(ApiError):
    """401: our credentials are not accepted."""


class Denied(ApiError):
    """403: our rights do not reach that far, or admission refused."""


class NamespaceEnding(Denied):
    """403, but no right is missing: nothing new may be made in a namespace that is ending."""


class NotFound(ApiError):
    """404: the object is not there."""


class Conflict(ApiError):
    """409: a precondition failed."""


class Expired(ApiError):
    """410: the resourceVersion is too old; list again."""


class Invalid(ApiError):
    """400 or 422: the object is not acceptable."""


class TooMany(ApiError):
    """429: asked to slow down."""


class ServerFault(ApiError):
    """5xx: the server failed; it is unknown whether the request took effect."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Denied,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooMany,
}

_OTHER_UID = "metadata.uid: Invalid value"
"""A patch's UID is no precondition to the API server, but a field that may not change."""

_TOKEN = re.compile(r"(?i)((?:bearer|basic)\s+)\S+")


def from_answer(
    status: int, body: bytes, *, verb: str, path: str, retry_after: str | None = None
) -> ApiError:
    """Return the error that an answer with that status stands for.

    The message is the server's own, cut to a bounded length.
    """
    try:
        answer = orjson.loads(body)
        words = str(answer["message"]) if isinstance(answer, dict) else ""
    except (orjson.JSONDecodeError, KeyError):
        answer = None
        words = body[:_LONGEST_MESSAGE].decode("utf-8", "replace")
    words = _TOKEN.sub(r"\1…", words)[:_LONGEST_MESSAGE]
    kind = _BY_STATUS.get(status, ServerFault if status >= 500 else ApiError)
    if kind is Invalid and _OTHER_UID in words:
        kind = Conflict
    if kind is Denied and _is_namespace_ending(answer):
        kind = NamespaceEnding
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return kind(f"{verb} {path}: {status} {words}".rstrip(), status=status, retry_after_s=seconds)


def _is_namespace_ending(answer: Any) -> bool:
    """Whether a Status names the cause that its admission plugin NamespaceLifecycle writes.

    >>> _is_namespace_ending({"details": {"causes": [{"reason": "NamespaceTerminating"}]}})
    True
    >>> _is_namespace_ending({"details": None}), _is_namespace_ending({"details": {"causes": [1]}})
    (False, False)
    """
    causes = shape.mapping(shape.mapping(answer).get("details")).get("causes")
    return any(cause.get("reason") == "NamespaceTerminating" for cause in shape.mappings(causes))
