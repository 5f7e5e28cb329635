"""A card as a device plugin registered it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlacement:
    """Where an instance may start on a card, and how many slices it takes."""

    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """One way to cut a card in MIG mode."""

    name: str
    memory_mib: int
    cores_percent: int
    slice_count: int
    placements: tuple[MigPlacement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One card of one node.

    Attributes:
        id: the card's UUID as the plugin writes it.
        index: position on the node, from 0.
        slots: how many containers may share the card (wire: ``count``).
        memory_mib: schedulable memory in MiB (wire: ``devmem``).
        cores_percent: schedulable cores in percent of one card (wire:
            ``devcore``); above 100 when the plugin scales them.
        type: the model text, byte for byte.
        numa: NUMA node.
        mode: the plugin's operating mode (``hami-core``, ``mig``, ``mps``) or empty.
        healthy: False takes the card out of scheduling, not out of the ledger.
        mig_profiles: ways to cut the card, only in MIG mode.
        custom_info: what some vendors add (wire: ``custominfo``).
    """

    id: str
    type: str
    slots: int
    memory_mib: int
    cores_percent: int
    healthy: bool
    index: int = 0
    numa: int = 0
    mode: str = ""
    mig_profiles: tuple[MigProfile, ...] = ()
    custom_info: Mapping[str, Any] = field(default_factory=_nothing, hash=False)
