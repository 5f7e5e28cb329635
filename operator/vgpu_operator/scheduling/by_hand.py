"""Lanes that a vendor judges by rules of its own, one node at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import columns, snapshot, tenants
from vgpu_operator.model import allocation, device, fitting, quota, reason
from vgpu_operator.scheduling import cards, masks, order, stages
from vgpu_operator.vendors import base


def lanes(
    view: snapshot.Snapshot,
    seen: snapshot.VendorView,
    at: cards.Lanes,
    vendor: base.Vendor | None,
    rules: stages.Rules,
) -> columns.BoolArray | None:
    """Return which lanes the vendor judges itself, shape ``(n_lanes,)``; None is no lane.

    A vendor that reads pods' texts judges every node where there are some.
    """
    if vendor is None:
        return None
    if not vendor.vectorised:
        return np.ones(len(seen.registered[at]), dtype=np.bool_)
    policies = rules.policies
    marked = seen.marked(
        (vendor, policies), lambda of_row: vendor.needs_choosing(of_row, policies)
    )[at]
    if vendor.spec.pod_note_keys:
        marked = marked | view.noted()[at]
    return marked if marked.any() else None


def open_desk(
    view: snapshot.Snapshot,
    seen: snapshot.VendorView,
    board: cards.Board,
    vendor: base.Vendor,
    rules: stages.Rules,
    *,
    empty: bool = False,
    gone: cards.Gone | None = None,
) -> "Desk":
    """Return a desk for the vendor's cards on a board."""
    rows = np.arange(view.n_rows)[board.lanes]
    return Desk(
        view=view,
        seen=seen,
        board=board,
        rows=rows,
        vendor=vendor,
        rules=rules,
        empty=empty,
        gone=gone,
    )


@dataclass(slots=True, kw_only=True)
class Desk:
    """One vendor's lanes as its own rules see them, which this pod's containers fill up.

    Attributes:
        view: the ledger.
        seen: the vendor's cards.
        board: the same cards on the lanes.
        rows: each lane's row.
        vendor: whose rules.
        rules: of the pod.
        empty: pretend that no pod holds anything.
        gone: pods that are not counted; what they hold is off the board.
        held: per lane what the pod's lasting containers were given so far, by container.
        costs: per lane what that counts against the quota.
    """

    view: snapshot.Snapshot
    seen: snapshot.VendorView
    board: cards.Board
    rows: npt.NDArray[np.intp]
    vendor: base.Vendor
    rules: stages.Rules
    empty: bool
    gone: cards.Gone | None = None
    held: dict[int, dict[int, allocation.ContainerShares]] = field(default_factory=dict)
    costs: dict[int, quota.Amount] = field(default_factory=dict)

    def answer(
        self, stage: stages.Stage, at: npt.NDArray[np.intp], card_order: order.CardOrder
    ) -> tuple[dict[int, allocation.ContainerShares], dict[int, stages.Refusal]]:
        """Ask the vendor about these lanes; what a lasting container takes is charged."""
        shares: dict[int, allocation.ContainerShares] = {}
        refused: dict[int, stages.Refusal] = {}
        keyword = stage.wish.vendor
        allowance = self.rules.allowances.get(keyword, quota.UNLIMITED)
        selection = self.rules.selection(keyword)
        for lane, places, node in self.nodes(stage, at, card_order):
            answer = self.vendor.choose(
                node,
                fitting.Ask(
                    wish=stage.wish,
                    selection=selection,
                    container=stage.container,
                    unused_only=self.rules.unused_only,
                    policies=self.rules.policies,
                    earlier=self._earlier(lane, stage.container),
                    notes=self.rules.notes,
                ),
            )
            if isinstance(answer, fitting.Refused):
                refused[lane] = _refusal(answer, len(node.cards))
                continue
            granted = tuple(_share(self.vendor, node, pick) for pick in answer)
            cost = _cost(self.vendor, node, answer, granted)
            left = allowance.less(self.costs.get(lane, quota.NOTHING) - self._returned(lane))
            if not left.covers(cost):
                refused[lane] = _over_quota(keyword, left, cost)
                continue
            shares[lane] = granted
            if stage.lasting:
                self.held.setdefault(lane, {})[stage.container] = granted
                self.costs[lane] = self.costs.get(lane, quota.NOTHING) + cost
                for pick in answer:
                    self.board.charge_one(
                        (lane, places[pick.card]), pick.slots, pick.memory_mib, pick.cores
                    )
        return shares, refused

    def nodes(
        self, stage: stages.Stage, at: npt.NDArray[np.intp], card_order: order.CardOrder
    ) -> list[tuple[int, list[int], fitting.NodeState]]:
        """Return per lane the columns of its candidates in the order of trying, and the node."""
        keyword, board = stage.wish.vendor, self.board
        candidates = masks.candidates(board, keyword)
        ranking = order.ranking(
            board,
            candidates,
            stage.wish,
            card_order,
            by_numa=self.rules.selection(keyword).numa_bind,
        )
        numbers = np.count_nonzero(candidates[at], axis=1).tolist()
        found = []
        for place, (lane, row, number) in enumerate(
            zip(at.tolist(), self.rows[at].tolist(), numbers, strict=True)
        ):
            name = self.view.name(row)
            of_row = self.seen.cards.get(row, ())
            holders = self._holders(name, lane)
            places = ranking[at[place], :number].tolist()
            state = fitting.NodeState(
                name=name,
                cards=tuple(
                    self._card(of_row[column], (lane, column), holders) for column in places
                ),
                notes=self.view.notes(name),
            )
            found.append((lane, places, state))
        return found

    def _holders(self, name: str, lane: int) -> tenants.Cards:
        if self.empty:
            return tenants.NOBODY
        holders = self.view.tenants(name, self.vendor.spec.keyword)
        return holders if self.gone is None else tenants.without(holders, self.gone.pods(lane))

    def _returned(self, lane: int) -> quota.Amount:
        """Return what the pods that are gone leave of the quota."""
        keyword = self.vendor.spec.keyword
        if self.gone is None or keyword not in self.gone.memory_mib:
            return quota.NOTHING
        return quota.Amount(
            memory_mib=int(self.gone.memory_mib[keyword][lane]),
            cores=int(self.gone.cores[keyword][lane]),
        )

    def _card(
        self, card: device.Device, place: columns.Place, holders: tenants.Cards
    ) -> fitting.CardState:
        board, here = self.board, holders.get(card.id, ())
        used_cores = int(board.used_cores[place])
        if self.vendor.mask_cores:
            used_cores = self._used_mask(card, place[0], here)
        return fitting.CardState(
            device=card,
            used_slots=int(board.used_slots[place]),
            used_memory_mib=int(board.used_memory_mib[place]),
            used_cores=used_cores,
            cordoned=bool(board.cordoned[place]),
            tenants=here,
        )

    def _used_mask(self, card: device.Device, lane: int, holders: Sequence[fitting.Tenant]) -> int:
        """Return every bit that somebody holds: a sum would carry where two hold the same one."""
        own = (share for entry in self.held.get(lane, {}).values() for share in entry)
        mask = 0
        for share in (*own, *(tenant.share for tenant in holders)):
            if share.device_id == card.id:
                mask |= max(0, share.cores_percent)
        return mask

    def _earlier(self, lane: int, container: int) -> allocation.PodShares:
        held: Mapping[int, allocation.ContainerShares] = self.held.get(lane, {})
        if not held:
            return ()
        return tuple(held.get(index, ()) for index in range(container))


