"""HAMi v2.10.0's recorded answers to texts of the protocol, against ours.

``tests/vectors/codec.jsonl``; the kinds that are no codec of this layer (MIG
allocations, pair scores, weights, selection, reasons) are checked elsewhere.
Where we answer differently on purpose the vector is listed with the reason; a
listed vector that agrees after all fails, so the list cannot rot.
"""

import datetime
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from vgpu_operator.machines import handshake as handshake_machine
from vgpu_operator.machines import node_lock as lock_machine
from vgpu_operator.model import allocation, device, errors
from vgpu_operator.wire import (
    clock_text,
    handshake,
    node_lock,
    node_register,
    pod_devices,
)

_FILE = pathlib.Path(__file__).parents[2] / "vectors" / "codec.jsonl"
VECTORS: list[dict[str, Any]] = [
    json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()
]

_NEGATIVE = "a negative promise would give a card more than it has"
_ONE_BAD_SEGMENT = "one bad segment costs only itself, and a blank one is none"
_NO_ID = "a card without an id cannot be promised to anybody"
_MORE_CLOCKS = "this way to write a time is read, so the stamp has an age"
_NO_LOOP = "a key that clean-up removed stays away while nothing is allocatable and nothing is new"

DIFFERENCES = {
    "codec/pod-decode/mem-negative": _NEGATIVE,
    "codec/container-decode/semicolon-in-cores": "a ';' always ends a container",
    "codec/node-colon-decode/newline": _ONE_BAD_SEGMENT,
    "codec/node-colon-decode/json": "the first character decides which form is read",
    "codec/node-json-decode/list-null": "HAMi stops; here a null entry is a fault of its own",
    "codec/node-json-decode/list-empty-object": _NO_ID,
    "codec/lock-parse/unix": "a lock with an unreadable time still names its owner",
    "codec/handshake/iso-alloc-none": _MORE_CLOCKS,
    "codec/handshake/dots-alloc-none": _MORE_CLOCKS,
    "codec/handshake/dots-alloc-0": _MORE_CLOCKS,
    "codec/handshake/deleted-alloc-0": _NO_LOOP,
    "codec/handshake/empty-alloc-0": _NO_LOOP,
    "codec/handshake/missing": _NO_LOOP,
}


def share(row: dict[str, Any]) -> allocation.DeviceShare:
    return allocation.DeviceShare(
        device_id=row["uuid"],
        vendor_word=row["type"],
        memory_mib=row["mem"],
        cores_percent=row["cores"],
    )


def row_of_share(share: allocation.DeviceShare) -> dict[str, Any]:
    return {
        "uuid": share.device_id,
        "type": share.vendor_word,
        "mem": share.memory_mib,
        "cores": share.cores_percent,
    }


def row_of_card(card: device.Device) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": card.id,
        "index": card.index,
        "count": card.slots,
        "devmem": card.memory_mib,
        "devcore": card.cores_percent,
        "type": card.type,
        "numa": card.numa,
        "mode": card.mode,
        "health": card.healthy,
    }
    if card.custom_info:
        row["custominfo"] = dict(card.custom_info)
    if card.mig_profiles:
        row["migProfiles"] = [
            {
                "name": profile.name,
                "memoryMB": profile.memory_mib,
                "core": profile.cores_percent,
                "sliceCount": profile.slice_count,
                "placements": [{"start": p.start, "size": p.size} for p in profile.placements],
            }
            for profile in card.mig_profiles
        ]
    return row


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def answer_pod_encode(vector: dict[str, Any]) -> dict[str, Any]:
    shares = tuple(tuple(share(row) for row in container) for container in vector["value"])
    return {"text": pod_devices.encode_pod_devices(shares)}


