"""What a pod gets on a node that fits, and what its vendors add to the node's score."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import snapshot
from vgpu_operator.model import allocation, policy, request
from vgpu_operator.scheduling import by_hand, cards, masks, order, stages
from vgpu_operator.vendors import base

NEUTRAL_WEIGHT = 10_000
"""HAMi's weight of a vendor's score that outweighs the node policy, whichever that is."""


def shares_on(
    view: snapshot.Snapshot,
    row: int,
    lane: int,
    outcome: stages.Outcome,
    rules: stages.Rules,
    wish: request.PodRequest,
) -> Mapping[str, allocation.PodShares]:
    """Return the shares on one lane that fits, of a walk that chose.

    One entry per container for each vendor, init containers first, empty
    where a container has no device of it; the best card comes first.
    """
    shares: dict[str, list[allocation.ContainerShares]] = {
        vendor: [()] * len(wish.containers) for vendor in wish.vendors
    }
    for stage, taken in zip(rules.stages, outcome.taken, strict=True):
        keyword = stage.wish.vendor
        own = taken.by_hand.get(lane)
        if own is None:
            seen = view.vendor(keyword)
            of_row = seen.cards[row] if seen is not None else ()
            vendor = rules.vendors.get(keyword)
            own = tuple(
                allocation.DeviceShare(
                    device_id=card.id,
                    vendor_word=keyword if vendor is None else vendor.share_word(card),
                    memory_mib=stage.wish.memory_on(card.memory_mib),
                    cores_percent=min(stage.wish.cores_percent, masks.WHOLE_CARD),
                )
                for card in (of_row[column] for column in taken.columns[lane].tolist())
            )
        shares[keyword][stage.container] = own
    return {vendor: tuple(entries) for vendor, entries in shares.items()}


def scoring(rules: stages.Rules) -> dict[str, base.Vendor]:
    """Return the vendors that the pod asks and that add to a node's score, by keyword."""
    asked = {stage.wish.vendor: rules.vendors.get(stage.wish.vendor) for stage in rules.stages}
    return {
        keyword: vendor
        for keyword, vendor in asked.items()
        if vendor is not None and type(vendor).node_score is not base.Common.node_score
    }


def vendor_scores(
    view: snapshot.Snapshot,
    lanes: cards.Lanes,
    fitting: npt.NDArray[np.intp],
    outcome: stages.Outcome,
    rules: stages.Rules,
    wish: request.PodRequest,
    node_policy: policy.NodePolicy,
) -> npt.NDArray[np.float64]:
    """Return what the pod's vendors add to the score of each lane of ``fitting``.

    Args:
        view: the ledger.
        lanes: which rows the walk was over.
        fitting: lanes that fit.
        outcome: of a walk that chose.
        rules: of the pod.
        wish: of the pod.
        node_policy: of the pod, the default filled in.
    """
    added = np.zeros(len(fitting))
    rows = np.arange(view.n_rows)[lanes][fitting].tolist()
    granted = [
        shares_on(view, row, lane, outcome, rules, wish)
        for row, lane in zip(rows, fitting.tolist(), strict=True)
    ]
    card_order = order.card_order(rules.policies, rules.weights)
    for keyword, vendor in scoring(rules).items():
        seen = view.vendor(keyword)
        if seen is None:
            continue
        weight = 1
        if vendor.neutral_score:
            weight = NEUTRAL_WEIGHT * (-1 if node_policy is policy.NodePolicy.SPREAD else 1)
        stage = next(stage for stage in rules.stages if stage.wish.vendor == keyword)
        board = cards.lay_out(seen, lanes)
        desk = by_hand.open_desk(view, seen, board, vendor, rules)
        states = desk.nodes(stage, fitting, card_order)
        for place, (_, _, state) in enumerate(states):
            grant = base.Grant(
                shares=granted[place][keyword],
                containers=tuple(container.name for container in wish.containers),
                devices={card.id: card for card in seen.cards.get(rows[place], ())},
                node=state.name,
                node_notes=state.notes,
                pod_notes=wish.notes,
                request=wish,
            )
            added[place] += weight * vendor.node_score(state, grant, node_policy)
    return added
