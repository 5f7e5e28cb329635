"""One node's cards as a vendor's own rules see them, and what they answer.

Vendors whose rules are the common ones are judged for all nodes at once
(``scheduling``). The others look at one node at a time through these values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from vgpu_operator.model import allocation, device, policy, request


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A container that holds a share of a card.

    ``notes`` are its pod's annotations that the vendor asked to see
    (``VendorSpec.pod_note_keys``).
    """

    pod: request.PodKey
    container: int
    share: allocation.DeviceShare
    notes: Mapping[str, str] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """A card and what is used of it, this pod's earlier containers included.

    ``used_cores`` is in the unit that the vendor registers (percent, compute
    units, or a bit mask). ``tenants`` are other pods' containers.
    """

    device: device.Device
    used_slots: int = 0
    used_memory_mib: int = 0
    used_cores: int = 0
    cordoned: bool = False
    tenants: tuple[Tenant, ...] = ()

    @property
    def unused(self) -> bool:
        """Whether nobody holds a share."""
        return self.used_slots == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node's candidate cards of one vendor.

    Attributes:
        cards: those whose registered type holds the vendor's keyword, in the
            order in which the pod's policies try them: the first is tried first.
        notes: the node's annotations and labels that the vendor asked to see.
    """

    name: str
    cards: tuple[CardState, ...]
    notes: Mapping[str, str] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one container asks of one vendor on one node.

    Attributes:
        container: its index, init containers first.
        unused_only: the card policy is ``mutex``.
        policies: the pod's chain of card policies, defaults filled in.
        earlier: what the pod's earlier lasting containers were given of this
            vendor here, by container.
        notes: the pod's annotations that the vendor asked to see.
    """

    wish: request.DeviceRequest
    selection: request.CardSelection = request.NO_SELECTION
    container: int = 0
    unused_only: bool = False
    policies: tuple[policy.CardPolicy, ...] = ()
    earlier: allocation.PodShares = ()
    notes: Mapping[str, str] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A share on one card.

    Attributes:
        card: index into ``NodeState.cards``.
        cores: in the vendor's own unit, as the annotation will say.
        slots: how many of the card's slots it takes.
    """

    card: int
    memory_mib: int
    cores: int
    slots: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why the node's cards cannot serve the container.

    ``counts`` maps a reason word to how many cards it kept off; ``of`` is what
    they are counted against, None for the number of candidates. A reason
    counted 0 against None is written bare (``NodeInsufficientDevice``).
    ``detail`` is a sentence that adds what the counts cannot say.
    """

    counts: Mapping[str, int]
    of: int | None = None
    detail: str = ""


Answer: TypeAlias = tuple[Pick, ...] | Refused
