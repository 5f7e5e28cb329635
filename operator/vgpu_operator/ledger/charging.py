"""What a pod is charged on the cards that its node has now, by the rules of this operator."""

from collections.abc import Sequence

from vgpu_operator.ledger import charges, nodes, pods
from vgpu_operator.model import allocation, records, request, settings


class Charging:
    """The charge rules together with what they depend on.

    Args:
        book: the nodes and their cards.
        vendors: keywords of the vendors that are served.
        trust: how far annotations are believed.
        rules: how a vendor's shares are charged, by keyword; the common way
            where missing.
    """

    def __init__(
        self,
        book: nodes.Nodes,
        *,
        vendors: Sequence[str],
        trust: settings.Trust,
        rules: charges.Rules | None,
    ) -> None:
        self._book = book
        self._vendors = frozenset(vendors)
        self._trust = trust
        self._rules = rules or {}

    def of_pod(self, pod: pods.Pod) -> charges.Holding | None:
        """Return what a pod holds: what it is assumed to get, else what its record shows."""
        if pod.assumption is not None:
            return pod.assumption
        return self.of_record(pod.record) if pod.record is not None else None

    def of_record(self, record: records.PodRecord) -> charges.Holding | None:
        """Return what a pod holds as the API shows it."""
        return charges.of_record(
            record,
            vendors=self._vendors,
            trust=self._trust,
            find_card=lambda vendor, card: self._book.card(record.node, vendor, card),
            rules=self._rules,
        )

    def of_choice(self, wish: request.PodRequest, chosen: allocation.Allocation) -> charges.Holding:
        """Return what a pod will hold if it gets what was chosen for it."""
        return charges.of_allocation(
            wish,
            chosen,
            find_card=lambda vendor, card: self._book.card(chosen.node, vendor, card),
            rules=self._rules,
        )
