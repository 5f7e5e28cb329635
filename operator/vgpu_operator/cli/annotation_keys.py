"""What the annotation of a key holds: the keys of all vendors, in every dialect."""

import enum
import functools
from collections.abc import Mapping
from typing import Final

from vgpu_operator.model import settings
from vgpu_operator.vendors import base, mig, registry, topology
from vgpu_operator.wire import dialects, keys


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
    WEIGHTS = "ScoringWeights"
    INSTANCES = "MigInstances"
    LINKS = "LinkScores"


_OF_ALL_VENDORS: Mapping[str, Kind | None] = {
    keys.NODE_LOCK: Kind.LOCK,
    keys.DEVICE_CORDON: Kind.CARD_LIST,
    keys.SCORING_WEIGHTS: Kind.WEIGHTS,
    keys.NODE_POLICY: None,
    keys.CARD_POLICY: None,
    keys.HIDE_CARDS: None,
    keys.HIDE_CARDS_BY_CONTAINER: None,
    keys.WEBHOOK_LABEL: None,
    keys.POD_GROUP_LABEL: None,
    keys.WAKE: None,
    keys.DEVICE_IDS: None,
    keys.FENCE: None,
    keys.NOMINATION: None,
}

JOINED: Final = frozenset((dialects.FORERUNNER.to_allocate, dialects.FORERUNNER.allocated))
"""Pod keys of all vendors together: lists of shares whose containers are joined."""

_OF_SOME_RULES: Mapping[str, Kind] = {
    mig.ALLOCATIONS_KEY: Kind.INSTANCES,
    topology.PAIR_SCORES_KEY: Kind.LINKS,
}
"""What of the vendors' further keys has a reader."""


def kind_of_key(key: str) -> Kind | None:
    """Return what the annotation of that key holds; None when that is not known, or not read.

    >>> kind_of_key("hami.io/node-nvidia-register"), kind_of_key("4pd.io/vgpu-ids-new")
    (<Kind.REGISTER: 'NodeRegister'>, <Kind.DEVICES: 'PodDevices'>)
    """
    if not key or is_unread(key):
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


def is_unread(key: str) -> bool:
    """Whether the protocol has the key, and its text is in a form that has no reader."""
    return _fixed_kinds().get(key, Kind.NAME) is None


def registering(key: str) -> base.Vendor | None:
    """Return the vendor whose cards are registered under that key."""
    found = (vendor for vendor in _vendors() if vendor.spec.register_key == key)
    return next(found, None)


def _vendors() -> tuple[base.Vendor, ...]:
    return tuple(registry.build(settings.with_every_vendor(settings.Settings())))


@functools.cache
def _fixed_kinds() -> Mapping[str, Kind | None]:
    """Return the kinds of all keys that are written or read; None = without a reader."""
    kinds: dict[str, Kind | None] = {}
    for vendor in _vendors():
        spec = vendor.spec
        further = (*spec.more_pod_keys, *spec.pod_note_keys, *spec.node_note_keys)
        kinds |= {key: _OF_SOME_RULES.get(key) for key in further}
        kinds |= {key: None for key in spec.selection_keys if key}
        by_key = (
            (spec.register_key, Kind.REGISTER),
            (spec.handshake_key, Kind.HANDSHAKE),
            (spec.to_allocate_key, Kind.DEVICES),
            (spec.allocated_key, Kind.DEVICES),
            (spec.lock_key, Kind.LOCK),
            (spec.use_id_key, Kind.CARD_LIST),
            (spec.avoid_id_key, Kind.CARD_LIST),
        )
        kinds |= {key: kind for key, kind in by_key if key}
    for dialect in dialects.ALL:
        kinds |= _kinds_of_dialect(dialect)
    kinds |= _OF_ALL_VENDORS
    return kinds


def _kinds_of_dialect(dialect: dialects.Dialect) -> dict[str, Kind]:
    by_key = [
        (dialect.assigned_node, Kind.NAME),
        (dialect.assigned_time, Kind.UNIX_TIME),
        (dialect.bind_time, Kind.UNIX_TIME),
        (dialect.bind_phase, Kind.PHASE),
        (dialect.to_allocate, Kind.DEVICES),
        (dialect.allocated, Kind.DEVICES),
        (dialect.lock_key, Kind.LOCK),
    ]
    for places in (place for every in dialect.node_keys.values() for place in every):
        by_key += [(places.register, Kind.REGISTER), (places.handshake, Kind.HANDSHAKE)]
    return {key: kind for key, kind in by_key if key}
