"""Hands a watch event to whoever takes it in; one that breaks us costs no other."""

from collections.abc import Callable, Mapping
from typing import Any

import structlog

log = structlog.get_logger(__name__)


def deliver(take_in: Callable[..., None], kind: str | None, raw: Mapping[str, Any]) -> None:
    """Hand on one event; log the fault in full where it cannot be taken in."""
    try:
        take_in(kind, raw)
    except Exception:
        metadata = raw.get("metadata", {})
        log.exception(
            "event lost",
            kind=raw.get("kind"),
            namespace=metadata.get("namespace"),
            name=metadata.get("name"),
        )
