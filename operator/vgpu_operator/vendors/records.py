"""Raw Node and Pod objects become records: only what the operator decides on."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from vgpu_operator.model import allocation, errors, records, request
from vgpu_operator.vendors import base, capacity, promised, requests, roster
from vgpu_operator.wire import (
    clock_text,
    dialects,
    keys,
    node_register,
    quantity,
    shape,
)

_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})

_PRIORITIES: Final = range(-(2**31), 2**31)
"""The API server takes no others."""

_SHARED: Final = 1024
"""Different sets of labels, and names, that are shared among pods: those of one template
are equal."""


def node_record(raw: Mapping[str, Any], vendors: Sequence[base.Vendor]) -> records.NodeRecord:
    """Return what counts of a Node; its texts stay undecoded."""
    metadata = shape.mapping(raw.get("metadata"))
    annotations = shape.mapping(metadata.get("annotations"))
    allocatable = shape.mapping(shape.mapping(raw.get("status")).get("allocatable"))
    texts = base.NodeTexts(
        name=shape.text(metadata.get("name")),
        annotations=annotations,
        labels=shape.mapping(metadata.get("labels")),
        capacity=shape.mapping(shape.mapping(raw.get("status")).get("capacity")),
    )
    registers: dict[str, str] = {}
    handshakes: dict[str, str] = {}
    locks: dict[str, str] = {}
    counts: dict[str, int] = {}
    notes: dict[str, str] = {}
    older: dict[str, records.OlderKeys] = {}
    served = roster.of(vendors)
    names = (*annotations, *texts.labels, *texts.capacity, *allocatable)
    for vendor in served.on_node(names):
        spec = vendor.spec
        register = vendor.register_text(texts)
        may_be_older = register is None or spec.register_key is None
        places = _older_keys(annotations, spec) if may_be_older else None
        if places is not None and register is not None and not capacity.is_nothing(register):
            places = None
        if places is not None:
            older[spec.keyword] = places
            register = _text_or_none(annotations, places.register)
        if register is not None:
            registers[spec.keyword] = register
        handshake_key = spec.handshake_key if places is None else places.handshake
        _copy_text(annotations, handshake_key, handshakes, spec.keyword)
        # Amounts are what today's plugin offers; an older one offers a count.
        supply = spec.count_resource if places is not None else spec.supply_resource
        count = _count(allocatable.get(supply or spec.count_resource))
        if count is not None:
            counts[spec.keyword] = count
        for key in spec.node_note_keys:
            _copy_text(annotations if key in annotations else texts.labels, key, notes, key)
    for key in served.locks:
        _copy_text(annotations, key, locks, key)
    cordoned = shape.text(annotations.get(keys.DEVICE_CORDON)).split(",")
    return records.NodeRecord(
        name=texts.name,
        uid=shape.text(metadata.get("uid")),
        resource_version=shape.text(metadata.get("resourceVersion")),
        registers=registers,
        handshakes=handshakes,
        allocatable=counts,
        locks=locks,
        cordoned=frozenset(word.strip() for word in cordoned if word.strip()),
        woken=shape.text(annotations.get(keys.WAKE)),
        notes=notes,
        older=older,
    )


def _older_keys(annotations: Mapping[str, Any], spec: base.VendorSpec) -> records.OlderKeys | None:
    """Return where a vendor registers in an older dialect; None = nowhere.

    A handshake alone counts too, where today's is absent: the register text
    has been removed, and its cards stay until they expire.
    """
    every = tuple(places for d in dialects.ALL for places in d.node_keys.get(spec.keyword, ()))
    for places in every:
        if isinstance(annotations.get(places.register), str):
            return places
    if spec.handshake_key in annotations:
        return None
    return next((places for places in every if places.handshake in annotations), None)


def decode_register(
    record: records.NodeRecord, vendor: base.Vendor, text: str
) -> node_register.RegisterText:
    """Return the cards that a vendor's register text on that node lists.

    Raises:
        DecodeError: nothing in the text can be read.
    """
    places = record.older.get(vendor.spec.keyword)
    if places is None:
        return vendor.decode_devices(text, node=record.name)
    # Older dialects have the annotation for every vendor, also for those that are
    # read from the node's capacity today.
    return node_register.decode_register(text, key=places.register)


def may_matter(
    raw: Mapping[str, Any],
    vendors: Sequence[base.Vendor],
    *,
    aliases: Mapping[str, Sequence[str]],
) -> bool:
    """Whether a Pod asks for cards, or carries anything of the protocol.

    Much cheaper than reading it, and says no only where ``pod_record`` would
    find no device, no promise and no fault.
    """
    served = roster.of(vendors)
    annotations = shape.annotations(raw)
    if not served.pod_keys.isdisjoint(annotations):
        return True
    for _, _, container in shape.containers(raw):
        resources = shape.mapping(container.get("resources"))
        for amounts in (resources.get("limits"), resources.get("requests")):
            names = shape.mapping(amounts)
            if names and not served.resources.isdisjoint(names):
                return True
            if names and any(not set(earlier).isdisjoint(names) for earlier in aliases.values()):
                return True
    return False


def pod_record(
    raw: Mapping[str, Any],
    vendors: Sequence[base.Vendor],
    *,
    aliases: Mapping[str, Sequence[str]],
) -> records.PodRecord:
    """Return what counts of a Pod; bad annotations become ``faults``, never an error."""
    metadata = shape.mapping(raw.get("metadata"))
    annotations = shape.mapping(metadata.get("annotations"))
    labels = shape.mapping(metadata.get("labels"))
    spec = shape.mapping(raw.get("spec"))
    status = shape.mapping(raw.get("status"))
    wish = _request(raw, vendors, aliases)
    node = shape.text(spec.get("nodeName"))
    begun = status.get("startTime")
    admitted = bool(begun) or status.get("phase") == "Running"
    promise = promised.read(annotations, vendors, wish, node=node, admitted=admitted)
    if promise.shares:
        wish = _with_notes(wish, annotations, vendors, promise.shares)
    return records.PodRecord(
        key=wish.pod,
        resource_version=shape.text(metadata.get("resourceVersion")),
        node=node,
        phase=shape.text(status.get("phase")),
        scheduler=shape.text(spec.get("schedulerName")),
        request=wish,
        admitted=admitted,
        deleting=bool(metadata.get("deletionTimestamp")),
        leaves_by=clock_text.decode_time(shape.text(metadata.get("deletionTimestamp"))),
        init_done=_init_done(wish, status),
        promised_node=promise.node,
        promised=promise.shares,
        to_allocate=promise.to_allocate,
        bind_phase=promise.bind_phase,
        bind_time_s=promise.bind_time_s,
        faults=promise.faults,
        group=_group(metadata, spec),
        has_volumes=_has_claims(spec),
        refused=_is_refused(status),
        carried=promise.carried,
        fenced=shape.text(annotations.get(keys.FENCE)),
        opted_out=labels.get(keys.WEBHOOK_LABEL) == keys.WEBHOOK_IGNORE,
        created=clock_text.decode_time(shape.text(metadata.get("creationTimestamp"))),
        priority=_priority(spec.get("priority")),
        priority_class=_class_name(shape.text(spec.get("priorityClassName"))),
        never_preempts=spec.get("preemptionPolicy") == "Never",
        labels=_labels(labels) if labels and _has_cards(wish, promise) else _NO_LABELS,
        ready=_is_ready(status),
        started=clock_text.decode_time(begun) if isinstance(begun, str) else None,
        nominated_node=shape.text(status.get("nominatedNodeName")),
        nomination=shape.text(annotations.get(keys.NOMINATION)),
    )


def _priority(value: object) -> int:
    """Return a priority as the API server would have it.

    >>> _priority(1000), _priority(None), _priority(True), _priority("7"), _priority(2**31)
    (1000, 0, 0, 0, 0)
    """
    return value if type(value) is int and value in _PRIORITIES else 0


@functools.lru_cache(maxsize=_SHARED)
def _class_name(text: str) -> str:
    """Return the text, the same object for pods of one PriorityClass."""
    return text


def _has_cards(wish: request.PodRequest, promise: promised.Promise) -> bool:
    return wish.wants_devices or bool(promise.shares)


def _labels(labels: Mapping[str, Any]) -> Mapping[str, str]:
    """Return a pod's labels, the same object for pods whose labels are equal.

    Our own label differs from node to node and says nothing that the pod does not show
    elsewhere, so it is left out.
    """
    pairs = tuple([pair for pair in labels.items() if pair[0] != keys.ASSIGNED_NODE])
    try:
        return _shared(pairs)
    except TypeError:  # a list or a mapping where a text should be
        return _texts(pairs)


@functools.lru_cache(maxsize=_SHARED)
def _shared(pairs: tuple[tuple[str, Any], ...]) -> Mapping[str, str]:
    return _texts(pairs)


def _texts(pairs: tuple[tuple[str, Any], ...]) -> Mapping[str, str]:
    return MappingProxyType({key: text for key, text in pairs if isinstance(text, str)})


def _request(
    raw: Mapping[str, Any],
    vendors: Sequence[base.Vendor],
    aliases: Mapping[str, Sequence[str]],
) -> request.PodRequest:
    """Return the pod's wish; one that cannot be meant keeps its cards charged."""
    try:
        return requests.pod_request(raw, vendors, aliases=aliases)
    except errors.RequestError as fault:
        sentence = str(fault)
    wish = requests.without_weights(raw, vendors, aliases=aliases)
    containers = tuple(
        dataclasses.replace(container, impossible=container.impossible or sentence)
        if container.devices
        else container
        for container in wish.containers
    )
    return dataclasses.replace(wish, containers=containers)


