"""What preemption would do for a pod that fits nowhere, or why it does nothing.

For those who may see every namespace: pods and budgets are named. Nothing is decided here;
rules and plan are those of a ``look``.
"""

import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from vgpu_operator.flows import pod_events
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.preemption import candidates, look, plan
from vgpu_operator.model import budgets as model_budgets
from vgpu_operator.model import records


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What would be done.

    Attributes:
        answer: the plan, or what stands in its way; None where the pod takes no part.
        sentence: the same in words.
    """

    answer: plan.Answer | None
    sentence: str


def forecast(
    books: Books,
    record: records.PodRecord,
    nodes: Sequence[str],
    budgets: Collection[model_budgets.Budget],
    now: datetime.datetime,
) -> Forecast:
    """Return what the leader would do for a pod that these nodes have refused.

    Args:
        books: what is known; nothing in it changes.
        record: the pod.
        nodes: those that kube-scheduler would offer.
        budgets: all PodDisruptionBudgets.
        now: the time.
    """
    why = candidates.why_not(books, record)
    if why:
        return Forecast(answer=None, sentence=f"Nobody is evicted for it: {why}.")
    answer = look.planned(books, record, nodes, budgets, now)
    match answer:
        case plan.Plan():
            words = f"Evicting {named(answer.victims)} from {answer.node} makes room for it"
            if books.settings.preemption.dry_run:
                words += "; preemption.dryRun is on, so nothing is evicted"
        case plan.Waits() if answer.pods:
            pods = ", ".join(map(str, answer.pods))
            words = f"It fits on {answer.node} once {pods} have ended, which are being deleted"
        case plan.Waits():
            words = f"It fits on {answer.node}"
        case plan.Blocked():
            forbidding = " and ".join(f"PodDisruptionBudget {one}" for one in answer.budgets)
            words = (
                f"Evicting {named(answer.victims)} from {answer.node} would make room for it, but"
                f" {forbidding} allows no more evictions now, so nothing is evicted"
            )
        case plan.NoPlan():
            words = _no_plan(books, record, nodes, now)
    return Forecast(answer=answer, sentence=f"{words}.")


def hold(
    books: Books, record: records.PodRecord, found: plan.Plan | plan.Waits, now: datetime.datetime
) -> None:
    """Have the plan count for pods that are asked about next: cards held, victims on their way."""
    until = now + datetime.timedelta(seconds=books.settings.preemption.time_limit_s)
    books.ledger.nominate(record.request, record.priority, found.allocation, until)
    victims = found.victims if isinstance(found, plan.Plan) else ()
    for victim in victims:
        known = books.ledger.record(victim.key.uid)
        if known is not None:
            pod_events.pod_seen(books, dataclasses.replace(known, deleting=True))


def named(victims: Iterable[plan.Victim]) -> str:
    """Return pods with their priorities.

    >>> from vgpu_operator.model import request
    >>> key = request.PodKey(uid="u", namespace="team", name="low")
    >>> named([plan.Victim(key=key, priority=10)])
    'team/low (priority 10)'
    """
    return ", ".join(f"{victim.key} (priority {victim.priority})" for victim in victims)


def _no_plan(
    books: Books, record: records.PodRecord, nodes: Sequence[str], now: datetime.datetime
) -> str:
    """Return why nobody's leaving would help; a rule that stands in the way is named."""
    gap = books.settings.preemption.min_priority_gap

    def helps(min_gap: int, may_go: Callable[[records.PodRecord], bool]) -> bool:
        found = plan.plan(
            books,
            record.request,
            priority=record.priority,
            nodes=nodes,
            budgets=(),
            may_go=may_go,
            now=now,
            min_gap=min_gap,
        )
        return isinstance(found, plan.Plan)

    def may_go(victim: records.PodRecord) -> bool:
        return candidates.may_go(books, victim)

    below = f"priority {record.priority}"
    if gap > 1 and helps(1, may_go):
        return (
            f"Nobody is evicted for it: pods whose leaving would help are less than"
            f" preemption.minPriorityGap ({gap}) below its {below}"
        )
    if helps(gap, lambda _: True):
        return (
            "Nobody is evicted for it: pods whose leaving would help are exempt, by"
            " preemption.exemptNamespaces, preemption.exemptPriorityClasses or because the"
            " cluster needs them (system-node-critical, system-cluster-critical)"
        )
    return (
        f"Nobody is evicted for it: on no node it would fit without pods of a lower priority than"
        f" its own ({record.priority})"
    )
