"""What a pod asks for, after its limits have been read."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from vgpu_operator.model import policy


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PodKey:
    """Which pod: a name can come again, a UID cannot."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ContainerKind(enum.StrEnum):
    """When a container runs, which decides how its share is charged.

    ``SIDECAR`` is an init container with ``restartPolicy: Always``: it lives
    as long as the pod.
    """

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """What one container asks of one vendor.

    Attributes:
        vendor: the vendor's keyword (``NVIDIA``).
        count: how many different cards, at least 1.
        memory_mib: memory on each card; 0 means not given.
        memory_percent: percent of each card's registered memory, 0 to 100;
            None means not given (HAMi's 101). Memory in MiB wins over it.
        cores_percent: cores on each card in percent of one card; 0 means no
            limit is asked, 100 the whole card.
        memory_by_default, cores_by_default: the container names no such
            amount, so the one above comes from today's configuration; a pod
            that was bound under another one was granted another.
    """

    vendor: str
    count: int
    memory_mib: int = 0
    memory_percent: int | None = None
    cores_percent: int = 0
    memory_by_default: bool = field(default=False, compare=False)
    cores_by_default: bool = field(default=False, compare=False)

    def memory_on(self, card_memory_mib: int) -> int:
        """Return the MiB that this request takes on a card of that size."""
        if self.memory_mib > 0:
            return self.memory_mib
        if self.memory_percent is None:
            return 0
        return card_memory_mib * self.memory_percent // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """One container: its requests by vendor, none where it needs no device.

    ``impossible`` holds a sentence when the container asks for something
    that no card can give (an overflow, say): the pod then fits nowhere.
    """

    name: str
    kind: ContainerKind
    devices: tuple[DeviceRequest, ...] = ()
    impossible: str = ""

    def of(self, vendor: str) -> DeviceRequest | None:
        """Return what the container asks of that vendor, None when nothing."""
        for request in self.devices:
            if request.vendor == vendor:
                return request
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSelection:
    """The pod author's rules which cards of one vendor may serve.

    Type words match case-insensitively as substrings of the registered type;
    ids match exactly. An empty tuple is no rule. "Not" wins over "use".

    Attributes:
        mode: a text that the card's mode must occur in; None is no rule.
        numa_bind: all cards of a container from one NUMA node.
    """

    use_types: tuple[str, ...] = ()
    avoid_types: tuple[str, ...] = ()
    use_ids: tuple[str, ...] = ()
    avoid_ids: tuple[str, ...] = ()
    mode: str | None = None
    numa_bind: bool = False


NO_SELECTION = CardSelection()


def _no_selections() -> Mapping[str, CardSelection]:
    return MappingProxyType({})


def _no_notes() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """A pod's whole wish.

    Attributes:
        containers: init containers first, in the order of the spec; every
            container has its entry, with or without devices.
        selections: card rules by vendor keyword.
        node_policy: None means the configured default.
        card_policies: a chain, first word first; empty means the default.
        weights: None means the default.
        notes: the pod's annotations that some vendor's rules read, by key.
        vendors: keywords of all vendors that some container asks of, in first-seen order.
    """

    pod: PodKey
    containers: tuple[ContainerRequest, ...]
    selections: Mapping[str, CardSelection] = field(default_factory=_no_selections, hash=False)
    node_policy: policy.NodePolicy | None = None
    card_policies: tuple[policy.CardPolicy, ...] = ()
    weights: policy.ScoringWeights | None = None
    notes: Mapping[str, str] = field(default_factory=_no_notes, hash=False)
    vendors: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Kept: whoever judges one pod asks it of all pods that are on their way.
        asked = (wish.vendor for container in self.containers for wish in container.devices)
        object.__setattr__(self, "vendors", tuple(dict.fromkeys(asked)))

    @property
    def impossible(self) -> str:
        """The first sentence that says why the pod fits nowhere; empty when none."""
        return next((c.impossible for c in self.containers if c.impossible), "")

    @property
    def wants_devices(self) -> bool:
        """Whether any container asks for a device, possible or not."""
        return any(c.devices or c.impossible for c in self.containers)

    def selection(self, vendor: str) -> CardSelection:
        """Return the card rules for that vendor."""
        return self.selections.get(vendor, NO_SELECTION)
