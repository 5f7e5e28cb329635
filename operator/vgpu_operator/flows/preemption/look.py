"""A look at a refused pod: is there a plan, and are its cards held from this very step on."""

import collections
import dataclasses
import datetime
import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from vgpu_operator.flows import effects
from vgpu_operator.flows.books import Books, Refusal, alike
from vgpu_operator.flows.preemption import candidates, course, plan, told
from vgpu_operator.flows.preemption.attempts import RETRY, Attempt, Candidate, Outcome
from vgpu_operator.model import budgets as model_budgets
from vgpu_operator.model import records, request

CLAIMS: Final = datetime.timedelta(milliseconds=250)
"""How long is waited, each time, for pods that another filter expects to be bound."""

PLANNED: Final = datetime.timedelta(seconds=60)
"""How long after it was planned for in a dry run a pod is not looked at."""

FOREIGN: Final = datetime.timedelta(seconds=30)
"""How long a node that kube-scheduler has nominated is left to it: its own victims have a
grace period of so long, where nobody says otherwise."""

LONGEST_BLOCKED: Final = datetime.timedelta(seconds=30)
"""How long at most no look is made for a pod that budgets keep waiting."""

LONGEST_CLAIMS: Final = datetime.timedelta(seconds=4)
"""How long at most no look is made while others are expected to be bound."""

ANEW: Final = datetime.timedelta(seconds=1)
"""How long a question that had no plan is not planned for again, whatever has changed: many
pods ask alike, and in a busy cluster something always has."""

HOPELESS: Final = datetime.timedelta(seconds=30)
"""How long it is not planned for again at most: what others claim for a moment is no change."""

_MOST_QUESTIONS: Final = 256
"""Different questions that are kept, of those without a plan and of those that budgets forbid."""

_MOST_DOUBLED: Final = 8
"""How often a pause doubles at most: by then it is the longest one."""

