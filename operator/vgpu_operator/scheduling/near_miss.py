"""Of a pod that fits nowhere: the node and the card that come closest to taking it.

A card is closer the fewer facts keep it off that stay when pods leave (its health, its
type), then by what it is short of, as parts of what is asked: memory, cores, a share. A
node is as close as the last card that it needs. Where the containers before the one that
failed have found their cards, what they would take is counted as taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, snapshot
from vgpu_operator.model import device, fitting, quota, reason, request
from vgpu_operator.scheduling import cards, explain, fit, masks, stages, walk

_STAYING: Final = sum(
    1 << number for number, (why, _) in enumerate(masks.ORDER) if why in reason.EVICTION_CANNOT_HELP
)
_SHORT: Final = masks.bit_of(reason.Reason.INSUFFICIENT_MEMORY) | masks.bit_of(
    reason.Reason.INSUFFICIENT_CORES
)
"""Facts whose size the amounts tell."""

_OTHERS: Final = (1 << len(masks.ORDER)) - 1 - _STAYING - _SHORT

_FAR: Final = 1000.0
"""What one fact that stays weighs: more than being short of everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The card that the node would need besides those that would do.

    Attributes:
        device: the card.
        asked_memory_mib, asked_cores: of this card.
        free_memory_mib, free_cores: for that container; not below 0.
        tenants: who holds a share, other pods' claims among them.
    """

    device: device.Device
    asked_memory_mib: int
    asked_cores: int
    free_memory_mib: int
    free_cores: int
    tenants: tuple[fitting.Tenant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMiss:
    """How close the closest node is.

    Attributes:
        node: its name.
        container: the first container that finds no place there, an index.
        wish: what that container asks for.
        able: how many cards would do; where the node has too few, how many it has.
        facts: what keeps the next card off, or the node where there is no next one.
        card: the next card, the nearest of those that would not do; None where the node has
            too few, or NUMA nodes divide them.
    """

    node: str
    container: int
    wish: request.DeviceRequest
    able: int
    facts: tuple[reason.Reason, ...]
    card: Card | None = None


def find(
    view: snapshot.Snapshot,
    nodes: Sequence[str],
    wish: request.PodRequest,
    defaults: fit.Defaults,
    *,
    allowances: quota.Allowances = quota.NO_LIMITS,
) -> NearMiss | None:
    """Return the closest node of those that refuse the pod for their cards.

    Among nodes that are as close the first by name; of its cards the first. None where the
    pod fits on one of them, where none is refused for its cards, and where a vendor's own
    rules alone keep it off: those say in their own words what is missing. Where a vendor
    judges every node by itself that is known before a single one is judged.

    Args:
        view: the ledger.
        nodes: names; the ledger need not know them.
        wish: what the pod asks for.
        defaults: what holds for every pod.
        allowances: what the pod's namespace may still take.
    """
    rules = defaults.rules(wish, allowances)
    everywhere = slice(0, view.n_rows)
    asked = np.zeros(view.n_rows, dtype=np.bool_)
    rows = view.rows(nodes)
    asked[rows[rows >= 0]] = True
    if wish.impossible or not rules.stages or not asked.any() or _judged_by_hand(rules):
        return None
    conditions, _ = explain.barred(view, wish.vendors, everywhere, view.n_rows)
    outcome = walk.walk(
        view, everywhere, rules, asked & (conditions == 0), choosing=len(rules.stages) > 1
    )
    if outcome.fits.any():
        return None
    for number, verdict in reversed(tuple(enumerate(outcome.verdicts))):
        failed = outcome.failed_at == number
        seen = view.vendor(verdict.stage.wish.vendor)
        if seen is None or not failed.any():
            continue
        board = _as_the_stage_met_it(seen, failed, number, rules=rules, outcome=outcome)
        ask = rules.ask(board, verdict.stage)
        bits = verdict.bits
        if verdict.refused:
            bits = masks.bits(board, ask)
            alone = np.zeros(view.n_rows, dtype=np.bool_)
            alone[list(verdict.refused)] = True
            shared = _shares_the_common_rules(rules, number)
            failed &= ~alone | (shared & (_able(bits) < ask.count))
        if failed.any():
            return _closest(view, board, ask, verdict.stage, bits, np.flatnonzero(failed))
    return None


def _judged_by_hand(rules: stages.Rules) -> bool:
    """Whether a vendor of the pod judges every node by itself: one node after the other."""
    vendors = (rules.vendors.get(stage.wish.vendor) for stage in rules.stages)
    return any(vendor is not None and not vendor.vectorised for vendor in vendors)


def _shares_the_common_rules(rules: stages.Rules, number: int) -> bool:
    """Whether the common facts hold where the stage's vendor judges a node by itself.

    Not where it has chosen cards for an earlier container.
    """
    keyword = rules.stages[number].wish.vendor
    return not any(earlier.wish.vendor == keyword for earlier in rules.stages[:number])


def _able(bits: masks.Bits) -> npt.NDArray[np.intp]:
    """Return how many cards of each lane could serve."""
    able: npt.NDArray[np.intp] = np.count_nonzero(bits == 0, axis=1)
    return able


def _closest(
    view: snapshot.Snapshot,
    board: cards.Board,
    ask: masks.Ask,
    stage: stages.Stage,
    bits: masks.Bits,
    lanes: npt.NDArray[np.intp],
) -> NearMiss:
    """Return the closest of these lanes, all of which failed at that stage."""
    distances = _distances(board, ask, bits)
    candidates = np.count_nonzero(bits < masks.NOT_A_CANDIDATE, axis=1)
    far = _last_needed(distances, ask.count)[lanes]
    if not np.isfinite(far).any():
        far = -candidates[lanes].astype(np.float64)  # none has as many cards
    node, lane = min((view.name(lane), lane) for lane in lanes[far == far.min()].tolist())
    able = int(np.count_nonzero(bits[lane] == 0))
    facts: tuple[reason.Reason, ...] = ()
    card = None
    if candidates[lane] < ask.count:
        facts, able = (reason.Reason.TOO_FEW_CARDS,), int(candidates[lane])
    elif able >= ask.count:
        facts = (reason.Reason.NUMA_NOT_FIT,)
    else:
        lacking = np.where(bits[lane] == 0, np.inf, distances[lane])
        place = (lane, int(np.argmin(lacking)))
        facts = _facts(int(bits[place]))
        card = _card(view, board, ask, place)
    return NearMiss(
        node=node,
        container=stage.container,
        wish=stage.wish,
        able=able,
        facts=facts,
        card=card,
    )


def _as_the_stage_met_it(
    seen: snapshot.VendorView,
    failed: columns.BoolArray,
    number: int,
    *,
    rules: stages.Rules,
    outcome: stages.Outcome,
) -> cards.Board:
    """Return the stage's cards with what the lasting containers before it take."""
    board = cards.lay_out(seen, slice(0, len(failed)))
    keyword = outcome.verdicts[number].stage.wish.vendor
    for earlier, taken in zip(outcome.verdicts[:number], outcome.taken, strict=False):
        if earlier.stage.lasting and earlier.stage.wish.vendor == keyword:
            ask = rules.ask(board, earlier.stage)
            lanes = np.flatnonzero(failed)
            board.charge(lanes, taken.columns, ask.memory_mib, ask.cores_percent)
    return board


