"""Attempts that nothing comes of any more, though their cards are still kept."""

import datetime

from vgpu_operator.flows import quotas
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.preemption import plan
from vgpu_operator.flows.preemption.attempts import Attempt
from vgpu_operator.ledger import nominations
from vgpu_operator.model import quota


def is_stuck(books: Books, attempt: Attempt, now: datetime.datetime) -> bool:
    """Whether a pod that the attempt waits for should have been gone long ago."""
    if attempt.pod.uid not in books.refused:
        return False
    found = (books.ledger.record(key.uid) for key in attempt.waited_for)
    ends = (one.leaves_by for one in found if one is not None and not one.ended)
    return any(end is not None and now > end + plan.LATE for end in ends)


def is_over_quota(books: Books, attempt: Attempt, kept: nominations.Nomination) -> bool:
    """Whether the namespace's quota leaves no room for what is kept.

    Not even once all have left who are to leave, and those that the pod has to wait for have
    got what is kept for them.
    """
    allowances = quotas.allowances(books, attempt.pod)
    if not allowances:
        return False
    reserved = plan.reserved(books, attempt.pod, attempt.priority)
    returned = _returned(books, attempt)
    return not all(
        allowance.less(
            reserved.get(vendor, quota.NOTHING) - returned.get(vendor, quota.NOTHING)
        ).covers(kept.holding.against_quota.get(vendor, quota.NOTHING))
        for vendor, allowance in allowances.items()
    )


def _returned(books: Books, attempt: Attempt) -> quota.Used:
    """Return what the quota gets back from those who are to leave."""
    leaving = {key.uid for key in attempt.waited_for}
    leaving |= plan.promised(books, attempt.pod.uid, attempt.priority)
    returned: dict[str, quota.Amount] = {}
    for uid in leaving:
        record, held = books.ledger.record(uid), books.ledger.holding(uid)
        if record is None or held is None or record.key.namespace != attempt.pod.namespace:
            continue
        for vendor, amount in held.against_quota.items():
            returned[vendor] = returned.get(vendor, quota.NOTHING) + amount
    return returned
