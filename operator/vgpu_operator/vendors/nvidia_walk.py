"""NVIDIA cards looked at one by one: MIG instances, NUMA nodes, links.

The common rules (``walk``) with what they cannot say for all nodes at once: a
card in MIG mode may serve several shares of a container, under numa-bind all
cards come from one NUMA node, under topology-aware all cards that pass are
collected and those are taken whose links are best.

Source: HAMi v2.10.0, ``pkg/device/nvidia/device.go``.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_operator.model import device, fitting, policy, reason
from vgpu_operator.vendors import mig, topology, walk


def choose(node: fitting.NodeState, ask: fitting.Ask, allow_list: mig.AllowList) -> fitting.Answer:
    """Return which cards one container gets on one node, or why it gets none."""
    may_repeat = any(_is_mig_candidate(card, ask) for card in node.cards)
    if len(node.cards) < ask.wish.count and not may_repeat:
        return fitting.Refused(counts={reason.Reason.TOO_FEW_CARDS.value: 0})
    found = _Walk(node, ask, allow_list)
    found.go()
    chosen = found.chosen()
    if chosen is None:
        return fitting.Refused(counts=found.reasons(), detail=found.withheld)
    return found.picks(chosen)


_KIND_CHECKS: Final = (walk.healthy, walk.not_cordoned, walk.type_allowed)
_ROOM_CHECKS: Final = tuple(check for check in walk.COMMON if check not in _KIND_CHECKS)


class _Walk:
    """One container's walk over one node's cards, as HAMi's loop goes.

    ``withheld`` says which card is kept from everybody, if one is.

    ``groups`` holds indexes of cards that pass, once for each share: one group
    for each NUMA node under numa-bind, else a single one.
    """

    def __init__(
        self, node: fitting.NodeState, ask: fitting.Ask, allow_list: mig.AllowList
    ) -> None:
        self._node = node
        self._ask = ask
        self._allow_list = allow_list
        self._linked = policy.CardPolicy.TOPOLOGY_AWARE in ask.policies
        self._counts: dict[str, int] = {}
        self._groups: list[list[int]] = [[]]
        self.withheld = ""

    def go(self) -> None:
        """Collect the shares; stop as soon as there are enough, unless links count."""
        numa: int | None = None
        count = self._ask.wish.count
        for index, card in enumerate(self._node.cards):
            word = self._of_kind(card)
            if word is None and self._ask.selection.numa_bind and card.device.numa != numa:
                numa = card.device.numa
                self._next_group()
            word = word or walk.first_fault(_ROOM_CHECKS, card, self._ask)
            if word is None:
                wanted = count if self._linked else count - len(self._groups[-1])
                shares, word = self._shares(card, wanted)
                self._groups[-1] += [index] * shares
            if word is not None:
                self._counts[word] = self._counts.get(word, 0) + 1
            if not self._linked and len(self._groups[-1]) == count:
                return

    def chosen(self) -> list[int] | None:
        """Return the cards to take, None when there are too few.

        Where links count, HAMi looks at the NUMA node that it walked last
        only; here the last one that has enough is taken.
        """
        count = self._ask.wish.count
        enough = [group for group in self._groups if len(group) >= count]
        if not enough:
            return None
        group = enough[-1]
        if len(group) == count:
            return group
        ids = [self._node.cards[index].device.id for index in group]
        scores = topology.pair_scores_in(self._node.notes)
        if count == 1:
            return [group[topology.worst_linked(ids, scores)]]
        return [group[place] for place in topology.best_linked(ids, count, scores)]

    def reasons(self) -> dict[str, int]:
        """Return what kept cards off, and how many shares of the last group there were."""
        found = len(self._groups[-1])
        return {
            **self._counts,
            **({reason.Reason.TOO_FEW_FREE_CARDS.value: found} if found else {}),
        }

    def picks(self, chosen: Sequence[int]) -> tuple[fitting.Pick, ...]:
        """Return the shares on these cards, in order."""
        occupied: dict[int, list[device.MigPlacement]] = {}
        picks = []
        for index in chosen:
            pick = walk.pick(self._node, self._ask, index)
            card = self._node.cards[index]
            if card.device.mode == mig.MODE:
                if index not in occupied:
                    occupied[index] = self._occupied(card)
                taken = occupied[index]
                found = self._instance(card, taken)
                if found is not None:
                    profile, place = found
                    taken.append(place)
                    pick = fitting.Pick(
                        card=index, memory_mib=profile.memory_mib, cores=profile.cores_percent
                    )
            picks.append(pick)
        return tuple(picks)

    def _of_kind(self, card: fitting.CardState) -> str | None:
        """Return what keeps the card off whoever uses it.

        A card of which it cannot be known where its MIG instances lie takes
        nobody, as if it were unhealthy.
        """
        if mig.held_by_others(self._node.cards, card) is None:
            holders = ", ".join(dict.fromkeys(str(tenant.pod) for tenant in card.tenants))
            self.withheld = (
                f"{card.device.id} takes nobody while it is not known which MIG instances of it"
                f" are held by {holders}"
            )
            return reason.Reason.CARD_NOT_HEALTHY.value
        return walk.first_fault(_KIND_CHECKS, card, self._ask)

    def _next_group(self) -> None:
        dropped = len(self._groups[-1])
        if dropped and not self._linked:
            word = reason.Reason.NUMA_NOT_FIT.value
            self._counts[word] = self._counts.get(word, 0) + dropped
        self._groups.append([])

    def _shares(self, card: fitting.CardState, wanted: int) -> tuple[int, str | None]:
        """Return how many shares the card can serve, and what ends it before ``wanted``."""
        if card.device.mode != mig.MODE:
            return 1, None
        occupied = self._occupied(card)
        for shares in range(wanted):
            found = self._instance(card, occupied)
            if found is None:
                return shares, reason.Reason.MIG_INFEASIBLE.value
            if card.used_slots + shares >= card.device.slots:
                return shares, reason.Reason.SLOTS_EXHAUSTED.value
            occupied.append(found[1])
        return wanted, None

    def _instance(
        self, card: fitting.CardState, occupied: Sequence[device.MigPlacement]
    ) -> mig.Found | None:
        wish = self._ask.wish
        return mig.pick(
            mig.allowed(card.device, self._allow_list),
            occupied,
            memory_mib=wish.memory_on(card.device.memory_mib),
            cores_percent=min(wish.cores_percent, walk.WHOLE_CARD),
        )

    def _occupied(self, card: fitting.CardState) -> list[device.MigPlacement]:
        """Return where the card is taken, by other pods and by this pod's earlier containers."""
        earlier = (
            share
            for entry in self._ask.earlier
            for share in entry
            if share.device_id == card.device.id
        )
        others = mig.held_by_others(self._node.cards, card) or ()
        return mig.laid_out(mig.allowed(card.device, self._allow_list), others, earlier)


def _is_mig_candidate(card: fitting.CardState, ask: fitting.Ask) -> bool:
    mode = ask.selection.mode
    return card.device.mode == mig.MODE and (mode is None or mig.MODE in mode)
