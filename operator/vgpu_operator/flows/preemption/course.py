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

import datetime
import enum
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from vgpu_operator.flows import effects
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.books import Books, Refusal
from vgpu_operator.flows.preemption import candidates, plan, told
from vgpu_operator.flows.preemption.attempts import RETRY, Attempt, Outcome
from vgpu_operator.model import request
from vgpu_operator.wire import nomination

REFUSED: Final = datetime.timedelta(seconds=60)
"""How long after an attempt that the API server has refused for good none is begun."""

PAUSE_S: Final = 5.0
"""How long is waited before an eviction is tried again, where the server names no time."""

LONGEST_PAUSE_S: Final = 10.0
HOLD_S: Final = 0.25
"""How long an eviction waits before it looks again, while its pod fits."""

WRITE_TRIES: Final = 3


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
    """An attempt that is over, and the effects that follow from it."""

    attempt: Attempt
    outcome: Outcome
    wanted: tuple[effects.Effect, ...]


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
        or _fits(books, attempt, refusal, now)
    ):
        return Standing.HOLD
    found = _replanned(books, attempt, now)
    helps = isinstance(found, plan.Plan) and victim in (one.key for one in found.victims)
    return Standing.GO if helps else Standing.HOLD


def _fits(books: Books, attempt: Attempt, refusal: Refusal, now: datetime.datetime) -> bool:
    """Whether the pod of an attempt would be answered otherwise as things stand now."""
    asked = books.ledger.generation, refusal.nodes
    if attempt.fitted is not None and attempt.fitted[:2] == asked:
        return attempt.fitted[2]
    nodes = candidates.open_nodes(books, refusal, now)
    fits = bool(flow_filter.place(books, refusal.request, nodes).fitting)
    attempt.fitted = *asked, fits
    return fits


def _replanned(books: Books, attempt: Attempt, now: datetime.datetime) -> plan.Answer | None:
    """Return what the plan has become: on its node, with none but its own victims.

    None where the pod is not known.
    """
    record = books.ledger.record(attempt.pod.uid)
    if record is None:
        return None
    victims = {victim.uid for victim in attempt.victims}
    return plan.plan(
        books,
        record.request,
        priority=attempt.priority,
        nodes=(attempt.node,),
        budgets=(),  # the API server's word counts
        may_go=lambda one: one.key.uid in victims,
        now=now,
        min_gap=books.settings.preemption.min_priority_gap,
    )


def write_nomination(books: Books, attempt: Attempt) -> Generator[effects.Effect, Any, str]:
    """Write the nomination on the pod; return why that failed for good, empty when it stands."""
    mark = nomination.encode_nomination(
        nomination.Nomination(
            node=attempt.node,
            until=attempt.until,
            victims=tuple(victim.uid for victim in attempt.victims),
        )
    )
    why = ""
    for _ in range(WRITE_TRIES):
        if books.preemption.attempts.get(attempt.pod.uid) is not attempt:
            return ""
        try:
            yield effects.NominateNode(pod=attempt.pod, node=attempt.node, mark=mark)
        except (effects.Conflict, effects.Doubtful) as fault:
            why = str(fault)
            yield effects.Pause(seconds=HOLD_S)
        except effects.Missing:
            return ""  # its deletion is on the way to us
        except effects.EffectFailed as fault:
            return str(fault)
        else:
            attempt.written = True
            return ""
    return why


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
            return str(fault)
        else:
            attempt.evicted.add(victim.uid)
            books.tallies.preemption_victims += 1
            yield told.preempted(victim, attempt)
            return ""


def settle(books: Books, now: datetime.datetime) -> tuple[Ended, ...]:
    """End every attempt that is over."""
    ended = []
    for attempt in tuple(books.preemption.attempts.values()):
        outcome = _outcome(books, attempt, now)
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
    if books.ledger.nomination(uid) is not None or record is None:
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
    books.tallies.preemptions[outcome] += 1
    if outcome is Outcome.BOUND:
        took = (attempt.bound_at or now) - attempt.since
        books.tallies.preempted.note(took.total_seconds())
    wanted: list[effects.Effect] = []
    if outcome is not Outcome.GONE:
        wanted.append(effects.NominateNode(pod=attempt.pod, node=None))
    complaint = told.failed(attempt, outcome, why)
    if complaint is not None:
        wanted.append(complaint)
    return Ended(attempt=attempt, outcome=outcome, wanted=tuple(wanted))
