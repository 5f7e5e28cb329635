"""What MetaX's plugin says of a node's cards that may be shared (sGPU).

Grammar: a JSON list, one object a card; names match without regard to case,
what is absent or null is 0, false or empty, and a bad card costs only itself::

    uuid, model, qosPolicy                    text
    totalDevCount, totalCompute, totalVRam    32-bit integers: slots, percent, MiB
    numa, linkZone                            32-bit integers
    healthy                                   boolean

Source: HAMi v2.10.0, ``pkg/device/metax/protocol.go``. A card's index is its
place in the list.
"""

import functools
import json
from collections.abc import Iterable

from vgpu_operator.model import device
from vgpu_operator.wire import fields, json_members, node_register, register_json


def decode_cards(text: str, *, word: str, key: str) -> node_register.RegisterText:
    """Return the cards; class, model and zone stand in their ``custom_info``.

    Args:
        text: the annotation.
        word: the type of the cards.
        key: the annotation's name, for messages.

    Raises:
        DecodeError: no JSON list, or no good card among bad ones.
    """
    pieces = (
        (segment, offset, functools.partial(_card, element, segment, word))
        for segment, (offset, element) in enumerate(register_json.split_list(text, key=key))
    )
    return node_register.collect(pieces, key=key)


def encode_cards(devices: Iterable[device.Device]) -> str:
    """Write the text that these cards are read from, nothing that is empty.

    >>> encode_cards([device.Device(id="GPU-1", type="Metax-SGPU", slots=16, memory_mib=32768,
    ...     cores_percent=100, healthy=True, custom_info={"Model": "C500", "LinkZone": 2})])
    '[{"uuid":"GPU-1","model":"C500","totalDevCount":16,"totalCompute":100,"totalVRam":32768,\
"healthy":true,"linkZone":2}]'
    """
    return json.dumps(
        [{name: value for name, value in _members(card).items() if value} for card in devices],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _members(card: device.Device) -> dict[str, object]:
    return {
        "uuid": card.id,
        "model": card.custom_info.get("Model"),
        "totalDevCount": card.slots,
        "totalCompute": card.cores_percent,
        "totalVRam": card.memory_mib,
        "numa": card.numa,
        "healthy": card.healthy,
        "qosPolicy": card.custom_info.get("QosPolicy"),
        "linkZone": card.custom_info.get("LinkZone"),
    }


def _card(element: object, index: int, word: str) -> device.Device:
    members = json_members.members(element, name="a card")
    return device.Device(
        id=fields.decode_id(json_members.text(members, "uuid")),
        index=index,
        type=word,
        slots=json_members.integer(members, "totaldevcount"),
        memory_mib=json_members.integer(members, "totalvram"),
        cores_percent=json_members.integer(members, "totalcompute"),
        numa=json_members.integer(members, "numa"),
        healthy=json_members.boolean(members, "healthy"),
        custom_info={
            "QosPolicy": json_members.text(members, "qospolicy"),
            "Model": json_members.text(members, "model"),
            "LinkZone": json_members.integer(members, "linkzone"),
        },
    )
