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

    @property
    def card_id(self) -> str:
        """The id of the card, without the instance that earlier HAMi versions wrote behind it.

        >>> DeviceShare(
        ...     device_id="GPU-a0[0-1]", vendor_word="NVIDIA", memory_mib=1, cores_percent=0
        ... ).card_id
        'GPU-a0'
        """
        if not self.device_id.endswith("]"):
            return self.device_id
        return self.device_id.partition("[")[0]

    @property
    def names_instance(self) -> bool:
        """Whether the id names an instance of a card that is cut in MIG profiles."""
        return self.device_id != self.card_id


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
