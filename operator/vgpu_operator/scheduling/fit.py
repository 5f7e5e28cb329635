"""Which nodes can take a pod, why the others cannot, and which is preferred."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, snapshot
from vgpu_operator.model import policy, quota, reason, request
from vgpu_operator.scheduling import cards, explain, grants, score, stages, walk
from vgpu_operator.vendors import base


def _no_vendors() -> Mapping[str, base.Vendor]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds for every pod: policies where it names none, and vendors' own rules.

    Attributes:
        node_policy, card_policies, weights: where a pod names none.
        vendors: by keyword; one that is missing has the common rules.
        why_no_cards: says why a node has no cards of a vendor.
    """

    node_policy: policy.NodePolicy = policy.NodePolicy.BINPACK
    card_policies: tuple[policy.CardPolicy, ...] = (policy.CardPolicy.SPREAD,)
    weights: policy.ScoringWeights = field(default_factory=policy.ScoringWeights)
    vendors: Mapping[str, base.Vendor] = field(default_factory=_no_vendors)
    why_no_cards: explain.WhyNoCards = explain.unsaid

    def rules(
        self, wish: request.PodRequest, allowances: quota.Allowances = quota.NO_LIMITS
    ) -> stages.Rules:
        """Return how that pod's cards are chosen."""
        return stages.Rules(
            stages=stages.stages_of(wish),
            selection=wish.selection,
            policies=wish.card_policies or self.card_policies,
            weights=wish.weights or self.weights,
            vendors=self.vendors,
            notes=wish.notes,
            allowances=allowances,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a pod fits. Stays right when the ledger goes on.

    Attributes:
        fitting: nodes that can take the pod, in the caller's order.
        rows: their rows, as long as no node comes or goes; intp, shape
            ``(len(fitting),)``; -1 where the ledger knows no such node.
        raw_scores: how full each of them is before the pod, higher is fuller,
            and what the pod's vendors add; float64, shape ``(len(fitting),)``.
        rejections: why each other node cannot; built when read.
        node_policy: which of them the pod prefers.
        ranked: vendors added to the scores, so they have no bounds.
    """

    fitting: tuple[str, ...]
    rows: npt.NDArray[np.intp]
    raw_scores: npt.NDArray[np.float64]
    rejections: Mapping[str, reason.NodeRejection]
    node_policy: policy.NodePolicy
    ranked: bool = False

    def scores(self, max_score: int, lines: Mapping[int, int] = score.NO_LINES) -> score.Scores:
        """Return what kube-scheduler is told of each fitting node, higher is preferred.

        Args:
            max_score: the highest; the lowest is 0.
            lines: by row, how many pods stand before this one at the node's lock.
        """
        scale = score.to_ranks if self.ranked else score.to_extender_scores
        scaled = scale(self.raw_scores, self.node_policy, max_score)
        return score.behind_free(scaled, self.rows, lines, max_score)

    def among(self, nodes: Sequence[str]) -> "Placement":
        """Return the same for these nodes only."""
        wanted = set(nodes)
        kept = np.array([node in wanted for node in self.fitting], dtype=np.bool_)
        return dataclasses.replace(
            self,
            fitting=tuple(itertools.compress(self.fitting, kept.tolist())),
            rows=self.rows[kept],
            raw_scores=self.raw_scores[kept],
        )


def place(
    view: snapshot.Snapshot,
    nodes: Sequence[str],
    wish: request.PodRequest,
    defaults: Defaults,
    *,
    allowances: quota.Allowances = quota.NO_LIMITS,
) -> Placement:
    """Judge all these nodes at once.

    A node fits when every container finds its cards on it, each vendor's
    cards being registered, offered by kubelet and readable there. A pod that
    asks for no device fits everywhere. ``choose.choose`` on a fitting node
    gives an allocation, on any other the same rejection.

    A rejection is not resolvable when the pod would not fit on that node even
    if no pod held anything there. A quota that is used up stays used up then:
    evicting is no way to come by more, as for Kubernetes' own quotas.

    Args:
        view: the ledger.
        nodes: names.
        wish: what the pod asks for.
        defaults: what holds for every pod.
        allowances: what the pod's namespace may still take.
    """
    node_policy = wish.node_policy or defaults.node_policy
    if wish.impossible:
        never = reason.NodeRejection(detail=wish.impossible, resolvable=False)
        return Placement(
            fitting=(),
            rows=np.zeros(0, dtype=np.intp),
            raw_scores=np.zeros(0),
            rejections=dict.fromkeys(nodes, never),
            node_policy=node_policy,
        )
    rules = defaults.rules(wish, allowances)
    rows = view.rows(nodes)
    known = rows >= 0
    if not rules.stages:
        return Placement(
            fitting=tuple(nodes),
            rows=rows,
            raw_scores=_scores_of_all(view, rows, known),
            rejections={},
            node_policy=node_policy,
        )
    lanes, lane_of, n_lanes = _lanes(view, rows, known)
    vendors = wish.vendors
    conditions, about = explain.barred(view, vendors, lanes, n_lanes)
    asked = np.zeros(n_lanes, dtype=np.bool_)
    asked[lane_of[known]] = True
    scoring = bool(grants.scoring(rules))
    outcome = walk.walk(view, lanes, rules, asked & (conditions == 0), choosing=scoring)
    fits = known & outcome.fits[lane_of] if n_lanes else known
    raw_scores = score.raw_scores(view.sums, rows[fits])
    ranked = False
    if scoring and fits.any():
        added = grants.vendor_scores(view, lanes, lane_of[fits], outcome, rules, wish, node_policy)
        raw_scores, ranked = raw_scores + added, bool(added.any())
    if fits.all():
        return Placement(
            fitting=tuple(nodes),
            rows=rows,
            raw_scores=raw_scores,
            rejections={},
            node_policy=node_policy,
            ranked=ranked,
        )
    refused = np.flatnonzero(~fits)
    refused_lanes = lane_of[refused]
    refused_conditions = np.full(len(refused), explain.Barred.UNKNOWN, dtype=np.int8)
    refused_about = np.zeros(len(refused), dtype=np.int8)
    is_known = known[refused]
    refused_conditions[is_known] = conditions[refused_lanes[is_known]]
    refused_about[is_known] = about[refused_lanes[is_known]]
    return Placement(
        fitting=tuple(itertools.compress(nodes, fits.tolist())),
        rows=rows[fits],
        raw_scores=raw_scores,
        ranked=ranked,
        rejections=explain.Rejections(
            names=list(itertools.compress(nodes, (~fits).tolist())),
            lanes=refused_lanes,
            outcome=outcome,
            conditions=refused_conditions,
            about=refused_about,
            vendors=vendors,
            resolvable=_resolvable(view, rules, rows[refused], refused_conditions == 0),
            why_no_cards=defaults.why_no_cards,
        ),
        node_policy=node_policy,
    )


def _lanes(
    view: snapshot.Snapshot, rows: npt.NDArray[np.intp], known: columns.BoolArray
) -> tuple[cards.Lanes, npt.NDArray[np.intp], int]:
    """Return what to lay out, each name's lane (-1: unknown), and how many lanes.

    When most of the ledger is asked for, looking at all of it costs less than
    copying the asked part out.
    """
    if 2 * len(rows) >= view.n_rows:
        return slice(0, view.n_rows), rows, view.n_rows
    asked = rows[known]
    return asked, np.where(known, np.cumsum(known) - 1, -1), len(asked)


def _resolvable(
    view: snapshot.Snapshot,
    rules: stages.Rules,
    rows: npt.NDArray[np.intp],
    failed_on_cards: columns.BoolArray,
) -> columns.BoolArray:
    """Return which of the refused nodes would take the pod if they were empty."""
    could = np.zeros(len(rows), dtype=np.bool_)
    if failed_on_cards.any():
        lanes, lane_of, n_lanes = _lanes(view, rows, failed_on_cards)
        everywhere = np.ones(n_lanes, dtype=np.bool_)
        emptied = walk.walk(view, lanes, rules, everywhere, empty=True)
        could[failed_on_cards] = emptied.fits[lane_of[failed_on_cards]]
    return could


def _scores_of_all(
    view: snapshot.Snapshot, rows: npt.NDArray[np.intp], known: columns.BoolArray
) -> npt.NDArray[np.float64]:
    scores = np.zeros(len(rows))
    scores[known] = score.raw_scores(view.sums, rows[known])
    return scores
