"""The cards of one node, as its device plugin registers them.

Grammar; the first character that is not blank decides::

    register = json | colon
    colon    = device ":" { device ":" } [ device ]      the first ":" must be there
    device   = id "," count "," devmem "," devcore "," type "," numa "," health
               [ "," index "," mode ]
             | ""
    json     = "[" [ object { "," object } ] "]"

Without ``index`` and ``mode`` a colon device has index 0 and mode
``hami-core``. Members of a JSON object match without regard to case; what is
absent or null is 0, false or empty; members that nobody knows are ignored.
HAMi v2.10.0 (``pkg/device/devices.go``) reads and writes both forms; NVIDIA's
plugin writes JSON.

A bad device is lost and the rest stays. The two forms differ only in how a
device is cut out and read: see ``register_json`` for the JSON one.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from vgpu_operator.model import device, errors
from vgpu_operator.wire import fields, register_json

_LARGEST_TEXT: Final = 512 * 1024
"""Twice what the API server lets all annotations of an object hold."""

MOST_CARDS: Final = 256
"""Cards of one node that are read; the largest machines have a tenth of them.

The ledger has a column for each card of the node that has most of them, for all
nodes: one text of ten thousand tiny cards would cost gigabytes.
"""

_SHORT_FIELDS: Final = 7
_LONG_FIELDS: Final = 9
_IMPLIED_MODE: Final = "hami-core"

Piece: TypeAlias = tuple[int, int, Callable[[], device.Device]]
"""Segment index, offset of its first character, and how to read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterText:
    """What could be read of a register text, and what could not.

    Attributes:
        devices: in the order of the text; every id once, ``MOST_CARDS`` at the most.
        faults: one per bad or repeated device, and one for all that are too many.
    """

    devices: tuple[device.Device, ...]
    faults: tuple[errors.DecodeError, ...] = ()


def decode_register(text: str, *, key: str = "") -> RegisterText:
    """Read a register annotation in either form.

    ``[]`` is good and says that the node has no card. When an id comes twice,
    the first one stays.

    >>> read = decode_register('[{"id":"GPU-a0","count":10,"devmem":24576,"devcore":100,'
    ...                        '"type":"NVIDIA A10","health":true}]')
    >>> read.devices[0].memory_mib, read.devices[0].index, read.faults
    (24576, 0, ())
    >>> read = decode_register("a,10,24x,100,T4,0,true:b,10,7680,100,T4,0,true,1,hami-core:",
    ...                        key="hami.io/node-nvidia-register")
    >>> [card.id for card in read.devices], str(read.faults[0])
    (['b'], "hami.io/node-nvidia-register, segment 0 at offset 0: devmem must be an integer, \
got '24x'")

    Raises:
        DecodeError: nothing can be read: empty, too long, JSON that does not
            parse, or no good device among bad ones.
    """
    if len(text) > _LARGEST_TEXT:
        raise errors.DecodeError(
            f"at most {_LARGEST_TEXT} characters are read, got {len(text)}", key=key
        )
    if not text.strip():
        raise errors.DecodeError("the text is empty", key=key)
    is_json = text.lstrip().startswith("[")
    pieces = _json_pieces(text, key=key) if is_json else _colon_pieces(text, key=key)
    return collect(pieces, key=key, at_most=MOST_CARDS)


def encode_register(devices: Sequence[device.Device], *, custom_info: bool = False) -> str:
    """Write the JSON form as HAMi's plugin does: no member that is 0, false or empty.

    Args:
        devices: the cards.
        custom_info: write ``custominfo`` too, as some other vendors' plugins do.

    >>> encode_register([device.Device(id="GPU-a0", type="NVIDIA A10", slots=10,
    ...     memory_mib=24576, cores_percent=100, healthy=True, mode="hami-core")])
    '[{"id":"GPU-a0","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A10",\
"mode":"hami-core","health":true}]'
    """
    return register_json.encode_devices(devices, custom_info=custom_info)


def encode_register_colon(devices: Sequence[device.Device], *, short: bool = False) -> str:
    """Write the colon form with nine fields, or with the first seven of them.

    >>> encode_register_colon([device.Device(id="a", type="T4", slots=10, memory_mib=7680,
    ...     cores_percent=100, healthy=True, index=3, mode="hami-core")])
    'a,10,7680,100,T4,0,true,3,hami-core:'

    Raises:
        ValueError: an id, type or mode holds a separator, or the first id
            starts with ``[`` and would be taken for JSON.
    """
    text = "".join(f"{_encode_segment(card, short=short)}:" for card in devices)
    if text.startswith("["):
        raise ValueError(f"this would be read as JSON: {fields.shown(text)}")
    return text


def collect(pieces: Iterable[Piece], *, key: str, at_most: int | None = None) -> RegisterText:
    """Read the pieces of a text one by one; a bad one costs only itself.

    Raises:
        DecodeError: no good piece among bad ones.
    """
    devices: dict[str, device.Device] = {}
    faults: list[errors.DecodeError] = []
    for segment, offset, read in pieces:
        if len(devices) == at_most:
            reason = f"at most {at_most} cards of a node are read, the others are not"
            faults.append(errors.DecodeError(reason, key=key, segment=segment, offset=offset))
            break
        try:
            card = read()
        except errors.DecodeError as fault:
            reason = fault.reason
        else:
            if devices.setdefault(card.id, card) is card:
                continue
            reason = f"the id {fields.shown(card.id)} came before"
        faults.append(errors.DecodeError(reason, key=key, segment=segment, offset=offset))
    if faults and not devices:
        raise faults[0]
    return RegisterText(devices=tuple(devices.values()), faults=tuple(faults))


def _json_pieces(text: str, *, key: str) -> Iterator[Piece]:
    for segment, (offset, element) in enumerate(register_json.split_list(text, key=key)):
        yield segment, offset, functools.partial(register_json.decode_device, element)


def _colon_pieces(text: str, *, key: str) -> Iterator[Piece]:
    if ":" not in text:
        raise errors.DecodeError(
            f"neither a JSON list nor a device that ends with ':', got {fields.shown(text)}",
            key=key,
        )
    offset = 0
    for segment, part in enumerate(text.split(":")):
        if part.strip():
            yield segment, offset, functools.partial(_decode_segment, part.strip())
        offset += len(part) + 1


def _decode_segment(segment: str) -> device.Device:
    words = segment.split(",", _LONG_FIELDS)
    if len(words) not in (_SHORT_FIELDS, _LONG_FIELDS):
        raise errors.DecodeError(
            f"{_SHORT_FIELDS} or {_LONG_FIELDS} fields are wanted, got {fields.shown(segment)}"
        )
    index, mode = (words[7], words[8]) if len(words) == _LONG_FIELDS else ("0", _IMPLIED_MODE)
    return device.Device(
        id=fields.decode_id(words[0]),
        slots=fields.decode_integer(words[1], name="count"),
        memory_mib=fields.decode_integer(words[2], name="devmem"),
        cores_percent=fields.decode_integer(words[3], name="devcore"),
        type=words[4],
        numa=fields.decode_integer(words[5], name="numa"),
        healthy=fields.decode_boolean(words[6], name="health"),
        index=fields.decode_integer(index, name="index", low=0),
        mode=mode,
    )


def _encode_segment(card: device.Device, *, short: bool) -> str:
    words = (
        card.id,
        card.slots,
        card.memory_mib,
        card.cores_percent,
        card.type,
        card.numa,
        "true" if card.healthy else "false",
        card.index,
        card.mode,
    )
    return fields.joined(*words[: _SHORT_FIELDS if short else _LONG_FIELDS])
