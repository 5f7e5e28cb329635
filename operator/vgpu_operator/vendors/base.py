"""What a vendor is to the rest: data in ``VendorSpec``, pure functions in ``Vendor``.

A new vendor is one file that fills both. It imports this module and nothing
from another vendor; ``registry`` lists it.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from vgpu_operator.model import allocation, device, errors, fitting, policy, quota, request
from vgpu_operator.vendors import walk
from vgpu_operator.wire import fields, node_register, quantity, shape

MOST_CARDS = 1024
"""On one node; more is taken for a capacity that cannot be meant."""


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
            return share if card is None else _cut(share, card.memory_mib, card.cores_percent)
        return _cut(share, _most_memory_mib(asked, share, card), _most_cores(asked))

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
        limits, requests = quantities(container)
        if limits.get(self.spec.count_resource) is None or self.derive(limits, requests) is None:
            return ContainerChanges(asks=False)
        missing = {
            name: requests[name]
            for name in self.spec.resources
            if limits.get(name) is None and requests.get(name) is not None
        }
        return ContainerChanges(asks=True, resources=missing)


def _cut(
    share: allocation.DeviceShare, memory_mib: int, cores_percent: int
) -> allocation.DeviceShare:
    if share.memory_mib <= memory_mib and share.cores_percent <= cores_percent:
        return share
    return allocation.DeviceShare(
        device_id=share.device_id,
        vendor_word=share.vendor_word,
        memory_mib=min(share.memory_mib, memory_mib),
        cores_percent=min(share.cores_percent, cores_percent),
    )


def _most_cores(asked: request.DeviceRequest) -> int:
    """Return the cores that a container may hold; what it does not name may have been all."""
    return walk.WHOLE_CARD if asked.cores_by_default else min(asked.cores_percent, walk.WHOLE_CARD)


def _most_memory_mib(
    asked: request.DeviceRequest, share: allocation.DeviceShare, card: device.Device | None
) -> int:
    if asked.memory_by_default:
        return share.memory_mib if card is None else card.memory_mib
    if card is not None:
        return asked.memory_on(card.memory_mib)
    if asked.memory_mib == 0 and asked.memory_percent is not None:
        return share.memory_mib
    return asked.memory_mib


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


def quantities(container: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a container's limits and requests.

    >>> quantities({"resources": {"limits": {"a.io/gpu": "2"}}})
    ({'a.io/gpu': '2'}, mappingproxy({}))
    """
    resources = shape.mapping(container.get("resources"))
    return shape.mapping(resources.get("limits")), shape.mapping(resources.get("requests"))


def amount(
    name: str | None,
    limits: Mapping[str, Any],
    requests: Mapping[str, Any],
    *,
    hint: str,
    at_most: int = fields.INT32_MAX,
    skip_fractions: bool = False,
) -> int | None:
    """Return a whole number from 0 to ``at_most``; None when nobody sets it.

    Args:
        name: the resource; limits win over requests.
        limits: of the container.
        requests: of the container.
        hint: what to write instead.
        at_most: the largest value that can be meant.
        skip_fractions: a value that is no whole number counts as not set.

    Raises:
        RequestError: the value cannot be meant.
    """
    raw = asked(name, limits, requests)
    if raw is None:
        return None
    try:
        value = quantity.decode_integer(raw)
    except errors.DecodeError as fault:
        if skip_fractions:
            return None
        raise errors.RequestError(
            f"{name}: {fields.shown(raw)} is no whole number; {hint}"
        ) from fault
    if value < 0:
        raise errors.RequestError(f"{name}: {fields.shown(raw)} is negative; {hint}")
    if value > at_most:
        raise errors.RequestError(f"{name}: {fields.shown(raw)} is more than {at_most}; {hint}")
    return value


def card_count(name: str, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int | None:
    """Return how many cards are asked for; None when nobody sets it.

    Raises:
        RequestError: the number cannot be meant.
    """
    hint = "write how many cards the container needs, such as 1"
    return amount(name, limits, requests, hint=hint)


def fraction_warnings(
    container: Mapping[str, Any], instead: Mapping[str | None, str]
) -> tuple[str, ...]:
    """Return a sentence for each value that ``skip_fractions`` passes over.

    Args:
        container: of the new pod.
        instead: by resource, what the container gets in place of it.
    """
    limits, requests = quantities(container)
    found = []
    for name, sentence in instead.items():
        raw = asked(name, limits, requests)
        try:
            if raw is not None:
                quantity.decode_integer(raw)
        except errors.DecodeError:
            found.append(f"{name}: {fields.shown(raw)} is no whole number; {sentence}")
    return tuple(found)


def capacity_text(capacity: Mapping[str, Any], *names: str | None) -> str | None:
    """Return a node's quantities as a register text; None when the first is absent.

    >>> capacity_text({"a.io/core": "200", "cpu": "8"}, "a.io/core", "a.io/memory")
    'a.io/core=200'
    >>> capacity_text({"a.io/memory": "96"}, "a.io/core", "a.io/memory") is None
    True
    """
    if not names or capacity.get(names[0] or "") is None:
        return None
    return ",".join(f"{name}={capacity[name]}" for name in names if name and name in capacity)


def decode_capacity(text: str) -> Mapping[str, int]:
    """Return the quantities of such a text.

    >>> decode_capacity("a.io/core=200,a.io/memory=1k")
    {'a.io/core': 200, 'a.io/memory': 1000}

    Raises:
        DecodeError: a quantity is no whole number, or out of all bounds.
    """
    found: dict[str, int] = {}
    for entry in text.split(","):
        name, _, value = entry.rpartition("=")
        number = quantity.decode_integer(value, key=name)
        try:
            found[name] = fields.in_range(number, name=name, low=0)
        except errors.DecodeError as fault:
            raise errors.DecodeError(fault.reason, key=name) from fault
    return found


def numbered(count: int, *, key: str) -> range:
    """Return the indexes of that many cards.

    Raises:
        DecodeError: more than any node has.
    """
    if count > MOST_CARDS:
        raise errors.DecodeError(f"at most {MOST_CARDS} cards are read, got {count}", key=key)
    return range(count)


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
