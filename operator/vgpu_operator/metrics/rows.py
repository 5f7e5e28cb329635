"""What the pages of cards are made of: by node its cards, shares and MIG instances."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_operator.flows import shown_nodes
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import nodes
from vgpu_operator.metrics import families
from vgpu_operator.model import errors
from vgpu_operator.vendors import base, mig

ZONE: Final = "vGPU"
WHOLE_CARD: Final = 100

LONGEST_NAME: Final = 64
"""Of a MIG instance: its UUID has 40 characters, its profile about ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card with what pods hold of it.

    Attributes:
        labels: HAMi's labels of a card, as text.
        older_labels: the same in the spelling before HAMi 2.9, without the type.
        web_labels: HAMi-WebUI's.
        type: the model, escaped.
        memory_mib: schedulable.
        cores: schedulable, in the unit that the vendor registers.
        cores_in_units: whether that is compute units instead of percent.
        state: ``usable``, or why no new pod gets it, as the state page says.
    """

    labels: str
    older_labels: str
    web_labels: str
    type: str
    vendor: str
    memory_mib: int
    used_memory_mib: int
    cores: int
    used_cores: int
    cores_in_units: bool
    slots: int
    used_slots: int
    state: str

    @property
    def cores_percent(self) -> int:
        """Schedulable cores in percent of one card."""
        if self.cores_in_units:
            return WHOLE_CARD if self.cores > 0 else 0
        return self.cores

    @property
    def used_cores_percent(self) -> int | None:
        """Promised cores in percent of one card, rounded up."""
        if not self.cores_in_units:
            return self.used_cores
        return _percent(self.used_cores, self.cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one container holds of one card.

    Attributes:
        labels: HAMi's labels, and the container's name.
        older_labels: HAMi's in the spelling before 2.9.
        web_labels: HAMi-WebUI's.
        cores: in the unit that the vendor registers.
        cores_percent: in percent of one card.
        count: how many shares of that card it is.
    """

    labels: str
    older_labels: str
    web_labels: str
    memory_mib: int
    cores: int
    cores_percent: int | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One MIG instance that a device plugin has made."""

    labels: str
    older_labels: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRows:
    """All rows of one node."""

    cards: tuple[Card, ...]
    shares: tuple[Share, ...]
    instances: tuple[Instance, ...]


def read_node(books: Books, node: str) -> NodeRows:
    """Return one node's rows."""
    found: dict[str, nodes.CardUsage] = {}
    cards: dict[str, Card] = {}
    for vendor in books.vendors:
        if (node, vendor.spec.keyword) not in books.registrations:
            continue
        for used in books.ledger.usage(node, vendor.spec.keyword):
            card = _card(books, node, vendor, used)
            # Two entries of one card would be the same series twice, which breaks the page.
            cards.setdefault(card.labels, card)
            found.setdefault(used.device.id, used)
    return NodeRows(
        cards=tuple(cards.values()),
        shares=tuple(_shares(books, node, found)),
        instances=tuple(_instances(books, node, found)),
    )


def _card(books: Books, node: str, vendor: base.Vendor, used: nodes.CardUsage) -> Card:
    device, wanted = used.device, books.settings.metrics
    index = str(device.index)
    return Card(
        labels=families.labels(
            zone=ZONE,
            node=node,
            device_uuid=device.id,
            device_index=index,
            device_type=device.type,
        ),
        older_labels=(
            families.labels(zone=ZONE, nodeid=node, deviceuuid=device.id, deviceidx=index)
            if wanted.legacy_names
            else ""
        ),
        web_labels=(
            _web_labels(node, vendor.spec.keyword, device.type, device.id)
            + ","
            + families.labels(driver_version="", device_no=index)
            if wanted.web_ui_names
            else ""
        ),
        type=families.escaped(device.type),
        vendor=vendor.spec.id,
        memory_mib=device.memory_mib,
        used_memory_mib=used.used_memory_mib,
        cores=device.cores_percent,
        used_cores=used.used_cores_percent,
        cores_in_units=vendor.spec.cores_in_units,
        slots=device.slots,
        used_slots=used.used_slots,
        state=shown_nodes.card_state(books, node, vendor.spec.keyword, used) or "usable",
    )


def _web_labels(node: str, provider: str, card_type: str, card: str) -> str:
    """Return HAMi-WebUI's labels; its releases spell two of them in two ways, so both are here."""
    return families.labels(
        node=node,
        provider=provider,
        devicetype=card_type,
        deviceuuid=card,
        device_type=card_type,
        device_uuid=card,
    )


