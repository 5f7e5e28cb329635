"""What the operator has left on nodes, and what of it may go when it is removed.

Device plugins' own annotations stay: who runs a plugin still needs them, and it would
write them again. A lock stays while a pod on its node is being served, because the plugin
finds that pod by it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_operator.model import records
from vgpu_operator.vendors import base, roster
from vgpu_operator.wire import dialects, keys


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPod:
    """What matters of a pod that is bound to a node."""

    namespace: str
    name: str
    node: str
    phase: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left on one node.

    Attributes:
        node: its name.
        remove: annotations that may go.
        keep: annotations that must stay for now.
        because: why, for people; empty where nothing stays.
    """

    node: str
    remove: tuple[str, ...]
    keep: tuple[str, ...] = ()
    because: str = ""


def stamp_keys(vendors: Iterable[base.Vendor]) -> frozenset[str]:
    """Return the annotations of nodes that the operator stamps: handshakes and the waking one."""
    older = {place.handshake for place in dialects.NODE_PLACES}
    stamped = {vendor.spec.handshake_key for vendor in vendors}
    return frozenset(filter(None, {keys.WAKE, *older, *stamped}))


def left_on(
    nodes: Mapping[str, Mapping[str, str]],
    pods: Sequence[BoundPod],
    vendors: roster.Roster,
) -> tuple[Left, ...]:
    """Return what is left, by the annotations of all nodes; clean nodes are left out."""
    locks, stamps = vendors.locks.keys(), stamp_keys(vendors)
    served: dict[str, str] = {}
    for pod in pods:
        if is_being_served(pod):
            served.setdefault(pod.node, f"{pod.namespace}/{pod.name}")
    found = []
    for node, annotations in sorted(nodes.items()):
        locked = sorted(locks & annotations.keys())
        stamped = sorted(stamps & annotations.keys())
        owner = served.get(node, "") if locked else ""
        if owner:
            why = f"pod {owner} is being served there"
            found.append(Left(node=node, remove=tuple(stamped), keep=tuple(locked), because=why))
        elif locked or stamped:
            found.append(Left(node=node, remove=(*locked, *stamped)))
    return tuple(found)


def is_being_served(pod: BoundPod) -> bool:
    """Tell whether a device plugin may still look for this pod."""
    if pod.phase in records.FINISHED:
        return False
    phases = (pod.annotations.get(dialect.bind_phase) for dialect in dialects.ALL)
    return records.BindPhase.ALLOCATING in phases
