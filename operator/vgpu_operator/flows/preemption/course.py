"""The course of one preemption, from a refusal until the pod is bound or it is given up.

::

    look ──► plan ──► cards held in the ledger      one step: nobody comes in between
                        │
                        ▼
             nomination written on the pod          a leader after this one finds it
                        │
                        ▼
             each victim evicted by itself          before each request: ``standing``
                        │                           GO, HOLD (the pod fits) or STOP
                        ▼
             the cards come free, the pod is woken and bound ──► ``settle``

Nothing is evicted before the nomination stands on the pod, and nothing after it has ended.
"""

import dataclasses
import datetime
import enum
from collections.abc import Collection, Generator
from dataclasses import dataclass
from typing import Any, Final

from vgpu_operator.flows import effects
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.preemption import candidates, futile, plan, told
from vgpu_operator.flows.preemption.attempts import RETRY, Attempt, Outcome
from vgpu_operator.model import records, request
from vgpu_operator.wire import nomination

REFUSED: Final = datetime.timedelta(seconds=60)
"""How long after an attempt that the API server has refused for good none is begun."""

PAUSE_S: Final = 5.0
"""How long is waited before an eviction is tried again, where the server names no time."""

LONGEST_PAUSE_S: Final = 10.0
HOLD_S: Final = 0.25
"""How long an eviction waits before it looks again, while its pod fits."""

WRITE_TRIES: Final = 3

LONGEST_UNMARK_PAUSE_S: Final = 60.0
"""How long is waited at most before it is tried again to take a mark off."""


class Standing(enum.Enum):
    """Whether a victim is evicted now."""

    GO = enum.auto()
    HOLD = enum.auto()
    """It would not help now: the pod fits or is being bound, others who leave suffice, or not
    even this one's leaving would be enough. ``settle`` says whether that is the end."""
    STOP = enum.auto()
    """The attempt is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An attempt that is over, and the effects that follow from it.

    Attributes:
        fault: of our own, where that has ended it.
    """

    attempt: Attempt
    outcome: Outcome
    wanted: tuple[effects.Effect, ...]
    fault: Exception | None = None


def begin(
    books: Books,
    record: records.PodRecord,
    found: plan.Plan | plan.Waits,
    *,
    since: datetime.datetime,
    until: datetime.datetime,
    stands: bool = False,
) -> Attempt | None:
    """Hold the cards of a plan, in the step in which it was made; None where none can be held.

    Args:
        books: what is known.
        record: the pod.
        found: the plan.
        since: when the pod was refused first.
        until: when the cards are held no longer.
        stands: the nomination stands on the pod already.
    """
    attempt = Attempt(
        pod=record.key,
        priority=record.priority,
        node=found.node,
        victims=tuple(one.key for one in found.victims) if isinstance(found, plan.Plan) else (),
        awaited=found.pods if isinstance(found, plan.Waits) else (),
        since=since,
        until=until,
        written=stands,
        marked=stands,
    )
    if not books.ledger.nominate(record.request, record.priority, found.allocation, until):
        return None
    books.preemption.attempts[record.key.uid] = attempt
    return attempt


def standing(
    books: Books, attempt: Attempt, victim: request.PodKey, now: datetime.datetime
) -> Standing:
    """Return whether a victim is evicted, as things stand in this very step."""
    uid = attempt.pod.uid
    is_under_way = books.preemption.attempts.get(uid) is attempt and books.leader
    if not is_under_way or now >= attempt.until:
        return Standing.STOP
    refusal = books.refused.get(uid)
    if (
        refusal is None
        or books.ledger.nomination(uid) is None
        or candidates.fits(books, attempt, refusal, now)
    ):
        return Standing.HOLD
    found = _replanned(books, attempt, now)
    helps = isinstance(found, plan.Plan) and victim in (one.key for one in found.victims)
    return Standing.GO if helps else Standing.HOLD


def _replanned(books: Books, attempt: Attempt, now: datetime.datetime) -> plan.Answer | None:
    """Return what the plan has become; None where the pod is not known."""
    record = books.ledger.record(attempt.pod.uid)
    if record is None:
        return None
    victims = {victim.uid for victim in attempt.victims}
    return replanned(books, record, attempt.node, victims, now)


