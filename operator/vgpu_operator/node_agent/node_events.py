"""Events about our Node: sent once, in the background, never a flood, never a reason to wait."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from vgpu_operator.flows import effects
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import events
from vgpu_operator.model import device

COMPONENT = "vgpu-agent"

MOST_ABOUT_ONE = 10
WITHIN_S = 600.0
"""So many events within so long tell of one card: it may fall ill and recover all day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something that happened to a card."""

    card: str
    type: effects.EventType
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
                card=card.id,
                type=effects.EventType.WARNING,
                reason="CardUnhealthy",
                message=f"card {card.id} (index {card.index}, {card.type}) is not healthy: it "
                "takes no new pod; pods that use it stay",
            )
        if card.healthy and known is not None and not known.healthy:
            yield News(
                card=card.id,
                type=effects.EventType.NORMAL,
                reason="CardHealthy",
                message=f"card {card.id} (index {card.index}, {card.type}) is healthy again",
            )
    for card in before:
        if card.id not in now:
            yield News(
                card=card.id,
                type=effects.EventType.WARNING,
                reason="CardGone",
                message=f"card {card.id} (index {card.index}, {card.type}) is gone",
            )


@dataclass(slots=True)
class Ration:
    """How much has been told of each card lately."""

    _told_at_s: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def take(self, news: News, *, now_s: float) -> News | None:
        """Return the news as they may be told now; None when there were too many of that card."""
        lately = {
            card: kept
            for card, times in self._told_at_s.items()
            if (kept := tuple(time for time in times if now_s - time < WITHIN_S))
        }
        times = lately.get(news.card, ())
        self._told_at_s = lately
        if len(times) == MOST_ABOUT_ONE:
            return None
        lately[news.card] = (*times, now_s)
        if len(times) < MOST_ABOUT_ONE - 1:
            return news
        return replace(
            news,
            message=f"{news.message}; this card changes again and again: the next events about "
            f"it come in {WITHIN_S / 60:.0f} min, the agent's log has all",
        )


def body(news: News, *, node: str, now: datetime.datetime) -> kube_client.Json:
    """Return the Event of that node that tells the news."""
    event = effects.PostEvent(type=news.type, reason=news.reason, message=news.message, node=node)
    return events.body(event, event.message, now, component=COMPONENT, host=node)
