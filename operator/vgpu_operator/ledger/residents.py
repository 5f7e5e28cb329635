"""Which pods are where: on each node, what they hold there and which notes they carry."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from vgpu_operator.ledger import charges, pods, tenants
from vgpu_operator.model import allocation, request


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One container's share of one card, as it is charged."""

    pod: request.PodKey
    vendor: str
    container: int
    share: allocation.DeviceShare


class Residents:
    """The pods that hold anything, by node; tenants of cards are worked out when asked for."""

    def __init__(self) -> None:
        self._on: dict[str, dict[str, pods.Pod]] = {}
        self._tenants = tenants.Index()
        self._noted = tenants.Noted()

    def settle(self, pod: pods.Pod, before: charges.Holding | None) -> None:
        """Put a pod where its present holding is, instead of where it was before."""
        uid, after = pod.key.uid, pod.holding
        self.note(pod)
        if before is not None:
            self._tenants.changed(before.node)
            self._on[before.node].pop(uid)
            if not self._on[before.node]:
                del self._on[before.node]
        if after is not None:
            self._tenants.changed(after.node)
            self._on.setdefault(after.node, {})[uid] = pod

    def note(self, pod: pods.Pod) -> None:
        """Note whether some vendor's rules must read what the pod carries, and where."""
        held = pod.holding
        noted = held is not None and tenants.must_be_read(pod.notes, held)
        self._noted.put(pod.key.uid, held.node if held is not None and noted else None)

    def changed(self, node: str) -> None:
        """Some pod on the node holds something else now, or carries other notes."""
        self._tenants.changed(node)

    def on(self, node: str) -> Iterator[pods.Pod]:
        """Yield the pods that hold anything on a node."""
        return iter(self._on.get(node, {}).values())

    def holders(self, node: str) -> tuple[Holder, ...]:
        """Return every share on a node, by pod, vendor and container."""
        rows = [
            Holder(pod=pod.key, vendor=vendor, container=container, share=share)
            for pod in self.on(node)
            if pod.holding is not None
            for vendor, shares in pod.holding.shares.items()
            for container, entry in enumerate(shares)
            for share in entry
        ]
        return tuple(sorted(rows, key=lambda row: (row.pod, row.vendor, row.container)))

    def tenants(self, node: str) -> Mapping[str, tenants.Cards]:
        """Return by vendor who holds which card of a node."""
        kept = self._tenants.get(node)
        if kept is not None:
            return kept
        return self._tenants.keep(
            node,
            tenants.of(
                (pod.key, pod.notes, pod.holding)
                for pod in self.on(node)
                if pod.holding is not None
            ),
        )

    @property
    def noted(self) -> Collection[str]:
        """The nodes with a pod whose texts some vendor's rules must read."""
        return self._noted.nodes