def _percent(used_units: int, units: int) -> int | None:
    """Return compute units in percent of one card, rounded up; None for a card without any."""
    return -(-used_units * WHOLE_CARD // units) if units > 0 else None


@dataclass(slots=True)
class _Sum:
    memory_mib: int = 0
    cores: int = 0
    count: int = 0


def _shares(books: Books, node: str, cards: Mapping[str, nodes.CardUsage]) -> Iterator[Share]:
    """Yield what each container holds of each card; several shares of one card as one."""
    sums: dict[tuple[str, str, str, str, int, str], _Sum] = {}
    for row in books.ledger.holders(node):
        pod = row.pod
        place = pod.namespace, pod.name, pod.uid, row.vendor, row.container, row.share.card_id
        total = sums.setdefault(place, _Sum())
        total.count += 1
        holding = books.ledger.holding(pod.uid)
        if holding is not None and row.container in holding.done:
            # An init container that has ended keeps its slot and nothing else.
            continue
        total.memory_mib += row.share.memory_mib
        total.cores += row.share.cores_percent
    seen = set()
    for (namespace, name, uid, vendor, index, card_id), total in sums.items():
        if (namespace, name, index, card_id) in seen:
            continue
        seen.add((namespace, name, index, card_id))
        yield _share(books, node, (namespace, name, uid, vendor, index, card_id), total, cards)


def _share(
    books: Books,
    node: str,
    place: tuple[str, str, str, str, int, str],
    total: _Sum,
    cards: Mapping[str, nodes.CardUsage],
) -> Share:
    namespace, pod, uid, vendor, index, card_id = place
    wanted = books.settings.metrics
    record = books.ledger.record(uid)
    containers = record.request.containers if record is not None else ()
    container = containers[index].name if index < len(containers) else ""
    used = cards.get(card_id)
    web = ""
    if wanted.web_ui_names:
        card_type = used.device.type if used is not None else ""
        web = f"{_web_labels(node, vendor, card_type, card_id)}," + families.labels(
            pod_name=pod,
            container_name=container,
            namespace_name=namespace,
            container_pod_uuid=f"{container}:{uid}",
        )
    percent: int | None = total.cores
    if books.by_keyword[vendor].spec.cores_in_units:
        units = used.device.cores_percent if used is not None else 0
        percent = _percent(total.cores, units)
    return Share(
        labels=families.labels(
            zone=ZONE,
            namespace=namespace,
            node=node,
            pod=pod,
            container_index=str(index),
            container=container,
            device_uuid=card_id,
        ),
        older_labels=(
            families.labels(
                zone=ZONE,
                podnamespace=namespace,
                nodename=node,
                podname=pod,
                containeridx=str(index),
                deviceuuid=card_id,
            )
            if wanted.legacy_names
            else ""
        ),
        web_labels=web,
        memory_mib=total.memory_mib,
        cores=total.cores,
        cores_percent=percent,
        count=total.count,
    )


def _instances(books: Books, node: str, cards: Mapping[str, nodes.CardUsage]) -> Iterator[Instance]:
    """Yield the MIG instances that the node's plugin has made for shares of pods there."""
    if not any(used.device.mode == mig.MODE for used in cards.values()):
        return
    held: dict[str, Counter[tuple[int, str]]] = {}
    for row in books.ledger.holders(node):
        held.setdefault(row.pod.uid, Counter())[row.container, row.share.card_id] += 1
    seen = set()
    for uid, shares in held.items():
        for one in _made(books, uid):
            used, place = cards.get(one.device_id), (one.container, one.device_id)
            if used is None or used.device.mode != mig.MODE or one.identity is None:
                continue
            # Who writes a pod's text could name thousands: one for each share that it holds.
            if not shares[place] or one.identity[0] in seen or not _is_short(one):
                continue
            shares[place] -= 1
            seen.add(one.identity[0])
            yield _instance(node, used, one, one.identity)


def _made(books: Books, uid: str) -> tuple[mig.Instance, ...]:
    """Return the instances that a pod's text names; none where it cannot be read."""
    record = books.ledger.record(uid)
    if record is None:
        return ()
    try:
        return mig.decode_allocations(record.request.notes.get(mig.ALLOCATIONS_KEY, ""))
    except errors.DecodeError:
        return ()


def _is_short(one: mig.Instance) -> bool:
    """Whether everything about an instance that becomes a label is as short as it really is."""
    texts = one.profile, *map(str, one.identity or ()), *map(str, _place(one))
    return all(len(text) <= LONGEST_NAME for text in texts)


def _place(one: mig.Instance) -> tuple[int, int]:
    return one.placement.start, one.placement.size


def _instance(
    node: str, used: nodes.CardUsage, one: mig.Instance, identity: tuple[str, int, int]
) -> Instance:
    uuid, gpu_instance, compute_instance = identity
    start, size = _place(one)
    index = str(used.device.index)
    return Instance(
        labels=families.labels(
            zone=ZONE,
            node=node,
            device_uuid=one.device_id,
            device_index=index,
            mig_uuid=uuid,
            profile=one.profile,
            gpu_instance_id=str(gpu_instance),
            compute_instance_id=str(compute_instance),
            placement_start=str(start),
            placement_size=str(size),
        ),
        older_labels=families.labels(
            zone=ZONE,
            nodeid=node,
            deviceuuid=one.device_id,
            deviceidx=index,
            migname=f"{one.profile}-{gpu_instance}",
        ),
    )