def replanned(
    books: Books,
    record: records.PodRecord,
    node: str,
    victims: Collection[str],
    now: datetime.datetime,
) -> plan.Answer:
    """Return the plan for a pod on one node, with none but those who were chosen before.

    Args:
        books: what is known.
        record: the pod.
        node: the one that was chosen.
        victims: UIDs of those.
        now: the time.
    """
    return plan.plan(
        books,
        record.request,
        priority=record.priority,
        nodes=(node,),
        budgets=(),  # the API server's word counts
        may_go=lambda one: one.key.uid in victims and candidates.may_go(books, one),
        now=now,
        min_gap=books.settings.preemption.min_priority_gap,
    )


def write_nomination(books: Books, attempt: Attempt) -> Generator[effects.Effect, Any, str]:
    """Write the nomination on the pod; return why that failed for good, empty when it did not.

    What fails for now is tried again for as long as the attempt is under way.
    """
    mark = nomination.encode_nomination(
        nomination.Nomination(
            node=attempt.node,
            until=attempt.until,
            victims=tuple(victim.uid for victim in attempt.victims),
        )
    )
    pause_s, conflicts = HOLD_S, 0
    while books.preemption.attempts.get(attempt.pod.uid) is attempt:
        before, attempt.marked = attempt.marked, True  # who ends it meanwhile takes the mark off
        try:
            yield effects.NominateNode(pod=attempt.pod, node=attempt.node, mark=mark)
        except effects.Missing:
            return ""  # its deletion is on the way to us
        except effects.Doubtful:
            pass
        except effects.NotYet as fault:
            attempt.marked = before
            pause_s = max(pause_s, min(fault.retry_after_s or 0.0, LONGEST_PAUSE_S))
        except effects.EffectFailed as fault:
            attempt.marked = before
            conflicts += 1
            if not isinstance(fault, effects.Conflict) or conflicts == WRITE_TRIES:
                return str(fault)
        else:
            attempt.written = True
            if attempt.victims and books.preemption.attempts.get(attempt.pod.uid) is attempt:
                yield told.preempting(attempt)
            return ""
        yield effects.Pause(seconds=pause_s)
        pause_s = min(2 * pause_s, PAUSE_S)
    return ""


def unmark(books: Books, pod: request.PodKey) -> Generator[effects.Effect, Any, None]:
    """Take off a pod what a preemption has written on it, however often that has to be tried.

    The end of the term ends it, too: the next leader looks for marks itself.
    """
    pause_s = HOLD_S
    while (
        books.leader
        and pod.uid not in books.preemption.attempts
        and (books.ledger.record(pod.uid) is not None or pod.uid in books.refused)
    ):
        try:
            yield effects.NominateNode(pod=pod, node=None)
        except effects.Missing:
            return
        except effects.EffectFailed:
            yield effects.Pause(seconds=pause_s)
            pause_s = min(2 * pause_s, LONGEST_UNMARK_PAUSE_S)
        else:
            return


def strays(books: Books) -> tuple[request.PodKey, ...]:
    """Return the pods that stand refused and carry a mark of which nothing comes any more."""
    found = []
    for uid in books.refused:
        record = books.ledger.record(uid)
        if record is not None and record.nomination and uid not in books.preemption.attempts:
            found.append(record.key)
    return tuple(found)


