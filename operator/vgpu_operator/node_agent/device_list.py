"""The ids by which the kubelet counts and hands out slots of cards: ``<card id>-<slot>``."""

from collections.abc import Iterator, Sequence

from vgpu_operator.model import device, errors

MOST_IDS = 10_000
"""So many are told to the kubelet at most: its answer to a long list is to hang up (4 MiB)."""


def refuse_too_many(cards: Sequence[device.Device]) -> None:
    """Refuse cards with more slots than the kubelet can be told of.

    Raises:
        SettingsError: one sentence with how many there are.
    """
    slots = sum(card.slots for card in cards)
    if slots > MOST_IDS:
        raise errors.SettingsError(
            f"the cards of this node have {slots} slots in all, and the kubelet cannot list more "
            f"than {MOST_IDS}: give each card fewer (slots in the card file, --split-count)"
        )


def ids_of(card: device.Device) -> Iterator[str]:
    """Yield an id for each slot of a card.

    >>> card = device.Device(id="GPU-a", type="T4", slots=2, memory_mib=1, cores_percent=100,
    ...                      healthy=True)
    >>> list(ids_of(card))
    ['GPU-a-0', 'GPU-a-1']
    """
    return (f"{card.id}-{slot}" for slot in range(card.slots))


def card_of(device_id: str) -> str:
    """Return the card that an id speaks of.

    >>> card_of("GPU-a-0-11")
    'GPU-a-0'
    """
    return device_id.rpartition("-")[0]


def preferred(
    available: Sequence[str], *, must: Sequence[str], size: int, cards: Sequence[str]
) -> tuple[str, ...]:
    """Choose ids, one of each wanted card as far as there are any.

    Args:
        available: what may be chosen.
        must: what has to be among the choice.
        size: how many to choose.
        cards: the wanted cards; one may come twice.

    >>> free = ["GPU-a-0", "GPU-a-1", "GPU-b-0", "GPU-b-1"]
    >>> preferred(free, must=[], size=2, cards=["GPU-b", "GPU-a"])
    ('GPU-b-0', 'GPU-a-0')
    >>> preferred(free, must=["GPU-a-1"], size=2, cards=["GPU-c", "GPU-a"])
    ('GPU-a-1', 'GPU-a-0')
    """
    chosen = list(must)
    still = list(cards)
    for one in must:
        if card_of(one) in still:
            still.remove(card_of(one))
    taken = set(must)
    left = [one for one in sorted(available, key=_place) if one not in taken]
    for card in still:
        found = next((one for one in left if card_of(one) == card), None)
        if found is not None:
            left.remove(found)
            chosen.append(found)
    chosen.extend(left[: max(0, size - len(chosen))])
    return tuple(chosen[:size])


def _place(device_id: str) -> tuple[str, int, str]:
    """Return a sort key: cards by id, slots by number."""
    card, _, slot = device_id.rpartition("-")
    return card, int(slot) if slot.isdecimal() else 0, slot