def _distances(board: cards.Board, ask: masks.Ask, bits: masks.Bits) -> npt.NDArray[np.float64]:
    """Return how far each card is from serving, 0 where it could; ``(n_lanes, n_cards)``."""
    lacking_mib = np.maximum(ask.memory_mib - (board.total_memory_mib - board.used_memory_mib), 0)
    lacking_cores = np.maximum(ask.cores_percent - (board.total_cores - board.used_cores), 0)
    far = lacking_mib / np.maximum(ask.memory_mib, 1) + lacking_cores / max(ask.cores_percent, 1)
    far += _FAR * np.bitwise_count(bits & np.uint16(_STAYING))
    far += np.bitwise_count(bits & np.uint16(_OTHERS))
    far[bits >= masks.NOT_A_CANDIDATE] = np.inf
    distances: npt.NDArray[np.float64] = far
    return distances


def _last_needed(distances: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float64]:
    """Return per lane the distance of the last of so many cards, the nearest first."""
    if distances.shape[1] < count:
        return np.full(len(distances), np.inf)
    last: npt.NDArray[np.float64] = np.partition(distances, count - 1, axis=1)[:, count - 1]
    return last


def _facts(bits: int) -> tuple[reason.Reason, ...]:
    """Return every fact that keeps a card off, in the order of ``masks.ORDER``."""
    held = (why for number, (why, _) in enumerate(masks.ORDER) if bits >> number & 1)
    return tuple(dict.fromkeys(held))


def _card(
    view: snapshot.Snapshot, board: cards.Board, ask: masks.Ask, place: columns.Place
) -> Card:
    row, column = place
    found = board.view.cards[row][column]
    asked_mib = ask.memory_mib if isinstance(ask.memory_mib, int) else int(ask.memory_mib[place])
    return Card(
        device=found,
        asked_memory_mib=asked_mib,
        asked_cores=ask.cores_percent,
        free_memory_mib=max(0, int(board.total_memory_mib[place] - board.used_memory_mib[place])),
        free_cores=max(0, int(board.total_cores[place] - board.used_cores[place])),
        tenants=view.tenants(view.name(row), ask.vendor).get(found.id, ()),
    )