def answer_pod_decode(vector: dict[str, Any]) -> dict[str, Any]:
    """HAMi reads one more, empty container after the last ``;``: ours never exists."""
    read = pod_devices.decode_pod_devices(vector["text"])
    if read.faults:
        return {"error": ...}
    surplus = vector["text"].endswith(";")
    return {
        "containers": [[row_of_share(share) for share in each] for each in read.shares]
        + ([[]] if surplus else []),
        "reencoded": pod_devices.encode_pod_devices(read.shares) + (";" if surplus else ""),
    }


def answer_container_decode(vector: dict[str, Any]) -> dict[str, Any]:
    read = pod_devices.decode_pod_devices(vector["text"])
    if read.faults:
        return {"error": ...}
    return {"devices": [row_of_share(share) for each in read.shares for share in each]}


def answer_node_decode(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        read = node_register.decode_register(vector["text"])
    except errors.DecodeError:
        return {"error": ...}
    if read.faults:
        return {"faults": read.faults}
    return {
        "devices": [row_of_card(card) for card in read.devices],
        "reencoded_json": node_register.encode_register(read.devices),
        "reencoded_colon": node_register.encode_register_colon(read.devices),
    }


def answer_lock_parse(vector: dict[str, Any]) -> dict[str, Any]:
    now = moment(vector["now"])
    try:
        lock = node_lock.decode_lock(vector["text"])
    except errors.DecodeError:
        return {"error": ...}
    age = lock_machine.age(lock, first_seen=now, now=now, expiry_s=300)
    return {
        "time": lock.time and clock_text.encode_rfc3339(lock.time),
        "namespace": lock.namespace,
        "pod": lock.pod,
        "expired": age is lock_machine.Age.EXPIRED,
    }


def answer_lock_generate(vector: dict[str, Any]) -> dict[str, Any]:
    owner = vector["value"]["metadata"]
    return {
        "text": node_lock.encode_lock(
            moment(vector["now"]), namespace=owner["namespace"], pod=owner["name"]
        )
    }


def answer_handshake(vector: dict[str, Any]) -> dict[str, Any]:
    now = moment(vector["now"])
    text = handshake.decode_handshake(None if vector.get("missing") else vector["text"])
    effects = handshake_machine.step(
        text.state,
        age=handshake_machine.age(text, first_seen=now, now=now, expiry_s=60),
        supply=handshake_machine.Supply.SOME
        if vector.get("allocatable", "") not in ("", "0")
        else handshake_machine.Supply.NONE,
        news=handshake_machine.News.SAME,
    )
    stamps = handshake_machine.Effect.STAMP in effects
    return {
        "healthy": handshake_machine.Effect.DROP_DEVICES not in effects,
        "needs_update": stamps,
        "written": handshake.encode_requesting(now) if stamps else None,
    }


ANSWERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "pod_encode": answer_pod_encode,
    "pod_decode": answer_pod_decode,
    "container_decode": answer_container_decode,
    "node_colon_decode": answer_node_decode,
    "node_json_decode": answer_node_decode,
    "lock_parse": answer_lock_parse,
    "lock_generate": answer_lock_generate,
    "handshake": answer_handshake,
}
OURS = [vector for vector in VECTORS if vector["kind"] in ANSWERS]


def expected(vector: dict[str, Any]) -> dict[str, Any]:
    """Return HAMi's answer; of a refusal only its presence counts."""
    return {"error": ...} if "error" in vector["expect"] else dict(vector["expect"])


@pytest.mark.parametrize("vector", OURS, ids=lambda vector: vector["name"])
def test_a_text_is_answered_as_hami_answers_it_or_differently_for_a_listed_reason(
    vector: dict[str, Any],
) -> None:
    answer = ANSWERS[vector["kind"]](vector)

    if vector["name"] in DIFFERENCES:
        assert answer != expected(vector), "listed as different, but agrees: take it off the list"
    else:
        assert answer == expected(vector)


def test_every_listed_difference_is_a_recorded_vector() -> None:
    assert set(DIFFERENCES) <= {vector["name"] for vector in OURS}


def test_the_recordings_of_this_layer_are_all_there() -> None:
    assert len(OURS) == 158