def _share(
    vendor: base.Vendor, node: fitting.NodeState, pick: fitting.Pick
) -> allocation.DeviceShare:
    card = node.cards[pick.card].device
    return allocation.DeviceShare(
        device_id=card.id,
        vendor_word=vendor.share_word(card),
        memory_mib=pick.memory_mib,
        cores_percent=pick.cores,
    )


def _cost(
    vendor: base.Vendor,
    node: fitting.NodeState,
    picks: Sequence[fitting.Pick],
    granted: Sequence[allocation.DeviceShare],
) -> quota.Amount:
    total = quota.NOTHING
    for pick, share in zip(picks, granted, strict=True):
        total += vendor.quota_amount(share, node.cards[pick.card].device)
    return total


def _refusal(answer: fitting.Refused, candidates: int) -> stages.Refusal:
    """Return the vendor's words with what they are counted against; bare ones against nothing."""

    def against(number: int) -> int:
        if answer.of is not None:
            return answer.of
        return candidates if number else 0

    return stages.Refusal(
        counts=tuple((word, number, against(number)) for word, number in answer.counts.items()),
        detail=answer.detail,
    )


def _over_quota(keyword: str, left: quota.Allowance, cost: quota.Amount) -> stages.Refusal:
    """Return a refusal that names the first amount that the namespace's quota does not cover."""
    memory_is_short = left.memory_mib is not None and 0 < cost.memory_mib > left.memory_mib
    asked, rest, what = (
        (cost.memory_mib, left.memory_mib, f"MiB of {keyword} memory")
        if memory_is_short
        else (cost.cores, left.cores, f"{keyword} cores")
    )
    return stages.Refusal(
        counts=((reason.Reason.QUOTA_NOT_FIT.value, 0, 0),),
        detail=f"{asked} {what} are needed, the namespace's quota leaves {max(0, rest or 0)}",
    )
