"""The cards as they are now, for everybody in the agent who follows them."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from vgpu_operator.model import device


class Board:
    """Holds the latest list of cards and wakes those who follow it."""

    def __init__(self, cards: Sequence[device.Device]) -> None:
        self._cards = _in_order(cards)
        self._changed = asyncio.Event()

    @property
    def cards(self) -> tuple[device.Device, ...]:
        """All cards in index order."""
        return self._cards

    @property
    def by_id(self) -> Mapping[str, device.Device]:
        """All cards by id."""
        return {card.id: card for card in self._cards}

    def put(self, cards: Sequence[device.Device]) -> None:
        """Take in a new list; one that says the same is no news."""
        ordered = _in_order(cards)
        if ordered != self._cards:
            self._cards = ordered
            self._changed.set()
            self._changed = asyncio.Event()

    async def follow(self) -> AsyncIterator[tuple[device.Device, ...]]:
        """Yield the cards now, and again after every change; changes in between are passed over."""
        while True:
            changed, shown = self._changed, self._cards
            yield shown
            if self._cards is shown:
                await changed.wait()


def _in_order(cards: Sequence[device.Device]) -> tuple[device.Device, ...]:
    return tuple(sorted(cards, key=lambda card: (card.index, card.id)))
