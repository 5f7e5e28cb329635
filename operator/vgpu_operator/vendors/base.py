"""What a vendor is to the rest: data in ``VendorSpec``, five pure functions in ``Vendor``.

A new vendor is one file that fills both. It imports this module and nothing
from another vendor; ``registry`` lists it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from vgpu_operator.model import errors, request
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


class Vendor(Protocol):
    """One make of accelerator."""

    @property
    def spec(self) -> VendorSpec:
        """The vendor's names."""
        ...

    def decode_devices(self, text: str) -> node_register.RegisterText:
        """Return the cards that a register annotation lists, and its bad segments.

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
