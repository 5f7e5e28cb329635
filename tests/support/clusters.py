"""Short ways to write cards, nodes, pods and requests, and the ledger they make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from vgpu_operator.ledger import charges, ledger
from vgpu_operator.model import (
    allocation,
    device,
    errors,
    policy,
    records,
    request,
    settings,
)

VENDOR = "NVIDIA"
A10 = "NVIDIA-NVIDIA A10"
LATER = datetime(2026, 1, 15, 10, 0, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What one node shows of each vendor."""

    cards: Mapping[str, tuple[device.Device, ...]]
    allocatable: Mapping[str, int | None]
    cordoned: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Cluster:
    """Nodes by name and all pods."""

    nodes: dict[str, Node]
    pods: list[records.PodRecord] = field(default_factory=list)
    vendors: tuple[str, ...] = (VENDOR,)


def card(
    card_id: str,
    *,
    index: int = 0,
    slots: int = 10,
    memory_mib: int = 24576,
    cores_percent: int = 100,
    card_type: str = A10,
    numa: int = 0,
    mode: str = "hami-core",
    healthy: bool = True,
) -> device.Device:
    """Return an idle A10 unless told otherwise."""
    return device.Device(
        id=card_id,
        index=index,
        slots=slots,
        memory_mib=memory_mib,
        cores_percent=cores_percent,
        type=card_type,
        numa=numa,
        mode=mode,
        healthy=healthy,
    )


def node(*cards: device.Device, allocatable: int | None = 80, cordoned: Sequence[str] = ()) -> Node:
    """Return a node with NVIDIA cards."""
    return Node(
        cards={VENDOR: cards},
        allocatable={VENDOR: allocatable},
        cordoned=frozenset(cordoned),
    )


def eight_card_nodes(count: int) -> dict[str, Node]:
    """Return nodes of eight equal cards, by name."""
    names = (f"node-{number:05d}" for number in range(count))
    return {
        name: node(*(card(f"GPU-{name}-{index}", index=index) for index in range(8)))
        for name in names
    }


def asks(
    count: int = 1,
    *,
    memory_mib: int = 0,
    percent: int | None = None,
    cores_percent: int = 0,
    vendor: str = VENDOR,
) -> request.DeviceRequest:
    """Return what one container asks."""
    return request.DeviceRequest(
        vendor=vendor,
        count=count,
        memory_mib=memory_mib,
        memory_percent=percent,
        cores_percent=cores_percent,
    )


def container(
    *devices: request.DeviceRequest,
    kind: request.ContainerKind = request.ContainerKind.APP,
    name: str = "main",
) -> request.ContainerRequest:
    """Return a container."""
    return request.ContainerRequest(name=name, kind=kind, devices=devices)


def wish(
    *wanted: request.DeviceRequest | request.ContainerRequest,
    uid: str = "u1",
    name: str = "p1",
    selection: request.CardSelection = request.NO_SELECTION,
    node_policy: policy.NodePolicy | None = None,
    card_policies: tuple[policy.CardPolicy, ...] = (),
) -> request.PodRequest:
    """Return a pod's request; a bare device request becomes an app container."""
    return request.PodRequest(
        pod=request.PodKey(namespace="team-a", name=name, uid=uid),
        containers=tuple(
            one if isinstance(one, request.ContainerRequest) else container(one) for one in wanted
        ),
        selections={} if selection == request.NO_SELECTION else {VENDOR: selection},
        node_policy=node_policy,
        card_policies=card_policies,
    )


def share(card_id: str, memory_mib: int, cores_percent: int = 0) -> allocation.DeviceShare:
    """Return a share of an NVIDIA card."""
    return allocation.DeviceShare(
        device_id=card_id, vendor_word=VENDOR, memory_mib=memory_mib, cores_percent=cores_percent
    )


def promise(node_name: str, *entries: Sequence[allocation.DeviceShare]) -> allocation.Allocation:
    """Return an allocation with one entry per container."""
    return allocation.Allocation(
        node=node_name, shares={VENDOR: tuple(tuple(entry) for entry in entries)}
    )


def pod(
    wanted: request.PodRequest,
    promised: allocation.Allocation | None = None,
    *,
    node_name: str | None = None,
    phase: str = "Running",
    version: str = "1",
    deleting: bool = False,
    init_done: bool = True,
    faults: Sequence[str] = (),
) -> records.PodRecord:
    """Return a pod bound where it is promised, unless ``node_name`` says otherwise."""
    promised_node = promised.node if promised is not None else ""
    return records.PodRecord(
        key=wanted.pod,
        resource_version=version,
        node=promised_node if node_name is None else node_name,
        phase=phase,
        scheduler="hami-scheduler",
        request=wanted,
        deleting=deleting,
        init_done=init_done,
        promised_node=promised_node,
        promised=promised.shares if promised is not None else {},
        faults={vendor: errors.DecodeError("unreadable") for vendor in faults},
    )


def holder(
    uid: str, node_name: str, card_id: str, memory_mib: int, cores_percent: int = 0
) -> records.PodRecord:
    """Return a running pod with one container that holds one share and asked for it."""
    wanted = wish(asks(memory_mib=memory_mib, cores_percent=cores_percent), uid=uid, name=uid)
    return pod(wanted, promise(node_name, [share(card_id, memory_mib, cores_percent)]))


def build_ledger(
    cluster: Cluster,
    *,
    trust: settings.Trust = settings.Trust.REQUESTS,
    rules: charges.Rules | None = None,
) -> ledger.Ledger:
    """Return the books of that cluster."""
    books = ledger.Ledger(vendors=cluster.vendors, trust=trust, rules=rules)
    for name, one in cluster.nodes.items():
        for vendor in cluster.vendors:
            books.set_devices(name, vendor, one.cards.get(vendor, ()))
            books.set_allocatable(name, vendor, one.allocatable.get(vendor))
        books.set_cordoned(name, one.cordoned)
    for record in cluster.pods:
        books.observe(record)
    return books
