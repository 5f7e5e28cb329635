"""How the rows of ``vgpu decode`` become the text of an annotation again."""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from vgpu_operator.cli import (
    annotation_keys,
    annotation_kinds,
    annotation_members,
    annotation_readers,
    forms,
    register_forms,
)
from vgpu_operator.model import allocation, device, errors
from vgpu_operator.vendors import mig
from vgpu_operator.wire import (
    clock_text,
    fields,
    handshake,
    lock_kinds,
    node_lock,
    pod_devices,
    shared_devices,
)

Items: TypeAlias = Sequence[annotation_members.Item]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What is to be written: the annotation's key and, of a register text, the form."""

    key: str
    form: forms.Form


def write(
    decoded: object, *, key: str, form: forms.Form | None = None
) -> tuple[annotation_kinds.Reading, str]:
    """Write the text of an annotation, and read it back to be sure that it says the same.

    Args:
        decoded: what ``vgpu decode -o json`` prints, parsed.
        key: the annotation to write.
        form: of a register text; None takes the one that ``decoded`` names, else JSON.

    Returns:
        What the text is read as, and the text.

    >>> write({"kind": "BindPhase", "items": [{"phase": "success"}]}, key="hami.io/bind-phase")[1]
    'success'

    Raises:
        DecodeError: no such JSON, not of that annotation, or something that its text
            cannot say.
    """
    whole = _whole(decoded)
    kind = _kind(whole, key)
    items = annotation_members.of_list(whole.members["items"], where="items")
    if kind is not annotation_keys.Kind.REGISTER or not register_forms.has_several(key):
        if form is not None:
            raise errors.DecodeError(
                f"--as {form} chooses between the forms of a register text, and {key} has one "
                "form: leave out --as",
                key="--as",
            )
    elif form is None:
        form = _named_form(whole)
    target = _Target(key=key, form=form or forms.Form.JSON)
    try:
        text = _WRITERS[kind](items, target)
        text.encode()
    except UnicodeEncodeError as fault:
        raise errors.DecodeError("half a character is in the items", key=key) from fault
    except ValueError as fault:
        raise errors.DecodeError(f"the items cannot be written: {fault}", key=key) from fault
    return _read_back(text, kind, items, target), text


def _whole(decoded: object) -> annotation_members.Item:
    if not isinstance(decoded, dict) or "items" not in decoded:
        raise errors.DecodeError(
            "an object with items is wanted, as vgpu decode -o json prints it", key="JSON"
        )
    return annotation_members.Item(members=decoded, where="JSON")


def _kind(whole: annotation_members.Item, key: str) -> annotation_keys.Kind:
    """Return what the key holds; where nobody knows, what the JSON says."""
    if annotation_keys.is_unread(key):
        raise errors.DecodeError("vgpu encode does not write this form", key=key)
    said, known = whole.text("kind"), annotation_keys.kind_of_key(key)
    _must_be_one_of(annotation_keys.Kind, said, where="kind")
    if known is None and not said:
        raise errors.DecodeError("nobody knows what it holds: give a kind in the JSON", key=key)
    if known is not None and said and said != known:
        raise errors.DecodeError(f"it holds a {known}, and the JSON is a {said}", key=key)
    return known or annotation_keys.Kind(said)


def _named_form(whole: annotation_members.Item) -> forms.Form | None:
    said = whole.text("form")
    _must_be_one_of(forms.Form, said, where="form")
    return forms.Form(said) if said else None


def _must_be_one_of(known: Iterable[str], said: str, *, where: str) -> None:
    """Refuse a word that is not among the known ones; none at all is good.

    Raises:
        DecodeError: it is not.
    """
    words = tuple(known)
    if said and said not in words:
        raise errors.DecodeError(
            f"{fields.shown(said)} is unknown; known are {', '.join(words)}", key=where
        )


def _read_back(
    text: str, kind: annotation_keys.Kind, items: Items, target: _Target
) -> annotation_kinds.Reading:
    """Read the text that was written.

    Raises:
        DecodeError: it does not say what the items say.
    """
    reading = annotation_kinds.read(text, key=target.key, kind=kind)
    if reading.faults and kind is not annotation_keys.Kind.HANDSHAKE:  # it may have no time
        raise reading.faults[0]
    for item, row in zip(items, reading.rows, strict=False):
        _compare(item, row, kind, target)
    if len(items) != len(reading.rows):
        raise errors.DecodeError(
            f"{len(items)} are given, and the text would be read as {len(reading.rows)}",
            key="items",
        )
    return reading


def _compare(
    item: annotation_members.Item,
    row: Mapping[str, Any],
    kind: annotation_keys.Kind,
    target: _Target,
) -> None:
    """Refuse an item that says something else than the row that is read.

    Raises:
        DecodeError: so it does; the text names the first member.
    """
    known = _members_of(kind)
    for name, value in item.members.items():
        if name not in known:
            raise errors.DecodeError(
                f"{fields.shown(name)} is unknown; known are {', '.join(known)}", key=item.where
            )
        if name in register_forms.UNWRITTEN.get(target.key, ()) or _same(value, row.get(name)):
            continue
        hint = "; write --as json" if kind is annotation_keys.Kind.REGISTER else ""
        raise errors.DecodeError(
            f"the text cannot say {fields.shown(value)}: it would be read as "
            f"{fields.shown(row.get(name))}{hint if _is_legacy(target) else ''}",
            key=f"{item.where}.{name}",
        )


def _same(given: object, read: object) -> bool:
    """Whether two values mean the same: what is empty may be absent, a time has many spellings."""
    if given == read or (not given and not read):
        return True
    if not isinstance(given, str) or not isinstance(read, str):
        return False
    time = clock_text.decode_time(given)
    return time is not None and time == clock_text.decode_time(read)


