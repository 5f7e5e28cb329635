"""What must hold of pods that leave for others: invariants 10 and 11.

When a plan is made, when an eviction leaves a process, when the API server lets a
pod go, and at the end. Whether a pod fits is asked of the code that chooses cards,
on a copy of one node, set by set: not of the search that has found the plan.
"""

import contextlib
import dataclasses
import datetime
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias
from unittest import mock

from simulation import history, oracle, schedulers
from simulation.server import Change, Json
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import one_node, quotas
from vgpu_operator.flows.preemption import attempts, candidates, plan
from vgpu_operator.flows.preemption import look as preemption_look
from vgpu_operator.model import allocation, records, request
from vgpu_operator.scheduling import choose
from vgpu_operator.wire import budgets as wire_budgets
from vgpu_operator.wire import nomination

Books: TypeAlias = flow_books.Books


def family(pod: Json) -> str:
    """Return the name that a pod shares with those that were created in its place."""
    return str(pod["metadata"]["name"]).partition(".")[0]


class Marks:
    """Every nomination that has ever stood on a pod, and every pod that was evicted.

    Attributes:
        victims: UIDs by UID of the pod that they leave for.
        pods: the pods with a nomination, as they were last.
        exchanged: how often a family has left for another.
    """

    def __init__(self) -> None:
        self.victims: dict[str, set[str]] = {}
        self.pods: dict[str, Json] = {}
        self.exchanged: Counter[tuple[str, str]] = Counter()

    def learn(self, change: Change) -> None:
        """Take in a change of a pod."""
        raw = change.after
        if raw is None:
            return
        found = nomination.decode_nomination(oracle.notes(raw).get(oracle.NOMINATION, ""))
        if found is not None:
            uid = raw["metadata"]["uid"]
            self.victims.setdefault(uid, set()).update(found.victims)
            self.pods[uid] = raw

    def evicted(self, victim: Json, told: history.History) -> Iterator[str]:
        """Yield what is wrong with an eviction that the API server has let happen."""
        name, uid = victim["metadata"]["name"], victim["metadata"]["uid"]
        whose = [self.pods[pod] for pod, victims in self.victims.items() if uid in victims]
        gap = told.settings.get("preemption", {}).get("minPriorityGap", 1)
        least = oracle.priority(victim) + gap
        above = [pod for pod in whose if oracle.priority(pod) >= least]
        if not whose:
            yield f"{name} is evicted, and no nomination ever named it"
        elif not above:
            yield f"{name} is evicted for {_names(whose)}, of no higher priority"
        for pod in above:
            self.exchanged[family(victim), family(pod)] += 1

    def exchanges(self, most: int) -> Iterator[str]:
        """Yield who has left for whom more often than that."""
        for (victim, pod), times in self.exchanged.items():
            if times > most:
                yield f"{victim} was evicted {times} times for {pod}"


def unfounded(books: Books, victim: str, marks: Marks, now: datetime.datetime) -> Iterator[str]:
    """Yield why a process had no ground to evict, as far as it knows itself."""
    whose = [
        attempt
        for attempt in books.preemption.attempts.values()
        if victim in (one.uid for one in attempt.victims)
    ]
    if not whose:
        yield f"{victim} is evicted for no attempt of this process"
    problems = [list(_unfounded(books, attempt, victim, marks, now)) for attempt in whose]
    if problems and all(problems):
        yield from problems[0]


def _unfounded(
    books: Books,
    attempt: attempts.Attempt,
    victim: str,
    marks: Marks,
    now: datetime.datetime,
) -> Iterator[str]:
    uid, name = attempt.pod.uid, f"{victim} is evicted for {attempt.pod.name}"
    pod, leaving = books.ledger.record(uid), books.ledger.record(victim)
    if books.ledger.nomination(uid) is None:
        yield f"{name}, for which no cards are held"
    if now >= attempt.until:
        yield f"{name}, whose time was over at {attempt.until:%H:%M:%S}"
    if victim not in marks.victims.get(uid, ()):
        yield f"{name}, on which no such nomination has ever stood"
    if pod is None or books.ledger.gone(uid):
        yield f"{name}, which is gone"
    elif pod.node or pod.ended or pod.deleting or pod.never_preempts:
        yield f"{name}, which is bound, has ended, is going or never preempts"
    elif leaving is not None:
        yield from _needless(books, attempt, pod, name, now)
        configured = books.settings.preemption
        if leaving.priority > pod.priority - configured.min_priority_gap:
            yield f"{name}: priority {leaving.priority} for {pod.priority}"
        exempt = {*configured.exempt_priority_classes} & {
            pod.priority_class,
            leaving.priority_class,
        }
        if exempt:
            yield f"{name}, and {exempt} takes no part"


def _needless(
    books: Books,
    attempt: attempts.Attempt,
    pod: records.PodRecord,
    name: str,
    now: datetime.datetime,
) -> Iterator[str]:
    """Yield where a pod fits although nobody else leaves."""
    refusal = books.refused.get(pod.key.uid)
    if refusal is None:
        yield f"{name}, which nobody has refused"
        return
    for node in candidates.open_nodes(books, refusal, now):
        gone = _gone(books, pod, now) if node == attempt.node else frozenset()
        if node in books.nodes and _fits(books, pod, node, gone):
            yield f"{name}, which fits on {node} anyway"


