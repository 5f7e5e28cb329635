"""Node events: cards in and out of the ledger, the handshake, the locks."""

import dataclasses
import datetime
from collections.abc import Iterable, Iterator

from vgpu_operator.flows import effects, locks, reasons
from vgpu_operator.flows.books import Answers, Books, Registration
from vgpu_operator.machines import handshake
from vgpu_operator.model import errors, records
from vgpu_operator.vendors import base
from vgpu_operator.vendors import records as vendor_records
from vgpu_operator.wire import handshake as handshake_text
from vgpu_operator.wire import resource_version

REMEMBERED_NODES = 10_000
"""UIDs of gone Nodes that are kept: far more than events of one Node can be late."""

STAMP_ECHO_S = 1.0
"""A Node event that was on its way before our own stamp must not cause a second one."""


def node_seen(books: Books, record: records.NodeRecord, now: datetime.datetime) -> effects.Reaction:
    """Take in a Node; seeing the same one twice, or an older one late, changes nothing."""
    known = books.nodes.get(record.name)
    if record.uid in books.gone_nodes or (
        known is not None
        and resource_version.is_earlier(record.resource_version, known.resource_version)
    ):
        return effects.NOTHING
    if known is not None and known.uid != record.uid:
        node_gone(books, record.name, uid=known.uid)
    books.nodes[record.name] = record
    events = [] if _is_known_but_for_its_locks(known, record) else _take_in(books, record, now)
    locks.see(books, record, now)
    events += _malformed_locks(books, record)
    reaction = effects.Reaction(effects=tuple(events), nodes=frozenset({record.name}))
    return reaction + step_handshakes(books, (record.name,), now)


def _is_known_but_for_its_locks(
    known: records.NodeRecord | None, record: records.NodeRecord
) -> bool:
    """Whether nothing that the ledger is made of has changed: so it is with most events."""
    return known is not None and known == dataclasses.replace(
        record, resource_version=known.resource_version, locks=known.locks
    )


def _take_in(
    books: Books, record: records.NodeRecord, now: datetime.datetime
) -> list[effects.Effect]:
    """Bring the ledger in line with what a Node says; return the events about it."""
    generation = books.ledger.generation
    events: list[effects.Effect] = []
    for vendor in books.vendors:
        events += _take_in_register(books, record, vendor, now)
        keyword = vendor.spec.keyword
        if (record.name, keyword) in books.registrations:
            books.ledger.set_allocatable(record.name, keyword, record.allocatable.get(keyword))
    books.ledger.set_cordoned(record.name, record.cordoned)
    books.ledger.set_notes(record.name, record.notes)
    if books.ledger.generation != generation:
        books.upsets[record.name] = books.ledger.generation
    return events


def node_gone(books: Books, name: str, *, uid: str = "") -> effects.Reaction:
    """Forget a Node and everything kept under its name.

    Args:
        uid: which Node of that name; a late deletion of an earlier one leaves
            the present one alone. Empty means whichever is known.
    """
    known = books.nodes.get(name)
    for gone in (uid, known.uid if known is not None and not uid else ""):
        if gone:
            books.gone_nodes[gone] = None
    while len(books.gone_nodes) > REMEMBERED_NODES:
        del books.gone_nodes[next(iter(books.gone_nodes))]
    if known is not None and uid and known.uid != uid:
        return effects.NOTHING
    books.nodes.pop(name, None)
    books.ledger.forget_node(name)
    books.trusted_nodes.discard(name)
    books.upsets.pop(name, None)
    books.locks.drop_node(name)
    for vendor in books.vendors:
        books.registrations.pop((name, vendor.spec.keyword), None)
    books.forerunners.discard(name)
    return effects.Reaction(nodes=frozenset({name}))


