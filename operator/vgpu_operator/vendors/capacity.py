"""Cards of vendors that have no register annotation: made up from ``status.capacity``.

The register text of such a node is made of the quantities that count, so that
the same quantities give the same text.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import device, errors
from vgpu_operator.wire import fields, node_register, quantity

MOST_CARDS: Final = 1024
"""On one node; more is taken for a capacity that cannot be meant."""


def text_of(capacity: Mapping[str, Any], *names: str | None) -> str | None:
    """Return a node's quantities as a register text; None when the first is absent.

    >>> text_of({"a.io/core": "200", "cpu": "8"}, "a.io/core", "a.io/memory")
    'a.io/core=200'
    >>> text_of({"a.io/memory": "96"}, "a.io/core", "a.io/memory") is None
    True
    """
    if not names or capacity.get(names[0] or "") is None:
        return None
    return ",".join(f"{name}={capacity[name]}" for name in names if name and name in capacity)


def decode(text: str) -> Mapping[str, int]:
    """Return the quantities of such a text.

    >>> decode("a.io/core=200,a.io/memory=1k")
    {'a.io/core': 200, 'a.io/memory': 1000}

    Raises:
        DecodeError: a quantity is no whole number, or out of all bounds.
    """
    found: dict[str, int] = {}
    for entry in text.split(","):
        name, _, value = entry.rpartition("=")
        number = quantity.decode_integer(value, key=name)
        try:
            found[name] = fields.in_range(number, name=name, low=0)
        except errors.DecodeError as fault:
            raise errors.DecodeError(fault.reason, key=name) from fault
    return found


def is_nothing(text: str) -> bool:
    """Whether every quantity of such a text is zero: no plugin offers any more.

    The kubelet leaves the names of a plugin that is gone in the capacity.

    >>> is_nothing("a.io/core=0,a.io/memory=0"), is_nothing("a.io/core=0,a.io/memory=4")
    (True, False)
    """
    try:
        return not any(decode(text).values())
    except errors.DecodeError:
        return False


def numbered(count: int, *, key: str) -> range:
    """Return the indexes of that many cards.

    Raises:
        DecodeError: more than any node has.
    """
    if count > MOST_CARDS:
        raise errors.DecodeError(f"at most {MOST_CARDS} cards are read, got {count}", key=key)
    return range(count)


def whole_cards(text: str, name: str, card: device.Device) -> node_register.RegisterText:
    """Return as many cards like this one as a quantity says; ``-<index>`` ends their ids.

    Raises:
        DecodeError: the quantity cannot be read, or is more than any node has.
    """
    return _alike(decode(text)[name], card, key=name)


def parts(
    text: str, cores_name: str, memory_name: str, card: device.Device, *, unit_mib: int
) -> node_register.RegisterText:
    """Return a card for every full or begun amount of the card's cores, memory in equal parts.

    Args:
        text: the quantities of cores and of memory.
        cores_name: the resource that counts cores.
        memory_name: the resource that counts memory.
        card: what the cards are like, memory and index apart.
        unit_mib: how many MiB one unit of memory is.

    Raises:
        DecodeError: a quantity cannot be read, or there are more cards than any node has.
    """
    found = decode(text)
    cores, units = found[cores_name], found.get(memory_name, 0)
    count = -(-cores // card.cores_percent)
    memory_mib = units * unit_mib * card.cores_percent // cores if cores else 0
    return _alike(count, dataclasses.replace(card, memory_mib=memory_mib), key=cores_name)


def _alike(count: int, card: device.Device, *, key: str) -> node_register.RegisterText:
    return node_register.RegisterText(
        devices=tuple(
            dataclasses.replace(card, id=f"{card.id}-{index}", index=index)
            for index in numbered(count, key=key)
        )
    )
