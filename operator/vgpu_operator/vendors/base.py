"""What a vendor is to the rest: data in ``VendorSpec``, pure functions in ``Vendor``.

A new vendor is one file that fills both. It imports this module and nothing
from another vendor; ``registry`` lists it.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from vgpu_operator.model import allocation, device, errors, fitting, policy, request
from vgpu_operator.vendors import walk
from vgpu_operator.wire import fields, node_register


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorSpec:
    """A vendor's names. None means that the vendor has no such thing.

    Attributes:
        keyword: the vendor's name on the wire and in every mapping by vendor
            (``NVIDIA``).
        id: its name in settings, documents and metrics (``nvidia``).
        register_key: node annotation that lists the cards; None for vendors
            whose cards are read from the node's capacity.
        handshake_key: node annotation of the handshake.
        to_allocate_key: pod annotation that the device plugin empties.
        allocated_key: pod annotation that stays for the pod's life.
        more_pod_keys: further pod annotations that only the protocol writes.
        lock_key: node annotation that admits one pod at a time.
        count_resource: the resource that counts cards.
        memory_unit_mib: how many MiB one unit of ``memory_resource`` is.
        supply_resource: the resource whose allocatable count proves that the
            device plugin lives; None means the count resource.
        pod_note_keys: pod annotations that the vendor's rules read.
        node_note_keys: node annotations and labels that they read.
    """

    keyword: str
    id: str
    register_key: str | None
    handshake_key: str | None
    to_allocate_key: str | None
    allocated_key: str | None
    lock_key: str | None
    count_resource: str
    memory_resource: str | None = None
    memory_unit_mib: int = 1
    memory_percent_resource: str | None = None
    cores_resource: str | None = None
    priority_resource: str | None = None
    use_type_key: str | None = None
    avoid_type_key: str | None = None
    use_id_key: str | None = None
    avoid_id_key: str | None = None
    numa_bind_key: str | None = None
    mode_key: str | None = None
    more_pod_keys: tuple[str, ...] = ()
    supply_resource: str | None = None
    pod_note_keys: tuple[str, ...] = ()
    node_note_keys: tuple[str, ...] = ()

    @property
    def pod_keys(self) -> tuple[str, ...]:
        """Every pod annotation of this vendor that users must not write."""
        own = (self.to_allocate_key, self.allocated_key)
        return tuple(key for key in own if key) + self.more_pod_keys

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource name of this vendor, the count first."""
        names = (
            self.count_resource,
            self.memory_resource,
            self.memory_percent_resource,
            self.cores_resource,
            self.priority_resource,
        )
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerChanges:
    """What one vendor wants of one container of a new pod.

    Attributes:
        asks: the container asks this vendor for a card.
        resources: quantities to set in ``limits`` (and in ``requests`` where
            another value stands there).
        env: variables to add to the container unless it sets them itself; they
            count only in a pod that asks this vendor for a card.
        idle_env: the same, only where the container asks no vendor for a card.
        annotations: annotations for the pod.
        runtime_class: RuntimeClass for a pod that names none; empty means none.
        warnings: sentences for the pod's author.
    """

    asks: bool
    resources: Mapping[str, Any] = field(default_factory=_nothing, hash=False)
    env: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    idle_env: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    annotations: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    runtime_class: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTexts:
    """What a Node says, as far as vendors read it.

    ``capacity`` is ``status.capacity`` as raw quantities.
    """

    name: str
    annotations: Mapping[str, Any]
    labels: Mapping[str, Any]
    capacity: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a pod is about to be bound with, of one vendor.

    Attributes:
        shares: by container, init containers first.
        containers: the containers' names, in the same order.
        devices: the node's cards of this vendor by id.
        node: the node's name.
        node_notes: the node's texts that the vendor asked to see.
        pod_notes: the pod's texts that the vendor asked to see.
        request: the pod's whole wish.
    """

    shares: allocation.PodShares
    containers: tuple[str, ...]
    devices: Mapping[str, device.Device]
    node: str
    node_notes: Mapping[str, str]
    pod_notes: Mapping[str, str]
    request: request.PodRequest


class Vendor(Protocol):
    """One make of accelerator; ``Common`` has a usual answer for most of it."""

    @property
    def spec(self) -> VendorSpec:
        """The vendor's names."""
        ...

    @property
    def vectorised(self) -> bool:
        """Whether the common rules are the vendor's: all nodes are judged at once."""
        ...

    @property
    def neutral_score(self) -> bool:
        """Whether the vendor's node score outweighs the node policy, whichever that is."""
        ...

    def register_text(self, node: NodeTexts) -> str | None:
        """Return the text that lists the node's cards; None when the node says nothing of them.

        For vendors that are read from capacity it is made of the quantities
        that count, so that the same quantities give the same text.
        """
        ...

    def needs_choosing(
        self, devices: Sequence[device.Device], policies: Sequence[policy.CardPolicy]
    ) -> bool:
        """Whether a vectorised vendor must look at this node card by card after all."""
        ...

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Return which cards one container gets on one node, or why it gets none."""
        ...

    def share_word(self, card: device.Device) -> str:
        """Return the type field of a share of that card."""
        ...

    def node_score(
        self, node: fitting.NodeState, grant: Grant, node_policy: policy.NodePolicy
    ) -> float:
        """Return what the vendor adds to the node's score; ``node`` is as before the pod."""
        ...

    def more_annotations(self, grant: Grant, now: datetime.datetime) -> Mapping[str, str]:
        """Return what is written on the pod beside the two lists of shares."""
        ...

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Return the cards that a register text lists, and its bad segments.

        Raises:
            DecodeError: nothing in the text can be read.
        """
        ...

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what one container asks for; None when it needs no card.

        Raises:
            RequestError: it asks for something that no card can give; the text
                names the resource and the value, not the container.
        """
        ...

    def selection(self, annotations: Mapping[str, Any]) -> request.CardSelection:
        """Return the pod author's rules which cards may serve."""
        ...

    def admit(self, container: Mapping[str, Any], pod: Mapping[str, Any]) -> ContainerChanges:
        """Return what a new pod's container needs; stricter than ``derive``.

        Raises:
            RequestError: a value cannot be meant; the text names the resource,
                the value and what to write, not the container.
        """
        ...


