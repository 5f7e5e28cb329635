"""What happened, line by line, for a person to read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simulation.server import Json
from simulation.weather import Fate
from vgpu_operator.kube import errors

_SHORT = {
    "/api/v1/nodes/": "node ",
    "/api/v1/namespaces/team/pods/": "pod ",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/": "lease ",
}


LONGEST = 60
"""Texts of annotations are cut here."""


@dataclass(slots=True)
class Story:
    """The lines of one history.

    Attributes:
        now: the virtual time in seconds.
        full: keep also what only reads.
        lines: what is told so far.
    """

    now: Callable[[], float]
    full: bool = False
    lines: list[str] = field(default_factory=list)
    silent: bool = False

    def tell(self, who: str, what: str, *, fault: bool = False) -> None:
        """Add a line."""
        if not self.silent:
            mark = "!" if fault else " "
            self.lines.append(f"{self.now():9.3f} {mark} {who:<9} {what}")

    def tell_request(
        self,
        who: str,
        verb: str,
        path: str,
        body: Any,
        fault: errors.ApiError | None,
        fate: Fate,
    ) -> None:
        """Add a line about a request that has reached the server."""
        if self.silent:
            return
        is_read = verb == "GET" or path.endswith("/events") or "/leases" in path
        if is_read and fate is Fate.FINE and not self.full:
            return
        answer = f" -> {fault.status}" if fault is not None else ""
        luck = "" if fate is Fate.FINE else f" ({fate})"
        self.tell(
            who, f"{verb} {_shown(path)}{_what(body)}{answer}{luck}", fault=fate is not Fate.FINE
        )


def _shown(path: str) -> str:
    for prefix, word in _SHORT.items():
        if path.startswith(prefix):
            return word + path.removeprefix(prefix)
    return path


def _cut(value: str | None) -> str:
    """Return a text as far as a reader wants it.

    >>> _cut(None), _cut("a" * 100)[-3:]
    ('gone', 'aa…')
    """
    if value is None:
        return "gone"
    return value if len(value) <= LONGEST else value[: LONGEST - 1] + "…"


def _what(body: Json | None) -> str:
    """Return the part of a body that a reader wants to see."""
    if not body:
        return ""
    if body.get("kind") == "Event":
        return f" {body['reason']}: {body['message']}"
    metadata = body.get("metadata", {})
    parts = [
        f"{key.rpartition('/')[2]}={_cut(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
    ]
    if metadata.get("resourceVersion"):
        parts.append(f"if version {metadata['resourceVersion']}")
    if "target" in body:
        parts.insert(0, f"to {body['target']['name']}")
    status = body.get("status") or {}
    if "phase" in status:
        parts.append(f"phase {status['phase']}")
    parts += [
        f"{each['type']} {each['status']}, {each.get('reason', '')}"
        for each in status.get("conditions") or ()
        if each["type"] == "PodScheduled"
    ]
    if "allocatable" in status and "capacity" in status:
        cards = {name: n for name, n in status["allocatable"].items() if "/" in name}
        parts.append(f"allocatable {cards}")
    return f" {{{', '.join(parts)}}}" if parts else ""
