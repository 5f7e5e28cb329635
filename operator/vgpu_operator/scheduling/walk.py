"""The walk of a pod's containers over the cards of all candidate nodes at once.

Containers are placed one after another. Sidecars and apps stay on the board,
so the next one sees what they took. An ordinary init container runs before
the apps and beside the sidecars declared before it: it is placed on the board
as it stands then and leaves nothing behind.

Vendors whose rules are the common ones are judged for all lanes at once.
Others, and nodes with cards that need it, are asked lane by lane.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, snapshot
from vgpu_operator.model import quota
from vgpu_operator.scheduling import by_hand, cards, greedy, masks, numa, order, stages


def walk(
    view: snapshot.Snapshot,
    lanes: cards.Lanes,
    rules: stages.Rules,
    alive: columns.BoolArray,
    *,
    empty: bool = False,
    choosing: bool = False,
    gone: cards.Gone | None = None,
) -> stages.Outcome:
    """Place the containers on every lane.

    Args:
        view: the ledger.
        lanes: the rows to place on.
        rules: of the pod.
        alive: lanes that are worth looking at, ``(n_lanes,)``; others do not fit.
        empty: pretend that no pod holds anything.
        choosing: also choose cards where nothing later depends on them.
        gone: pods that are not to be counted.
    """
    tables: dict[str, _Table] = {}
    card_order = order.card_order(rules.policies, rules.weights)
    fits = alive.copy()
    failed_at = np.full(len(alive), -1, dtype=np.int16)
    verdicts: list[stages.Verdict] = []
    taken: list[stages.Taken] = []
    for number, stage in enumerate(rules.stages):
        keyword = stage.wish.vendor
        seen = view.vendor(keyword)
        if seen is None or not fits.any():
            fits[:] = False
            break
        table = tables.get(keyword)
        if table is None:
            table = tables[keyword] = _lay(
                view, seen, lanes, rules, keyword, empty=empty, gone=gone
            )
        later = rules.stages[number + 1 :]
        needed = stage.lasting and any(other.wish.vendor == keyword for other in later)
        verdict, took = table.place(stage, fits, card_order, choosing=needed or choosing)
        verdicts.append(verdict)
        failed_at[fits & ~verdict.fits] = number
        fits &= verdict.fits
        if choosing and took is not None:
            taken.append(took)
    return stages.Outcome(
        fits=fits, failed_at=failed_at, verdicts=tuple(verdicts), taken=tuple(taken)
    )


@dataclass(slots=True, kw_only=True)
class _Table:
    """One vendor's cards on all lanes while the pod's containers fill them up.

    Attributes:
        board: the cards.
        rules: of the pod.
        left: what the namespace's quota leaves; None where nothing is limited.
        alone: lanes that the vendor judges itself; None is no lane.
        desk: where it does.
    """

    board: cards.Board
    rules: stages.Rules
    left: greedy.Left | None
    alone: columns.BoolArray | None = None
    desk: by_hand.Desk | None = None

    def place(
        self,
        stage: stages.Stage,
        alive: columns.BoolArray,
        card_order: order.CardOrder,
        *,
        choosing: bool,
    ) -> tuple[stages.Verdict, stages.Taken | None]:
        """Place one container; what a lasting one takes is charged when ``choosing``."""
        if self.desk is None or self.alone is None:
            return self._together(stage, None, card_order, choosing=choosing)
        asked = alive & self.alone
        if (alive & ~asked).any():
            verdict, took = self._together(stage, ~self.alone, card_order, choosing=choosing)
        else:
            verdict, took = _nobody(stage, len(alive)), None
        shares, refused = self.desk.answer(stage, np.flatnonzero(asked), card_order)
        fits = np.where(self.alone, False, verdict.fits)
        fits[list(shares)] = True
        verdict = stages.Verdict(
            stage=stage,
            bits=verdict.bits,
            fits=fits,
            candidates=verdict.candidates,
            kept=verdict.kept,
            dropped=verdict.dropped,
            refused=refused,
        )
        columns_taken = np.zeros((len(alive), 0), dtype=np.intp) if took is None else took.columns
        return verdict, stages.Taken(columns=columns_taken, by_hand=shares)

    def _together(
        self,
        stage: stages.Stage,
        only: columns.BoolArray | None,
        card_order: order.CardOrder,
        *,
        choosing: bool,
    ) -> tuple[stages.Verdict, stages.Taken | None]:
        """Judge all lanes by the common rules; charge ``only`` those (None: all)."""
        board = self.board
        ask = self.rules.ask(board, stage)
        bits = masks.bits(board, ask)
        chosen: npt.NDArray[np.intp] | None = None
        if self.left is None or self.left.covers(ask):
            verdict, eligible = _judge(board, stage, ask, bits, card_order)
            if choosing:
                chosen = order.pick(board, eligible, stage.wish, card_order)
        else:
            verdict, chosen = _judge_one_by_one(board, stage, ask, bits, card_order, self.left)
        if not choosing or chosen is None:
            return verdict, None
        if stage.lasting:
            charged = np.flatnonzero(verdict.fits if only is None else only & verdict.fits)
            board.charge(charged, chosen, ask.memory_mib, ask.cores_percent)
            if self.left is not None:
                self.left.take(chosen, ask, charged)
        return verdict, stages.Taken(columns=chosen)


def _lay(
    view: snapshot.Snapshot,
    seen: snapshot.VendorView,
    lanes: cards.Lanes,
    rules: stages.Rules,
    keyword: str,
    *,
    empty: bool,
    gone: cards.Gone | None,
) -> _Table:
    without = gone.amounts.get(keyword) if gone is not None else None
    board = cards.lay_out(seen, lanes, empty=empty, without=without)
    vendor = rules.vendors.get(keyword)
    table = _Table(
        board=board,
        rules=rules,
        left=_left(rules, keyword, len(board.present), gone),
        alone=by_hand.lanes(view, seen, lanes, vendor, rules),
    )
    if vendor is not None and table.alone is not None:
        table.desk = by_hand.open_desk(view, seen, board, vendor, rules, empty=empty, gone=gone)
    return table


def _left(
    rules: stages.Rules, keyword: str, n_lanes: int, gone: cards.Gone | None
) -> greedy.Left | None:
    """Return what the namespace may still take on each lane; None where nothing is limited."""
    allowance = rules.allowances.get(keyword, quota.UNLIMITED)
    if allowance == quota.UNLIMITED:
        return None

    def everywhere(
        amount: int | None, returned: columns.IntArray | None
    ) -> columns.IntArray | None:
        if amount is None:
            return None
        left = np.full(n_lanes, amount, dtype=np.int64)
        return left if returned is None else left + returned

    return greedy.Left(
        memory_mib=everywhere(
            allowance.memory_mib, gone.memory_mib.get(keyword) if gone is not None else None
        ),
        cores=everywhere(allowance.cores, gone.cores.get(keyword) if gone is not None else None),
    )


def _nobody(stage: stages.Stage, n_lanes: int) -> stages.Verdict:
    """Return a verdict that says nothing, for lanes that somebody else judges."""
    none = np.zeros(n_lanes, dtype=np.intp)
    return stages.Verdict(
        stage=stage,
        bits=np.zeros((n_lanes, 0), dtype=np.uint16),
        fits=np.zeros(n_lanes, dtype=np.bool_),
        candidates=none,
        kept=none,
    )


def _judge(
    board: cards.Board,
    stage: stages.Stage,
    ask: masks.Ask,
    bits: masks.Bits,
    card_order: order.CardOrder,
) -> tuple[stages.Verdict, columns.BoolArray]:
    """Return the verdict, and the cards that may be chosen."""
    eligible = bits == 0
    candidates = np.count_nonzero(bits < masks.NOT_A_CANDIDATE, axis=1)
    dropped = None
    if ask.selection.numa_bind:
        eligible, kept, dropped = numa.bind(board, ask, bits, card_order)
        fits = eligible.any(axis=1) & (candidates >= ask.count)
    else:
        kept = np.count_nonzero(eligible, axis=1)
        fits = kept >= ask.count
    verdict = stages.Verdict(
        stage=stage, bits=bits, fits=fits, candidates=candidates, kept=kept, dropped=dropped
    )
    return verdict, eligible


def _judge_one_by_one(
    board: cards.Board,
    stage: stages.Stage,
    ask: masks.Ask,
    bits: masks.Bits,
    card_order: order.CardOrder,
    left: greedy.Left,
) -> tuple[stages.Verdict, npt.NDArray[np.intp]]:
    """Return the verdict and the cards taken, where the quota may run out."""
    is_candidate = bits < masks.NOT_A_CANDIDATE
    ranking = order.ranking(
        board, is_candidate, stage.wish, card_order, by_numa=ask.selection.numa_bind
    )
    walked = greedy.walk(board, bits, ask, ranking, left)
    verdict = stages.Verdict(
        stage=stage,
        bits=walked.bits,
        fits=walked.fits,
        candidates=np.count_nonzero(is_candidate, axis=1),
        kept=walked.kept,
        dropped=walked.dropped if ask.selection.numa_bind else None,
    )
    return verdict, walked.chosen