def _is_legacy(target: _Target) -> bool:
    return register_forms.has_several(target.key) and target.form is not forms.Form.JSON


def _members_of(kind: annotation_keys.Kind) -> tuple[str, ...]:
    """Return every member that an item of that kind may have."""
    return (*annotation_readers.HEADERS[kind], *annotation_readers.FURTHER.get(kind, ()))


def _register(items: Items, target: _Target) -> str:
    cards = [
        device.Device(
            id=item.text("card"),
            index=item.integer("index"),
            type=item.text("type"),
            slots=item.integer("slots"),
            memory_mib=item.integer("memoryMiB"),
            cores_percent=item.integer("coresPercent"),
            numa=item.integer("numa"),
            mode=item.text("mode"),
            healthy=item.boolean("healthy"),
            mig_profiles=tuple(map(_mig_profile, item.elements("migProfiles"))),
            custom_info=item.mapping("customInfo"),
        )
        for item in items
    ]
    return register_forms.encode(cards, key=target.key, form=target.form)


def _mig_profile(item: annotation_members.Item) -> device.MigProfile:
    return device.MigProfile(
        name=item.text("name"),
        memory_mib=item.integer("memoryMiB"),
        cores_percent=item.integer("coresPercent"),
        slice_count=item.integer("sliceCount"),
        placements=tuple(map(_placement, item.elements("placements"))),
    )


def _placement(item: annotation_members.Item) -> device.MigPlacement:
    return device.MigPlacement(start=item.integer("start"), size=item.integer("size"))


def _devices(items: Items, target: _Target) -> str:
    containers: list[list[allocation.DeviceShare]] = []
    for item in items:
        place = item.integer("container")
        if not len(containers) - 1 <= place <= len(containers) or place < 0:
            raise errors.DecodeError(
                f"container {place} is out of turn: containers count from 0, and one without "
                "a card has an item too",
                key=item.where,
            )
        if place == len(containers):
            containers.append([])
        if item.text("card"):
            containers[place].append(_share(item))
    shares = tuple(map(tuple, containers))
    if target.key not in annotation_keys.JOINED:
        return pod_devices.encode_pod_devices(shares)
    text = shared_devices.encode(shares)
    # The last separator of this form makes no container.
    return text + shared_devices.JOINED if len(shares) > 1 and not shares[-1] else text


def _share(item: annotation_members.Item) -> allocation.DeviceShare:
    return allocation.DeviceShare(
        device_id=item.text("card"),
        vendor_word=item.text("word"),
        memory_mib=item.integer("memoryMiB"),
        cores_percent=item.integer("coresPercent"),
    )


def _handshake(items: Items, _target: _Target) -> str:
    item = _only(items)
    states = [state for state in handshake.State if state is not handshake.State.UNREADABLE]
    state = item.text("state")
    _must_be_one_of(states, state, where=f"{item.where}.state")
    text = handshake.HandshakeText(
        state=handshake.State(state or handshake.State.ABSENT), time=_time(item)
    )
    return handshake.encode_handshake(text)


def _lock(items: Items, _target: _Target) -> str:
    item = _only(items)
    time, namespace, pod = _time(item), item.text("namespace"), item.text("pod")
    if time is None:
        raise errors.DecodeError("a time is wanted", key=f"{item.where}.time")
    named = bool(namespace or pod)
    style = lock_kinds.LockStyle.OWNED if named else lock_kinds.LockStyle.BARE
    return node_lock.encode_lock(time, namespace=namespace, pod=pod, style=style, exact=True)


def _time(item: annotation_members.Item) -> datetime.datetime | None:
    text = item.text("time")
    time = clock_text.decode_time(text) if text else None
    if text and time is None:
        raise errors.DecodeError(
            f"a time such as 2026-01-15T10:00:00+00:00 is wanted, got {fields.shown(text)}",
            key=f"{item.where}.time",
        )
    return time


def _phase(items: Items, _target: _Target) -> str:
    return _only(items).text("phase")


def _unix_time(items: Items, _target: _Target) -> str:
    return str(_only(items).integer("unixSeconds"))


def _card_list(items: Items, _target: _Target) -> str:
    return ",".join(item.text("card") for item in items)


def _name(items: Items, _target: _Target) -> str:
    return _only(items).text("name")


def _weights(items: Items, _target: _Target) -> str:
    item = _only(items)
    return ",".join(f"{name}={item.integer(name)}" for name in ("slot", "core", "memory"))


def _instances(items: Items, _target: _Target) -> str:
    return mig.encode_allocations(map(_instance, items))


def _instance(item: annotation_members.Item) -> mig.Instance:
    gpu, compute = (item.integer(name) for name in annotation_readers.INSTANCE_NUMBERS)
    uuid = item.text("instance")
    return mig.Instance(
        container=item.integer("container"),
        share=item.integer("share"),
        device_id=item.text("card"),
        profile=item.text("profile"),
        placement=_placement(item),
        identity=(uuid, gpu, compute) if uuid else None,
    )


def _links(items: Items, _target: _Target) -> str:
    scores: dict[str, dict[str, int]] = {}
    for item in items:
        peers = scores.setdefault(item.text("card"), {})
        if "peer" in item.members:
            peers[item.text("peer")] = item.integer("score")
    return json.dumps(
        [{"uuid": card, "score": peers} for card, peers in scores.items()],
        separators=(",", ":"),
    )


def _only(items: Items) -> annotation_members.Item:
    if len(items) != 1:
        raise errors.DecodeError(f"one is wanted, got {len(items)}", key="items")
    return items[0]


_WRITERS: Final[Mapping[annotation_keys.Kind, Callable[[Items, _Target], str]]] = {
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
