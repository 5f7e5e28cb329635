"""Answers of ``vgpu simulate --cases`` to single texts of the protocol (``kind``)."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from vgpu_operator.cli import simulate_answer, simulate_shape
from vgpu_operator.machines import handshake as handshake_machine
from vgpu_operator.machines import node_lock as lock_machine
from vgpu_operator.model import allocation, device, errors, fitting, reason, request, settings
from vgpu_operator.vendors import base, mig, nvidia, requests, topology, walk
from vgpu_operator.wire import (
    clock_text,
    fields,
    handshake,
    node_lock,
    node_register,
    pod_devices,
    shape,
)

Json: TypeAlias = dict[str, Any]


def answer(case: Mapping[str, Any]) -> Json:
    """Return what one text means; a text that is refused gives ``error``.

    Raises:
        DecodeError: the kind is unknown, or the case lacks what it needs.
    """
    kind = case["kind"]
    if not isinstance(kind, str) or kind not in _ANSWERS:
        raise errors.DecodeError(
            f"{fields.shown(kind)} is unknown; known are {', '.join(_ANSWERS)}", key="kind"
        )
    return _ANSWERS[kind](case)


def _refusing(read: Callable[[Mapping[str, Any]], Json]) -> Callable[[Mapping[str, Any]], Json]:
    """Make an answer of what the reader raises."""

    def answered(case: Mapping[str, Any]) -> Json:
        try:
            return read(case)
        except (errors.DecodeError, errors.RequestError) as fault:
            return {"error": str(fault)}

    return answered


def _text(case: Mapping[str, Any]) -> str:
    return shape.text(case.get("text"))


def _pod_encode(case: Mapping[str, Any]) -> Json:
    shares = tuple(
        tuple(
            allocation.DeviceShare(
                device_id=row["uuid"],
                vendor_word=row["type"],
                memory_mib=row["mem"],
                cores_percent=row["cores"],
            )
            for row in container
        )
        for container in simulate_shape.share_rows(case)
    )
    return {"text": pod_devices.encode_pod_devices(shares)}


def _pod_decode(case: Mapping[str, Any]) -> Json:
    """HAMi reads one more, empty container after the last ``;``, and writes it back."""
    text = _text(case)
    read = _read_devices(text)
    surplus = text.endswith(";")
    return {
        "containers": [_rows(each) for each in read] + ([[]] if surplus else []),
        "reencoded": pod_devices.encode_pod_devices(read) + (";" if surplus else ""),
    }


def _container_decode(case: Mapping[str, Any]) -> Json:
    return {"devices": [row for each in _read_devices(_text(case)) for row in _rows(each)]}


def _read_devices(text: str) -> allocation.PodShares:
    read = pod_devices.decode_pod_devices(text)
    for fault in read.faults:
        raise fault
    return read.shares


def _rows(shares: allocation.ContainerShares) -> list[Json]:
    return [
        {
            "uuid": share.device_id,
            "type": share.vendor_word,
            "mem": share.memory_mib,
            "cores": share.cores_percent,
        }
        for share in shares
    ]


def _node_decode(case: Mapping[str, Any]) -> Json:
    """What of a list can be read is kept; ``faults`` lists the rest."""
    read = node_register.decode_register(_text(case))
    found: Json = {
        "devices": [simulate_answer.card(card) for card in read.devices],
        "reencoded_json": node_register.encode_register(read.devices),
        "reencoded_colon": node_register.encode_register_colon(read.devices),
    }
    if read.faults:
        found["faults"] = [str(fault) for fault in read.faults]
    return found


def _lock_parse(case: Mapping[str, Any]) -> Json:
    now = simulate_shape.now(case)
    lock = node_lock.decode_lock(_text(case))
    expiry_s = settings.LockSettings().expiry_s
    age = lock_machine.age(lock, first_seen=now, now=now, expiry_s=expiry_s)
    return {
        "time": lock.time and clock_text.encode_rfc3339(lock.time),
        "namespace": lock.namespace,
        "pod": lock.pod,
        "expired": age is lock_machine.Age.EXPIRED,
    }


def _lock_generate(case: Mapping[str, Any]) -> Json:
    owner = requests.pod_key(shape.mapping(case.get("value")))
    return {
        "text": node_lock.encode_lock(
            simulate_shape.now(case), namespace=owner.namespace, pod=owner.name
        )
    }


def _handshake(case: Mapping[str, Any]) -> Json:
    now = simulate_shape.now(case)
    text = handshake.decode_handshake(None if case.get("missing") else _text(case))
    expiry_s = settings.HandshakeSettings().expiry_s
    some = case.get("allocatable", "") not in ("", "0")
    acts = handshake_machine.step(
        text.state,
        age=handshake_machine.age(text, first_seen=now, now=now, expiry_s=expiry_s),
        supply=handshake_machine.Supply.SOME if some else handshake_machine.Supply.NONE,
        news=handshake_machine.News.SAME,
    )
    stamps = handshake_machine.Effect.STAMP in acts
    return {
        "healthy": handshake_machine.Effect.DROP_DEVICES not in acts,
        "needs_update": stamps,
        "written": handshake.encode_requesting(now) if stamps else None,
    }


def _mig(case: Mapping[str, Any]) -> Json:
    found = mig.decode_allocations(_text(case))
    return {"allocations": json.loads(mig.encode_allocations(found)) if found else None}


def _pair_scores(case: Mapping[str, Any]) -> Json:
    found = topology.decode_pair_scores(_text(case))
    return {"scores": [{"uuid": uuid, "score": dict(peers)} for uuid, peers in found.items()]}


def _weights(case: Mapping[str, Any]) -> Json:
    found = requests.weights(_text(case))
    if found is None:
        return {"weights": None}
    return {"weights": {"slot": found.slot, "core": found.core, "memory": found.memory}}


def _check(check: walk.Check) -> Callable[[Mapping[str, Any]], Json]:
    """Ask one of NVIDIA's checks about one card that is all right otherwise."""

    def answered(case: Mapping[str, Any]) -> Json:
        text = _text(case)
        card = device.Device(
            id=text, type=text, slots=1, memory_mib=1, cores_percent=100, healthy=True
        )
        rules = base.selection(_NVIDIA.spec, shape.mapping(case.get("annotations")))
        ask = fitting.Ask(
            wish=request.DeviceRequest(vendor=nvidia.KEYWORD, count=1), selection=rules
        )
        return {"ok": check(fitting.CardState(device=card), ask) is None}

    return answered


_NVIDIA: Final = nvidia.Nvidia(settings.Settings().vendors.nvidia)


def _parse_reason(case: Mapping[str, Any]) -> Json:
    return {"reasons": reason.counts_in(_text(case))}


_ANSWERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Json]]] = {
    "pod_encode": _pod_encode,
    "pod_decode": _refusing(_pod_decode),
    "container_decode": _refusing(_container_decode),
    "node_colon_decode": _refusing(_node_decode),
    "node_json_decode": _refusing(_node_decode),
    "lock_parse": _refusing(_lock_parse),
    "lock_generate": _lock_generate,
    "handshake": _handshake,
    "mig_decode": _refusing(_mig),
    "pair_scores_decode": _refusing(_pair_scores),
    "weights": _refusing(_weights),
    "check_uuid": _check(walk.id_allowed),
    "check_type": _check(walk.type_allowed),
    "parse_reason": _parse_reason,
}
