"""A pod's containers one after another, and what the walk finds for each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns
from vgpu_operator.model import allocation, policy, quota, request
from vgpu_operator.scheduling import cards, masks
from vgpu_operator.vendors import base


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One container's wish on one vendor.

    Attributes:
        container: the container's index in the pod's request.
        lasting: the container stays, so what it takes is gone for the next one.
    """

    container: int
    wish: request.DeviceRequest
    lasting: bool


def stages_of(wish: request.PodRequest) -> tuple[Stage, ...]:
    """Return the stages in the order in which they are walked: that of the spec."""
    return tuple(
        Stage(
            container=index,
            wish=device,
            lasting=container.kind is not request.ContainerKind.INIT,
        )
        for index, container in enumerate(wish.containers)
        for device in container.devices
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the pod wants its cards chosen, defaults filled in.

    Attributes:
        stages: the containers' wishes.
        selection: the pod author's rules by vendor keyword.
        policies: the chain of card policies.
        weights: of the parts of a card's score.
        vendors: by keyword; one that is missing has the common rules.
        notes: the pod's annotations that vendors' rules read.
        allowances: what the pod's namespace may still take.
    """

    stages: tuple[Stage, ...]
    selection: Callable[[str], request.CardSelection]
    policies: tuple[policy.CardPolicy, ...]
    weights: policy.ScoringWeights
    vendors: Mapping[str, base.Vendor] = field(default_factory=_nothing)
    notes: Mapping[str, str] = field(default_factory=_nothing)
    allowances: quota.Allowances = field(default_factory=_nothing)

    @property
    def unused_only(self) -> bool:
        """Whether the pod wants cards that nobody uses."""
        return policy.CardPolicy.MUTEX in self.policies

    def ask(self, board: cards.Board, stage: Stage) -> masks.Ask:
        """Return what a stage asks of these cards."""
        selection = self.selection(stage.wish.vendor)
        return masks.ask_of(board, stage.wish, selection, unused_only=self.unused_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a vendor's own rules refuse one lane: (word, cards, counted against) each."""

    counts: tuple[tuple[str, int, int], ...]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one stage found on every lane.

    Attributes:
        stage: the stage.
        bits: per card which facts keep it off; ``(n_lanes, n_cards)``.
        fits: enough cards can serve; ``(n_lanes,)``.
        candidates: cards of the vendor; ``(n_lanes,)``.
        kept: cards that HAMi's walk would hold at its end; ``(n_lanes,)``.
        dropped: cards that it would have let go because the NUMA node
            changed; None without numa-bind.
        refused: per lane that the vendor's own rules judged and refused, why;
            the arrays but ``fits`` mean nothing there.
    """

    stage: Stage
    bits: masks.Bits
    fits: columns.BoolArray
    candidates: npt.NDArray[np.intp]
    kept: npt.NDArray[np.intp]
    dropped: npt.NDArray[np.intp] | None = None
    refused: Mapping[int, Refusal] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Which cards one stage takes.

    Attributes:
        columns: ``(n_lanes, count)``, best card first; means nothing on lanes
            that do not fit or that the vendor's own rules judged.
        by_hand: the shares on those, by lane.
    """

    columns: npt.NDArray[np.intp]
    by_hand: Mapping[int, allocation.ContainerShares] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The walk's end.

    Attributes:
        fits: every container found its cards; ``(n_lanes,)``.
        failed_at: index into ``verdicts`` of the stage that failed, -1 where
            none did; ``(n_lanes,)``.
        verdicts: of the stages that were walked.
        taken: by stage; empty unless asked for.
    """

    fits: columns.BoolArray
    failed_at: npt.NDArray[np.int16]
    verdicts: tuple[Verdict, ...]
    taken: tuple[Taken, ...]
