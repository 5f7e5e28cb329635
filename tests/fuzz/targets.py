"""Everything that reads what somebody else has written, as one table.

An input is bytes, as it lies in the corpus. A target reads it and either
returns what it read or refuses it with its declared error. What the target
cannot be given at all (a reader of JSON, and the bytes are none) is passed
over with ``NotForUs``: the codec in front of it refuses that.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from vgpu_operator.model import device_config, errors, settings, yaml_text
from vgpu_operator.vendors import records, registry
from vgpu_operator.wire import (
    admission,
    admission_objects,
    audit_log,
    bind_phase,
    budgets,
    clock_text,
    cluster_events,
    device_ids,
    dialects,
    extender,
    field_managers,
    fields,
    gcu_capacity,
    handshake,
    kept_certificate,
    lease,
    node_lock,
    node_register,
    nomination,
    object_names,
    pod_devices,
    priority_classes,
    quantity,
    register_json,
    resource_version,
    sgpu_json,
    shared_devices,
    workloads,
)


class NotForUs(Exception):
    """The bytes never reach this reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One reader.

    Attributes:
        read: reads the bytes.
        refuses: the only error that it may raise; None = it takes anything.
        write: writes what was read, so that reading it again gives the same;
            None where the codec promises no such thing.
        is_json: inputs are changed member by member, not byte by byte.
        pieces: words that lead random text past the reader's first tests.
        slowest_s: processor time that one input may cost.
        longest: characters of a complaint; one about a file names up to eight places.
    """

    name: str
    read: Callable[[bytes], Any]
    refuses: type[errors.VgpuError] | None = None
    write: Callable[[Any], bytes | None] | None = None
    is_json: bool = False
    pieces: tuple[str, ...] = ()
    slowest_s: float = 1.0
    longest: int = 600


EVERY_VENDOR = settings.with_every_vendor(settings.Settings())
VENDORS = registry.build(EVERY_VENDOR)

NUMBERS = ("0", "1", "-1", "100", "2147483647", "2147483648", "9" * 30, "1e9", "0x1", "\uff11")
CUTS = (",", ":", ";", ",,", "::", ";;", "[", "]", "{", "}", '"', "\\", "\\ud800", "\x00", "é")
DAYS = ("2026-01-15", "T10:00:00", " 10:00:00", "Z", "+00:00", " +0000 UTC m=+1.5", ".999999999")


def _text(data: bytes) -> str:
    """Return the text that the API server could send: it has no bytes that are no UTF-8."""
    return data.decode("utf-8", "replace")


def _of_text(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(_text(data))


def _mapping(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise NotForUs from fault
    if not isinstance(value, dict):
        raise NotForUs
    return value


def _of_mapping(read: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(_mapping(data))


def _encoded(text: str) -> bytes:
    return text.encode()


def _good_only(
    write: Callable[[Sequence[Any]], str],
) -> Callable[[node_register.RegisterText], bytes | None]:
    """Write a register text again; one with faults says less than what was read."""

    def again(read: node_register.RegisterText) -> bytes | None:
        return None if read.faults else _encoded(write(read.devices))

    return again


def _shares(read: pod_devices.PodDevices) -> bytes | None:
    return None if read.faults else _encoded(pod_devices.encode_pod_devices(read.shares))


def _lock(read: node_lock.LockText) -> bytes | None:
    if read.time is None or not read.owned:
        return None
    whole_s = read.time.replace(microsecond=0)
    if whole_s != read.time or whole_s.year < 1000:
        return None
    return _encoded(node_lock.encode_lock(whole_s, namespace=read.namespace, pod=read.pod))


def _canonical(data: bytes) -> str:
    """Read a quantity in all its ways: they must agree."""
    text = _text(data)
    written = quantity.canonical(text)
    assert quantity.canonical(written) == written
    assert -(-quantity.decode_thousandths(text) // 1000) == quantity.decode_rounded_up(text)
    exact = quantity.decode_integer(text)
    assert quantity.decode_rounded_up(text) == exact
    assert quantity.decode_integer(written) == exact
    return written


def _bind(data: bytes) -> Any:
    return extender.decode_bind(data)


def _filter(data: bytes) -> Any:
    """Read the body with and without names that were expected: the answer is the same."""
    plain = extender.decode_filter(data)
    if plain.node_names:
        names = plain.node_names
        for text in (json.dumps(names), json.dumps(names, separators=(",", ":"))):
            expected = extender.Names(names=names, text=_encoded(text))
            assert extender.decode_filter(data, expected=expected) == plain
    others = extender.Names(names=("a", "b"), text=b'["a","b"]')
    assert extender.decode_filter(data, expected=others) == plain
    return plain


def _settings(data: bytes) -> Any:
    values = yaml_text.read(_text(data)).value
    if not isinstance(values, Mapping):
        raise NotForUs
    return settings.build(values)


def _device_config(data: bytes) -> Any:
    document = device_config.decode(_text(data))
    return settings.build(device_config.merged({}, document))


def _node(raw: dict[str, Any]) -> Any:
    return records.node_record(raw, VENDORS)


def _pod(raw: dict[str, Any]) -> Any:
    return records.pod_record(raw, VENDORS, aliases={})


def _budget(raw: dict[str, Any]) -> Any:
    """Read a budget and ask it about pods: whatever it says, it can be asked."""
    budget = budgets.decode_budget(raw)
    assert budget.allowed >= 0
    pods = ({}, {"app": "web"}, {"app": "web", "tier": ""})
    return budget, [budget.covers(budget.namespace, labels) for labels in pods]


def _priority_class(raw: dict[str, Any]) -> Any:
    """Read a PriorityClass and give it to a pod that names it: its number fits the field."""
    found = priority_classes.decode_class(raw)
    pod = priority_classes.resolved({"spec": {"priorityClassName": found.name}}, [found])
    assert pod is not None
    assert abs(pod["spec"]["priority"]) <= fields.INT32_MAX
    return found


def _nomination(text: str) -> Any:
    """Read a nomination; what was read is written so that it reads the same."""
    found = nomination.decode_nomination(text)
    if found is not None:
        again = nomination.decode_nomination(nomination.encode_nomination(found))
        whole = replace(found, until=found.until.replace(microsecond=0))
        assert again == whole
    return found


def _device_ids(text: str) -> device_ids.ServedIds:
    """Read a note, and ask it as the pod it is of and as another one."""
    note = device_ids.decode_device_ids(text)
    assert device_ids.served_to(note.uid, text) == (note.containers if note.uid else None)
    assert device_ids.served_to(f"{note.uid}0", text) is None
    return note


def _written_on(raw: dict[str, Any]) -> Any:
    return dialects.written_on(raw, node="node-a")


def _pair(data: bytes) -> tuple[str, str]:
    one, _, other = _text(data).partition("\n")
    return one, other


def _whole_second(read: datetime | None) -> bytes | None:
    if read is None or read.microsecond or read.year < 1000:
        return None
    assert read.tzinfo is UTC
    return _encoded(clock_text.encode_rfc3339(read))


def _stamp(read: handshake.HandshakeText) -> bytes | None:
    if read.time is None or read.time.microsecond or read.time.year < 1000:
        return None
    write = {
        handshake.State.REQUESTING: handshake.encode_requesting,
        handshake.State.REPORTED: handshake.encode_reported,
        handshake.State.DELETED: handshake.encode_deleted,
    }.get(read.state)
    return None if write is None else _encoded(write(read.time))


def _anything_of_a_cluster(raw: Mapping[str, Any]) -> Any:
    """Read an object in each way in which ``vgpu doctor`` reads some kind."""
    hooks = list(admission_objects.webhooks(raw))
    return (
        [kept_certificate.periods(hook.bundle) for hook in hooks],
        admission_objects.binding_actions(raw),
        admission_objects.policy(raw, actions=frozenset()),
        cluster_events.decode_event(raw),
        field_managers.writers(raw, {"hami.io/mutex.lock"}),
        field_managers.heartbeat_written(raw),
        workloads.controller(raw),
        workloads.daemon_set(raw),
        workloads.deployment(raw),
        workloads.health(raw),
        workloads.is_plugin(raw.get("spec") if isinstance(raw.get("spec"), Mapping) else {}),
    )


DECODE = errors.DecodeError
REGISTER = (*NUMBERS, *CUTS, '{"id":"a"}', '"devmem":', "true", "null", "hami-core", "GPU-a0,")
SHARES = (*NUMBERS, *CUTS, "GPU-a0,NVIDIA,3000,20:", "NVIDIA")

ALL: tuple[Target, ...] = (
    Target(
        name="register",
        read=_of_text(node_register.decode_register),
        refuses=DECODE,
        write=_good_only(lambda cards: node_register.encode_register(cards, custom_info=True)),
        pieces=REGISTER,
    ),
    Target(
        name="register-list",
        read=_of_text(register_json.split_list),
        refuses=DECODE,
        pieces=REGISTER,
    ),
    Target(
        name="sgpu-cards",
        read=_of_text(lambda text: sgpu_json.decode_cards(text, word="Metax-SGPU", key="k")),
        refuses=DECODE,
        write=_good_only(sgpu_json.encode_cards),
        pieces=(*REGISTER, '"uuid":', '"totalVRam":'),
    ),
    Target(
        name="gcu-capacity",
        read=_of_text(
            lambda text: gcu_capacity.decode_capacity(text, node="n", word="Enflame", key="k")
        ),
        refuses=DECODE,
        pieces=(*REGISTER, "3g.20gb", '"profiles":', '"devices":'),
    ),
    Target(
        name="gcu-profile",
        read=lambda data: gcu_capacity.decode_profile(*_pair(data)),
        pieces=(*NUMBERS, "g.", "gb", "."),
    ),
    Target(
        name="pod-devices",
        read=_of_text(pod_devices.decode_pod_devices),
        write=_shares,
        pieces=SHARES,
    ),
    Target(
        name="pod-devices-of-three",
        read=_of_text(lambda text: pod_devices.decode_pod_devices(text, containers=3)),
        pieces=SHARES,
    ),
    Target(
        name="shared-devices",
        read=_of_text(lambda text: shared_devices.decode(text, asked=(1, 0, 2), n_init=1)),
        pieces=SHARES,
    ),
    Target(
        name="take-first",
        read=_of_text(
            lambda text: (
                pod_devices.is_served(text),
                pod_devices.take_first(text),
                shared_devices.take_first(text, 2),
            )
        ),
        refuses=DECODE,
        pieces=SHARES,
    ),
    Target(
        name="lock",
        read=_of_text(node_lock.decode_lock),
        refuses=DECODE,
        write=_lock,
        pieces=(*DAYS, ",ns,pod", ","),
    ),
    Target(
        name="handshake",
        read=_of_text(handshake.decode_handshake),
        write=_stamp,
        pieces=(*DAYS, "Requesting_", "Reported_", "Deleted_"),
    ),
    Target(
        name="time",
        read=_of_text(clock_text.decode_time),
        write=_whole_second,
        pieces=(*DAYS, *NUMBERS),
    ),
    Target(name="unix-time", read=_of_text(clock_text.decode_unix_s), pieces=NUMBERS),
    Target(name="bind-phase", read=_of_text(bind_phase.decode_bind_phase)),
    Target(
        name="quantity",
        read=_canonical,
        refuses=DECODE,
        pieces=(*NUMBERS, ".", "e", "E", "Ki", "Gi", "Ei", "m", "n", "k", "+", "-", "1e-40"),
    ),
    Target(
        name="plain-quantity",
        read=_of_text(quantity.decode_plain_integer),
        refuses=DECODE,
        pieces=(*NUMBERS, ".", "e", "Ki", "m"),
    ),
    Target(
        name="integer-field",
        read=_of_text(lambda text: fields.decode_integer(text, name="count")),
        refuses=DECODE,
        pieces=NUMBERS,
    ),
    Target(
        name="boolean-field",
        read=_of_text(lambda text: fields.decode_boolean(text, name="health")),
        refuses=DECODE,
        pieces=("true", "T", "0"),
    ),
    Target(
        name="card-id",
        read=_of_text(fields.decode_id),
        refuses=DECODE,
        write=_encoded,
        pieces=(*CUTS, "GPU-", "[0]"),
    ),
    Target(
        name="versions",
        read=lambda data: resource_version.is_earlier(*_pair(data)),
        pieces=(*NUMBERS, "\n", "9" * 5000),
    ),
    Target(
        name="object-name",
        read=_of_text(lambda text: (object_names.is_name(text), object_names.is_uid(text))),
        pieces=("a", "-", ".", "..", "/", "A", "0", "\n"),
    ),
    Target(name="lease", read=_of_mapping(lease.decode_lease), is_json=True),
    Target(name="nomination", read=_of_text(_nomination), is_json=True),
    Target(
        name="device-ids",
        read=_of_text(_device_ids),
        refuses=DECODE,
        write=lambda note: _encoded(device_ids.encode_device_ids(note)),
        is_json=True,
    ),
    Target(name="disruption-budget", read=_of_mapping(_budget), is_json=True),
    Target(name="priority-class", read=_of_mapping(_priority_class), is_json=True),
    Target(name="cluster-object", read=_of_mapping(_anything_of_a_cluster), is_json=True),
    Target(name="audit-line", read=audit_log.decode_line, refuses=DECODE, is_json=True),
    Target(
        name="kept-secret",
        read=_of_mapping(lambda raw: kept_certificate.facts(kept_certificate.decode_secret(raw))),
        is_json=True,
    ),
    Target(name="dialect-keys", read=_of_mapping(_written_on), is_json=True),
    Target(name="filter-body", read=_filter, refuses=DECODE, is_json=True),
    Target(name="bind-body", read=_bind, refuses=DECODE, is_json=True),
    Target(name="review-body", read=admission.decode_review, refuses=DECODE, is_json=True),
    Target(name="node-object", read=_of_mapping(_node), is_json=True),
    Target(name="pod-object", read=_of_mapping(_pod), is_json=True),
    Target(
        name="settings",
        read=_settings,
        refuses=errors.SettingsError,
        slowest_s=5.0,
        longest=3000,
        pieces=(*NUMBERS, *CUTS, "\n", "- ", ": ", "&a ", "*a", "<<: ", "!!", "null", "  "),
    ),
    Target(
        name="settings-values",
        read=_of_mapping(settings.build),
        refuses=errors.SettingsError,
        slowest_s=5.0,
        longest=3000,
        is_json=True,
    ),
    Target(
        name="device-config",
        read=_device_config,
        refuses=errors.SettingsError,
        slowest_s=5.0,
        longest=3000,
        pieces=(*NUMBERS, *CUTS, "\n", "- ", ": ", "&a ", "*a", "<<: ", "null", "  ", "nvidia:"),
    ),
)

BY_NAME = {target.name: target for target in ALL}