class Common:
    """The usual answers; a vendor overrides what it does differently."""

    spec: VendorSpec
    vectorised = True
    neutral_score = False

    def register_text(self, node: NodeTexts) -> str | None:
        """Return the register annotation."""
        key = self.spec.register_key
        text = node.annotations.get(key) if key else None
        return text if isinstance(text, str) else None

    def needs_choosing(
        self,
        devices: Sequence[device.Device],  # noqa: ARG002  # for vendors with special cards
        policies: Sequence[policy.CardPolicy],  # noqa: ARG002  # for vendors with special policies
    ) -> bool:
        """Return False: the common rules are enough."""
        return False

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first cards that pass the common checks."""
        return walk.first_fitting(node, ask)

    def share_word(self, card: device.Device) -> str:  # noqa: ARG002  # AMD writes the model
        """Return the keyword."""
        return self.spec.keyword

    def node_score(
        self,
        node: fitting.NodeState,  # noqa: ARG002
        grant: Grant,  # noqa: ARG002
        node_policy: policy.NodePolicy,  # noqa: ARG002
    ) -> float:
        """Return 0: nothing to add."""
        return 0.0

    def more_annotations(
        self,
        grant: Grant,  # noqa: ARG002
        now: datetime.datetime,  # noqa: ARG002
    ) -> Mapping[str, str]:
        """Return nothing more."""
        return {}

    def selection(self, annotations: Mapping[str, Any]) -> request.CardSelection:
        """Return the rules under the vendor's selection keys."""
        return selection(self.spec, annotations)

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:  # noqa: ARG002
        """Read either form of the register annotation."""
        return node_register.decode_register(text, key=self.spec.register_key or "")


def asked(
    name: str | None, limits: Mapping[str, Any], requests: Mapping[str, Any]
) -> object | None:
    """Return the raw quantity of a resource, limits first; None when nobody sets it.

    >>> asked("a.io/gpu", {}, {"a.io/gpu": "2"})
    '2'
    """
    if not name:
        return None
    value = limits.get(name)
    return requests.get(name) if value is None else value


def selection(spec: VendorSpec, annotations: Mapping[str, Any]) -> request.CardSelection:
    """Return the rules that a pod's annotations set under a vendor's keys."""

    def value(key: str | None) -> object | None:
        return annotations.get(key) if key else None

    mode = value(spec.mode_key)
    return request.CardSelection(
        use_types=words(value(spec.use_type_key)),
        avoid_types=words(value(spec.avoid_type_key)),
        use_ids=words(value(spec.use_id_key)),
        avoid_ids=words(value(spec.avoid_id_key)),
        mode=mode if isinstance(mode, str) else None,
        numa_bind=_is_true(value(spec.numa_bind_key)),
    )


def words(text: object) -> tuple[str, ...]:
    """Return the trimmed words of a comma list, without blank ones.

    A list that holds commas and nothing else is a rule that no card meets, as
    in HAMi: it becomes the one word ``,``, which no card's type or id holds.

    >>> words("A100, , H20 ")
    ('A100', 'H20')
    >>> words(" "), words(",")
    ((), (',',))
    """
    if not isinstance(text, str) or not text.strip():
        return ()
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    return found or (",",)


def _is_true(text: object | None) -> bool:
    try:
        return isinstance(text, str) and fields.decode_boolean(text, name="")
    except errors.DecodeError:
        return False
