"""What a vendor is to the rest: data in ``VendorSpec``, pure functions in ``Vendor``.

A new vendor is one file that fills both. It imports this module and nothing
from another vendor; ``registry`` lists it.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from vgpu_operator.model import allocation, device, fitting, policy, quota, request
from vgpu_operator.vendors import amounts, charges, selections, walk
from vgpu_operator.wire import lock_kinds, node_register, quantity


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
        lock: the node annotation that admits one pod at a time.
        count_resource: the resource that counts cards.
        memory_unit_mib: how many MiB one unit of ``memory_resource`` is.
        cores_in_units: cards register how many compute units they have, not percent.
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
    lock: lock_kinds.LockKind | None
    count_resource: str
    memory_resource: str | None = None
    memory_unit_mib: int = 1
    memory_percent_resource: str | None = None
    cores_resource: str | None = None
    cores_in_units: bool = False
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
    def lock_key(self) -> str | None:
        """The node annotation that admits one pod at a time."""
        return None if self.lock is None else self.lock.key

    @property
    def pod_keys(self) -> tuple[str, ...]:
        """Every pod annotation of this vendor that users must not write."""
        own = (self.to_allocate_key, self.allocated_key)
        return tuple(key for key in own if key) + self.more_pod_keys

    @property
    def selection_keys(self) -> tuple[str | None, ...]:
        """The pod annotations that choose cards."""
        return (
            self.use_type_key,
            self.avoid_type_key,
            self.use_id_key,
            self.avoid_id_key,
            self.numa_bind_key,
            self.mode_key,
        )

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
        idle_env: variables that hide this vendor's cards, for a container that asks
            no vendor for any.
        hides: whether they are wanted where the pod does not say so itself.
        annotations: annotations for the pod.
        runtime_class: RuntimeClass for a pod that names none; empty means none.
        warnings: sentences for the pod's author.
    """

    asks: bool
    resources: Mapping[str, Any] = field(default_factory=_nothing, hash=False)
    env: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    idle_env: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    hides: bool = False
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
        cards: the node's cards as they were before the pod, for vendors whose
            text depends on what others hold (MIG).
    """

    shares: allocation.PodShares
    containers: tuple[str, ...]
    devices: Mapping[str, device.Device]
    node: str
    node_notes: Mapping[str, str]
    pod_notes: Mapping[str, str]
    request: request.PodRequest
    cards: tuple[fitting.CardState, ...] = ()


class Charging(Protocol):
    """What a share on a pod costs its card and its namespace; the ledger asks."""

    @property
    def mask_cores(self) -> bool:
        """Whether cores are a bit mask: shares of a card are joined by "or", not summed."""
        ...

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,
    ) -> allocation.DeviceShare:
        """Return the share cut down to the most that such a request can be granted on the card.

        A pod's annotation may promise more than its container asks for. What
        the vendor's own rounding adds (a profile, a template, compute units)
        stays. ``card`` is None while the card is absent.
        """
        ...

    def slots_of(self, share: allocation.DeviceShare, card: device.Device | None) -> int:
        """Return how many of the card's slots the share takes, as ``Pick.slots`` said."""
        ...

    def quota_amount(
        self, share: allocation.DeviceShare, card: device.Device | None
    ) -> quota.Amount:
        """Return the share in the units that pods ask in, which a quota limits."""
        ...


class Vendor(Charging, Protocol):
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

    def quota_memory(self, raw: object) -> int:
        """Return a quota's limit of the memory resource in the unit of ``quota_amount``.

        Raises:
            DecodeError: no whole number.
        """
        ...

    def least_cost(self, asked: request.DeviceRequest, notes: Mapping[str, str]) -> quota.Amount:
        """Return what a container will count against a quota on whichever cards, at least.

        ``notes`` are the pod's texts that the vendor asked to see.
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
    mask_cores = False

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

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,
    ) -> allocation.DeviceShare:
        """Cut to the amounts asked, or to the whole card where the vendor rounds by its own rules.

        The vendor does so when it is not vectorised, and on cards that are
        cut in profiles.
        """
        if not self.vectorised or (card is not None and card.mig_profiles):
            return (
                share if card is None else charges.cut(share, card.memory_mib, card.cores_percent)
            )
        return charges.cut(
            share, charges.most_memory_mib(asked, share, card), charges.most_cores(asked)
        )

    def slots_of(
        self,
        share: allocation.DeviceShare,  # noqa: ARG002
        card: device.Device | None,  # noqa: ARG002
    ) -> int:
        """Return 1."""
        return 1

    def quota_amount(
        self,
        share: allocation.DeviceShare,
        card: device.Device | None,  # noqa: ARG002
    ) -> quota.Amount:
        """Return the numbers of the share."""
        return quota.Amount(memory_mib=share.memory_mib, cores=share.cores_percent)

    def quota_memory(self, raw: object) -> int:
        """Return MiB: the limit is in the unit of the memory resource."""
        return quantity.decode_plain_integer(raw) * self.spec.memory_unit_mib

    def least_cost(
        self,
        asked: request.DeviceRequest,
        notes: Mapping[str, str],  # noqa: ARG002  # some vendors charge by a class of the pod
    ) -> quota.Amount:
        """Return the amounts asked of all cards; of a percentage only that it is something."""
        memory_mib = asked.memory_mib or min(1, asked.memory_percent or 0)
        return quota.Amount(
            memory_mib=asked.count * memory_mib, cores=asked.count * asked.cores_percent
        )

    def selection(self, annotations: Mapping[str, Any]) -> request.CardSelection:
        """Return the rules under the vendor's selection keys."""
        return selection(self.spec, annotations)

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:  # noqa: ARG002
        """Read either form of the register annotation."""
        return node_register.decode_register(text, key=self.spec.register_key or "")

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what one container asks for."""
        raise NotImplementedError

    def admit(
        self,
        container: Mapping[str, Any],
        pod: Mapping[str, Any],  # noqa: ARG002  # other vendors read the pod's annotations
    ) -> ContainerChanges:
        """Claim a container whose limits hold the count; ``derive`` judges its values.

        A value in requests only is written to limits too: the API server wants both.
        """
        limits, requests = amounts.quantities(container)
        if limits.get(self.spec.count_resource) is None or self.derive(limits, requests) is None:
            return ContainerChanges(asks=False)
        missing = amounts.only_in_requests(self.spec.resources, limits, requests)
        return ContainerChanges(asks=True, resources=missing)


def selection(spec: VendorSpec, annotations: Mapping[str, Any]) -> request.CardSelection:
    """Return the rules that a pod's annotations set under a vendor's keys."""
    if annotations.keys().isdisjoint(spec.selection_keys):
        return request.NO_SELECTION

    def value(key: str | None) -> object | None:
        return annotations.get(key) if key else None

    mode = value(spec.mode_key)
    return request.CardSelection(
        use_types=selections.words(value(spec.use_type_key)),
        avoid_types=selections.words(value(spec.avoid_type_key)),
        use_ids=selections.words(value(spec.use_id_key)),
        avoid_ids=selections.words(value(spec.avoid_id_key)),
        mode=mode if isinstance(mode, str) else None,
        numa_bind=selections.is_true(value(spec.numa_bind_key)),
    )
