"""Events about our Node: sent once, in the background, never a reason to wait."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_operator.model import device

COMPONENT = "vgpu-agent"
NAMESPACE = "default"
"""Where Kubernetes keeps the events of objects without a namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something that happened to a card."""

    type: str
    reason: str
    message: str


def of_change(before: Sequence[device.Device], after: Sequence[device.Device]) -> Iterator[News]:
    """Yield what is worth an event between two lists of cards."""
    was = {card.id: card for card in before}
    now = {card.id for card in after}
    for card in after:
        known = was.get(card.id)
        if not card.healthy and (known is None or known.healthy):
            yield News(
                type="Warning",
                reason="CardUnhealthy",
                message=f"card {card.id} (index {card.index}, {card.type}) is not healthy: it "
                "takes no new pod; pods that use it stay",
            )
        if card.healthy and known is not None and not known.healthy:
            yield News(
                type="Normal",
                reason="CardHealthy",
                message=f"card {card.id} (index {card.index}, {card.type}) is healthy again",
            )
    for card in before:
        if card.id not in now:
            yield News(
                type="Warning",
                reason="CardGone",
                message=f"card {card.id} (index {card.index}, {card.type}) is gone",
            )


def body(news: News, *, node: str, now: datetime.datetime) -> dict[str, Any]:
    """Return a core/v1 Event; its name is made unique by the server."""
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "vgpu-", "namespace": NAMESPACE},
        # Kubernetes itself names the node, not its UID, as the UID of node events.
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "type": news.type,
        "reason": news.reason,
        "message": news.message,
        "source": {"component": COMPONENT, "host": node},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
