"""Filters, binds and kept cards in any order: no card is ever promised beyond its totals.

The twin is a dictionary of amounts: who holds what, for whom what is kept, and who is to
leave for whom. It plans by plain arithmetic. Each seed is one history.
"""

import dataclasses
import random
from dataclasses import dataclass

import pytest

from support import clusters
from support.operator_books import NOW, NVIDIA, bound, later, open_books, pending, put_node
from support.operator_books import register_text as cards_text
from vgpu_operator.flows import bind, pod_events, reconcile
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.preemption import attempts
from vgpu_operator.model import allocation, records

SLOTS, MEMORY_MIB, CORES = 3, 100, 100
CARDS = {"node-a": ("GPU-0", "GPU-1"), "node-b": ("GPU-2",)}
NODES = tuple(CARDS)
PRIORITIES = (0, 5, 9)
STEPS = 250


@dataclass(frozen=True, slots=True)
class Amounts:
    """What stands on one card."""

    slots: int = 0
    memory_mib: int = 0
    cores: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(
            self.slots + other.slots, self.memory_mib + other.memory_mib, self.cores + other.cores
        )

    @property
    def too_much(self) -> bool:
        return self.slots > SLOTS or self.memory_mib > MEMORY_MIB or self.cores > CORES


@dataclass(slots=True)
class Pod:
    """One pod of the twin; ``card`` is None while it holds nothing."""

    record: records.PodRecord
    asks: Amounts
    node: str = ""
    card: str | None = None
    is_bound: bool = False


