"""Which kind of text an annotation holds, and what that text says.

Kinds are found by the key where it is given, else by the look of the text:

    [ …               register, JSON form
    id,…(7 or 9),…:   register, colon form
    Requesting_…      handshake (Reported, Deleted)
    allocating …      bind phase
    digits            a time in Unix seconds
    time[,ns,pod]     node lock
    … , … ; or :      pod devices
"""

import datetime
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_operator.cli import render
from vgpu_operator.model import errors, settings
from vgpu_operator.vendors import registry
from vgpu_operator.wire import (
    bind_phase,
    clock_text,
    dialects,
    handshake,
    keys,
    node_lock,
    node_register,
    pod_devices,
    shared_devices,
)


class Kind(enum.StrEnum):
    """What an annotation may hold."""

    REGISTER = "NodeRegister"
    HANDSHAKE = "Handshake"
    LOCK = "NodeLock"
    DEVICES = "PodDevices"
    PHASE = "BindPhase"
    UNIX_TIME = "UnixTime"
    CARD_LIST = "CardIds"
    NAME = "Name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a text says.

    Attributes:
        rows: one per thing in it.
        faults: what cannot be read, in the order of the text.
    """

    kind: Kind
    key: str
    rows: Sequence[Mapping[str, Any]] = ()
    faults: Sequence[errors.DecodeError] = ()

    @property
    def title(self) -> str:
        """The kind and, where known, the key."""
        return f"{self.kind} {self.key}".rstrip()


def read(text: str, *, key: str = "") -> Reading:
    """Read an annotation; what cannot be read becomes a fault, never an exception.

    >>> read("2026-01-15T10:00:00Z,default,p1").rows[0]["pod"]
    'p1'
    >>> read("GPU-a0,NVIDIA,3000,30:;").kind
    <Kind.DEVICES: 'PodDevices'>

    Raises:
        DecodeError: no key was given and the text looks like nothing of the protocol.
    """
    kind = kind_of_key(key) or kind_of_text(text)
    if kind is None:
        raise errors.DecodeError(
            f"{text[:80]!r} looks like nothing of the protocol; "
            "name the annotation: vgpu decode KEY TEXT",
            key=key,
        )
    try:
        rows, faults = _READERS[kind](text, key)
    except errors.DecodeError as fault:
        return Reading(kind=kind, key=key, faults=(fault,))
    return Reading(kind=kind, key=key, rows=rows, faults=faults)


def kind_of_key(key: str) -> Kind | None:
    """Return what the annotation of that key holds; None when the key is not known.

    >>> kind_of_key("hami.io/node-nvidia-register"), kind_of_key("4pd.io/vgpu-ids-new")
    (<Kind.REGISTER: 'NodeRegister'>, <Kind.DEVICES: 'PodDevices'>)
    """
    if not key:
        return None
    known = _fixed_kinds().get(key)
    if known is not None:
        return known
    # Vendors that are not served name their keys alike.
    _, _, name = key.rpartition("/")
    for part, kind in (
        ("handshake", Kind.HANDSHAKE),
        ("register", Kind.REGISTER),
        ("devices-to-allocate", Kind.DEVICES),
        ("devices-allocated", Kind.DEVICES),
        ("vgpu-ids", Kind.DEVICES),
        ("lock", Kind.LOCK),
        ("bind-phase", Kind.PHASE),
        ("bind-time", Kind.UNIX_TIME),
        ("vgpu-time", Kind.UNIX_TIME),
        ("vgpu-node", Kind.NAME),
    ):
        if part in name:
            return kind
    return None


def _fixed_kinds() -> dict[str, Kind]:
    """Return the kinds of all keys that we write or read, in every dialect."""
    kinds = {keys.NODE_LOCK: Kind.LOCK, keys.DEVICE_CORDON: Kind.CARD_LIST}
    for dialect in dialects.ALL:
        kinds |= _kinds_of_dialect(dialect)
    for vendor in registry.build(settings.Settings()):
        spec = vendor.spec
        by_key = (
            (spec.register_key, Kind.REGISTER),
            (spec.handshake_key, Kind.HANDSHAKE),
            (spec.to_allocate_key, Kind.DEVICES),
            (spec.allocated_key, Kind.DEVICES),
            (spec.lock_key, Kind.LOCK),
        )
        kinds |= {key: kind for key, kind in by_key if key}
    return kinds


def _kinds_of_dialect(dialect: dialects.Dialect) -> dict[str, Kind]:
    by_key = [
        (dialect.assigned_node, Kind.NAME),
        (dialect.assigned_time, Kind.UNIX_TIME),
        (dialect.bind_time, Kind.UNIX_TIME),
        (dialect.bind_phase, Kind.PHASE),
        (dialect.to_allocate, Kind.DEVICES),
        (dialect.allocated, Kind.DEVICES),
        (dialect.lock, Kind.LOCK),
    ]
    for places in (place for every in dialect.node_keys.values() for place in every):
        by_key += [(places.register, Kind.REGISTER), (places.handshake, Kind.HANDSHAKE)]
    return {key: kind for key, kind in by_key if key}


def kind_of_text(text: str) -> Kind | None:
    """Return what the text looks like; None when it looks like nothing we know."""
    word = text.strip()
    if word.startswith("["):
        return Kind.REGISTER
    if handshake.decode_handshake(word).state not in (
        handshake.State.ABSENT,
        handshake.State.UNREADABLE,
    ):
        return Kind.HANDSHAKE
    if bind_phase.decode_bind_phase(word):
        return Kind.PHASE
    if clock_text.decode_unix_s(word) is not None:
        return Kind.UNIX_TIME
    if clock_text.decode_time(word.partition(",")[0]) is not None:
        return Kind.LOCK
    if ":" in word and ";" not in word and word.split(":")[0].count(",") in (6, 8):
        return Kind.REGISTER
    if ";" in word or (":" in word and "," in word):
        return Kind.DEVICES
    return None


_Rows = tuple[Sequence[Mapping[str, Any]], Sequence[errors.DecodeError]]


def _register(text: str, key: str) -> _Rows:
    found = node_register.decode_register(text, key=key)
    rows = [
        {
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
        for card in found.devices
    ]
    return rows, found.faults


def _devices(text: str, key: str) -> _Rows:
    joined = key in (dialects.FORERUNNER.to_allocate, dialects.FORERUNNER.allocated)
    found = (
        shared_devices.decode(text, key=key)
        if joined
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


def _handshake(text: str, key: str) -> _Rows:
    found = handshake.decode_handshake(text)
    time = found.time.isoformat() if found.time else None
    faults = []
    if found.state is handshake.State.UNREADABLE:
        faults.append(errors.DecodeError(f"no word of the handshake in {text[:80]!r}", key=key))
    elif found.time is None and found.state is not handshake.State.ABSENT:
        faults.append(errors.DecodeError(f"no readable time in {text[:80]!r}", key=key))
    return [{"state": found.state.value, "time": time}], faults


def _lock(text: str, key: str) -> _Rows:
    found = node_lock.decode_lock(text, key=key)
    time = found.time.isoformat() if found.time else None
    faults = [] if found.time else [errors.DecodeError("no readable time", key=key)]
    return [{"time": time, "namespace": found.namespace, "pod": found.pod}], faults


def _phase(text: str, key: str) -> _Rows:
    found = bind_phase.decode_bind_phase(text)
    if found is None:
        raise errors.DecodeError(f"{text[:80]!r} is none of allocating, success, failed", key=key)
    return [{"phase": found.value}], ()


def _unix_time(text: str, key: str) -> _Rows:
    seconds = clock_text.decode_unix_s(text)
    if seconds is None:
        raise errors.DecodeError(f"{text[:80]!r} is no time in Unix seconds", key=key)
    time = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return [{"unixSeconds": seconds, "time": time.isoformat()}], ()


def _card_list(text: str, _key: str) -> _Rows:
    return [{"card": word.strip()} for word in text.split(",") if word.strip()], ()


def _name(text: str, _key: str) -> _Rows:
    return [{"name": text}], ()


_READERS: dict[Kind, Callable[[str, str], _Rows]] = {
    Kind.REGISTER: _register,
    Kind.HANDSHAKE: _handshake,
    Kind.LOCK: _lock,
    Kind.DEVICES: _devices,
    Kind.PHASE: _phase,
    Kind.UNIX_TIME: _unix_time,
    Kind.CARD_LIST: _card_list,
    Kind.NAME: _name,
}

_HEADERS: dict[Kind, dict[str, str]] = {
    Kind.REGISTER: {
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
    Kind.HANDSHAKE: {"state": "STATE", "time": "TIME"},
    Kind.LOCK: {"time": "TIME", "namespace": "NAMESPACE", "pod": "POD"},
    Kind.DEVICES: {
        "container": "CONTAINER",
        "card": "CARD",
        "memoryMiB": "MEMORY(MiB)",
        "coresPercent": "CORES(%)",
        "word": "WORD",
    },
    Kind.PHASE: {"phase": "PHASE"},
    Kind.UNIX_TIME: {"unixSeconds": "UNIX SECONDS", "time": "TIME"},
    Kind.CARD_LIST: {"card": "CARD"},
    Kind.NAME: {"name": "NAME"},
}


def table(reading: Reading) -> render.Table:
    """Return what was read, ready to be drawn; faults go with JSON and YAML."""
    columns = [_column(name, header) for name, header in _HEADERS[reading.kind].items()]
    extra: dict[str, Any] = {"key": reading.key} if reading.key else {}
    extra["faults"] = [
        {"segment": fault.segment, "offset": fault.offset, "message": fault.reason}
        for fault in reading.faults
    ]
    return render.Table(kind=reading.kind.value, columns=columns, rows=reading.rows, extra=extra)


def _column(name: str, header: str) -> render.Column:
    return render.Column(header=header, text=lambda row: _cell(row.get(name)))


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
