"""A new leader goes on with what the one before has begun, or takes its marks off."""

import datetime
from collections.abc import Callable
from typing import Final

from vgpu_operator.flows import effects, wake
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.preemption import candidates, course, plan
from vgpu_operator.model import records
from vgpu_operator.wire import nomination

_LATEST: Final = datetime.datetime.max.replace(tzinfo=datetime.UTC)


def take_over(
    books: Books,
    now: datetime.datetime,
    *,
    on_fault: Callable[[records.PodRecord, Exception], None] | None = None,
) -> effects.Reaction:
    """Go on with the attempts of the leader before this one, or take their marks off.

    Cards are held again before anybody is answered. Who has yet to leave is planned anew, on
    the node that was chosen and among those that were chosen: the leader before this one has
    seen the budgets. Evictions wait until this leader's own filter refuses the pod, which
    kube-scheduler is made to ask: in a quiet cluster it would in five minutes.

    Args:
        books: what is known.
        now: the time.
        on_fault: told of a pod that cannot be judged; its marks come off. None = it is raised.
    """
    wanted: list[effects.Effect] = []
    if not books.settings.preemption.enabled or books.settings.preemption.dry_run:
        return effects.NOTHING  # nothing may be written, and nothing is held for these marks
    marked = [
        (record, nomination.decode_nomination(record.nomination))
        for record in books.ledger.records()
        if record.nomination and record.key.uid not in books.preemption.attempts
    ]
    for record, left in sorted(marked, key=_turn):
        try:
            goes_on = left is not None and _goes_on(books, record, left, now)
        except Exception as fault:
            if on_fault is None:
                raise
            on_fault(record, fault)
            goes_on = False
        if not goes_on:
            wanted.append(effects.NominateNode(pod=record.key, node=None))
    going_on = next(iter(books.preemption.attempts.values()), None)
    if going_on is not None:
        asked = wake.have_all_asked_again(books, going_on.node)
        wanted += [asked] if asked is not None else []
    return effects.Reaction(effects=tuple(wanted))


def _turn(
    marked: tuple[records.PodRecord, nomination.Nomination | None],
) -> tuple[int, datetime.datetime, str]:
    """Return a key by which those come first that others have to wait for."""
    record, left = marked
    until = left.until if left is not None else _LATEST
    return -record.priority, until, record.key.uid


def _goes_on(
    books: Books,
    record: records.PodRecord,
    left: nomination.Nomination,
    now: datetime.datetime,
) -> bool:
    """Hold cards again for a pod that was promised some; return whether there is any to hold."""
    if left.until <= now or record.node or record.ended:
        return False
    if not candidates.may_evict(books, record):
        return False
    answer = course.replanned(books, record, left.node, left.victims, now)
    if not isinstance(answer, plan.Plan | plan.Waits):
        return False
    limit = now + datetime.timedelta(seconds=books.settings.preemption.time_limit_s)
    until = min(left.until, limit)
    return course.begin(books, record, answer, since=now, until=until, stands=True) is not None