_Known = TypeVar("_Known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at a candidate has brought.

    Attributes:
        attempt: begun; its cards are held in the ledger already.
        outcome: where none was begun, what there is to count.
        wanted: effects that nobody waits for.
        node: what was planned on; empty where nothing was.
        victims: who leaves, or would.
        forbidding: the budgets that forbid it.
    """

    attempt: Attempt | None = None
    outcome: Outcome | None = None
    wanted: tuple[effects.Effect, ...] = ()
    node: str = ""
    victims: tuple[request.PodKey, ...] = ()
    forbidding: tuple[model_budgets.Budget, ...] = ()


NOTHING: Final = Look()


def look(
    books: Books,
    candidate: Candidate,
    budgets: Collection[model_budgets.Budget],
    now: datetime.datetime,
) -> Look:
    """Look for a plan as things stand now; where there is one, hold its cards.

    Args:
        books: what is known.
        candidate: a pod that was refused.
        budgets: all PodDisruptionBudgets, as listed a moment ago.
        now: the time.
    """
    if not is_worth_it(books, candidate, now):
        return NOTHING
    uid = candidate.record.key.uid
    refusal = books.refused[uid]
    record = books.ledger.record(uid) or candidate.record
    question = _question(books, refusal, record, candidate.lingering, now)
    left = _left(books, budgets)
    answer: plan.Answer | None = _forbidden(books, question, left)
    if answer is None:
        answer = planned(books, record, refusal.nodes, left, now, lingering=candidate.lingering)
    if not isinstance(answer, plan.Blocked):
        candidate.blocked = 0
    if not isinstance(answer, plan.Plan):
        candidate.planned = ()
    match answer:
        case plan.Waits() if not answer.pods:
            candidate.not_before = now + CLAIMS  # it is woken for that, and asked about again
            return NOTHING
        case plan.Plan() | plan.Waits():
            return _begun(books, candidate, record, answer, now)
        case plan.Blocked():
            _keep(books.preemption.forbidden, question, ((_standing(books), left), answer))
            return _blocked(books, candidate, record, answer, now)
        case plan.NoPlan():
            _keep(books.preemption.hopeless, question, (_standing(books), now))
            candidate.not_before = now + RETRY
            return NOTHING


def is_worth_it(books: Books, candidate: Candidate, now: datetime.datetime) -> bool:
    """Return whether a plan is to be made: what is known without the budgets speaks for it.

    Where none is, it is noted when to look again.
    """
    uid = candidate.record.key.uid
    candidate.look_at = None
    refusal = books.refused.get(uid)
    record = books.ledger.record(uid) or candidate.record
    if refusal is None or record.node or record.ended or uid in books.binding:
        return False
    if uid in books.preemption.attempts:
        return False
    if not books.leader or not candidates.may_evict(books, record):
        return False
    if _is_left_to_scheduler(candidate, record, now):
        candidate.look_at = now + RETRY
        return False
    question = _question(books, refusal, record, candidate.lingering, now)
    if _is_hopeless(books, question, candidate, now):
        return False
    if candidates.fits(books, candidate, refusal, now):
        # Perhaps the others go elsewhere: nobody is evicted for what a moment may show.
        candidate.look_at = now + min(CLAIMS * 2**candidate.claimed, LONGEST_CLAIMS)
        candidate.claimed = min(candidate.claimed + 1, _MOST_DOUBLED)
        return False
    candidate.claimed = 0
    return True


def _is_hopeless(
    books: Books, question: object, candidate: Candidate, now: datetime.datetime
) -> bool:
    """Whether there is no plan, as was found a moment ago or as nothing has changed since."""
    kept = books.preemption.hopeless.get(question)
    if kept is None:
        return False
    standing, at = kept
    if at <= now < at + HOPELESS and standing == _standing(books):
        candidate.not_before = now + RETRY
        return True
    if at <= now < at + ANEW:
        candidate.look_at = at + ANEW
        return True
    return False


def _question(
    books: Books,
    refusal: Refusal,
    record: records.PodRecord,
    lingering: frozenset[str],
    now: datetime.datetime,
) -> object:
    """Return what two pods have in common for which there is no plan alike."""
    nodes = candidates.open_nodes(books, refusal, now)
    others = _planned_for_others(books, record)
    return alike(refusal.request), record.priority, nodes, lingering, others


def _standing(books: Books) -> object:
    """Return what changes whenever there may be another plan.

    A pod that turns from expected to bound, or begins to leave, frees nothing yet: that is no
    change for a filter.
    """
    return books.ledger.generation, books.ledger.stakes.changes


def _forbidden(
    books: Books, question: object, budgets: tuple[model_budgets.Budget, ...]
) -> plan.Blocked | None:
    """Return the answer of before, where budgets forbade every plan and nothing has changed."""
    kept = books.preemption.forbidden.get(question)
    if kept is None:
        return None
    given, answer = kept
    is_same = given == (_standing(books), budgets)
    return answer if is_same and isinstance(answer, plan.Blocked) else None


def planned(
    books: Books,
    record: records.PodRecord,
    nodes: Sequence[str],
    budgets: Collection[model_budgets.Budget],
    now: datetime.datetime,
    *,
    lingering: Collection[str] = (),
) -> plan.Answer:
    """Return the plan for a pod on some of the nodes, by the configured rules."""
    return plan.plan(
        books,
        record.request,
        priority=record.priority,
        nodes=nodes,
        budgets=budgets,
        may_go=functools.partial(_may_go, books, _planned_for_others(books, record)),
        exempt=lambda victim: not candidates.may_go(books, victim),
        now=now,
        min_gap=books.settings.preemption.min_priority_gap,
        lingering=lingering,
    )


def _may_go(books: Books, others: Collection[str], victim: records.PodRecord) -> bool:
    """Whether a pod may be evicted, its priority aside, and is not planned for somebody else."""
    return victim.key.uid not in others and candidates.may_go(books, victim)


def _planned_for_others(books: Books, record: records.PodRecord) -> frozenset[str]:
    """Return the UIDs of who would leave for another pod by now, were this no dry run.

    A dry run holds nothing; all who wait would be told of the same pods.
    """
    if not books.settings.preemption.dry_run:
        return frozenset()
    return frozenset(
        victim.uid
        for candidate in books.preemption.candidates.values()
        if candidate.record.key != record.key and candidate.record.priority >= record.priority
        for victim in candidate.planned
    )


def _is_left_to_scheduler(
    candidate: Candidate, record: records.PodRecord, now: datetime.datetime
) -> bool:
    """Whether kube-scheduler itself evicts pods for this one, for what it counts."""
    if not record.nominated_node or record.nomination:
        candidate.foreign_since = None
        return False
    candidate.foreign_since = candidate.foreign_since or now
    return now - candidate.foreign_since < FOREIGN


def _left(
    books: Books, budgets: Collection[model_budgets.Budget]
) -> tuple[model_budgets.Budget, ...]:
    """Return the budgets as they will be once all victims so far have been evicted."""
    going = {
        victim.uid: record
        for attempt in books.preemption.attempts.values()
        for victim in attempt.victims
        if (record := books.ledger.record(victim.uid)) is not None
        and not record.deleting
        and record.phase != "Pending"  # the Eviction API asks no budget for it
        # One that has been evicted counts on: the list may be older than that. A newer one
        # names it among its ``disruptedPods`` until it is seen to be deleted.
    }
    by_namespace = collections.defaultdict(list)
    for record in going.values():
        by_namespace[record.key.namespace].append(record)
    return tuple(_less(budget, by_namespace.get(budget.namespace, ())) for budget in budgets)


def _less(
    budget: model_budgets.Budget, going: Collection[records.PodRecord]
) -> model_budgets.Budget:
    """Return a budget as it will be once these pods have been evicted."""
    taken = sum(
        budget.covers(record.key.namespace, record.labels)
        and record.key.name not in budget.disrupted
        for record in going
    )
    return dataclasses.replace(budget, allowed=max(0, budget.allowed - taken)) if taken else budget


def _begun(
    books: Books,
    candidate: Candidate,
    record: records.PodRecord,
    found: plan.Plan | plan.Waits,
    now: datetime.datetime,
) -> Look:
    """Hold the cards of a plan, in the step in which it was made."""
    victims = tuple(one.key for one in found.victims) if isinstance(found, plan.Plan) else ()
    if books.settings.preemption.dry_run:
        candidate.look_at = now + PLANNED
        is_new, candidate.planned = victims != candidate.planned, victims
        if not victims:
            return NOTHING
        if is_new:
            books.tallies.preemptions[Outcome.PLANNED] += 1
        told_of = told.planned(record.key, found.node, victims)
        return Look(outcome=Outcome.PLANNED, wanted=(told_of,), node=found.node, victims=victims)
    until = now + datetime.timedelta(seconds=books.settings.preemption.time_limit_s)
    attempt = course.begin(books, record, found, since=candidate.since, until=until)
    if attempt is None:
        return NOTHING
    return Look(attempt=attempt, node=found.node, victims=victims)


def _blocked(
    books: Books,
    candidate: Candidate,
    record: records.PodRecord,
    found: plan.Blocked,
    now: datetime.datetime,
) -> Look:
    if not candidate.blocked:  # the same wait counts once, however often it is looked at
        books.tallies.preemptions[Outcome.BLOCKED] += 1
    candidate.look_at = now + min(RETRY * 2**candidate.blocked, LONGEST_BLOCKED)
    candidate.blocked = min(candidate.blocked + 1, _MOST_DOUBLED)
    return Look(
        outcome=Outcome.BLOCKED,
        wanted=(told.blocked(record.key, found.node, found.budgets),),
        node=found.node,
        forbidding=tuple(found.budgets),
    )


def _keep(kept: dict[object, _Known], question: object, known: _Known) -> None:
    """Keep what is known of a question, for all pods that ask alike; the oldest go."""
    kept.pop(question, None)
    kept[question] = known
    while len(kept) > _MOST_QUESTIONS:
        del kept[next(iter(kept))]
