"""Why nodes were refused: masks become counts, counts become HAMi's words.

Thousands of nodes are often refused for the same few reasons, so a rejection
is built once per pattern and only when somebody reads it.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, snapshot
from vgpu_operator.model import reason
from vgpu_operator.scheduling import cards, masks, stages


class Barred(enum.IntEnum):
    """A condition of the node itself that keeps the pod off, whatever its cards."""

    NO = 0
    UNKNOWN = 1
    UNREGISTERED = 2
    NOT_ALLOCATABLE = 3
    UNREADABLE = 4


_SENTENCES: Final = {
    Barred.UNKNOWN: "the node is not known to the operator",
    Barred.UNREGISTERED: "no {vendor} cards are registered",
    Barred.NOT_ALLOCATABLE: "kubelet offers no {vendor} devices (allocatable is 0 or absent)",
    Barred.UNREADABLE: "what a pod there holds of {vendor} cannot be read",
}


def barred(
    view: snapshot.Snapshot, vendors: Sequence[str], rows: cards.Lanes, n_lanes: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Return per lane the first ``Barred`` condition, and which vendor it is about.

    Both of shape ``(n_lanes,)``; the second is an index into ``vendors``.
    """
    conditions = np.zeros(n_lanes, dtype=np.int8)
    about = np.zeros(n_lanes, dtype=np.int8)
    for number, vendor in reversed(tuple(enumerate(vendors))):
        seen = view.vendor(vendor)
        if seen is None:
            conditions[:], about[:] = Barred.UNREGISTERED, number
            continue
        for fails, condition in (
            (seen.blocked[rows], Barred.UNREADABLE),
            (~seen.allocatable[rows], Barred.NOT_ALLOCATABLE),
            (~seen.registered[rows], Barred.UNREGISTERED),
        ):
            conditions[fails] = condition
            about[fails] = number
    return conditions, about


WhyNoCards: TypeAlias = Callable[[str, str], str]
"""(node, vendor) -> a sentence on why no such cards are registered there; may be empty."""


def unsaid(node: str, vendor: str) -> str:  # noqa: ARG001
    """Add nothing: only the ledger is known."""
    return ""


def of_node(condition: Barred, vendor: str, why: str = "") -> reason.NodeRejection:
    """Return HAMi's "node unregistered" with the condition that failed.

    Args:
        condition: which.
        vendor: whose cards it is about.
        why: what is behind it, for a vendor without registered cards.
    """
    sentence = _SENTENCES[condition].format(vendor=vendor)
    return reason.NodeRejection(
        counts=(reason.CardCount(reason=reason.Reason.NODE_UNREGISTERED, cards=0, candidates=0),),
        detail=f"{sentence}: {why}" if why else sentence,
        resolvable=False,
    )


def of_cards(verdict: stages.Verdict, lane: int, *, resolvable: bool) -> reason.NodeRejection:
    """Return why one lane's cards do not do."""
    refused = verdict.refused.get(lane)
    if refused is not None:
        return _of_vendor(refused, resolvable=resolvable)
    candidates = int(verdict.candidates[lane])
    if candidates < verdict.stage.wish.count:
        few = reason.CardCount(
            reason=reason.Reason.TOO_FEW_CARDS, cards=candidates, candidates=candidates
        )
        return reason.NodeRejection(counts=(few,), resolvable=False)
    counts: dict[reason.Reason, int] = {}
    for facts in verdict.bits[lane].tolist():
        if facts and facts < masks.NOT_A_CANDIDATE:
            first = (facts & -facts).bit_length() - 1
            why = masks.ORDER[first][0]
            counts[why] = counts.get(why, 0) + 1
    if verdict.dropped is not None:
        counts[reason.Reason.NUMA_NOT_FIT] = int(verdict.dropped[lane])
    counts[reason.Reason.TOO_FEW_FREE_CARDS] = int(verdict.kept[lane])
    return reason.NodeRejection(
        counts=tuple(
            reason.CardCount(reason=why, cards=number, candidates=candidates)
            for why, number in counts.items()
            if number
        ),
        resolvable=resolvable,
    )


def _of_vendor(refused: stages.Refusal, *, resolvable: bool) -> reason.NodeRejection:
    """Return what a vendor's own rules say, in their words."""
    return reason.NodeRejection(
        counts=tuple(
            reason.CardCount(reason=word, cards=number, candidates=against)
            for word, number, against in refused.counts
        ),
        detail=refused.detail,
        resolvable=resolvable,
    )