def step_handshakes(books: Books, nodes: Iterable[str], now: datetime.datetime) -> effects.Reaction:
    """Step the handshake of every vendor on those nodes; one PATCH a node.

    Every replica drops expired devices from its own ledger; only the leader
    writes, and only to the Node that it has seen: the plugin may have answered
    since, and the event that says so decides again. Nothing is written to a
    locked node: stamps can wait, a conflict would cost its plugin requests.
    """
    patches: list[effects.Effect] = []
    changed: set[str] = set()
    for name in nodes:
        record = books.nodes.get(name)
        if record is None:
            continue
        locked = bool(record.locks)
        texts: dict[str, str | None] = {}
        for vendor in books.vendors:
            place = (name, vendor.spec.keyword)
            registration = books.registrations.get(place)
            if registration is None:
                continue
            handshake_key = registration.handshake_key(vendor.spec)
            if handshake_key is None:
                continue
            generation = books.ledger.generation
            acts = _step(books, record, vendor, registration, now)
            if handshake.Effect.STAMP not in acts:
                # Only now: a stamp that was asked for may have been refused.
                registration.changed = False
            if handshake.Effect.DROP_DEVICES in acts:
                if not registration.expired:
                    # That is the reason from now on why the node has no cards.
                    books.answers = Answers()
                registration.expired = True
            if handshake.Effect.DROP_DEVICES in acts and books.ledger.devices(*place):
                books.ledger.drop_devices(*place)
                changed.add(name)
                patches.append(
                    reasons.on_node(
                        name,
                        "DevicesExpired",
                        f"{vendor.spec.keyword}: no answer to the handshake for"
                        f" {_expiry_s(books, registration):.0f} s and nothing allocatable;"
                        " start the device plugin on this node again",
                    )
                )
            if books.ledger.generation != generation:
                books.upsets[name] = books.ledger.generation
            if locked:
                continue
            writes = handshake.writes(acts, leader=books.leader)
            if handshake.Effect.STAMP in writes and _due(registration, now):
                registration.stamped_at = now
                texts[handshake_key] = handshake_text.encode_requesting(now)
            if handshake.Effect.DELETE_KEY in writes:
                is_older = registration.older is not None
                texts[handshake_key] = handshake_text.encode_deleted(now) if is_older else None
        if texts:
            patches.append(
                effects.PatchNode(
                    node=name, annotations=texts, resource_version=record.resource_version
                )
            )
    return effects.Reaction(effects=tuple(patches), nodes=frozenset(changed))


def _due(registration: Registration, now: datetime.datetime) -> bool:
    """Whether the last stamp is old enough that its echo should have come back."""
    if registration.stamped_at is None:
        return True
    return (now - registration.stamped_at).total_seconds() >= STAMP_ECHO_S


def _step(
    books: Books,
    record: records.NodeRecord,
    vendor: base.Vendor,
    registration: Registration,
    now: datetime.datetime,
) -> frozenset[handshake.Effect]:
    """Return what the transition table says for one vendor on one node."""
    keyword = vendor.spec.keyword
    # Once its register text is gone, a node may show the handshake of another dialect.
    same_keys = record.older.get(keyword) == registration.older
    text = record.handshakes.get(keyword) if same_keys else None
    if text != registration.handshake:
        registration.handshake = text
        registration.handshake_seen_at = now
    decoded = handshake_text.decode_handshake(text)
    supply = (
        handshake.Supply.SOME if record.allocatable.get(keyword, 0) > 0 else handshake.Supply.NONE
    )
    age = handshake.age(
        decoded,
        first_seen=registration.handshake_seen_at,
        now=now,
        expiry_s=_expiry_s(books, registration),
    )
    news = handshake.News.CHANGED if registration.changed else handshake.News.SAME
    acts = handshake.step(decoded.state, age=age, supply=supply, news=news)
    if same_keys and news is handshake.News.SAME and _has_expired(record, keyword):
        # A leader has found them expired, whatever the time is here.
        acts |= {handshake.Effect.DROP_DEVICES}
    if handshake.Effect.DROP_DEVICES not in acts and supply is handshake.Supply.SOME:
        _return_devices(books, record, vendor, registration)
    return acts


def _expiry_s(books: Books, registration: Registration) -> float:
    """Return how old an unanswered stamp may become: the forerunner's plugins get longer."""
    if registration.older is None:
        return books.settings.handshake.expiry_s
    return books.settings.dialects.forerunner.handshake_expiry_s


def _return_devices(
    books: Books, record: records.NodeRecord, vendor: base.Vendor, registration: Registration
) -> None:
    """Put cards back that had expired, now that the kubelet lists them again."""
    if registration.text is None or books.ledger.devices(record.name, vendor.spec.keyword):
        return
    try:
        decoded = vendor_records.decode_register(record, vendor, registration.text)
    except errors.DecodeError:
        return
    registration.expired = False
    books.ledger.set_devices(record.name, vendor.spec.keyword, decoded.devices)


