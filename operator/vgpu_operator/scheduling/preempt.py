"""On which nodes it may help that pods go, and what that costs at least: all nodes at once.

::

    all nodes ─► nothing gone but what goes by itself: does it fit?    (one walk)
              ─► everybody gone who may be: does it fit at all?        (one walk)
              ─► which is the lowest highest priority that does?       (bisected)
              ─► of how many pods, at least?                           (cards, no walk)
              ─► prospects, the likeliest first

Both numbers are bounds: no set of pods on that node is better. ``victims`` finds the sets,
prospect after prospect, until no bound is better than what was found.
"""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, stakes
from vgpu_operator.model import reason
from vgpu_operator.scheduling import by_hand, cards, explain, masks, trial, walk

LEAST_PRIORITY: Final = -(2**31)
"""No pod has a lower one; priorities are summed from here, as kube-scheduler does it."""

LEAST_START: Final = -(2**62)
"""Before any pod has started."""

FEW_ALONE: Final = 32
"""Where no more nodes are judged by vendors' own rules, each is asked whether the pod fits as
things are. Of more, those where pods are on their way out: the filter has refused the others."""

_UNKNOWN: Final = 2**40
"""More pods than there are."""

_ALONE: Final = sum(
    1 << bit for bit, (why, _) in enumerate(masks.ORDER) if why is reason.Reason.EXCLUSIVE_CONFLICT
)
"""Facts that hold as long as anybody has a share of the card."""


class Prefer(enum.Enum):
    """What is compared first of two sets of pods."""

    LEAST_IMPORTANT = "least important"
    """kube-scheduler's order: highest priority, sum of priorities, number, latest start."""
    FEWEST = "fewest"
    """Number, highest priority, sum of priorities, latest start."""


Cost: TypeAlias = tuple[int, int, int, int, str]
"""What is compared of two sets of pods on two nodes; the lower is taken."""


