"""How each kind of annotation becomes rows, and what their columns are called."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from vgpu_operator.cli import annotation_keys
from vgpu_operator.model import device, errors
from vgpu_operator.vendors import mig, requests, topology
from vgpu_operator.wire import (
    bind_phase,
    clock_text,
    handshake,
    keys,
    node_lock,
    node_register,
    pod_devices,
    shared_devices,
)

_SOME_NODE: Final = "<node>"
"""Stands where a vendor makes cards' ids of the node's name."""

INSTANCE_NUMBERS: Final = ("gpuInstance", "computeInstance")
"""What JSON and YAML say of a MIG instance that has been made."""

Rows: TypeAlias = tuple[Sequence[Mapping[str, Any]], Sequence[errors.DecodeError]]


def _register(text: str, key: str) -> Rows:
    vendor = annotation_keys.registering(key)
    found = (
        node_register.decode_register(text, key=key)
        if vendor is None
        else vendor.decode_devices(text, node=_SOME_NODE)
    )
    return [_card(card) for card in found.devices], found.faults


def _card(card: device.Device) -> dict[str, Any]:
    row: dict[str, Any] = {
        "card": card.id,
        "index": card.index,
        "type": card.type,
        "slots": card.slots,
        "memoryMiB": card.memory_mib,
        "coresPercent": card.cores_percent,
        "numa": card.numa,
        "mode": card.mode,
        "healthy": card.healthy,
    }
    if card.mig_profiles:
        row["migProfiles"] = [
            {
                "name": profile.name,
                "memoryMiB": profile.memory_mib,
                "coresPercent": profile.cores_percent,
                "sliceCount": profile.slice_count,
                "placements": [
                    {"start": place.start, "size": place.size} for place in profile.placements
                ],
            }
            for profile in card.mig_profiles
        ]
    if card.custom_info:
        row["customInfo"] = dict(card.custom_info)
    return row


def _devices(text: str, key: str) -> Rows:
    found = (
        shared_devices.decode(text, key=key)
        if key in annotation_keys.JOINED
        else pod_devices.decode_pod_devices(text, key=key)
    )
    rows = []
    for container, entry in enumerate(found.shares):
        if not entry:
            rows.append({"container": container, "card": "", "word": ""})
        rows.extend(
            {
                "container": container,
                "card": share.device_id,
                "word": share.vendor_word,
                "memoryMiB": share.memory_mib,
                "coresPercent": share.cores_percent,
            }
            for share in entry
        )
    return rows, found.faults


def _handshake(text: str, key: str) -> Rows:
    found = handshake.decode_handshake(text)
    time = found.time.isoformat() if found.time else None
    faults = []
    if found.state is handshake.State.UNREADABLE:
        faults.append(errors.DecodeError(f"no word of the handshake in {text[:80]!r}", key=key))
    elif found.time is None and found.state is not handshake.State.ABSENT:
        faults.append(errors.DecodeError(f"no readable time in {text[:80]!r}", key=key))
    return [{"state": found.state.value, "time": time}], faults


def _lock(text: str, key: str) -> Rows:
    found = node_lock.decode_lock(text, key=key)
    time = found.time.isoformat() if found.time else None
    faults = [] if found.time else [errors.DecodeError("no readable time", key=key)]
    return [{"time": time, "namespace": found.namespace, "pod": found.pod}], faults


def _phase(text: str, key: str) -> Rows:
    found = bind_phase.decode_bind_phase(text)
    if found is None:
        raise errors.DecodeError(f"{text[:80]!r} is none of allocating, success, failed", key=key)
    return [{"phase": found.value}], ()


def _unix_time(text: str, key: str) -> Rows:
    seconds = clock_text.decode_unix_s(text)
    if seconds is None:
        raise errors.DecodeError(f"{text[:80]!r} is no time in Unix seconds", key=key)
    time = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return [{"unixSeconds": seconds, "time": time.isoformat()}], ()


def _card_list(text: str, _key: str) -> Rows:
    return [{"card": word.strip()} for word in text.split(",") if word.strip()], ()


def _name(text: str, _key: str) -> Rows:
    return [{"name": text}], ()


def _weights(text: str, key: str) -> Rows:
    try:
        found = requests.weights(text)
    except errors.RequestError as fault:
        reason = str(fault).removeprefix(f"annotation {keys.SCORING_WEIGHTS}: ")
        raise errors.DecodeError(reason, key=key) from fault
    if found is None:
        return (), ()
    return [{"slot": found.slot, "core": found.core, "memory": found.memory}], ()


def _instances(text: str, _key: str) -> Rows:
    rows = []
    for one in mig.decode_allocations(text):
        uuid, *numbers = one.identity or ("",)
        row = {
            "container": one.container,
            "share": one.share,
            "card": one.device_id,
            "profile": one.profile,
            "start": one.placement.start,
            "size": one.placement.size,
            "instance": uuid,
        }
        rows.append(row | dict(zip(INSTANCE_NUMBERS, numbers, strict=False)))
    return rows, ()


def _links(text: str, _key: str) -> Rows:
    rows: list[dict[str, Any]] = []
    for card, peers in topology.decode_pair_scores(text).items():
        rows.extend({"card": card, "peer": peer, "score": score} for peer, score in peers.items())
        if not peers:
            rows.append({"card": card})
    return rows, ()


READERS: Mapping[annotation_keys.Kind, Callable[[str, str], Rows]] = {
    annotation_keys.Kind.REGISTER: _register,
    annotation_keys.Kind.HANDSHAKE: _handshake,
    annotation_keys.Kind.LOCK: _lock,
    annotation_keys.Kind.DEVICES: _devices,
    annotation_keys.Kind.PHASE: _phase,
    annotation_keys.Kind.UNIX_TIME: _unix_time,
    annotation_keys.Kind.CARD_LIST: _card_list,
    annotation_keys.Kind.NAME: _name,
    annotation_keys.Kind.WEIGHTS: _weights,
    annotation_keys.Kind.INSTANCES: _instances,
    annotation_keys.Kind.LINKS: _links,
}

HEADERS: Mapping[annotation_keys.Kind, dict[str, str]] = {
    annotation_keys.Kind.REGISTER: {
        "card": "CARD",
        "index": "INDEX",
        "type": "TYPE",
        "slots": "SLOTS",
        "memoryMiB": "MEMORY(MiB)",
        "coresPercent": "CORES(%)",
        "numa": "NUMA",
        "mode": "MODE",
        "healthy": "HEALTHY",
    },
    annotation_keys.Kind.HANDSHAKE: {"state": "STATE", "time": "TIME"},
    annotation_keys.Kind.LOCK: {"time": "TIME", "namespace": "NAMESPACE", "pod": "POD"},
    annotation_keys.Kind.DEVICES: {
        "container": "CONTAINER",
        "card": "CARD",
        "memoryMiB": "MEMORY(MiB)",
        "coresPercent": "CORES(%)",
        "word": "WORD",
    },
    annotation_keys.Kind.PHASE: {"phase": "PHASE"},
    annotation_keys.Kind.UNIX_TIME: {"unixSeconds": "UNIX SECONDS", "time": "TIME"},
    annotation_keys.Kind.CARD_LIST: {"card": "CARD"},
    annotation_keys.Kind.NAME: {"name": "NAME"},
    annotation_keys.Kind.WEIGHTS: {"slot": "SLOT", "core": "CORE", "memory": "MEMORY"},
    annotation_keys.Kind.INSTANCES: {
        "container": "CONTAINER",
        "share": "SHARE",
        "card": "CARD",
        "profile": "PROFILE",
        "start": "START",
        "size": "SIZE",
        "instance": "INSTANCE",
    },
    annotation_keys.Kind.LINKS: {"card": "CARD", "peer": "PEER", "score": "SCORE"},
}

FURTHER: Mapping[annotation_keys.Kind, tuple[str, ...]] = {
    annotation_keys.Kind.REGISTER: ("migProfiles", "customInfo"),
    annotation_keys.Kind.INSTANCES: INSTANCE_NUMBERS,
}
"""What only JSON and YAML show, where there is any."""