def _take_in_register(
    books: Books, record: records.NodeRecord, vendor: base.Vendor, now: datetime.datetime
) -> list[effects.Effect]:
    """Decode a register text that changed; return the events that it deserves.

    What cannot be read costs only itself: bad segments are lost, the rest
    stays; a wholly bad text or a removed key keeps the last good cards.
    """
    keyword = vendor.spec.keyword
    text = record.registers.get(keyword)
    registration = books.registrations.get((record.name, keyword))
    first = registration is None
    if registration is None:
        if text is None:
            return []
        registration = Registration(handshake_seen_at=now)
        registration.handshake = record.handshakes.get(keyword)
        books.registrations[record.name, keyword] = registration
        books.ledger.sighted(record.name)  # whatever its text says, and if nobody can read it
    if text is not None:
        registration.older = record.older.get(keyword)
        if registration.older is not None:
            books.forerunners.add(record.name)
    if not first:
        if text == registration.text:
            return []
        registration.changed = text is not None
    registration.text = text
    registration.text_seen_at = now
    if not books.ledger.devices(record.name, keyword):
        # The reason why it has none is made from this text.
        books.answers = Answers()
    if text is None and vendor.spec.register_key is None and registration.older is None:
        # Not a text that somebody may have removed by mistake: the kubelet no longer counts any.
        books.ledger.drop_devices(record.name, keyword)
        return []
    if text is None:
        registration.unreadable = ""  # nothing is left to be read
        return [_removed(record.name, vendor, registration)]
    try:
        decoded = vendor_records.decode_register(record, vendor, text)
    except errors.DecodeError as fault:
        registration.unreadable = fault.reason
        return _tell_fault(registration, record.name, str(fault), kept="the last good cards")
    registration.unreadable = ""
    registration.expired = first and _has_expired(record, keyword)
    if not registration.expired:
        books.ledger.set_devices(record.name, keyword, decoded.devices)
    if decoded.faults:
        faults = "; ".join(str(fault) for fault in decoded.faults)
        return _tell_fault(registration, record.name, faults, kept="the readable cards")
    registration.reported_fault = ""
    return []


def _has_expired(record: records.NodeRecord, keyword: str) -> bool:
    """Whether a node looks as it does after its cards have expired.

    Handshake removed (``Deleted_`` in an older dialect) and nothing
    allocatable: a restarted operator then holds what the one before it held, and
    a follower what its leader holds. The cards come back with their allocatable count.
    """
    if record.allocatable.get(keyword, 0) > 0:
        return False
    state = handshake_text.decode_handshake(record.handshakes.get(keyword)).state
    if state is handshake_text.State.DELETED:
        return keyword in record.older
    return state is handshake_text.State.ABSENT


def _tell_fault(
    registration: Registration, node: str, fault: str, *, kept: str
) -> list[effects.Effect]:
    """Return the event for a fault that has not been told yet."""
    sentence = f"{fault}; {kept} are kept"
    if registration.reported_fault == sentence:
        return []
    registration.reported_fault = sentence
    return [reasons.on_node(node, "RegisterUnreadable", sentence)]


def _removed(node: str, vendor: base.Vendor, registration: Registration) -> effects.Effect:
    key = registration.register_key(vendor.spec)
    return reasons.on_node(
        node,
        "RegisterRemoved",
        f"{node}: {key} was removed; the last cards are kept until the"
        " handshake has expired and nothing is allocatable; restart the device plugin to write"
        " it again",
    )


def standing_complaints(books: Books) -> Iterator[tuple[effects.Effect, ...]]:
    """Yield the events for each register and lock text that is wrong as things stand."""
    by_keyword = books.by_keyword
    for (node, keyword), registration in tuple(books.registrations.items()):
        if registration.text is None and books.ledger.devices(node, keyword):
            yield (_removed(node, by_keyword[keyword], registration),)
        elif registration.reported_fault:
            yield (reasons.on_node(node, "RegisterUnreadable", registration.reported_fault),)
    for node in books.locks.nodes():
        record = books.nodes.get(node)
        if record is not None:
            yield tuple(_malformed_locks(books, record))


def _malformed_locks(books: Books, record: records.NodeRecord) -> list[effects.Effect]:
    """Return an event for each lock text that cannot be read."""
    events: list[effects.Effect] = []
    for key, sight in books.locks.on(record.name):
        if sight.lock is None:
            events.append(
                reasons.on_node(
                    record.name,
                    "NodeLockMalformed",
                    f"{key}: {sight.text[:100]!r} is no lock; it ends"
                    f" {locks.expiry_s(books, key):.0f} s after it was first seen, or remove"
                    " the annotation now",
                )
            )
    return events
