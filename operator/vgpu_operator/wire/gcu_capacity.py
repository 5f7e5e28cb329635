"""What Enflame's plugin says of a node's cards and of the ways to cut them.

Grammar::

    capacity = { "devices": [ { "index": text, "minor": text, "capacity": number | text } ],
                 "profiles": { name: id } }
    name     = slices [ "g" ] "." memory [ "gb" ] [ "." ignored ]

Letters match without regard to case; memory is in GB and 0 when it is no
number. Source: HAMi v2.10.0, ``pkg/device/enflame/device.go``, where one bad
device or id makes the whole text bad; here it costs only itself.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_operator.model import device, errors
from vgpu_operator.wire import fields, node_register

MIB_PER_GB: Final = 1024

_WHOLE_CARD: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Profile:
    """One way to cut a card; the order is from small to large.

    Attributes:
        slices: of the card.
        memory_gb: of the partition.
        name: as the plugin writes it (``3g.20gb``).
        id: the plugin's number for it, as text.
    """

    slices: int
    memory_gb: int
    name: str
    id: str

    @property
    def memory_mib(self) -> int:
        """The same in MiB."""
        return self.memory_gb * MIB_PER_GB


def decode_profile(name: str, number: str) -> Profile | None:
    """Return the profile of a name; None when it is none.

    >>> decode_profile("3g.20gb", "1")
    Profile(slices=3, memory_gb=20, name='3g.20gb', id='1')
    >>> decode_profile("1G.x", "0").memory_gb, decode_profile("abc", "0")
    (0, None)
    """
    size, dot, rest = name.lower().partition(".")
    slices = _whole(size.removesuffix("g"))
    if not dot or not slices:
        return None
    memory_gb = _whole(rest.split(".", 1)[0].removesuffix("gb")) or 0
    return Profile(slices=slices, memory_gb=memory_gb, name=name, id=number)


def decode_capacity(text: str, *, node: str, word: str, key: str) -> node_register.RegisterText:
    """Return the cards; each carries the profiles in its ``custom_info``.

    An empty list of devices is good and says that the node has none.

    Args:
        text: the annotation.
        node: the node's name, of which ids are made.
        word: the type of the cards.
        key: the annotation's name, for messages.

    Raises:
        DecodeError: no JSON of that shape, no profile, or no good device.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise errors.DecodeError(f"no JSON: {fields.shown(text)}", key=key) from fault
    if not isinstance(raw, dict) or not isinstance(raw.get("devices"), list):
        raise errors.DecodeError("an object with a list of devices is wanted", key=key)
    if not raw["devices"]:
        return node_register.RegisterText(devices=())
    numbers, faults = _profiles(raw.get("profiles"), key=key)
    cards: dict[str, device.Device] = {}
    for position, entry in enumerate(raw["devices"]):
        try:
            card = _card(entry, position, numbers, node=node, word=word)
        except errors.DecodeError as fault:
            why = fault.reason
        else:
            if cards.setdefault(card.id, card) is card:
                continue
            why = f"the index {card.index} came before"
        faults.append(errors.DecodeError(why, key=key, segment=position))
    if not cards:
        raise faults[0]
    return node_register.RegisterText(devices=tuple(cards.values()), faults=tuple(faults))


def encode_capacity(devices: Iterable[device.Device]) -> str:
    """Write the text that these cards are read from.

    >>> encode_capacity([device.Device(id="n-enflame-drs-0", type="Enflame", slots=6,
    ...     memory_mib=6144, cores_percent=100, healthy=True,
    ...     custom_info={"profiles": {"1g.6gb": "0"}})])
    '{"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.6gb":"0"}}'
    """
    entries: list[dict[str, object]] = []
    profiles: dict[str, str] = {}
    for card in devices:
        info, index = card.custom_info, str(card.index)
        profiles |= info.get("profiles", {})
        entries.append({"index": index, "minor": info.get("minor", index), "capacity": card.slots})
    return json.dumps(
        {"devices": entries, "profiles": profiles}, ensure_ascii=False, separators=(",", ":")
    )


def _profiles(raw: object, *, key: str) -> tuple[dict[str, str], list[errors.DecodeError]]:
    """Return the readable profiles' numbers by name, and a fault for each other one.

    A name that is no profile is passed over, as in HAMi; a number that is no
    text is a fault.
    """
    if not isinstance(raw, dict):
        raise errors.DecodeError("an object of profiles is wanted", key=key)
    found: dict[str, str] = {}
    faults = []
    for name, number in raw.items():
        if isinstance(number, str):
            found[name] = number
        else:
            faults.append(
                errors.DecodeError(
                    f"profile {fields.shown(name)}: a text is wanted, got {fields.shown(number)}",
                    key=key,
                )
            )
    if not any(decode_profile(name, number) for name, number in found.items()):
        raise faults[0] if faults else errors.DecodeError("no profile", key=key)
    return found, faults


def _card(
    raw: object, position: int, profiles: Mapping[str, str], *, node: str, word: str
) -> device.Device:
    """Read one card; its memory is that of the largest profile.

    Raises:
        DecodeError: without a place.
    """
    if not isinstance(raw, dict):
        raise errors.DecodeError(f"an object is wanted, got {fields.shown(raw)}")
    index_text, minor = raw.get("index", ""), raw.get("minor", "")
    if not isinstance(index_text, str) or not isinstance(minor, str):
        raise errors.DecodeError("index and minor must be texts")
    index = _whole(index_text)
    if index is None:
        index = position
    sizes = [p for name, number in profiles.items() if (p := decode_profile(name, number))]
    slices = max(p.slices for p in sizes)
    memory_gb = max(p.memory_gb for p in sizes) or slices
    return device.Device(
        id=fields.decode_id(f"{node}-enflame-drs-{index}"),
        index=index,
        type=word,
        slots=_capacity(raw.get("capacity")),
        memory_mib=memory_gb * MIB_PER_GB,
        cores_percent=_WHOLE_CARD,
        healthy=True,
        custom_info={
            "index": str(index),
            "minor": minor or str(index),
            "profiles": profiles,
            "maxSlice": slices,
        },
    )


def _capacity(raw: object) -> int:
    number = _whole(raw) if isinstance(raw, str) else raw
    if not isinstance(number, int) or isinstance(number, bool):
        raise errors.DecodeError(f"capacity must be an integer, got {fields.shown(raw)}")
    return fields.in_range(number, name="capacity", low=1)


def _whole(text: str) -> int | None:
    """Return a number of digits alone, 0 to 2147483647; None when it is none."""
    try:
        return fields.decode_integer(text, name="", low=0)
    except errors.DecodeError:
        return None