class World:
    def __init__(self, seed: int) -> None:
        self.die = random.Random(seed)  # noqa: S311  # a die for tests
        self.books = open_books()
        self.pods: dict[str, Pod] = {}
        self.seconds = 0.0
        self.version = 100
        self.names = 0
        for node, ids in CARDS.items():
            text = cards_text(*((card, MEMORY_MIB) for card in ids), count=SLOTS)
            put_node(self.books, node, register=text)

    # The twin

    def held(self, node: str, card: str, *, without: frozenset[str] = frozenset()) -> Amounts:
        total = Amounts()
        for uid, pod in self.pods.items():
            if pod.node == node and pod.card == card and uid not in without:
                total += pod.asks
        return total

    def kept(self, node: str, card: str, *, priority: int = -1, besides: str = "") -> Amounts:
        """Return what is kept from a pod: of equals, on its own card, only for who came before."""
        total, is_own_card = Amounts(), False
        for one in self.books.ledger.nominations():  # oldest first
            here = one.node == node and card in one.holding.charges[NVIDIA]
            if one.pod.uid == besides:
                is_own_card = here
            elif here and (
                one.priority > priority or (one.priority == priority and not is_own_card)
            ):
                total += self.pods[one.pod.uid].asks
        return total

    def leaving(self) -> frozenset[str]:
        return frozenset(
            victim.uid
            for one in self.books.ledger.nominations()
            for victim in self.books.preemption.attempts[one.pod.uid].victims
        )

    def waiting(self, uid: str) -> Pod | None:
        pod = self.pods.get(uid)
        return pod if pod is not None and pod.card is None and not pod.is_bound else None

    def show(self, record: records.PodRecord) -> records.PodRecord:
        self.version += 1
        record = dataclasses.replace(record, resource_version=str(self.version))
        pod_events.pod_seen(self.books, record)
        return record

    # What happens

    def pod_is_created(self) -> None:
        priority = self.die.choice(PRIORITIES)
        memory_mib, cores = self.die.choice((20, 50, 100)), self.die.choice((0, 40))
        self.names += 1
        asked = clusters.asks(memory_mib=memory_mib, cores_percent=cores)
        record = pending(f"p{self.names}", asked, priority=priority)
        self.pods[record.key.uid] = Pod(
            record=self.show(record), asks=Amounts(1, memory_mib, cores)
        )

    def any_pod(self, *, waits: bool) -> Pod | None:
        found = [uid for uid in self.pods if (self.waiting(uid) is not None) == waits]
        return self.pods[self.die.choice(found)] if found else None

    def pod_is_filtered(self) -> None:
        pod = self.any_pod(waits=True)
        if pod is not None:
            flow_filter.filter_nodes(self.books, pod.record, NODES, later(self.seconds))

    def bind_begins(self) -> None:
        pod, node = self.any_pod(waits=True), self.die.choice(NODES)
        if pod is None:
            return
        uid, priority = pod.record.key.uid, pod.record.priority
        could = [
            card
            for card in CARDS[node]
            if not (
                self.held(node, card)
                + self.kept(node, card, priority=priority, besides=uid)
                + pod.asks
            ).too_much
        ]

        granted = bind.reserve(self.books, pod.record.request, node, priority=priority)

        # Cores that are all taken refuse a pod that asks for none, too.
        if isinstance(granted, allocation.Allocation):
            ((share,),) = granted.shares[NVIDIA]
            assert share.device_id in could
            pod.node, pod.card = node, share.device_id
        else:
            assert not could

    def bind_ends_well(self) -> None:
        pod = self.any_pod(waits=False)
        if pod is None or pod.is_bound or pod.card is None:
            return
        pod.is_bound = True
        memory_mib, cores = pod.asks.memory_mib, pod.asks.cores
        share = clusters.share(pod.card, memory_mib, cores)
        pod.record = self.show(
            bound(pod.record, pod.node, promised={NVIDIA: ((share,),)}, memory_mib=memory_mib)
        )

    def bind_fails(self) -> None:
        pod = self.any_pod(waits=False)
        if pod is not None and not pod.is_bound:
            self.books.ledger.unassume(pod.record.key.uid)
            pod.node, pod.card = "", None
            # What was kept for it is kept again, maybe beside what was kept meanwhile.
            self.tick()

    def cards_are_kept(self) -> None:
        """Plan as simply as can be: take pods of lower priority off one card until it fits."""
        pod, node = self.any_pod(waits=True), self.die.choice(NODES)
        if pod is None:
            return
        uid, priority = pod.record.key.uid, pod.record.priority
        card = self.die.choice(CARDS[node])
        lower = [
            other
            for other, one in self.pods.items()
            if one.is_bound and one.card == card and one.record.priority < priority
        ]
        victims: list[str] = []
        kept = self.kept(node, card, priority=priority, besides=uid)
        while (self.held(node, card, without=frozenset(victims)) + kept + pod.asks).too_much:
            if not lower:
                return
            victims.append(lower.pop())
        self.books.preemption.attempts[uid] = attempts.Attempt(
            pod=pod.record.key,
            priority=priority,
            node=node,
            victims=tuple(self.pods[victim].record.key for victim in victims),
            since=NOW,
            until=later(self.seconds + 5),
        )
        share = clusters.share(card, pod.asks.memory_mib, pod.asks.cores)
        promised = clusters.promise(node, [share])
        assert self.books.ledger.nominate(
            pod.record.request, priority, promised, later(self.seconds + 5)
        )
        self.tick()

    def victim_leaves(self) -> None:
        if self.leaving():
            self.end(self.die.choice(sorted(self.leaving())))

    def pod_ends(self) -> None:
        if self.pods:
            self.end(self.die.choice(list(self.pods)))

    def end(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            pod_events.pod_gone(self.books, pod.record.key)
            # Others may have counted on whoever was to leave for it.
            self.tick()

    def time_passes(self) -> None:
        self.seconds += self.die.choice((0.5, 2.0))
        self.tick()

    def tick(self) -> None:
        reconcile.quick_tick(self.books, later(self.seconds))

    # What is always so

    def nobody_holds_more_than_a_card_has(self) -> None:
        for node, ids in CARDS.items():
            usage = {one.device.id: one for one in self.books.ledger.usage(node, NVIDIA)}
            for card in ids:
                held = self.held(node, card)
                assert not held.too_much
                assert held == Amounts(
                    usage[card].used_slots,
                    usage[card].used_memory_mib,
                    usage[card].used_cores_percent,
                )

    def everything_that_is_kept_can_be_had_once_all_have_left_who_are_to(self) -> None:
        for node, ids in CARDS.items():
            for card in ids:
                rest = self.held(node, card, without=self.leaving())
                assert not (rest + self.kept(node, card)).too_much

    def what_is_kept_is_kept_for_a_pod_that_waits(self) -> None:
        for one in self.books.ledger.nominations():
            assert self.waiting(one.pod.uid) is not None

    def step(self) -> None:
        doings = {
            self.pod_is_created: 30 if len(self.pods) < 10 else 0,
            self.pod_is_filtered: 20,
            self.bind_begins: 30,
            self.bind_ends_well: 30,
            self.bind_fails: 5,
            self.cards_are_kept: 25,
            self.victim_leaves: 15,
            self.pod_ends: 10,
            self.time_passes: 10,
        }
        self.die.choices(list(doings), list(doings.values()))[0]()
        self.nobody_holds_more_than_a_card_has()
        self.everything_that_is_kept_can_be_had_once_all_have_left_who_are_to()
        self.what_is_kept_is_kept_for_a_pod_that_waits()


@pytest.mark.parametrize("seed", range(20), ids=lambda seed: f"seed-{seed}")
def test_no_card_is_promised_beyond_its_totals(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