def evict(
    books: Books, attempt: Attempt, victim: request.PodKey, now: datetime.datetime
) -> Generator[effects.Effect, Any, str]:
    """Evict one victim, as soon as the API server lets us and as long as that makes sense.

    Returns why the server refused it for good; empty when it did not.
    """
    while True:
        record = books.ledger.record(victim.uid)
        if record is None or record.ended or record.deleting:
            return ""
        if any(victim.uid in one.evicted for one in books.preemption.attempts.values()):
            return ""  # for another pod too, a moment ago: the watch has not shown it yet
        match standing(books, attempt, victim, now):
            case Standing.STOP:
                return ""
            case Standing.HOLD:
                now = yield effects.Pause(seconds=HOLD_S)
                continue
        try:
            yield effects.EvictPod(pod=victim)
        except (effects.Missing, effects.Conflict):
            return ""  # gone, or another pod of that name stands there now
        except effects.NotYet as fault:
            pause_s = fault.retry_after_s or PAUSE_S
            now = yield effects.Pause(seconds=min(pause_s, LONGEST_PAUSE_S))
        except effects.Doubtful:
            now = yield effects.Pause(seconds=PAUSE_S)
        except effects.EffectFailed as fault:
            return told.eviction_refused(attempt, victim, str(fault))
        else:
            attempt.evicted.add(victim.uid)
            books.tallies.preemption_victims += 1
            yield told.preempted(victim, attempt)
            return ""


def settle(books: Books, now: datetime.datetime) -> tuple[Ended, ...]:
    """End every attempt that is over, and each that cannot be judged for a fault of our own."""
    ended = []
    for attempt in tuple(books.preemption.attempts.values()):
        try:
            outcome = _outcome(books, attempt, now)
        except Exception as fault:
            # One pod that nobody can judge keeps no other's attempt from its end.
            failed = end(books, attempt, Outcome.FAILED, now, told.OUR_FAULT)
            ended.append(dataclasses.replace(failed, fault=fault))
            continue
        if outcome is not None:
            ended.append(end(books, attempt, outcome, now))
    candidates.tidy(books)
    return tuple(ended)


def _outcome(books: Books, attempt: Attempt, now: datetime.datetime) -> Outcome | None:
    """Return how an attempt is over; None while it is not."""
    uid = attempt.pod.uid
    record = books.ledger.record(uid)
    if books.ledger.gone(uid) or (record is None and uid not in books.refused):
        return Outcome.GONE
    if record is not None and record.node:
        return Outcome.BOUND if record.node == attempt.node else Outcome.ELSEWHERE
    if record is not None and (record.ended or record.deleting):
        return Outcome.GONE
    if books.ledger.assumed(uid):
        return None  # it is being bound
    if now >= attempt.until:
        return Outcome.TIMED_OUT
    if futile.is_stuck(books, attempt, now):
        return Outcome.OVERTAKEN
    kept = books.ledger.nomination(uid)
    if kept is not None and futile.is_over_quota(books, attempt, kept):
        return Outcome.OVERTAKEN
    if kept is not None or record is None:
        return None
    # A bind of its own has failed, or ``nominated`` has found that it makes no sense any more.
    found = _replanned(books, attempt, now)
    if not isinstance(found, plan.Plan | plan.Waits):
        return Outcome.OVERTAKEN
    books.ledger.nominate(record.request, attempt.priority, found.allocation, attempt.until)
    return None


def end(
    books: Books, attempt: Attempt, outcome: Outcome, now: datetime.datetime, why: str = ""
) -> Ended:
    """End an attempt: its cards are free for others, its marks come off the pod."""
    uid = attempt.pod.uid
    if books.preemption.attempts.get(uid) is attempt:
        del books.preemption.attempts[uid]
        books.ledger.end_nomination(uid)
    candidate = books.preemption.candidates.get(uid)
    if candidate is not None:
        candidate.not_before = now + (REFUSED if outcome is Outcome.FAILED else RETRY)
        candidate.look_at = candidate.not_before if uid in books.refused else None
        if outcome is Outcome.TIMED_OUT:
            candidate.lingering |= {key.uid for key in attempt.waited_for}
    books.tallies.preemptions[outcome] += 1
    if outcome is Outcome.BOUND:
        took = (attempt.bound_at or now) - attempt.since
        books.tallies.preempted.note(took.total_seconds())
    wanted: list[effects.Effect] = []
    if attempt.marked and outcome is not Outcome.GONE:
        wanted.append(effects.NominateNode(pod=attempt.pod, node=None))
    complaint = told.failed(attempt, outcome, why)
    if complaint is not None:
        wanted.append(complaint)
    return Ended(attempt=attempt, outcome=outcome, wanted=tuple(wanted))
