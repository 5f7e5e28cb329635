"""Which cards a pod gets on one node."""

import numpy as np

from vgpu_operator.ledger import snapshot
from vgpu_operator.model import allocation, quota, reason, request
from vgpu_operator.scheduling import explain, fit, grants, walk


def choose(
    view: snapshot.Snapshot,
    node: str,
    wish: request.PodRequest,
    defaults: fit.Defaults,
    *,
    allowances: quota.Allowances = quota.NO_LIMITS,
) -> allocation.Allocation | reason.NodeRejection:
    """Return the cards for every container, or why the node cannot take the pod.

    Agrees with ``fit.place``: it is the same walk over one node. The
    allocation has one entry per container for each vendor, init containers
    first, empty where a container has no device of it; memory is in MiB, a
    percentage worked out. Within an entry the best card comes first.
    """
    if wish.impossible:
        return reason.NodeRejection(detail=wish.impossible, resolvable=False)
    rules = defaults.rules(wish, allowances)
    if not rules.stages:
        return allocation.Allocation(node=node, shares={})
    row = view.row(node)
    if row is None:
        return explain.of_node(explain.Barred.UNKNOWN, "")
    lane = slice(row, row + 1)
    conditions, about = explain.barred(view, wish.vendors, lane, 1)
    if conditions[0]:
        condition, vendor = explain.Barred(int(conditions[0])), wish.vendors[int(about[0])]
        missing = condition is explain.Barred.UNREGISTERED
        why = defaults.why_no_cards(node, vendor) if missing else ""
        return explain.of_node(condition, vendor, why)
    alive = np.ones(1, dtype=np.bool_)
    outcome = walk.walk(view, lane, rules, alive, choosing=True)
    if not outcome.fits[0]:
        empty = walk.walk(view, lane, rules, alive, empty=True)
        verdict = outcome.verdicts[int(outcome.failed_at[0])]
        return explain.of_cards(verdict, 0, resolvable=bool(empty.fits[0]))
    return allocation.Allocation(
        node=node, shares=grants.shares_on(view, row, 0, outcome, rules, wish)
    )