def _with_notes(
    wish: request.PodRequest,
    annotations: Mapping[str, Any],
    vendors: Sequence[base.Vendor],
    shares: Mapping[str, allocation.PodShares],
) -> request.PodRequest:
    """Add the texts that go with a promise, whether or not the pod asks for it."""
    by_keyword = roster.of(vendors).by_keyword
    notes = {
        key: text
        for word in shares
        for key in by_keyword[word].spec.pod_note_keys
        if isinstance(text := annotations.get(key), str)
    }
    if notes.keys() <= wish.notes.keys():
        return wish
    return dataclasses.replace(wish, notes={**wish.notes, **notes})


def _init_done(wish: request.PodRequest, status: Mapping[str, Any]) -> bool:
    """Whether every ordinary init container has ended with code 0.

    A status that is missing is an init container that has not run.
    """
    names = {c.name for c in wish.containers if c.kind is request.ContainerKind.INIT}
    if not names:
        return True
    for entry in shape.mappings(status.get("initContainerStatuses")):
        ended = shape.mapping(shape.mapping(entry.get("state")).get("terminated"))
        if ended.get("exitCode") == 0:
            names.discard(shape.text(entry.get("name")))
    return not names


def _group(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    label = shape.text(shape.mapping(metadata.get("labels")).get(keys.POD_GROUP_LABEL))
    return label or shape.text(shape.mapping(spec.get("schedulingGroup")).get("podGroupName"))


def _has_claims(spec: Mapping[str, Any]) -> bool:
    """Whether a volume is a claim, or becomes one (generic ephemeral volumes)."""
    volumes = shape.mappings(spec.get("volumes"))
    return any(volume.get("persistentVolumeClaim") or volume.get("ephemeral") for volume in volumes)


def _is_refused(status: Mapping[str, Any]) -> bool:
    return any(
        condition.get("type") == "PodScheduled"
        and condition.get("status") == "False"
        and condition.get("reason") == "Unschedulable"
        for condition in shape.mappings(status.get("conditions"))
    )


def _is_ready(status: Mapping[str, Any]) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in shape.mappings(status.get("conditions"))
    )


def _count(value: object) -> int | None:
    """Return an allocatable count; None when absent or no whole number."""
    if value is None:
        return None
    try:
        return quantity.decode_integer(value)
    except errors.DecodeError:
        return None


def _copy_text(
    annotations: Mapping[str, Any], key: str | None, into: dict[str, str], name: str | None
) -> None:
    if key is None or name is None:
        return
    text = annotations.get(key)
    if isinstance(text, str):
        into[name] = text


def _text_or_none(annotations: Mapping[str, Any], key: str) -> str | None:
    text = annotations.get(key)
    return text if isinstance(text, str) else None
