"""AWS Neuron (Inferentia, Trainium): devices of a few cores, kept as a bit mask.

A container asks for whole devices or for NeuronCores. How many cores a device
has is the node's own, so a request for cores is split over devices where the
node is known; several devices lie side by side. Source: HAMi v2.10.0,
``pkg/device/awsneuron/device.go``. HAMi takes the number of cores from the
first Neuron node that it sees, for all nodes, and addresses two of them only.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from vgpu_operator.model import allocation, device, errors, fitting, quota, reason, request
from vgpu_operator.model.vendor_settings import awsneuron as awsneuron_settings
from vgpu_operator.vendors import amounts, base, capacity, walk
from vgpu_operator.wire import clock_text, fields, node_register, shape

KEYWORD: Final = "AWSNeuron"

USUAL_CORES: Final = 2
"""Cores of a device where no node is known: requests are counted in these."""

INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
INSTANCE_TYPE: Final = "AWSNodeType"
"""Where a device keeps its node's instance type, among its custom information."""

IDS_KEY: Final = "AWS_NEURON_IDS"
RESOURCE_TYPE_KEY: Final = "NEURON_RESOURCE_TYPE"
ALLOCATED_KEY: Final = "NEURON_ALLOCATED"
ALLOC_TIME_KEY: Final = "NEURON_ALLOC_TIME"
NODE_KEY: Final = "aws.amazon.com/predicate-node"

_BLOCKS: Final = (1, 4, 8, 16)
"""How many devices a Trainium node gives out together, each block at a multiple of its size."""

_MOST_CORES: Final = 2 * fields.INT32_MAX
_MOST_CORES_OF_A_DEVICE: Final = 30
"""As many bits as a share's text can hold; real ones have eight at most."""


class AwsNeuron(base.Common):
    """AWS Neuron under the names of its settings."""

    vectorised = False
    mask_cores = True

    def __init__(self, settings: awsneuron_settings.AwsNeuronSettings) -> None:
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="awsneuron",
            register_key=None,
            handshake_key=None,
            to_allocate_key=None,
            allocated_key="hami.io/aws-neuron-devices-allocated",
            more_pod_keys=(IDS_KEY, RESOURCE_TYPE_KEY, ALLOCATED_KEY, ALLOC_TIME_KEY, NODE_KEY),
            lock=None,
            count_resource=settings.resource_count_name,
            cores_resource=settings.resource_core_name or None,
            use_id_key="aws.amazon.com/use-neuron-uuid",
            avoid_id_key="aws.amazon.com/nouse-neuron-uuid",
        )

    def register_text(self, node: base.NodeTexts) -> str | None:
        """Return the counts of devices and cores, and the instance type behind a ``;``."""
        names = (self.spec.count_resource, self.spec.cores_resource)
        counts = capacity.text_of(node.capacity, *names)
        if counts is None:
            return None
        return f"{counts};{shape.text(node.labels.get(INSTANCE_TYPE_LABEL))}"

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Return as many devices as the node counts, each with an equal part of its cores."""
        counts, _, instance_type = text.partition(";")
        offered = capacity.decode(counts)
        count = offered[self.spec.count_resource]
        indexes = capacity.numbered(count, key=self.spec.count_resource)
        total = offered.get(self.spec.cores_resource or "", 0)
        cores = total // count if count else 0
        if cores > _MOST_CORES_OF_A_DEVICE:
            raise errors.DecodeError(
                f"at most {_MOST_CORES_OF_A_DEVICE} cores of a device are read, got {cores}",
                key=self.spec.cores_resource or "",
            )
        return node_register.RegisterText(
            devices=tuple(
                device.Device(
                    id=f"{node}-AWSNeuron-{index}",
                    index=index,
                    type=KEYWORD,
                    slots=cores,
                    memory_mib=0,
                    cores_percent=_all(cores),
                    healthy=True,
                    custom_info={INSTANCE_TYPE: instance_type},
                )
                for index in indexes
            )
        )

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return whole devices (their cores are "by default"), or cores in devices of two.

        Cores are absolute here, not percent.
        """
        count = self._positive(self.spec.count_resource, limits, requests, fields.INT32_MAX)
        if count is not None:
            return _wish(count, USUAL_CORES, cores_by_default=True)
        cores = self._positive(self.spec.cores_resource, limits, requests, _MOST_CORES)
        if cores is None:
            return None
        if cores > USUAL_CORES and cores % USUAL_CORES:
            raise errors.RequestError(
                f"{self.spec.cores_resource}: {cores} cores fill no devices; "
                f"write 1 or a multiple of {USUAL_CORES}"
            )
        if cores <= USUAL_CORES:
            return _wish(1, cores)
        return _wish(cores // USUAL_CORES, USUAL_CORES)

    def admit(
        self,
        container: Mapping[str, Any],
        pod: Mapping[str, Any],  # noqa: ARG002
    ) -> base.ContainerChanges:
        """Claim a container that names devices or cores, in limits or in requests."""
        limits, requests = amounts.quantities(container)
        if self.derive(limits, requests) is None:
            return base.ContainerChanges(asks=False)
        missing = amounts.only_in_requests(self.spec.resources, limits, requests)
        spec = self.spec
        by_devices = amounts.asked(spec.count_resource, limits, requests) is not None
        others = (spec.cores_resource,) if by_devices else ()
        return base.ContainerChanges(
            asks=True,
            resources=missing,
            warnings=amounts.passed_over(container, others, beside=spec.count_resource),
        )

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take one device with enough free cores, or several whole ones side by side."""
        devices, cores = _split(ask.wish, node)
        if len(node.cards) < devices:
            return fitting.Refused(counts={reason.Reason.TOO_FEW_CARDS.value: 0})
        if not devices:
            return fitting.Refused(counts={reason.Reason.INSUFFICIENT_CORES.value: len(node.cards)})
        if devices > 1:
            return _side_by_side(node, ask, devices)

        def cores_left(card: fitting.CardState, _: fitting.Ask) -> str | None:
            enough = _free(card).bit_count() >= cores
            return None if enough else reason.Reason.INSUFFICIENT_CORES.value

        passed, counts = walk.usable(node, ask, (*walk.BY_SLOTS, cores_left))
        if not passed:
            return fitting.Refused(counts=counts)
        mask = _lowest(_free(node.cards[passed[0]]), cores)
        return (fitting.Pick(card=passed[0], memory_mib=0, cores=mask),)

    def more_annotations(self, grant: base.Grant, now: datetime) -> Mapping[str, str]:
        """Return device indexes for devices that were asked, else the node's core indexes."""
        ids: list[str] = []
        core_ids: list[str] = []
        for container, entry in zip(grant.request.containers, grant.shares, strict=True):
            wish = container.of(KEYWORD)
            for share in entry:
                card = grant.devices[share.device_id]
                if wish is None or wish.cores_by_default:
                    ids.append(str(card.index))
                    continue
                bits = (bit for bit in range(card.slots) if share.cores_percent >> bit & 1)
                own = [str(card.slots * card.index + bit) for bit in bits]
                ids += own
                core_ids += own
        if not ids:
            return {}
        texts = {
            IDS_KEY: ",".join(ids),
            ALLOC_TIME_KEY: clock_text.encode_unix_ns(now),
            ALLOCATED_KEY: "false",
            NODE_KEY: grant.node,
        }
        if core_ids and self.spec.cores_resource:
            texts[RESOURCE_TYPE_KEY] = self.spec.cores_resource
        return texts

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,
    ) -> allocation.DeviceShare:
        """Cut to the device's cores, and to as many of them as were asked."""
        mask = share.cores_percent if card is None else share.cores_percent & card.cores_percent
        if not asked.cores_by_default:
            mask = _lowest(mask, asked.count * asked.cores_percent)
        return allocation.DeviceShare(
            device_id=share.device_id,
            vendor_word=share.vendor_word,
            memory_mib=0,
            cores_percent=mask,
        )

    def quota_amount(
        self,
        share: allocation.DeviceShare,
        card: device.Device | None,  # noqa: ARG002
    ) -> quota.Amount:
        """Return how many cores the mask holds."""
        return quota.Amount(memory_mib=0, cores=share.cores_percent.bit_count())

    def _positive(
        self,
        name: str | None,
        limits: Mapping[str, Any],
        requests: Mapping[str, Any],
        at_most: int,
    ) -> int | None:
        hint = "write a whole number from 1"
        value = amounts.amount(name, limits, requests, at_most=at_most, hint=hint)
        if value == 0:
            raise errors.RequestError(f"{name}: 0 asks for nothing; {hint}, or leave it out")
        return value


