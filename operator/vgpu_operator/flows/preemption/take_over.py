"""A new leader goes on with what the one before has begun, or takes its marks off."""

import datetime

from vgpu_operator.flows import effects
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.preemption import candidates, look, plan
from vgpu_operator.flows.preemption.attempts import Attempt
from vgpu_operator.model import records
from vgpu_operator.wire import nomination


def take_over(books: Books, now: datetime.datetime) -> effects.Reaction:
    """Go on with the attempts of the leader before this one, or take their marks off.

    Cards are held again before anybody is answered. Who has yet to leave is planned anew, on
    the node that was chosen; the API server has the last word on budgets. Evictions wait until
    this leader's own filter refuses the pod.
    """
    wanted: list[effects.Effect] = []
    if not books.settings.preemption.enabled or books.settings.preemption.dry_run:
        return effects.NOTHING  # nothing may be written, and nothing is held for these marks
    for record in books.ledger.records():
        if not record.nomination or record.key.uid in books.preemption.attempts:
            continue
        if not _goes_on(books, record, now):
            wanted.append(effects.NominateNode(pod=record.key, node=None))
    return effects.Reaction(effects=tuple(wanted))


def _goes_on(books: Books, record: records.PodRecord, now: datetime.datetime) -> bool:
    """Hold the cards again that the pod was promised; return whether there is anything to hold."""
    left = nomination.decode_nomination(record.nomination)
    configured = books.settings.preemption
    if left is None or left.until <= now or record.node or record.ended:
        return False
    if not candidates.may_evict(books, record):
        return False
    answer = look.planned(books, record, (left.node,), (), now)
    if not isinstance(answer, plan.Plan | plan.Waits):
        return False
    limit = now + datetime.timedelta(seconds=configured.time_limit_s)
    attempt = Attempt(
        pod=record.key,
        priority=record.priority,
        node=left.node,
        victims=tuple(one.key for one in answer.victims) if isinstance(answer, plan.Plan) else (),
        since=now,
        until=min(left.until, limit),
        written=True,
    )
    if not books.ledger.nominate(record.request, record.priority, answer.allocation, attempt.until):
        return False
    books.preemption.attempts[record.key.uid] = attempt
    return True
