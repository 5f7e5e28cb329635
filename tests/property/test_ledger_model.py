"""The ledger against a model that counts everything anew after every event."""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import hypothesis
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support import clusters, slow_twin
from vgpu_operator.ledger import audit, ledger
from vgpu_operator.model import allocation, records, request, settings
from vgpu_operator.scheduling import fit

VENDOR = clusters.VENDOR
NAMES = ("node-a", "node-b")
UIDS = ("u1", "u2", "u3", "u4")
PRIORITIES = (0, 9)
LOWEST = PRIORITIES[0]
ASKED = (
    (False, None, ""),
    (True, None, ""),
    (False, 0, ""),
    (True, 0, "u1"),
    (True, 9, ""),
    (False, 9, "u1"),
)
"""Snapshots that are looked at: with claims, for which priority, without which pod's own."""
START = datetime(2026, 1, 15, 10, 0, tzinfo=UTC)
PROBE = clusters.wish(clusters.asks(memory_mib=40, cores_percent=20), uid="probe")

Kept = tuple[request.PodRequest, allocation.Allocation, int, datetime]

DEVICES = st.lists(
    st.builds(
        lambda number, memory, healthy: (number, memory, healthy),
        st.integers(0, 2),
        st.sampled_from([100, 200]),
        st.booleans(),
    ),
    unique_by=lambda card: card[0],
    max_size=3,
)
SHARES = st.builds(
    clusters.share,
    st.sampled_from(["GPU-0", "GPU-1", "GPU-2", "GPU-9"]),
    st.sampled_from([10, 50, 90]),
    st.sampled_from([0, 20, 60]),
)
ASKS = st.one_of(
    st.builds(
        clusters.asks,
        st.integers(1, 2),
        memory_mib=st.sampled_from([20, 60]),
        cores_percent=st.sampled_from([0, 30]),
    ),
    st.builds(clusters.asks, st.just(1), percent=st.sampled_from([30, 100])),
)
KINDS = st.lists(st.sampled_from(list(request.ContainerKind)), min_size=1, max_size=3)


@st.composite
def wishes(draw: st.DrawFn, uid: str) -> request.PodRequest:
    """Return what the pod asks; a UID asks the same all its life in the API, not here."""
    kinds = sorted(draw(KINDS), key=lambda kind: kind is request.ContainerKind.APP)
    return clusters.wish(
        *(
            clusters.container(*([draw(ASKS)] if draw(st.booleans()) else []), kind=kind)
            for kind in kinds
        ),
        uid=uid,
        name=f"pod-{uid}",
    )


@st.composite
def pods(draw: st.DrawFn) -> records.PodRecord:
    """Return a pod in any state of its life, in a version of any age."""
    wish = draw(wishes(draw(st.sampled_from(UIDS))))
    promised = clusters.promise(
        draw(st.sampled_from(NAMES)),
        *(draw(st.lists(SHARES, max_size=2)) for _ in wish.containers),
    )
    return clusters.pod(
        wish,
        promised,
        node_name=draw(st.sampled_from(["", promised.node, promised.node, "node-b"])),
        phase=draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded"])),
        version=str(draw(st.integers(1, 12))),
        deleting=draw(st.booleans()),
        init_done=draw(st.booleans()),
        faults=draw(st.sampled_from([(), (), (VENDOR,)])),
    )


@st.composite
def assumptions(draw: st.DrawFn) -> tuple[request.PodRequest, allocation.Allocation]:
    """Return a pod and shares that stay within what it asks."""
    wish = draw(wishes(draw(st.sampled_from(UIDS))))
    entries: list[list[allocation.DeviceShare]] = []
    for container in wish.containers:
        asked = container.of(VENDOR)
        if asked is None:
            entries.append([])
            continue
        ids = draw(st.permutations(["GPU-0", "GPU-1", "GPU-9"]))[: asked.count]
        memory = asked.memory_mib or asked.memory_on(100)
        entries.append([clusters.share(card, memory, asked.cores_percent) for card in ids])
    return wish, clusters.promise(draw(st.sampled_from(NAMES)), *entries)