@contextlib.contextmanager
def watched(report: Callable[[str], None]) -> Iterator[None]:
    """Have every plan that is acted on be judged in the step in which it is made."""
    look = preemption_look.look

    def judged(
        books: Books, candidate: attempts.Candidate, budgets: Any, now: datetime.datetime
    ) -> preemption_look.Look:
        found = look(books, candidate, budgets, now)
        if found.attempt is not None:
            record = books.ledger.record(found.attempt.pod.uid) or candidate.record
            gone = _gone(books, record, now) - candidate.lingering
            for text in in_vain(books, record, found.attempt, gone):
                report(text)
        return found

    with mock.patch.object(preemption_look, "look", judged):
        yield


def in_vain(
    books: Books,
    record: records.PodRecord,
    attempt: attempts.Attempt,
    gone: frozenset[str],
) -> Iterator[str]:
    """Yield the victims without whose leaving the pod would fit, or that it does not fit.

    Args:
        books: what is known.
        record: the pod.
        attempt: the plan.
        gone: UIDs of pods that leave anyway.
    """
    uids = {victim.uid for victim in attempt.victims}
    for key in attempt.victims:
        victim = books.ledger.record(key.uid)
        if victim is None or victim.priority >= record.priority:
            yield f"{key.name} is to leave for {record.key.name}, of no higher priority"
    if not _fits(books, record, attempt.node, gone | uids):
        yield f"{record.key.name} does not fit on {attempt.node} once its victims have left"
        return
    for key in attempt.victims:
        if _fits(books, record, attempt.node, gone | uids - {key.uid}):
            yield f"{key.name} is to leave {attempt.node}, and {record.key.name} fits beside it"


def _gone(books: Books, record: records.PodRecord, now: datetime.datetime) -> frozenset[str]:
    """Return the UIDs of pods that leave anyway: deleted in time, or promised to others."""
    until = now + datetime.timedelta(seconds=books.settings.preemption.time_limit_s)
    found = {
        one.key.uid
        for one in books.ledger.records()
        if one.deleting and (one.leaves_by is None or now - plan.LATE <= one.leaves_by <= until)
    }
    for kept in books.ledger.nominations_ahead(record.priority, record.key.uid):
        attempt = books.preemption.attempts.get(kept.pod.uid)
        if attempt is not None:
            found |= {victim.uid for victim in attempt.victims}
    return frozenset(found)


def _fits(books: Books, record: records.PodRecord, node: str, gone: Collection[str]) -> bool:
    """Whether a pod fits on a node without some others."""
    scratch = one_node.copied(books, node)
    for one in one_node.pods_on(books, node):
        if one.key.uid in gone:
            scratch.observe(dataclasses.replace(one, phase="Failed"))
    for claim in books.ledger._claims.on(node):
        expected = allocation.Allocation(node=node, shares=claim.holding.shares)
        scratch.claim(claim.wish, expected, claim.until)
    view = scratch.snapshot(without_claim_of=record.key.uid, for_priority=record.priority)
    allowances = quotas.allowances(books, record.key)
    found = choose.choose(view, node, record.request, books.defaults, allowances=allowances)
    return isinstance(found, allocation.Allocation)


# The end.


def unended(objects: Mapping[str, Json], books: Books) -> Iterator[str]:
    """Yield what the leader has not brought to an end."""
    for attempt in books.preemption.attempts.values():
        yield f"{attempt.pod.name} is still waiting for {_keys(attempt.victims)} to leave"
    for kept in books.ledger.nominations():
        yield f"cards of {kept.node} are still held for {kept.pod.name}"
    for pod in oracle.pods(objects):
        if oracle.NOMINATION in oracle.notes(pod):
            yield f"{pod['metadata']['name']} still carries a nomination"


def idle(fresh: Books, objects: Mapping[str, Json], now: datetime.datetime) -> Iterator[str]:
    """Yield the pods that wait although others could leave for them."""
    fresh.leader = True
    budgets = [
        wire_budgets.decode_budget(raw)
        for path, raw in objects.items()
        if "/poddisruptionbudgets/" in path
    ]
    for record in fresh.ledger.records():
        if (
            record.node
            or record.ended
            or record.deleting
            or record.scheduler != schedulers.SCHEDULER_NAME
        ):
            continue
        if not candidates.may_evict(fresh, record):
            continue
        found = preemption_look.planned(fresh, record, sorted(fresh.nodes), budgets, now)
        if isinstance(found, plan.Plan):
            victims = _keys([victim.key for victim in found.victims])
            yield f"{record.key.name} waits although {victims} could leave {found.node} for it"


def _keys(keys: Collection[request.PodKey]) -> str:
    return ", ".join(sorted(key.name for key in keys)) or "nobody"


def _names(pods: Collection[Json]) -> str:
    return ", ".join(sorted(pod["metadata"]["name"] for pod in pods))
