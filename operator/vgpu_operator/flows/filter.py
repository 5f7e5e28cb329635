"""The filter and prioritize steps: which nodes fit, and how well.

Read-only towards the cluster: no API call, no annotation. The only thing that
stays is a tentative claim, so that the next pod's filter sees the cards that
this pod is about to take.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from vgpu_operator.flows import busy, effects, locks, quotas, reasons
from vgpu_operator.flows.books import Answer, Books, Refusal, Scored, answer_of
from vgpu_operator.ledger import snapshot
from vgpu_operator.model import allocation, reason, records, request
from vgpu_operator.scheduling import choose, fit, score


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterResult:
    """Answer of the filter.

    Attributes:
        fitting: names that fit, in the order asked.
        rejections: why each other name does not.
        events: to be sent; nobody waits for them.
        again: the pod had been refused before, so its refusal is worth a second look.
    """

    fitting: tuple[str, ...]
    rejections: Mapping[str, reason.NodeRejection] = dataclasses.field(default_factory=dict)
    events: tuple[effects.PostEvent, ...] = ()
    again: bool = False

    @property
    def refused(self) -> bool:
        """Whether the pod fits nowhere."""
        return not self.fitting and bool(self.rejections)


def filter_nodes(
    books: Books,
    pod: records.PodRecord,
    nodes: Sequence[str],
    now: datetime.datetime,
) -> FilterResult:
    """Answer which of ``nodes`` can take the pod, and claim cards on the likeliest."""
    wish = pod.request
    if not wish.wants_devices:
        return FilterResult(fitting=tuple(nodes))
    uid = wish.pod.uid
    if uid not in books.binding and uid not in books.bound:
        # A bind that ended in doubt: kube-scheduler would not ask again for a bound pod.
        books.ledger.unassume(uid)
    books.ledger.expire_claims(now)
    stuck = locks.closed_to(books, wish, now)
    known = books.refused.get(uid)
    question = books.question(wish, pod.priority)
    has_nothing = books.ledger.holding(uid) is None and books.ledger.nomination(uid) is None
    if has_nothing and not books.ledger.has_claim(uid):
        # Its answer is that of whoever asked alike: nothing of its own has to be left out.
        kept = books.answers.find(question, nodes, books.ledger.generation, closed=stuck)
        if kept is not None:
            return _refuse(books, pod, kept, known, nodes)

    placement = _place_beside(books, pod, nodes, stuck)
    if placement.fitting:
        books.refused.pop(uid, None)
        best = int(_scores(books, pod, placement).argmax())
        _claim(books, pod, placement.fitting[best], now)
        books.scored = Scored(pod=pod, generation=books.ledger.generation, placement=placement)
        return FilterResult(
            fitting=placement.fitting,
            rejections=placement.rejections,
            events=_success_events(books, wish.pod, placement),
        )
    books.ledger.drop_claim(uid)
    answer = answer_of(placement.rejections)
    if has_nothing:
        answer = books.answers.keep(question, nodes, books.ledger.generation, answer, closed=stuck)
    return _refuse(books, pod, answer, known, nodes)


def _refuse(
    books: Books,
    pod: records.PodRecord,
    answer: Answer,
    known: Refusal | None,
    nodes: Sequence[str],
) -> FilterResult:
    """Note that the pod fits nowhere as things stand; tell it once per set of reasons.

    A pod that was deleted meanwhile is not noted: nothing would ever take it off. Nor is
    that a nominated node refuses it when that is asked for alone: all others follow.
    """
    rejections = answer.rejections
    if known is not None and _is_first_of_two(pod, known, nodes):
        books.refused[pod.key.uid] = dataclasses.replace(known, asked_alone=True)
        return FilterResult(fitting=(), rejections=rejections, again=True)
    if not books.ledger.gone(pod.key.uid):
        books.refused[pod.key.uid] = Refusal(
            request=pod.request,
            nodes=answer.nodes or books.answers.shared(nodes),
            generation=books.ledger.generation,
            texts=answer.texts,
            groups=answer.groups,
            priority=pod.priority,
        )
    told = known is not None and known.told and known.texts == answer.texts
    events = () if told or not rejections else reasons.filtering_failed(pod.key, rejections)
    return FilterResult(fitting=(), rejections=rejections, events=events, again=known is not None)


def _is_first_of_two(pod: records.PodRecord, known: Refusal, nodes: Sequence[str]) -> bool:
    """Whether kube-scheduler asks for the pod's nominated node before it asks for all nodes.

    Where it has asked for that node alone just before, there are no others.
    """
    return (
        len(nodes) == 1
        and nodes[0] == pod.nominated_node
        and len(known.nodes) > 1
        and not known.asked_alone
    )


def not_told(books: Books, event: effects.PostEvent) -> None:
    """Note that an event about a refusal did not go out: the next refusal says it again."""
    refusal = books.refused.get(event.pod.uid) if event.pod is not None else None
    if refusal is not None and event.reason == reasons.FILTERING_FAILED:
        books.refused[refusal.request.pod.uid] = dataclasses.replace(refusal, told=False)


def score_nodes(books: Books, pod: records.PodRecord, nodes: Sequence[str]) -> list[int]:
    """Return a score for each of ``nodes``, 0 to the configured maximum, higher is better."""
    wish = pod.request
    if not wish.wants_devices:
        return [0] * len(nodes)
    placement = _known_placement(books, wish.pod) or place(
        books, wish, nodes, priority=pod.priority
    )
    if placement.fitting == tuple(nodes):
        return list(_scores(books, pod, placement).tolist())
    placement = placement.among(nodes)
    scores = _scores(books, pod, placement).tolist()
    told = dict(zip(placement.fitting, scores, strict=True))
    return [told.get(node, 0) for node in nodes]


def _known_placement(books: Books, pod: request.PodKey) -> fit.Placement | None:
    """Return how the filter has just judged the pod's nodes.

    None when anything has changed since, for which other nodes might fit.
    """
    known = books.scored
    if known is None or known.pod.key.uid != pod.uid or known.generation != books.ledger.generation:
        return None
    return known.placement


def _scores(books: Books, pod: records.PodRecord, placement: fit.Placement) -> score.Scores:
    """Return what kube-scheduler is told of each fitting node."""
    view = _view(books, pod.key, pod.priority)
    lines = {
        row: depth
        for node, depth in busy.lines_at(books, pod.request).items()
        if (row := view.row(node)) is not None
    }
    return placement.scores(books.settings.scoring.max_score, lines)


def place(
    books: Books,
    wish: request.PodRequest,
    nodes: Sequence[str],
    *,
    priority: int,
) -> fit.Placement:
    """Judge nodes as things stand, other pods' claims counted; nothing is noted.

    Args:
        books: what is known.
        wish: of the pod.
        nodes: names.
        priority: of the pod.
    """
    view = _view(books, wish.pod, priority, only=nodes[0] if len(nodes) == 1 else None)
    allowances = quotas.allowances(books, wish.pod)
    return fit.place(view, nodes, wish, books.defaults, allowances=allowances)


def _view(
    books: Books, pod: request.PodKey, priority: int, *, only: str | None = None
) -> snapshot.Snapshot:
    """Return the ledger as a filter of that pod sees it, or what matters on one node only."""
    return books.ledger.snapshot(
        with_claims=True, without_claim_of=pod.uid, for_priority=priority, kept_on=only
    )


def _place_beside(
    books: Books,
    pod: records.PodRecord,
    nodes: Sequence[str],
    closed: Mapping[str, reason.NodeRejection],
) -> fit.Placement:
    """Judge nodes of which some may take nobody, for the given reasons."""
    wish, priority = pod.request, pod.priority
    if not closed:
        return place(books, wish, nodes, priority=priority)
    open_nodes = [node for node in nodes if node not in closed]
    placement = place(books, wish, open_nodes, priority=priority)
    refused = {node: closed[node] for node in nodes if node in closed}
    return dataclasses.replace(placement, rejections={**placement.rejections, **refused})


def _claim(books: Books, pod: records.PodRecord, node: str, now: datetime.datetime) -> None:
    """Claim cards on the node that kube-scheduler is expected to take: the best score.

    Among equals kube-scheduler chooses by its own dice; the first is as good
    a guess as any, and a wrong guess costs only a filter's view for a second.
    """
    claims = books.settings.claims
    slow = pod.has_volumes or bool(pod.group)
    lifetime_s = claims.slow_lifetime_s if slow else claims.lifetime_s
    if lifetime_s <= 0:
        return
    expected = choose.choose(
        _view(books, pod.key, pod.priority, only=node),
        node,
        pod.request,
        books.defaults,
        allowances=quotas.allowances(books, pod.key),
    )
    if isinstance(expected, allocation.Allocation):
        until = now + datetime.timedelta(seconds=lifetime_s)
        books.ledger.claim(pod.request, expected, until)


def _success_events(
    books: Books, pod: request.PodKey, placement: fit.Placement
) -> tuple[effects.PostEvent, ...]:
    if not books.settings.events.success:
        return ()
    return (
        reasons.filtering_succeeded(
            pod,
            best=placement.fitting[0],
            fit=len(placement.fitting),
            unfit=len(placement.rejections),
        ),
    )
