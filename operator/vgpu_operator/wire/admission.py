"""Messages of the admission protocol (``admission.k8s.io/v1``).

The API server sends an ``AdmissionReview`` with a ``request`` and reads one
back with a ``response``; the patch in it is JSON (RFC 6902) in base64.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from vgpu_operator.model import errors

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
_WHAT = "/webhook"


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """What the API server asks about.

    Attributes:
        uid: echoed in the answer.
        group: API group of the object; empty is the core group.
        kind: kind of the object (``Pod``).
        operation: ``CREATE``, ``UPDATE``, ``DELETE`` or ``CONNECT``.
        namespace: where the object is or will be; empty for cluster objects.
        subresource: part of the object that is asked about; mostly empty.
        object: the new object; empty on ``DELETE``.
        dry_run: nothing will be stored.
    """

    uid: str
    group: str
    kind: str
    operation: str
    namespace: str = ""
    subresource: str = ""
    object: Mapping[str, Any] = field(default_factory=_nothing, hash=False)
    dry_run: bool = False


def decode_review(body: bytes) -> AdmissionRequest:
    """Read the body of an admission call.

    >>> decode_review(b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
    ...     b'"request":{"uid":"u1","kind":{"version":"v1","kind":"Pod"},'
    ...     b'"operation":"CREATE","object":{}}}').kind
    'Pod'

    Raises:
        DecodeError: the body is no such review; the text says what is missing.
    """
    if not body.strip():
        raise _bad("the body is empty; send an AdmissionReview")
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        raise _bad(f"the body is not JSON: {fault}") from fault
    if not isinstance(review, dict):
        raise _bad(f"the body must be a JSON object, not {type(review).__name__}")
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        raise _bad(f"the body must be an {KIND} of {API_VERSION}")
    asked = _object(review, "request")
    kind = _object(asked, "kind", of="request")
    new = asked.get("object")
    if new is not None and not isinstance(new, dict):
        raise _bad("request.object is no object")
    return AdmissionRequest(
        uid=_text(asked, "uid", of="request"),
        group=_optional_text(kind, "group"),
        kind=_text(kind, "kind", of="request.kind"),
        operation=_text(asked, "operation", of="request"),
        namespace=_optional_text(asked, "namespace"),
        subresource=_optional_text(asked, "subResource"),
        object=new or {},
        dry_run=asked.get("dryRun") is True,
    )


def encode_response(
    uid: str,
    *,
    allowed: bool,
    patch: Sequence[Mapping[str, Any]] | None = None,
    message: str = "",
    code: int = 200,
    warnings: Sequence[str] = (),
) -> bytes:
    """Write the answer to one review.

    Args:
        uid: the request's.
        allowed: whether the object may be stored.
        patch: JSON patch operations; none or an empty list changes nothing.
        message: why not; shown to whoever sent the object.
        code: HTTP status that the sender of a refused object gets.
        warnings: sentences that kubectl shows; the object is stored.
    """
    response: dict[str, Any] = {"uid": uid, "allowed": allowed}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps([dict(op) for op in patch])).decode()
    if message:
        response["status"] = {"code": code, "message": message}
    if warnings:
        response["warnings"] = list(warnings)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _object(holder: Mapping[str, Any], name: str, *, of: str = "") -> Mapping[str, Any]:
    value = holder.get(name)
    if not isinstance(value, dict):
        raise _bad(f"{_path(of, name)} is missing or no object")
    return value


def _text(holder: Mapping[str, Any], name: str, *, of: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str) or not value:
        raise _bad(f"{_path(of, name)} is missing or no text")
    return value


def _optional_text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def _path(of: str, name: str) -> str:
    return f"{of}.{name}" if of else name


def _bad(message: str) -> errors.DecodeError:
    return errors.DecodeError(message, key=_WHAT)
