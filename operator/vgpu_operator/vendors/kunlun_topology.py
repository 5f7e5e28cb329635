"""What Kunlun's two vendors share: the two wings of a node, and the id lists.

Eight cards lie on two wings of four; some pairs and groups of four are linked
across the wings. A container gets one, two, four or eight cards that are
linked. Places are numbered 0 to 7 as the cards are: 0 to 3 is the left wing.

Source: HAMi v2.10.0, ``pkg/device/kunlun/topo.go``. HAMi takes for a place the
position in its list of cards, which it has sorted by how full they are; here a
place is the card's own, as the links are soldered.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from vgpu_operator.model import fitting, reason, request
from vgpu_operator.vendors import selections, walk

PLACES: Final = 8
_WING: Final = 4

_CROSS_PAIRS: Final = ((0, 4), (1, 5), (2, 6), (3, 7))
_QUADS: Final = (
    (0, 1, 4, 5),
    (2, 3, 6, 7),
    (0, 2, 4, 6),
    (1, 3, 5, 7),
    (0, 3, 4, 7),
    (1, 2, 5, 6),
)

_WING_SIZES: Final[Mapping[int, tuple[int, ...]]] = {1: (1, 3, 2, 4), 2: (2, 3, 4), 4: (4,)}
"""By the number of cards wanted: how many usable cards the wing should have,
best first, so that whole and half wings stay free for others."""

USE_IDS: Final = ("hami.io/use-xpu-uuid", "baidu.com/use-gpuuuid")
AVOID_IDS: Final = ("hami.io/no-use-xpu-uuid", "baidu.com/nouse-gpuuuid")
"""Pod annotations, each in an old and a new spelling; a card must pass all."""


def choose(usable: Collection[int], count: int) -> tuple[int, ...]:
    """Return the places that serve ``count`` cards; empty when none do.

    >>> choose({0, 1, 2, 3, 4, 6, 7}, 2)
    (4, 6)
    >>> choose({3, 7}, 2)
    (3, 7)
    >>> choose({0, 1, 4, 5, 6}, 4)
    (0, 1, 4, 5)
    """
    if count == PLACES:
        return tuple(range(PLACES)) if len(usable) == PLACES else ()
    if count not in _WING_SIZES:
        return ()
    wings = (
        [place for place in range(_WING) if place in usable],
        [place for place in range(_WING, PLACES) if place in usable],
    )
    for size in _WING_SIZES[count]:
        for wing in wings:
            if len(wing) == size:
                return tuple(wing[:count])
    if count == 2:
        return next((pair for pair in _CROSS_PAIRS if usable_all(usable, pair)), ())
    return _quad(usable) if count == 4 else ()


def usable_all(usable: Collection[int], places: Collection[int]) -> bool:
    """Whether all these places are usable."""
    return all(place in usable for place in places)


def by_place(cards: Sequence[fitting.CardState]) -> dict[int, int]:
    """Return which of a node's cards lies on each place.

    The place is the card's index; where indexes repeat or go beyond the last
    place, the cards are numbered in the order of index and id.
    """
    found = {card.device.index: i for i, card in enumerate(cards) if card.device.index < PLACES}
    if len(found) == len(cards):
        return found
    ordered = sorted(range(len(cards)), key=lambda i: (cards[i].device.index, cards[i].device.id))
    return dict(enumerate(ordered[:PLACES]))


def fragmentation(indexes: Collection[int]) -> int:
    """Return how broken the wings are by these cards: from 0, two full wings, to 4."""
    if not indexes:
        return 1
    left = sum(index < _WING for index in indexes)
    broken = {_WING: 0, 1: 2}
    return broken.get(left, 1) + broken.get(len(indexes) - left, 1)


def selection(annotations: Mapping[str, Any]) -> request.CardSelection:
    """Return the rules of both spellings of the id lists."""
    lists = [selections.words(annotations.get(key)) for key in USE_IDS]
    wanted = [words for words in lists if words]
    use_ids: tuple[str, ...] = ()
    if wanted:
        both = tuple(word for word in wanted[0] if all(word in words for words in wanted))
        use_ids = both or (",",)
    return request.CardSelection(
        use_ids=use_ids,
        avoid_ids=tuple(
            word for key in AVOID_IDS for word in selections.words(annotations.get(key))
        ),
    )


def refused(node: fitting.NodeState, ask: fitting.Ask) -> fitting.Refused:
    """Say why no linked cards were found: the id lists, a cordon, or else the wings."""
    for check in (walk.id_allowed, walk.not_cordoned):
        words = [word for card in node.cards if (word := check(card, ask))]
        if words:
            return fitting.Refused(counts={words[0]: len(words)})
    return fitting.Refused(counts={reason.Reason.NUMA_NOT_FIT.value: 1})


def _quad(usable: Collection[int]) -> tuple[int, ...]:
    """Return four places across the wings; of six usable ones so that the rest stay linked."""
    quads = [quad for quad in _QUADS if usable_all(usable, quad)]
    if len(usable) in (4, 5):
        return next(iter(quads), ())
    if len(usable) == 6:
        for quad in quads:
            rest = tuple(sorted(set(usable) - set(quad)))
            if rest in _CROSS_PAIRS or (rest[0] < _WING) == (rest[1] < _WING):
                return quad
        return quads[-1] if quads else ()
    return ()
