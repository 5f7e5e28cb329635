"""NVIDIA cards and the links between them: which go together.

A node's plugin may say how well each pair of cards is linked (``hami.io/
node-nvidia-score``): the higher, the better; a pair that it leaves out
counts 0. Under the policy ``topology-aware`` a container that wants several
cards gets the set with the highest sum, one that wants a single card the card
that is linked worst, so that the well linked ones stay together.

Source: HAMi v2.10.0, ``pkg/device/nvidia/calculate_score.go`` and ``device.go``.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from vgpu_operator.model import errors
from vgpu_operator.wire import fields, json_members, register_json

PAIR_SCORES_KEY: Final = "hami.io/node-nvidia-score"
"""Node annotation: JSON list of a card's scores with its peers."""

PairScores: TypeAlias = Mapping[str, Mapping[str, int]]
"""Card id -> peer id -> score; need not be symmetric."""

STEPS: Final = 4_000
"""How many partial sets are looked at, about 30 ms: twice what 8 of 16 cards need at
worst. For larger nodes the answer is found in that time and may not be the best."""

_MOST_SEARCHED: Final = 160
"""With more candidates the set is grown card by card at once."""


def pair_scores_in(notes: Mapping[str, str]) -> PairScores:
    """Return what a node's notes say of its links; unreadable scores count as none."""
    text = notes.get(PAIR_SCORES_KEY)
    if text is None:
        return {}
    try:
        return decode_pair_scores(text)
    except errors.DecodeError:
        return {}


def decode_pair_scores(text: str) -> PairScores:
    """Read a node's pair scores.

    >>> decode_pair_scores('[{"uuid":"GPU-a0","score":{"GPU-a1":50}}]')
    {'GPU-a0': {'GPU-a1': 50}}

    Raises:
        DecodeError: some of it cannot be read.
    """
    found: dict[str, dict[str, int]] = {}
    for segment, (offset, element) in enumerate(
        register_json.split_list(text, key=PAIR_SCORES_KEY)
    ):
        try:
            members = json_members.members(element, name="a card's scores")
            peers = _object(members.get("score"))
            found[json_members.text(members, "uuid")] = {
                peer: json_members.integer(peers, peer) for peer in peers
            }
        except errors.DecodeError as fault:
            raise errors.DecodeError(
                fault.reason, key=PAIR_SCORES_KEY, segment=segment, offset=offset
            ) from fault
    return found


def worst_linked(ids: Sequence[str], scores: PairScores) -> int:
    """Return the index of the card whose scores with the others have the lowest sum.

    >>> worst_linked(["a", "b", "c"], {"a": {"b": 9}, "b": {"a": 9}})
    2
    """

    def links(index: int) -> int:
        own = scores.get(ids[index], {})
        return sum(own.get(other, 0) for other in ids if other != ids[index])

    return min(range(len(ids)), key=links)


def best_linked(ids: Sequence[str], count: int, scores: PairScores) -> tuple[int, ...]:
    """Return the indexes of the ``count`` cards with the highest sum of pair scores.

    Of equal sets the first in the order of the cards, as if all were listed.
    A card may come several times (MIG).

    >>> best_linked(["a", "b", "c"], 2, {"b": {"c": 20}})
    (1, 2)
    >>> best_linked(["a", "b", "c"], 2, {})
    (0, 1)
    """
    size = len(ids)
    if count >= size or count < 2:
        return tuple(range(min(count, size)))
    links = [
        [scores.get(one, {}).get(other, 0) if one != other else 0 for other in ids] for one in ids
    ]
    if size > _MOST_SEARCHED:
        return _grown(links, count)
    search = _Search(links, count)
    search.extend([], 0, [0] * size, 0)
    if search.steps < STEPS:
        return search.best
    grown = _grown(links, count)
    return grown if _total(links, grown) > _total(links, search.best) else search.best


class _Search:
    """Looks at every set in order, and skips what cannot beat the best one found.

    ``gain[i]`` is what card ``i`` adds to the cards already taken.
    """

    def __init__(self, links: Sequence[Sequence[int]], count: int) -> None:
        self.links = links
        self.count = count
        self.steps = 0
        self.best: tuple[int, ...] = ()
        self.best_total = 0
        size = len(links)
        self.most_linked = [
            _running_sums(
                sorted((links[min(i, j)][max(i, j)] for j in range(size) if j != i), reverse=True)
            )
            for i in range(size)
        ]
        """Per card and number of peers the most that those peers can be linked to it."""

    def extend(self, taken: list[int], total: int, gain: list[int], start: int) -> None:
        """Complete ``taken`` with cards from ``start`` on."""
        self.steps += 1
        left = self.count - len(taken)
        last = len(self.links) - left
        if left == 1:
            card = max(range(start, last + 1), key=gain.__getitem__)
            self._offer((*taken, card), total + gain[card])
            return
        for card in range(start, last + 1):
            if self.steps >= STEPS and self.best:
                return
            if self.best and not self._promises(total, gain, card, left):
                return
            row = self.links[card]
            grown = [own + link for own, link in zip(gain, row, strict=True)]
            self.extend([*taken, card], total + gain[card], grown, card + 1)

    def _promises(self, total: int, gain: Sequence[int], start: int, left: int) -> bool:
        """Whether any ``left`` cards from ``start`` on might beat the best.

        Twice the sum is compared, because a pair is shared by its two cards.
        """
        most = sorted(
            (
                2 * gain[card] + self.most_linked[card][left - 1]
                for card in range(start, len(self.links))
            ),
            reverse=True,
        )
        return 2 * total + sum(most[:left]) > 2 * self.best_total

    def _offer(self, cards: tuple[int, ...], total: int) -> None:
        if not self.best or total > self.best_total:
            self.best, self.best_total = cards, total


def _object(value: object) -> dict[str, object]:
    """Return an object as it stands: card ids are not folded to lower case."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.DecodeError(f"score must be an object, got {fields.shown(value)}")
    return value


def _running_sums(values: Sequence[int]) -> list[int]:
    sums = [0]
    for value in values:
        sums.append(sums[-1] + value)
    return sums


def _grown(links: Sequence[Sequence[int]], count: int) -> tuple[int, ...]:
    """Return a good set: the best linked pair, and the best card beside it again and again."""
    size = len(links)
    pairs = [(one, other) for one in range(size) for other in range(one + 1, size)]
    one, other = max(pairs, key=lambda pair: links[pair[0]][pair[1]])
    taken = [one, other]

    def gain(card: int) -> int:
        return sum(links[min(card, peer)][max(card, peer)] for peer in taken)

    while len(taken) < count:
        taken.append(max((card for card in range(size) if card not in taken), key=gain))
    return tuple(sorted(taken))


def _total(links: Sequence[Sequence[int]], cards: Sequence[int]) -> int:
    return sum(links[one][other] for i, one in enumerate(cards) for other in cards[i + 1 :])