class Rejections(Mapping[str, reason.NodeRejection]):
    """Per refused node why, built when somebody reads it.

    Holds arrays of its own, so it stays right when the ledger goes on.
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        lanes: npt.NDArray[np.intp],
        outcome: stages.Outcome,
        conditions: npt.NDArray[np.int8],
        about: npt.NDArray[np.int8],
        vendors: Sequence[str],
        resolvable: columns.BoolArray,
        why_no_cards: WhyNoCards = unsaid,
    ) -> None:
        """Take the refused nodes.

        Args:
            names: the refused nodes, in the caller's order.
            lanes: their lanes on the board, -1 where the node is unknown.
            outcome: of the walk.
            conditions: one ``Barred`` per refused node.
            about: the vendor that each condition speaks of, as an index.
            vendors: what ``about`` points into.
            resolvable: per refused node, whether an eviction could help.
            why_no_cards: asked when they are read, for nodes without registered cards.
        """
        self._names = names
        self._lanes = lanes
        self._outcome = outcome
        self._conditions = conditions
        self._about = about
        self._vendors = vendors
        self._resolvable = resolvable
        self._why_no_cards = why_no_cards

    def __len__(self) -> int:
        return len(self._built)

    def __iter__(self) -> Iterator[str]:
        return iter(self._built)

    def __getitem__(self, name: str) -> reason.NodeRejection:
        return self._built[name]

    @cached_property
    def _built(self) -> dict[str, reason.NodeRejection]:
        """All of them: nodes that were refused alike share one rejection."""
        failed_at = np.full(len(self._names), -1)
        on_cards = self._conditions == 0
        failed_at[on_cards] = self._outcome.failed_at[self._lanes[on_cards]]
        patterns = [_Patterns(verdict) for verdict in self._outcome.verdicts]
        alike: dict[object, reason.NodeRejection] = {}
        built: dict[str, reason.NodeRejection] = {}
        for name, lane, stage, condition, about, resolvable in zip(
            self._names,
            self._lanes.tolist(),
            failed_at.tolist(),
            self._conditions.tolist(),
            self._about.tolist(),
            self._resolvable.tolist(),
            strict=True,
        ):
            missing = ""
            if condition == Barred.UNREGISTERED:
                missing = self._why_no_cards(name, self._vendors[about])
            key = (
                (stage, resolvable, patterns[stage].of(lane))
                if stage >= 0
                else (condition, about, missing)
            )
            why = alike.get(key)
            if why is None:
                why = alike[key] = (
                    of_cards(self._outcome.verdicts[stage], lane, resolvable=resolvable)
                    if stage >= 0
                    else of_node(Barred(condition), self._vendors[about], missing)
                )
            built[name] = why
        return built


class _Patterns:
    """What of a verdict decides a rejection, per lane, as plain Python values."""

    def __init__(self, verdict: stages.Verdict) -> None:
        self._bits = verdict.bits.tobytes()
        self._stride = verdict.bits.shape[1] * verdict.bits.itemsize
        self._numa: list[tuple[int, int]] | None = None
        if verdict.dropped is not None:
            kept: list[int] = verdict.kept.tolist()
            self._numa = list(zip(kept, verdict.dropped.tolist(), strict=True))
        self._refused = verdict.refused

    def of(self, lane: int) -> object:
        refused = self._refused.get(lane)
        if refused is not None:
            return refused
        start = lane * self._stride
        numa = self._numa[lane] if self._numa is not None else None
        return self._bits[start : start + self._stride], numa


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes that were refused for the same reasons.

    Attributes:
        rejection: why.
        nodes: how many they are.
        example: one of them.
    """

    rejection: reason.NodeRejection
    nodes: int
    example: str


def groups(rejections: Mapping[str, reason.NodeRejection]) -> tuple[Group, ...]:
    """Return the refused nodes by their text, most nodes first."""
    counts: dict[int, int] = {}
    first: dict[int, tuple[str, reason.NodeRejection]] = {}
    for name, why in rejections.items():
        which = id(why)  # nodes that were refused alike share it
        if which in counts:
            counts[which] += 1
        else:
            counts[which], first[which] = 1, (name, why)
    found: dict[str, Group] = {}
    for which, (name, why) in first.items():
        text = why.text
        nodes = counts[which] + (found[text].nodes if text in found else 0)
        example = found[text].example if text in found else name
        found[text] = Group(rejection=why, nodes=nodes, example=example)
    return tuple(sorted(found.values(), key=lambda group: -group.nodes))
