"""The JSON form of a register text: one list element is one card.

Members (matched without regard to case; absent or null is 0, false, empty)::

    id, type, mode            text
    count, devmem, devcore    32-bit integers
    index                     integer, not negative
    numa                      integer
    health                    boolean
    migProfiles               list of {name, memoryMB, core, sliceCount,
                              placements: list of {start, size}}
    custominfo                object, carried as it is; not every plugin writes it

The list is cut by hand into elements, so that each fault has its offset and a
bad element costs nothing else.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from vgpu_operator.model import device, errors
from vgpu_operator.wire import fields, json_members

_BLANK: Final = " \t\n\r"
_DEEPEST: Final = 32
"""How deep ``custominfo`` may nest."""

_LONGEST_INTEGER: Final = 20
"""Characters of the longest 64-bit integer: longer ones are read as floats,
which no integer field takes, because Python refuses to convert huge ones."""


def split_list(text: str, *, key: str = "") -> list[tuple[int, object]]:
    """Parse a JSON list into its elements with the offset of each.

    Raises:
        DecodeError: the text is no JSON list, or something follows it.
    """
    try:
        return list(_elements(text))
    except json.JSONDecodeError as fault:
        raise errors.DecodeError(
            f"the JSON does not parse: {fault.msg}", key=key, offset=fault.pos
        ) from fault
    except RecursionError as fault:
        raise errors.DecodeError("the JSON nests too deep", key=key) from fault


def decode_device(element: object) -> device.Device:
    """Read one card from one parsed list element.

    Raises:
        DecodeError: without a place.
    """
    members = json_members.members(element, name="a card")
    return device.Device(
        id=fields.decode_id(json_members.text(members, "id")),
        index=json_members.integer(members, "index", low=0, high=fields.INT64_MAX),
        slots=json_members.integer(members, "count"),
        memory_mib=json_members.integer(members, "devmem"),
        cores_percent=json_members.integer(members, "devcore"),
        type=json_members.text(members, "type"),
        numa=json_members.integer(
            members, "numa", low=-fields.INT64_MAX - 1, high=fields.INT64_MAX
        ),
        mode=json_members.text(members, "mode"),
        healthy=json_members.boolean(members, "health"),
        mig_profiles=tuple(
            _mig_profile(item) for item in json_members.elements(members, "migprofiles")
        ),
        custom_info=_custom_info(members),
    )


def encode_devices(devices: Iterable[device.Device], *, custom_info: bool = False) -> str:
    """Write a list of cards: compact, members in HAMi's order, nothing that is empty.

    Args:
        devices: the cards.
        custom_info: write ``custominfo`` too, which HAMi's own writer leaves out.
    """
    return json.dumps(
        [
            {
                name: value
                for name, value in _all_members(card).items()
                if value and (custom_info or name != "custominfo")
            }
            for card in devices
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _all_members(card: device.Device) -> dict[str, object]:
    return {
        "id": card.id,
        "index": card.index,
        "count": card.slots,
        "devmem": card.memory_mib,
        "devcore": card.cores_percent,
        "type": card.type,
        "numa": card.numa,
        "mode": card.mode,
        "migProfiles": [
            {
                "name": profile.name,
                "memoryMB": profile.memory_mib,
                "core": profile.cores_percent,
                "sliceCount": profile.slice_count,
                "placements": [
                    {"start": placement.start, "size": placement.size}
                    for placement in profile.placements
                ],
            }
            for profile in card.mig_profiles
        ],
        "health": card.healthy,
        "custominfo": dict(card.custom_info),
    }


def _elements(text: str) -> Iterator[tuple[int, object]]:
    at = _skip_blank(text, 0)
    if text[at : at + 1] != "[":
        raise json.JSONDecodeError("a list is wanted", text, at)
    at = _skip_blank(text, at + 1)
    closed = text[at : at + 1] == "]"
    while not closed:
        element, end = _JSON.raw_decode(text, at)
        yield at, element
        at = _skip_blank(text, end)
        mark = text[at : at + 1]
        if mark not in (",", "]"):
            raise json.JSONDecodeError("',' or ']' is wanted", text, at)
        closed = mark == "]"
        if not closed:
            at = _skip_blank(text, at + 1)
    at = _skip_blank(text, at + 1)
    if at != len(text):
        raise json.JSONDecodeError("nothing may follow the list", text, at)


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _parse_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


def _refuse_constant(name: str) -> object:
    # NaN and Infinity are Python's additions, not JSON.
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


_JSON: Final = json.JSONDecoder(parse_int=_parse_integer, parse_constant=_refuse_constant)


def _mig_profile(item: object) -> device.MigProfile:
    members = json_members.members(item, name="a MIG profile")
    return device.MigProfile(
        name=json_members.text(members, "name"),
        memory_mib=json_members.integer(members, "memorymb"),
        cores_percent=json_members.integer(members, "core"),
        slice_count=json_members.integer(members, "slicecount"),
        placements=tuple(
            _mig_placement(place) for place in json_members.elements(members, "placements")
        ),
    )


def _mig_placement(item: object) -> device.MigPlacement:
    members = json_members.members(item, name="a MIG placement")
    return device.MigPlacement(
        start=json_members.integer(members, "start", low=0),
        size=json_members.integer(members, "size", low=0),
    )


def _custom_info(members: Mapping[str, object]) -> Mapping[str, Any]:
    value = members.get("custominfo")
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, dict):
        raise errors.DecodeError(f"custominfo must be an object, got {fields.shown(value)}")
    return MappingProxyType(
        {json_members.without_lone_surrogates(k): _plain(v) for k, v in value.items()}
    )


def _plain(value: object, depth: int = 0) -> object:
    """Return a JSON value that can be written again, or raise a DecodeError."""
    if depth > _DEEPEST:
        raise errors.DecodeError(f"custominfo nests deeper than {_DEEPEST}")
    if isinstance(value, str):
        return json_members.without_lone_surrogates(value)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise errors.DecodeError("custominfo holds a number that no float can hold")
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {
            json_members.without_lone_surrogates(name): _plain(item, depth + 1)
            for name, item in value.items()
        }
    return value
