"""What a pod holds: shares of cards, per vendor and container."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """A part of one card, promised to one container.

    ``vendor_word`` is the second field on the wire (``NVIDIA``); it is text
    that the peer may have filled with anything and decides nothing.
    """

    device_id: str
    vendor_word: str
    memory_mib: int
    cores_percent: int


ContainerShares: TypeAlias = tuple[DeviceShare, ...]
"""Shares of one container; empty when it has no device."""

PodShares: TypeAlias = tuple[ContainerShares, ...]
"""One entry per container, init containers first, in the order of the pod's spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Everything that one pod is promised on one node.

    ``shares`` maps a vendor's keyword to one entry per container, so every
    value has the same length.
    """

    node: str
    shares: Mapping[str, PodShares]
