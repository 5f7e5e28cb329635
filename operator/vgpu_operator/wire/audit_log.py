"""What an admission policy noted in the API server's audit log.

A line of the log is one event in JSON. Where a validation with the action
``Audit`` failed, the event has the annotation
``validation.policy.admission.k8s.io/validation_failure``, a JSON list of
``{"message", "policy", "binding", "expressionIndex", "validationActions"}``.
Source: Kubernetes 1.36 (``apiserver/pkg/admission/plugin/policy/validating``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from vgpu_operator.model import errors
from vgpu_operator.wire import clock_text, fields, shape

FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedWrite:
    """One event of the log.

    Attributes:
        about: the object's resource, namespace and name, as far as there are any.
        failures: what the policies noted, as (policy, message).
    """

    time: datetime | None
    user: str
    user_agent: str
    about: str
    failures: tuple[tuple[str, str], ...] = ()


def decode_line(line: bytes | str) -> AuditedWrite:
    """Read one line of an audit log.

    >>> decode_line('{"kind": "Event", "user": {"username": "eve"}}').user
    'eve'

    Raises:
        DecodeError: it is no event.
    """
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as fault:
        shown = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        raise errors.DecodeError(f"no event in JSON: {fields.shown(shown)}") from fault
    if not isinstance(event, dict) or event.get("kind") != "Event":
        raise errors.DecodeError("no event of an audit log: its kind is not Event")
    reference = shape.mapping(event.get("objectRef"))
    parts = (reference.get(part) for part in ("resource", "namespace", "name"))
    return AuditedWrite(
        time=clock_text.decode_time(shape.text(event.get("requestReceivedTimestamp"))),
        user=shape.text(shape.mapping(event.get("user")).get("username")),
        user_agent=shape.text(event.get("userAgent")),
        about="/".join(filter(None, map(shape.text, parts))),
        failures=tuple(_failures(shape.mapping(event.get("annotations")))),
    )


def _failures(annotations: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        found = orjson.loads(shape.text(annotations.get(FAILURE)) or "[]")
    except orjson.JSONDecodeError:
        return
    for one in shape.mappings(found):
        yield shape.text(one.get("policy")), shape.text(one.get("message"))