def free(twin: slow_twin.Twin) -> dict[str, dict[str, tuple[int, int, int]]]:
    """Return per node and card what is left."""
    return {
        name: {
            card.device.id: (
                card.device.slots - card.slots,
                card.device.memory_mib - card.memory,
                card.device.cores_percent - card.cores,
            )
            for card in held[VENDOR]
            if card.device.healthy and not card.cordoned
        }
        for name, held in twin.cards.items()
    }


class LedgerAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.books = ledger.Ledger(vendors=(VENDOR,), trust=settings.Trust.REQUESTS)
        self.nodes: dict[str, clusters.Node] = {}
        self.records: dict[str, records.PodRecord] = {}
        self.assumed: dict[str, tuple[request.PodRequest, allocation.Allocation]] = {}
        self.claims: dict[str, tuple[request.PodRequest, allocation.Allocation, datetime]] = {}
        self.kept: dict[str, Kept] = {}
        self.gone: set[str] = set()
        self.now = START
        self.last_generation = 0
        self.last_answer: object = None
        self.last_free: dict[str, dict[str, tuple[int, int, int]]] = {}

    def change(self, name: str, **fields: object) -> None:
        before = self.nodes.get(name) or clusters.node(allocatable=None)
        self.nodes[name] = dataclasses.replace(before, **fields)  # type: ignore[arg-type]

    @rule(name=st.sampled_from(NAMES), drawn=DEVICES)
    def node_registers(self, name: str, drawn: list[tuple[int, int, bool]]) -> None:
        cards = tuple(
            clusters.card(f"GPU-{n}", index=n, slots=3, memory_mib=memory, healthy=healthy)
            for n, memory, healthy in drawn
        )
        self.books.set_devices(name, VENDOR, cards)
        held = self.nodes[name].cards[VENDOR] if name in self.nodes else ()
        if set(held) != set(cards):
            self.change(name, cards={VENDOR: cards})
        else:
            self.change(name)

    @rule(name=st.sampled_from(NAMES))
    def devices_leave(self, name: str) -> None:
        self.books.drop_devices(name, VENDOR)
        if name in self.nodes:
            self.change(name, cards={VENDOR: ()})

    @rule(name=st.sampled_from(NAMES), count=st.sampled_from([None, 0, 10]))
    def kubelet_reports(self, name: str, count: int | None) -> None:
        self.books.set_allocatable(name, VENDOR, count)
        self.change(name, allocatable={VENDOR: count})

    @rule(name=st.sampled_from(NAMES), ids=st.sets(st.sampled_from(["GPU-0", "GPU-1"])))
    def cards_are_cordoned(self, name: str, ids: set[str]) -> None:
        self.books.set_cordoned(name, frozenset(ids))
        self.change(name, cordoned=frozenset(ids))

    @rule(name=st.sampled_from(NAMES))
    def node_goes(self, name: str) -> None:
        self.books.forget_node(name)
        self.nodes.pop(name, None)
        self.kept = {uid: one for uid, one in self.kept.items() if one[1].node != name}

    @rule(record=pods())
    def pod_is_seen(self, record: records.PodRecord) -> None:
        uid = record.key.uid
        held = self.records.get(uid)
        news = uid not in self.gone and (
            held is None
            or (record != held and int(record.resource_version) >= int(held.resource_version))
        )

        assert self.books.observe(record) == news

        if news:
            self.records[uid] = record
            if record.node or record.ended:
                self.assumed.pop(uid, None)
                self.claims.pop(uid, None)
            if record.node or record.ended or record.deleting:
                self.kept.pop(uid, None)

    @rule(pair=assumptions())
    def pod_is_assumed(self, pair: tuple[request.PodRequest, allocation.Allocation]) -> None:
        uid = pair[0].pod.uid
        held = self.records.get(uid)
        if uid in self.gone or (held is not None and (held.node or held.ended)):
            return
        self.books.assume(*pair)
        self.assumed[uid] = pair
        self.claims.pop(uid, None)

    @rule(uid=st.sampled_from(UIDS))
    def binding_fails(self, uid: str) -> None:
        self.books.unassume(uid)
        self.assumed.pop(uid, None)

    @rule(uid=st.sampled_from(UIDS))
    def pod_goes(self, uid: str) -> None:
        self.books.forget(uid)
        self.gone.add(uid)
        self.records.pop(uid, None)
        self.assumed.pop(uid, None)
        self.claims.pop(uid, None)
        self.kept.pop(uid, None)

    @precondition(lambda self: self.gone)
    @rule()
    def everybody_forgets_the_gone(self) -> None:
        self.books._pods._gone.clear()
        self.gone.clear()

    @rule(pair=assumptions(), seconds=st.integers(1, 5))
    def filter_claims(
        self, pair: tuple[request.PodRequest, allocation.Allocation], seconds: int
    ) -> None:
        until = self.now + timedelta(seconds=seconds)
        uid = pair[0].pod.uid
        self.books.claim(*pair, until)
        if uid not in self.gone and self.books.holding(uid) is None:
            self.claims[uid] = (*pair, until)

    @rule(uid=st.sampled_from(UIDS))
    def claim_ends(self, uid: str) -> None:
        self.books.drop_claim(uid)
        self.claims.pop(uid, None)

    @rule(seconds=st.integers(1, 3))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.books.expire_claims(self.now)
        self.claims = {uid: one for uid, one in self.claims.items() if one[2] > self.now}
        over = {uid for uid, one in self.kept.items() if one[3] <= self.now}
        ended = {one.pod.uid for one in self.books.expire_nominations(self.now)}
        assert ended == over - self.assumed.keys()
        self.kept = {uid: one for uid, one in self.kept.items() if uid not in over}

    @rule(pair=assumptions(), priority=st.sampled_from(PRIORITIES), seconds=st.integers(1, 5))
    def cards_are_kept(
        self, pair: tuple[request.PodRequest, allocation.Allocation], priority: int, seconds: int
    ) -> None:
        uid = pair[0].pod.uid
        until = self.now + timedelta(seconds=seconds)
        record = self.records.get(uid)
        waits = uid not in self.gone and uid not in self.assumed
        if record is not None:
            waits = waits and not (record.node or record.ended or record.deleting)

        assert self.books.nominate(pair[0], priority, pair[1], until) == waits

        if waits:
            self.kept[uid] = (*pair, priority, until)

    @rule(uid=st.sampled_from(UIDS))
    def keeping_ends(self, uid: str) -> None:
        assert (self.books.end_nomination(uid) is not None) == (uid in self.counted)
        self.kept.pop(uid, None)

    @property
    def counted(self) -> dict[str, Kept]:
        """What is kept for pods that are not assumed, oldest first."""
        return {uid: one for uid, one in self.kept.items() if uid not in self.assumed}

    def seen_by(self, uid: str, priority: int) -> Iterator[Kept]:
        """Yield what is kept from a pod; on its own kept cards nothing that came later."""
        own, came = self.counted.get(uid), list(self.counted)
        for other, one in self.counted.items():
            if one[2] < priority or other == uid:
                continue
            is_later = own is not None and one[2] == own[2] and came.index(other) > came.index(uid)
            if own is None or not is_later or own[1].node != one[1].node:
                yield one
                continue
            mine = {card.device_id for entry in own[1].shares[VENDOR] for card in entry}
            entries = one[1].shares[VENDOR]
            left = {VENDOR: tuple(tuple(c for c in e if c.device_id not in mine) for e in entries)}
            yield one[0], allocation.Allocation(node=one[1].node, shares=left), one[2], one[3]

    def effective(self) -> list[records.PodRecord]:
        bound = [record for uid, record in self.records.items() if uid not in self.assumed]
        return bound + [clusters.pod(*pair, init_done=False) for pair in self.assumed.values()]

    def twin(
        self, *, with_claims: bool = False, priority: int | None = None, without: str = ""
    ) -> slow_twin.Twin:
        """Return the twin with what is claimed and kept as pods; each pod once on a node."""
        seen = {
            (uid, one[1].node): clusters.pod(*one[:2], init_done=False)
            for uid, one in self.claims.items()
            if with_claims and uid != without
        }
        if priority is not None:
            seen |= {
                (one[0].pod.uid, one[1].node): clusters.pod(*one[:2], init_done=False)
                for one in self.seen_by(without, priority)
            }
        return slow_twin.Twin(
            clusters.Cluster(nodes=self.nodes, pods=self.effective() + list(seen.values()))
        )

    @invariant()
    def every_card_is_charged_what_the_model_counts(self) -> None:
        twin = self.twin()
        assert self.books.node_names == tuple(sorted(self.nodes))
        for name in self.nodes:
            assert [
                (one.device, one.used_slots, one.used_memory_mib, one.used_cores_percent)
                for one in self.books.usage(name, VENDOR)
            ] == [
                (card.device, card.slots, card.memory, card.cores)
                for card in twin.cards[name][VENDOR]
            ]
            assert self.books.blocked(name, VENDOR) == ((name, VENDOR) in twin.unreadable)

    @invariant()
    def answers_are_those_of_a_ledger_built_anew(self) -> None:
        for with_claims, priority, without in ASKED:
            view = self.books.snapshot(
                with_claims=with_claims, without_claim_of=without or None, for_priority=priority
            )
            found = fit.place(view, NAMES, PROBE, fit.Defaults())
            twin = self.twin(with_claims=with_claims, priority=priority, without=without)
            expected = {n: twin.judge(n, PROBE, fit.Defaults().card_policies) for n in NAMES}
            assert found.fitting == tuple(n for n in NAMES if expected[n].fits)
            assert found.raw_scores.tolist() == [expected[n].score for n in found.fitting]

    @invariant()
    def quotas_and_tenants_are_those_of_a_ledger_built_anew(self) -> None:
        anew = clusters.build_ledger(clusters.Cluster(nodes=self.nodes, pods=self.effective()))
        assert self.books.quota_standing("team-a") == anew.quota_standing("team-a")
        view, expected = self.books.snapshot(with_claims=False), anew.snapshot(with_claims=False)
        for name in NAMES:
            assert view.tenants(name, VENDOR) == expected.tenants(name, VENDOR)

    @invariant()
    def every_nomination_is_one_of_a_pod_that_waits(self) -> None:
        assert {one.pod.uid: (one.node, one.priority) for one in self.books.nominations()} == {
            uid: (one[1].node, one[2]) for uid, one in self.counted.items()
        }
        for uid in self.counted:
            assert self.books.holding(uid) is None
        for priority in PRIORITIES:
            assert self.books.kept_from(priority) == sum(
                one[2] >= priority for one in self.counted.values()
            )

    @invariant()
    def padding_and_forgotten_rows_hold_nothing(self) -> None:
        cells = self.books._nodes.cells[VENDOR]
        for array in (cells.used_slots, cells.used_memory_mib, cells.taken_slots):
            assert not np.any(array[~cells.present])
            assert not np.any(array < 0)

    @invariant()
    def generation_tells_when_an_answer_may_change_and_freed_tells_where(self) -> None:
        found = fit.place(self.books.snapshot(for_priority=LOWEST), NAMES, PROBE, fit.Defaults())
        answer = (
            found.fitting,
            found.raw_scores.tolist(),
            {name: why.text for name, why in found.rejections.items()},
        )
        now_free = free(self.twin(with_claims=True, priority=LOWEST))
        generation = self.books.generation
        assert generation >= self.last_generation
        if generation == self.last_generation:
            assert answer == self.last_answer or self.last_answer is None
        freed = self.books.freed_since(self.last_generation)
        for name, cards in now_free.items():
            was_free = self.last_free.get(name, {})
            for card, left in cards.items():
                if any(
                    new > old for new, old in zip(left, was_free.get(card, (0, 0, 0)), strict=True)
                ):
                    assert name in freed
        self.last_generation, self.last_answer, self.last_free = generation, answer, now_free

    @invariant()
    def audit_against_the_same_pods_is_clean(self) -> None:
        assert audit.audit(self.books, self.records.values()).clean


LedgerAgainstModel.TestCase.settings = hypothesis.settings(
    max_examples=40, stateful_step_count=40, deadline=None
)
TestLedgerAgainstModel = LedgerAgainstModel.TestCase
