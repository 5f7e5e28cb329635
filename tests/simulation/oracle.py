"""The cluster as the protocol's texts describe it, read without the operator's decoders.

Plain text splitting, so that a fault in a decoder cannot hide itself.
"""

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from simulation.server import Json

LOCK: Final = "hami.io/mutex.lock"
NODE: Final = "hami.io/vgpu-node"
PHASE: Final = "hami.io/bind-phase"
HANDSHAKE: Final = "hami.io/node-handshake"
NOMINATION: Final = "vgpu-operator.io/nomination"
ENDED: Final = ("Succeeded", "Failed")
PODS: Final = "/pods/"
NODES: Final = "/api/v1/nodes/"

Card: TypeAlias = tuple[str, str, str]
"""Node, vendor, card id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """One vendor's annotations and the resource that counts its cards."""

    register: str
    handshake: str
    to_allocate: str
    allocated: str
    count: str


VENDORS: Final[Mapping[str, Keys]] = {
    "NVIDIA": Keys(
        register="hami.io/node-nvidia-register",
        handshake="hami.io/node-handshake",
        to_allocate="hami.io/vgpu-devices-to-allocate",
        allocated="hami.io/vgpu-devices-allocated",
        count="nvidia.com/gpu",
    ),
    "DCU": Keys(
        register="hami.io/node-dcu-register",
        handshake="hami.io/node-handshake-dcu",
        to_allocate="hami.io/dcu-devices-to-allocate",
        allocated="hami.io/dcu-devices-allocated",
        count="hygon.com/dcunum",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Slots, MiB and cores of one card."""

    slots: int = 0
    memory: int = 0
    cores: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            slots=self.slots + other.slots,
            memory=self.memory + other.memory,
            cores=self.cores + other.cores,
        )

    def within(self, limit: "Amount") -> bool:
        """Whether nothing is more than there is."""
        return (
            self.slots <= limit.slots and self.memory <= limit.memory and self.cores <= limit.cores
        )

    def at_least(self, other: "Amount") -> "Amount":
        """Return the larger of each."""
        return Amount(
            slots=max(self.slots, other.slots),
            memory=max(self.memory, other.memory),
            cores=max(self.cores, other.cores),
        )

    def __str__(self) -> str:
        return f"{self.slots} slots, {self.memory} MiB, {self.cores} cores"


def notes(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """Return an object's annotations."""
    return raw["metadata"].get("annotations") or {}


def node_of(pod: Json) -> str:
    """Return where a pod is bound; empty while it is not."""
    return str(pod.get("spec", {}).get("nodeName") or "")


def priority(pod: Json) -> int:
    """Return a pod's priority."""
    return int(pod["spec"].get("priority", 0))


def ended(pod: Json) -> bool:
    """Whether all containers of a pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in ENDED


def limits(container: Json) -> Mapping[str, str]:
    """Return a container's limits."""
    return (container.get("resources") or {}).get("limits") or {}


def wants(pod: Json) -> frozenset[str]:
    """Return the vendors whose cards a pod asks for."""
    spec = pod["spec"]
    everybody = [*(spec.get("initContainers") or ()), *spec["containers"]]
    return frozenset(
        word for word, keys in VENDORS.items() if any(keys.count in limits(c) for c in everybody)
    )


def entries(text: str) -> list[list[tuple[str, int, int]]]:
    """Return card, MiB and cores of every share, container by container.

    >>> entries("a,NVIDIA,100,10:;;b,NVIDIA,1,2:c,NVIDIA,3,4:;")
    [[('a', 100, 10)], [], [('b', 1, 2), ('c', 3, 4)]]
    """
    found = []
    for segment in text.split(";")[:-1]:
        fields = [entry.split(",") for entry in segment.split(":") if entry]
        found.append([(each[0], int(each[2]), int(each[3])) for each in fields])
    return found


def registered(text: str) -> dict[str, Amount] | None:
    """Return what each card of a register text has; None when it is no such text.

    >>> registered("g,4,100,100,T,0,true:")
    {'g': Amount(slots=4, memory=100, cores=100)}
    >>> registered("nonsense") is None
    True
    """
    try:
        if text.lstrip().startswith("["):
            return {
                card["id"]: Amount(
                    slots=card.get("count", 0),
                    memory=card.get("devmem", 0),
                    cores=card.get("devcore", 0),
                )
                for card in json.loads(text)
            }
        rows = [row.split(",") for row in text.split(":") if row]
        found = {
            row[0]: Amount(slots=int(row[1]), memory=int(row[2]), cores=int(row[3])) for row in rows
        }
    except (ValueError, IndexError, KeyError, TypeError, AttributeError):
        return None
    return found or None


def held(pod: Json) -> dict[Card, Amount]:
    """Return what a pod's promise charges each card now.

    Init containers run one after another before the others: what they need at
    most counts, of memory and cores only until they are done.
    """
    node = node_of(pod)
    if not node or ended(pod) or notes(pod).get(NODE) != node:
        return {}
    n_inits = len(pod["spec"].get("initContainers") or ())
    inits_done = bool((pod.get("status") or {}).get("containerStatuses"))
    found: dict[Card, Amount] = {}
    for vendor, keys in VENDORS.items():
        per_container = entries(notes(pod).get(keys.allocated, ""))
        peak: dict[str, Amount] = {}
        total: dict[str, Amount] = {}
        for place, shares in enumerate(per_container):
            own: dict[str, Amount] = {}
            for card, memory, cores in shares:
                share = Amount(slots=1, memory=memory, cores=cores)
                own[card] = own.get(card, Amount()) + share
            for card, amount in own.items():
                if place >= n_inits:
                    total[card] = total.get(card, Amount()) + amount
                    continue
                kept = Amount(slots=amount.slots) if inits_done else amount
                peak[card] = peak.get(card, Amount()).at_least(kept)
        for card in {*peak, *total}:
            amount = total.get(card, Amount()).at_least(peak.get(card, Amount()))
            found[node, vendor, card] = amount
    return found


def unserved(pod: Json) -> bool:
    """Whether some plugin's Allocate for the pod may still come."""
    if not node_of(pod) or ended(pod) or (pod.get("status") or {}).get("startTime"):
        return False
    own = notes(pod)
    if own.get(PHASE) not in ("allocating", "success"):
        return False
    return any("," in own.get(keys.to_allocate, "") for keys in VENDORS.values())


def asked_s(node: Json, keys: Keys, *, now_s: float) -> float:
    """Return for how long a plugin has left the handshake unanswered; for ever without one."""
    text = notes(node).get(keys.handshake)
    if text is None:
        return float("inf")
    word, _, time = text.partition("_")
    if word != "Requesting":
        return 0.0
    asked = datetime.datetime.strptime(time, "%Y-%m-%d %H:%M:%S").replace(tzinfo=datetime.UTC)
    return now_s - asked.timestamp()


def kind_of_write(path: str, body: Json | None) -> frozenset[str]:
    """Return what a write is: ``lock``, ``binding``, ``serve``, ``nominate``, ``evict``."""
    if path.endswith("/binding"):
        return frozenset({"binding"})
    if path.endswith("/eviction"):
        return frozenset({"evict"})
    changed = ((body or {}).get("metadata") or {}).get("annotations") or {}
    found = set()
    if changed.get(LOCK):
        found.add("lock")
    if changed.get(NOMINATION):
        found.add("nominate")
    if any(keys.to_allocate in changed for keys in VENDORS.values()):
        found.add("serve")
    return frozenset(found)


def pods(objects: Mapping[str, Json]) -> Iterator[Json]:
    """Yield all pods."""
    return (raw for path, raw in objects.items() if PODS in path)


def nodes(objects: Mapping[str, Json]) -> Iterator[Json]:
    """Yield all nodes."""
    return (raw for path, raw in objects.items() if path.startswith(NODES))
