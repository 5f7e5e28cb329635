"""The walk of a pod's containers over the cards of all candidate nodes at once.

Containers are placed one after another. Sidecars and apps stay on the board,
so the next one sees what they took. An ordinary init container runs before
the apps and beside the sidecars declared before it: it is placed on the board
as it stands then and leaves nothing behind.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, snapshot
from vgpu_operator.model import policy, request
from vgpu_operator.scheduling import cards, masks, order


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
    """

    stage: Stage
    bits: masks.Bits
    fits: columns.BoolArray
    candidates: npt.NDArray[np.intp]
    kept: npt.NDArray[np.intp]
    dropped: npt.NDArray[np.intp] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The walk's end.

    Attributes:
        fits: every container found its cards; ``(n_lanes,)``.
        failed_at: index into ``verdicts`` of the stage that failed, -1 where
            none did; ``(n_lanes,)``.
        verdicts: of the stages that were walked.
        chosen: per stage the columns taken, ``(n_lanes, count)``; empty
            unless asked for.
    """

    fits: columns.BoolArray
    failed_at: npt.NDArray[np.int16]
    verdicts: tuple[Verdict, ...]
    chosen: tuple[npt.NDArray[np.intp], ...]


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
    """How the pod wants its cards chosen, defaults filled in."""

    stages: tuple[Stage, ...]
    selection: Callable[[str], request.CardSelection]
    policies: tuple[policy.CardPolicy, ...]
    weights: policy.ScoringWeights


def walk(
    view: snapshot.Snapshot,
    lanes: cards.Lanes,
    rules: Rules,
    alive: columns.BoolArray,
    *,
    empty: bool = False,
    choosing: bool = False,
) -> Outcome:
    """Place the containers on every lane.

    Args:
        view: the ledger.
        lanes: the rows to place on.
        rules: of the pod.
        alive: lanes that are worth looking at, ``(n_lanes,)``; others do not fit.
        empty: pretend that no pod holds anything.
        choosing: also choose cards where nothing later depends on them.
    """
    boards: dict[str, cards.Board] = {}
    card_order = order.card_order(rules.policies, rules.weights)
    fits = alive.copy()
    failed_at = np.full(len(alive), -1, dtype=np.int16)
    verdicts: list[Verdict] = []
    chosen: list[npt.NDArray[np.intp]] = []
    for number, stage in enumerate(rules.stages):
        vendor = stage.wish.vendor
        seen = view.vendor(vendor)
        if seen is None or not fits.any():
            fits[:] = False
            break
        if vendor not in boards:
            boards[vendor] = cards.lay_out(seen, lanes, empty=empty)
        board = boards[vendor]
        ask = masks.ask_of(
            board,
            stage.wish,
            rules.selection(vendor),
            unused_only=policy.CardPolicy.MUTEX in rules.policies,
        )
        verdict, eligible = _judge(board, stage, ask, card_order)
        verdicts.append(verdict)
        failed_at[fits & ~verdict.fits] = number
        fits &= verdict.fits
        later = rules.stages[number + 1 :]
        needed = stage.lasting and any(other.wish.vendor == vendor for other in later)
        if needed or choosing:
            taken = order.pick(board, eligible, stage.wish, card_order)
            chosen.append(taken)
            if stage.lasting:
                board.charge(taken, ask.memory_mib, ask.cores_percent)
    return Outcome(
        fits=fits,
        failed_at=failed_at,
        verdicts=tuple(verdicts),
        chosen=tuple(chosen) if choosing else (),
    )


def _judge(
    board: cards.Board, stage: Stage, ask: masks.Ask, card_order: order.CardOrder
) -> tuple[Verdict, columns.BoolArray]:
    """Return the verdict, and the cards that may be chosen."""
    bits = masks.bits(board, ask)
    eligible = bits == 0
    candidates = np.count_nonzero(bits < masks.NOT_A_CANDIDATE, axis=1)
    dropped = None
    if ask.selection.numa_bind:
        eligible, kept, dropped = _bound_to_numa(board, ask, bits, card_order)
        fits = eligible.any(axis=1) & (candidates >= ask.count)
    else:
        kept = np.count_nonzero(eligible, axis=1)
        fits = kept >= ask.count
    verdict = Verdict(
        stage=stage, bits=bits, fits=fits, candidates=candidates, kept=kept, dropped=dropped
    )
    return verdict, eligible


def _bound_to_numa(
    board: cards.Board, ask: masks.Ask, bits: masks.Bits, card_order: order.CardOrder
) -> tuple[columns.BoolArray, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Keep only the cards of the first NUMA node that has enough of them.

    NUMA nodes are walked from the highest down, or from the lowest up if the
    order says so. HAMi's walk lets go what it held whenever the NUMA node
    changes; one that finds no NUMA node ends with what the last one holds.

    Returns:
        The cards that may be chosen; how many cards a walk that fails holds
        at its end, and how many it let go.
    """
    eligible = bits == 0
    place = -board.numa if card_order.lowest_numa_first else board.numa
    same = place[:, :, None] == place[:, None, :]
    enough = eligible & (np.count_nonzero(same & eligible[:, None, :], axis=2) >= ask.count)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    first = np.where(enough, place, least).max(axis=1, initial=least)
    reached = (bits & (masks.BEFORE_NUMA | masks.NOT_A_CANDIDATE)) == 0
    last = np.where(reached, place, most).min(axis=1, initial=most)
    kept = np.count_nonzero(eligible & (place == last[:, None]), axis=1)
    dropped = np.count_nonzero(eligible, axis=1) - kept
    return enough & (place == first[:, None]), kept, dropped
