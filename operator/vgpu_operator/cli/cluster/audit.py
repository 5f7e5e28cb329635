"""What the API server notes about every request, and how to read it back.

Tests count requests with it: who wrote what, how often.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
"""Every request, without bodies. It is noted when it ends, and a watch when it
begins as well, since it may outlive the one who counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRequest:
    """One request to the API server.

    Attributes:
        user: who was logged in.
        user_agent: what the client calls itself.
        verb: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``, ``delete``;
            for other paths than resources, the HTTP method in lower case.
        group: API group of the resource, such as ``apps``; empty for the core group.
        resource: such as ``pods``; empty where the path is none, as ``/readyz``.
        subresource: such as ``status`` or ``binding``; empty for the object itself.
        namespace: empty for a list over all namespaces and where there is none.
        name: empty for lists and watches.
        uri: path and query.
        code: HTTP status; 0 for one that ended without an answer.
    """

    user: str
    user_agent: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uri: str
    code: int


def read_requests(audit_log: Path) -> Iterator[AuditedRequest]:
    """Return each request once, in the order in which the log first names it.

    A last line that is being written just now is left for the next reader.
    """
    if not audit_log.exists():
        return
    seen: set[str] = set()
    with audit_log.open("rb") as log:
        for line in log:
            if not line.endswith(b"\n"):
                return
            event = json.loads(line)
            if event["auditID"] not in seen:
                seen.add(event["auditID"])
                yield _decode(event)


def _decode(event: dict[str, object]) -> AuditedRequest:
    reference = _mapping(event.get("objectRef"))
    code = _mapping(event.get("responseStatus")).get("code")
    return AuditedRequest(
        user=str(_mapping(event.get("user")).get("username", "")),
        user_agent=str(event.get("userAgent", "")),
        verb=str(event.get("verb", "")),
        group=str(reference.get("apiGroup", "")),
        resource=str(reference.get("resource", "")),
        subresource=str(reference.get("subresource", "")),
        namespace=str(reference.get("namespace", "")),
        name=str(reference.get("name", "")),
        uri=str(event.get("requestURI", "")),
        code=code if isinstance(code, int) else 0,
    )


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
