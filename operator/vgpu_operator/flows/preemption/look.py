"""A look at a refused pod: is there a plan, and are its cards held from this very step on."""

import dataclasses
import datetime
import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_operator.flows import effects, quotas
from vgpu_operator.flows.books import Books, Refusal, alike
from vgpu_operator.flows.preemption import candidates, plan, told
from vgpu_operator.flows.preemption.attempts import RETRY, Attempt, Candidate, Outcome
from vgpu_operator.model import budgets as model_budgets
from vgpu_operator.model import records, request
from vgpu_operator.scheduling import fit

CLAIMS: Final = datetime.timedelta(milliseconds=250)
"""How long is waited, each time, for pods that another filter expects to be bound."""

PLANNED: Final = datetime.timedelta(seconds=60)
"""How long after it was planned for in a dry run a pod is not looked at."""

FOREIGN: Final = datetime.timedelta(seconds=30)
"""How long a node that kube-scheduler has nominated is left to it: its own victims have a
grace period of so long, where nobody says otherwise."""

_MOST_QUESTIONS: Final = 256
"""Different questions without a plan that are kept."""


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
    uid = candidate.record.key.uid
    candidate.look_at = None
    refusal = books.refused.get(uid)
    record = books.ledger.record(uid) or candidate.record
    if refusal is None or record.node or record.ended or uid in books.binding:
        return NOTHING
    if uid in books.preemption.attempts or not candidates.may_evict(books, record):
        return NOTHING
    if _is_left_to_scheduler(candidate, record, now):
        candidate.look_at = now + RETRY
        return NOTHING
    question = alike(refusal.request), record.priority, refusal.nodes
    if books.preemption.hopeless.get(question) == books.ledger.generation:
        candidate.not_before = now + RETRY
        return NOTHING
    if _fits_without_claims(books, refusal, record.priority, now):
        candidate.look_at = now + CLAIMS
        return NOTHING
    answer = planned(books, record, refusal.nodes, _left(books, budgets), now)
    match answer:
        case plan.Waits() if not answer.pods:
            candidate.not_before = now + CLAIMS  # it is woken for that, and asked about again
            return NOTHING
        case plan.Plan() | plan.Waits():
            return _begun(books, candidate, record, answer, now)
        case plan.Blocked():
            return _blocked(books, candidate, record, answer, now)
        case plan.NoPlan():
            _note_hopeless(books, question)
            candidate.not_before = now + RETRY
            return NOTHING


def planned(
    books: Books,
    record: records.PodRecord,
    nodes: Sequence[str],
    budgets: Collection[model_budgets.Budget],
    now: datetime.datetime,
) -> plan.Answer:
    """Return the plan for a pod on some of the nodes, by the configured rules."""
    return plan.plan(
        books,
        record.request,
        priority=record.priority,
        nodes=nodes,
        budgets=budgets,
        may_go=functools.partial(candidates.may_go, books),
        now=now,
        min_gap=books.settings.preemption.min_priority_gap,
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


def _fits_without_claims(
    books: Books, refusal: Refusal, priority: int, now: datetime.datetime
) -> bool:
    """Whether only pods keep it off that a filter expects to be bound in a moment.

    Perhaps they go elsewhere; nobody is evicted for what a moment may show.
    """
    nodes, wish = candidates.open_nodes(books, refusal, now), refusal.request
    view = books.ledger.snapshot(
        with_claims=False, without_claim_of=wish.pod.uid, for_priority=priority
    )
    allowances = quotas.allowances(books, wish.pod)
    return bool(fit.place(view, nodes, wish, books.defaults, allowances=allowances).fitting)


def _left(
    books: Books, budgets: Collection[model_budgets.Budget]
) -> tuple[model_budgets.Budget, ...]:
    """Return the budgets as they will be once all victims so far have been evicted."""
    going = [
        record
        for attempt in books.preemption.attempts.values()
        for victim in attempt.victims
        if victim.uid not in attempt.evicted
        and (record := books.ledger.record(victim.uid)) is not None
        and not record.deleting
        and record.phase != "Pending"  # the Eviction API asks no budget for it
    ]
    if not going:
        return tuple(budgets)
    left = []
    for budget in budgets:
        taken = sum(
            budget.covers(record.key.namespace, record.labels)
            and record.key.name not in budget.disrupted
            for record in going
        )
        left.append(dataclasses.replace(budget, allowed=max(0, budget.allowed - taken)))
    return tuple(left)


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
        if not victims:
            return NOTHING
        books.tallies.preemptions[Outcome.PLANNED] += 1
        told_of = told.planned(record.key, found.node, victims)
        return Look(outcome=Outcome.PLANNED, wanted=(told_of,), node=found.node, victims=victims)
    attempt = Attempt(
        pod=record.key,
        priority=record.priority,
        node=found.node,
        victims=victims,
        since=candidate.since,
        until=now + datetime.timedelta(seconds=books.settings.preemption.time_limit_s),
    )
    kept = books.ledger.nominate(record.request, record.priority, found.allocation, attempt.until)
    if not kept:
        return NOTHING
    books.preemption.attempts[record.key.uid] = attempt
    wanted = (told.preempting(attempt),) if victims else ()
    return Look(attempt=attempt, wanted=wanted, node=found.node, victims=victims)


def _blocked(
    books: Books,
    candidate: Candidate,
    record: records.PodRecord,
    found: plan.Blocked,
    now: datetime.datetime,
) -> Look:
    candidate.look_at = now + RETRY
    books.tallies.preemptions[Outcome.BLOCKED] += 1
    return Look(
        outcome=Outcome.BLOCKED,
        wanted=(told.blocked(record.key, found.node, found.budgets),),
        node=found.node,
        forbidding=tuple(found.budgets),
    )


def _note_hopeless(books: Books, question: object) -> None:
    """Keep that there is no plan as things stand, for all pods that ask alike."""
    kept = books.preemption.hopeless
    kept[question] = books.ledger.generation
    while len(kept) > _MOST_QUESTIONS:
        del kept[next(iter(kept))]