def backends(section: awsneuron_settings.AwsNeuronSettings) -> tuple[base.Vendor, ...]:
    """Return AWS Neuron; nothing when its resource has no name."""
    return (AwsNeuron(section),) if section.resource_count_name else ()


def _wish(count: int, cores: int, *, cores_by_default: bool = False) -> request.DeviceRequest:
    return request.DeviceRequest(
        vendor=KEYWORD,
        count=count,
        memory_percent=0,
        cores_percent=cores,
        cores_by_default=cores_by_default,
    )


def _split(wish: request.DeviceRequest, node: fitting.NodeState) -> tuple[int, int]:
    """Return how many of the node's devices the wish takes, and cores of each; 0 if it cannot."""
    of_device = max((card.device.slots for card in node.cards), default=0)
    if wish.cores_by_default:
        return wish.count, of_device
    total = wish.count * wish.cores_percent
    if total <= of_device:
        return 1, total
    if of_device and total % of_device == 0:
        return total // of_device, of_device
    return (0, 0) if of_device else (wish.count, wish.cores_percent)


def _side_by_side(node: fitting.NodeState, ask: fitting.Ask, count: int) -> fitting.Answer:
    """Take whole devices in a row: anywhere on Inferentia, in aligned blocks elsewhere."""
    rows = sorted(range(len(node.cards)), key=lambda i: node.cards[i].device.index)
    ring = "inf" in str(node.cards[0].device.custom_info.get(INSTANCE_TYPE, "")).lower()
    step = 1 if ring else count
    starts = range(0, len(rows) - count + 1, step) if ring or count in _BLOCKS else ()
    for start in starts:
        row = rows[start : start + count]
        if all(_is_free(node.cards[index], ask) for index in row):
            return tuple(
                fitting.Pick(card=index, memory_mib=0, cores=node.cards[index].device.cores_percent)
                for index in row
            )
    return fitting.Refused(counts={reason.Reason.NUMA_NOT_FIT.value: 1})


def _is_free(card: fitting.CardState, ask: fitting.Ask) -> bool:
    checks = (walk.healthy, walk.not_cordoned, walk.id_allowed)
    return card.unused and walk.first_fault(checks, card, ask) is None


def _all(cores: int) -> int:
    return (1 << cores) - 1


def _free(card: fitting.CardState) -> int:
    """Return the mask of the device's cores that nobody uses."""
    return card.device.cores_percent & ~card.used_cores


def _lowest(mask: int, count: int) -> int:
    """Return the lowest ``count`` bits that are set in a mask.

    >>> _lowest(0b1101, 2)
    5
    """
    found = 0
    while mask and count > 0:
        lowest = mask & -mask
        found, mask, count = found | lowest, mask ^ lowest, count - 1
    return found