def cost(prefer: Prefer, *, size: int, highest: int, total: int, earliest: int, node: str) -> Cost:
    """Return what a set of pods costs.

    Args:
        prefer: what counts first.
        size: how many pods.
        highest: the highest priority of them.
        total: the sum of priorities, counted from ``LEAST_PRIORITY``.
        earliest: the start of the pod of highest priority that started first.
        node: the name decides where all else is equal.
    """
    if prefer is Prefer.FEWEST:
        return size, highest, total, -earliest, node
    return highest, total, size, -earliest, node


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """A node where it may help that pods go.

    Attributes:
        row: of the node.
        bound: no set there costs less; means nothing ``by_hand``.
        fewest: pods that have to go at least.
        one_card: one more card is all that is needed: pods of one card are a smallest set.
        by_hand: a vendor judges the node by rules of its own: the numbers are estimates.
    """

    node: str
    row: int
    bound: Cost
    fewest: int
    one_card: bool
    by_hand: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the look at all nodes found.

    Arrays with one value for each lane that is a prospect, best bound first, and by pod's number.

    Attributes:
        fitting: nodes that take the pod once those are gone that go by themselves, by name.
        nodes: the prospects.
        rows: of the prospects.
        highest, fewest, latest: no set has a lower highest priority, fewer pods, a later start.
        by_hand: see ``Prospect``.
        one_card: see ``Prospect``.
        useful: by number, whether a pod's leaving can be part of a smallest set.
        crowd: by number, how many hold the least crowded of its cards that could serve.
        lowest: no pod that may go has a lower priority.
    """

    fitting: tuple[str, ...] = ()
    nodes: Sequence[str] = ()
    rows: Sequence[int] = ()
    highest: Sequence[int] = ()
    fewest: Sequence[int] = ()
    latest: Sequence[int] = ()
    by_hand: Sequence[bool] = ()
    one_card: Sequence[bool] = ()
    useful: columns.BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    crowd: columns.IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lowest: int = LEAST_PRIORITY
    prefer: Prefer = Prefer.LEAST_IMPORTANT

    def prospects(self, *, by_hand: bool) -> Iterator[Prospect]:
        """Yield the nodes where it may help that pods go, the best bound first.

        Args:
            by_hand: those that a vendor judges by rules of its own, or all others.
        """
        found = zip(
            self.nodes,
            self.rows,
            self.highest,
            self.fewest,
            self.latest,
            self.by_hand,
            self.one_card,
            strict=True,
        )
        for node, row, highest, fewest, latest, alone, one_card in found:
            if alone is not by_hand:
                continue
            others = (fewest - 1) * (self.lowest - LEAST_PRIORITY)
            bound = cost(
                self.prefer,
                size=fewest,
                highest=highest,
                total=others + highest - LEAST_PRIORITY,
                earliest=latest,
                node=node,
            )
            yield Prospect(
                node=node,
                row=row,
                bound=bound,
                fewest=1 if alone else fewest,
                one_card=one_card,
                by_hand=alone,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """The nodes that are looked at; arrays by lane.

    Attributes:
        lane_of_row: -1 where a row is not looked at.
        open: some set of pods could make it fit, as far as the node itself goes.
        alone: a vendor judges the lane itself.
    """

    lanes: cards.Lanes
    n_lanes: int
    rows: npt.NDArray[np.intp]
    lane_of_row: npt.NDArray[np.intp]
    open: columns.BoolArray
    alone: columns.BoolArray


@dataclass(slots=True, kw_only=True)
class _Bounds:
    """What the cards say of each lane, and of each pod by number; see ``Survey``."""

    fewest: columns.IntArray
    one_card: columns.BoolArray
    useful: columns.BoolArray
    crowd: columns.IntArray
    lane_of_pod: npt.NDArray[np.intp]


def survey(
    asked: trial.Trial,
    names: Sequence[str],
    *,
    highest: int,
    prefer: Prefer = Prefer.LEAST_IMPORTANT,
    even_fitting: bool = False,
    kept: columns.BoolArray | None = None,
) -> Survey:
    """Look at all these nodes at once.

    Args:
        asked: the pod's question.
        names: of the nodes.
        highest: the highest priority that a pod may have that goes.
        prefer: the order of the prospects.
        even_fitting: nodes whose cards take the pod are prospects too: something else there
            keeps it off.
        kept: by number, the pods that do not go whatever their priority; None = no others.
    """
    held = asked.held
    ground = _ground(asked, names)
    may_go = asked.staying & (held.priority <= highest)
    if kept is not None:
        may_go &= ~kept
    going = asked.going
    off = asked.without(going, ground.lanes, ground.lane_of_row)
    has_going = _has(asked, ground, going)
    alive = ground.open & (~ground.alone | has_going)
    if np.count_nonzero(ground.open & ground.alone) <= FEW_ALONE:
        alive = ground.open
    fits = walk.walk(asked.view, ground.lanes, asked.rules, alive, gone=off).fits
    names_of = asked.view.name
    if fits.any() and not even_fitting:
        fitting = sorted(names_of(row) for row in ground.rows[fits].tolist())
        return Survey(fitting=tuple(fitting))
    could = ground.open & _has(asked, ground, may_go)
    everybody = asked.without(going | may_go, ground.lanes, ground.lane_of_row)
    judged = could & ~ground.alone
    if judged.any():
        judged &= walk.walk(asked.view, ground.lanes, asked.rules, judged, gone=everybody).fits
    could = judged | (could & ground.alone)
    if not could.any():
        return Survey()
    priorities = np.unique(held.priority[may_go])
    floor = _floor(asked, ground, judged, may_go=may_go, priorities=priorities)
    bounds = _bounds(asked, ground, off, everybody, may_go)
    latest = np.full(ground.n_lanes, stakes.NOT_STARTED, dtype=np.int64)
    if not (even_fitting or asked.returns):  # else pods may go that hold no card that is wanted
        latest = _latest(held, bounds, floor)
    lanes = np.flatnonzero(could)
    return _ordered(asked, ground, lanes, floor, latest, bounds, prefer, int(priorities[0]))


def _ordered(
    asked: trial.Trial,
    ground: _Ground,
    lanes: npt.NDArray[np.intp],
    floor: columns.IntArray,
    latest: columns.IntArray,
    bounds: _Bounds,
    prefer: Prefer,
    lowest: int,
) -> Survey:
    nodes = [asked.view.name(row) for row in ground.rows[lanes].tolist()]
    by_name = np.array(sorted(range(len(nodes)), key=nodes.__getitem__), dtype=np.intp)
    lanes = lanes[by_name]
    sort_keys = [-latest[lanes], bounds.fewest[lanes], floor[lanes]]
    if prefer is Prefer.FEWEST:
        sort_keys[1:] = reversed(sort_keys[1:])
    order = np.lexsort((*sort_keys, ground.alone[lanes]))
    lanes = lanes[order]
    return Survey(
        nodes=[nodes[at] for at in by_name[order].tolist()],
        rows=ground.rows[lanes].tolist(),
        highest=floor[lanes].tolist(),
        fewest=bounds.fewest[lanes].tolist(),
        latest=latest[lanes].tolist(),
        by_hand=ground.alone[lanes].tolist(),
        one_card=bounds.one_card[lanes].tolist(),
        useful=bounds.useful,
        crowd=bounds.crowd,
        lowest=lowest,
        prefer=prefer,
    )


def _ground(asked: trial.Trial, names: Sequence[str]) -> _Ground:
    view = asked.view
    rows = np.unique(view.rows(names))
    rows = rows[rows >= 0]
    lane_of_row = np.full(view.n_rows, -1, dtype=np.intp)
    lanes: cards.Lanes = rows
    if 2 * len(rows) >= view.n_rows:
        lanes, n_lanes = slice(0, view.n_rows), view.n_rows
        is_asked = np.zeros(n_lanes, dtype=np.bool_)
        is_asked[rows] = True
        lane_of_row[rows] = rows
        rows = np.arange(n_lanes)
    else:
        n_lanes = len(rows)
        is_asked = np.ones(n_lanes, dtype=np.bool_)
        lane_of_row[rows] = np.arange(n_lanes)
    conditions, _ = explain.barred(view, asked.wish.vendors, lanes, n_lanes)
    alone = np.zeros(n_lanes, dtype=np.bool_)
    for keyword in asked.wish.vendors:
        seen = view.vendor(keyword)
        if seen is None:
            continue
        vendor = asked.rules.vendors.get(keyword)
        its_own = by_hand.lanes(view, seen, lanes, vendor, asked.rules)
        if its_own is not None:
            alone |= its_own
    return _Ground(
        lanes=lanes,
        n_lanes=n_lanes,
        rows=rows,
        lane_of_row=lane_of_row,
        open=is_asked & (conditions == 0),
        alone=alone,
    )


def _has(asked: trial.Trial, ground: _Ground, pods: columns.BoolArray) -> columns.BoolArray:
    """Return the lanes where some of those pods hold cards that are asked for, or quota."""
    found = np.zeros(ground.n_lanes, dtype=np.bool_)
    for keyword in asked.wish.vendors:
        entries = asked.held.entries.get(keyword)
        if entries is not None:
            lanes = ground.lane_of_row[entries.row[pods[entries.pod]]]
            found[lanes[lanes >= 0]] = True
    return found


def _floor(
    asked: trial.Trial,
    ground: _Ground,
    lanes: columns.BoolArray,
    *,
    may_go: columns.BoolArray,
    priorities: columns.IntArray,
) -> columns.IntArray:
    """Return per lane a priority that some pod of every set has, or a higher one.

    Exact on the lanes where it is lowest, which are halved again and again; less is known
    of a lane that has left the race. On lanes that a vendor judges the lowest there is.
    """
    held = asked.held
    floor = np.full(ground.n_lanes, priorities[0], dtype=np.int64)
    low, high = 0, len(priorities) - 1
    left = np.flatnonzero(lanes)
    while low < high and len(left):
        middle = (low + high) // 2
        off = asked.going | (may_go & (held.priority <= priorities[middle]))
        rows = ground.rows[left]
        lane_of_row = np.full(asked.view.n_rows, -1, dtype=np.intp)
        lane_of_row[rows] = np.arange(len(rows))
        gone = asked.without(off, rows, lane_of_row)
        alive = np.ones(len(rows), dtype=np.bool_)
        fits = walk.walk(asked.view, rows, asked.rules, alive, gone=gone).fits
        if fits.any():
            floor[left[~fits]] = priorities[middle + 1]
            left, high = left[fits], middle
        else:
            low = middle + 1
    floor[left] = priorities[high]
    return floor


def _latest(held: stakes.Stakes, bounds: _Bounds, floor: columns.IntArray) -> columns.IntArray:
    """Return per lane the latest start that the most important pods of a set can have.

    Of the sets whose highest priority is the lowest possible: what pods of lower priority
    leave over has to be made up of pods of that one, and the earliest of them counts.
    """
    n_lanes = len(floor)
    pods = np.flatnonzero(bounds.useful)
    lane = bounds.lane_of_pod[pods]
    priority = held.priority[pods]
    below = np.bincount(lane[priority < floor[lane]], minlength=n_lanes)
    is_level = priority == floor[lane]
    lane, started = lane[is_level], held.started[pods[is_level]]
    needed = np.maximum(bounds.fewest - below, 1)
    if needed.max(initial=1) == 1 or not len(lane):
        latest = np.full(n_lanes, LEAST_START, dtype=np.int64)
        np.maximum.at(latest, lane, started)
        return latest
    order = np.lexsort((started, lane))
    ends = np.cumsum(np.bincount(lane, minlength=n_lanes))
    at = ends - needed
    is_there = at >= np.concatenate(([0], ends[:-1]))
    return np.where(is_there, started[order][np.maximum(at, 0)], stakes.NOT_STARTED)


def _bounds(
    asked: trial.Trial,
    ground: _Ground,
    off: cards.Gone,
    everybody: cards.Gone,
    may_go: columns.BoolArray,
) -> _Bounds:
    """Return what can be told card by card, each container's wish by itself.

    The wishes together need no less than each of them, so the numbers are bounds.
    """
    n_pods = len(may_go)
    rules = asked.rules
    is_single = len(rules.stages) == 1
    bounds = _Bounds(
        fewest=np.ones(ground.n_lanes, dtype=np.int64),
        one_card=np.zeros(ground.n_lanes, dtype=np.bool_),
        useful=np.zeros(n_pods, dtype=np.bool_),
        crowd=np.full(n_pods, _UNKNOWN, dtype=np.int64),
        lane_of_pod=np.full(n_pods, -1, dtype=np.intp),
    )
    for keyword in asked.wish.vendors:
        seen, entries = asked.view.vendor(keyword), asked.held.entries.get(keyword)
        if seen is None or entries is None:
            continue
        now = cards.lay_out(seen, ground.lanes, without=off.amounts[keyword])
        then = cards.lay_out(seen, ground.lanes, without=everybody.amounts[keyword])
        staked = _Staked.of(entries, ground, now, may_go)
        could_serve = np.zeros(now.present.shape, dtype=np.bool_)
        for stage in rules.stages:
            if stage.wish.vendor != keyword:
                continue
            ask = rules.ask(now, stage)
            before, after = masks.bits(now, ask), masks.bits(then, ask)
            to_free = (after == 0) & (before != 0)
            missing = np.maximum(ask.count - np.count_nonzero(before == 0, axis=1), 0)
            needed = staked.fewest(now, ask, before, to_free, missing)
            np.maximum(bounds.fewest, needed, out=bounds.fewest)
            could_serve |= to_free if is_single and not asked.returns else after == 0
            if is_single and not asked.returns and not ask.selection.numa_bind:
                bounds.one_card = (missing == 1) & ~ground.alone
        could_serve |= ground.alone[:, None]
        staked.tell(bounds, could_serve)
    for returns in asked.returns.values():
        bounds.useful |= may_go & ((returns.memory_mib != 0) | (returns.cores != 0))
    return bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staked:
    """What pods that may go hold of one vendor's cards: one value for each pod and card.

    Attributes:
        lane: of the node.
        at: of the card, as if lanes stood one behind the other.
        spread: by lane, the most cards that one pod holds; at least 1.
    """

    shape: tuple[int, int]
    pod: npt.NDArray[np.intp]
    lane: npt.NDArray[np.intp]
    at: npt.NDArray[np.intp]
    slots: columns.IntArray
    memory_mib: columns.IntArray
    cores: columns.IntArray
    spread: columns.IntArray

    @classmethod
    def of(
        cls,
        entries: stakes.Entries,
        ground: _Ground,
        board: cards.Board,
        may_go: columns.BoolArray,
    ) -> "_Staked":
        """Return the stakes of those pods on those lanes."""
        shape = board.present.shape
        places = np.flatnonzero(may_go[entries.pod])
        lane = ground.lane_of_row[entries.row[places]]
        places, lane = places[lane >= 0], lane[lane >= 0]
        pod = entries.pod[places]
        spread = np.ones(shape[0], dtype=np.int64)
        np.maximum.at(spread, lane, np.bincount(pod, minlength=1)[pod])
        return cls(
            shape=(shape[0], shape[1]),
            pod=pod,
            lane=lane,
            at=lane * shape[1] + entries.column[places],
            slots=entries.slots[places],
            memory_mib=entries.memory_mib[places],
            cores=entries.cores[places],
            spread=spread,
        )

    def fewest(
        self,
        board: cards.Board,
        ask: masks.Ask,
        facts: masks.Bits,
        to_free: columns.BoolArray,
        missing: npt.NDArray[np.intp],
    ) -> columns.IntArray:
        """Return per lane how many pods have to go at least for that many more cards.

        A card needs as many as its largest holders would have to be. Those that are needed
        can be no others than the cheapest; a pod may hold several of them.
        """
        cores_short = ask.cores_percent - (board.total_cores - board.used_cores)
        if not ask.cores_percent:
            full = (board.total_cores != 0) & (board.used_cores >= board.total_cores)
            cores_short = np.where(full, board.used_cores - board.total_cores + 1, cores_short)
        needed = np.ones(self.shape, dtype=np.int64)
        for short, amounts in (
            (ask.memory_mib - (board.total_memory_mib - board.used_memory_mib), self.memory_mib),
            (cores_short, self.cores),
            (board.used_slots - board.total_slots + 1, self.slots),
        ):
            largest = np.maximum(self._most(amounts), 1)
            np.maximum(needed, -(-np.maximum(short, 0) // largest), out=needed)
        alone = (facts & np.uint16(_ALONE)) != 0
        if alone.any():
            np.maximum(needed, np.where(alone, self._holders(), 1), out=needed)
        needed[~to_free] = _UNKNOWN
        needed.sort(axis=1)
        together = np.cumsum(needed, axis=1)
        lanes, last = np.arange(self.shape[0]), np.clip(missing, 1, self.shape[1]) - 1
        least = np.maximum(needed[lanes, last], -(-together[lanes, last] // self.spread))
        return np.where((missing > 0) & (least < _UNKNOWN), least, 1)

    def tell(self, bounds: _Bounds, could_serve: columns.BoolArray) -> None:
        """Note what is to be known of pods that hold cards that could serve."""
        counts = could_serve.reshape(-1)[self.at]
        pod, lane = self.pod[counts], self.lane[counts]
        bounds.useful[pod] = True
        np.minimum.at(bounds.crowd, pod, self._holders().reshape(-1)[self.at[counts]])
        bounds.lane_of_pod[pod] = lane

    def _most(self, amounts: columns.IntArray) -> columns.IntArray:
        most = np.zeros(self.shape[0] * self.shape[1], dtype=np.int64)
        np.maximum.at(most, self.at, amounts)
        return most.reshape(self.shape)

    def _holders(self) -> columns.IntArray:
        """Return per card how many pods hold a slot of it."""
        held = self.at[self.slots > 0]
        return np.bincount(held, minlength=self.shape[0] * self.shape[1]).reshape(self.shape)
