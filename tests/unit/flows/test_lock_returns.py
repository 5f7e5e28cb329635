"""Locks that are missing although a pod needs them, and locks that name nobody."""

import dataclasses
from typing import Any

import pytest

from support import clusters
from support.dialogue import Dialogue
from support.operator_books import (
    LOCK,
    NOW,
    bind_args,
    bound,
    later,
    list_in,
    lock_of,
    node,
    open_books,
    pending,
    put_node,
)
from vgpu_operator.flows import (
    bind,
    books,
    effects,
    lock_needs,
    locks,
    pod_events,
    reconcile,
    register,
    take_locks,
)
from vgpu_operator.machines import node_lock
from vgpu_operator.model import records
from vgpu_operator.wire import lock_kinds

SUCCESS, FAILED = records.BindPhase.SUCCESS, records.BindPhase.FAILED
MLU_LOCK = "cambricon.com/dsmlu.lock"
BOTH = frozenset({"NVIDIA", "DCU"})


def of_two_vendors(name: str = "p1", **fields: Any) -> records.PodRecord:
    """Return a pod bound to node-a whose containers ask NVIDIA and Hygon."""
    wish = pending(
        name,
        clusters.container(clusters.asks(memory_mib=1000)),
        clusters.container(clusters.asks(memory_mib=1000, vendor="DCU")),
    )
    return bound(wish, **({"to_allocate": BOTH} | fields))


HALF_SERVED = of_two_vendors(phase=SUCCESS, to_allocate=frozenset({"DCU"}), version="30")
SERVED = of_two_vendors(phase=SUCCESS, to_allocate=frozenset(), version="40")


def mlu(name: str = "p1") -> records.PodRecord:
    return pending(name, clusters.container(clusters.asks(memory_mib=1000, vendor="MLU")))


def bound_mlu(name: str = "p1", **fields: Any) -> records.PodRecord:
    return bound(mlu(name), **({"to_allocate": frozenset({"MLU"})} | fields))


def unlocked(*pods: records.PodRecord) -> books.Books:
    """Return books in which node-a, version 10, has no lock and these pods."""
    held = open_books()
    put_node(held)
    for pod in pods:
        pod_events.pod_seen(held, pod)
    return held


def put_back(held: books.Books, seconds: float = 0) -> list[effects.PatchNode]:
    """Return what an event about node-a makes the leader put back."""
    return list(lock_needs.put_back(held, nodes=["node-a"], now=later(seconds)))


def verdict(held: books.Books, seconds: float = 0, key: str = LOCK) -> node_lock.Verdict:
    wanted_by = pending("p2").key
    return locks.verdict(held, node="node-a", key=key, wanted_by=wanted_by, now=later(seconds))[0]


BACK = effects.PatchNode(
    node="node-a", annotations={LOCK: "2026-01-15T10:00:00Z,team-a,p1"}, resource_version="10"
)


def test_a_lock_that_the_first_of_two_plugins_removed_is_put_back_on_the_event() -> None:
    assert put_back(unlocked(HALF_SERVED)) == [BACK]


def test_the_put_back_follows_the_watch_that_comes_last() -> None:
    held = unlocked(of_two_vendors())
    assert put_back(held) == [], "the Node came first: the plugin may have served both"

    news = pod_events.pod_seen(held, HALF_SERVED)

    assert news.nodes == {"node-a"}
    assert put_back(held) == [BACK]


def test_a_pod_in_line_cannot_slip_in_between_the_removal_and_the_put_back() -> None:
    waiter = pending("p2")
    held = open_books()
    put_node(held, lock=lock_of("p1"))
    for pod in (of_two_vendors(), waiter):
        pod_events.pod_seen(held, pod)
    talk = Dialogue(bind.bind(held, bind_args(waiter), NOW))
    talk.expects(effects.AwaitChange)

    pod_events.pod_seen(held, HALF_SERVED)
    talk.answers(NOW)
    register.node_seen(held, node(version="11"), NOW)
    talk.answers(NOW)
    talk.expects(effects.AwaitChange)
    (back,) = put_back(held)
    assert back.resource_version == "11"
    register.node_seen(held, node(version="12", lock=back.annotations[LOCK]), NOW)
    talk.answers(NOW)
    talk.expects(effects.AwaitChange)

    pod_events.pod_seen(held, SERVED)
    talk.answers(later(1))
    talk.passes_brief_waits(later(1))
    assert talk.expects(effects.PatchNode).annotations == {LOCK: "2026-01-15T10:00:01Z,team-a,p2"}


def test_a_pod_in_line_waits_even_when_the_watch_has_not_shown_the_first_one_bound() -> None:
    first, second = pending("p1"), pending("p2")
    held = unlocked(first, second)
    held.trusted_nodes.add("node-a")
    talk = Dialogue(bind.bind(held, bind_args(first), NOW))
    talk.answers("11")
    talk.answers()
    assert talk.result.error == ""

    register.node_seen(held, node(version="12"), NOW)

    waiting = Dialogue(bind.bind(held, bind_args(second), NOW))
    waiting.expects(effects.AwaitChange)


@pytest.mark.parametrize(
    "pod",
    [
        SERVED,
        of_two_vendors(phase=FAILED, to_allocate=frozenset({"DCU"})),
        of_two_vendors(phase=SUCCESS, to_allocate=frozenset({"DCU"}), admitted=True),
        dataclasses.replace(HALF_SERVED, phase="Failed"),
        of_two_vendors(to_allocate=frozenset()),
    ],
    ids=["served", "failed", "admitted", "ended", "both keys empty"],
)
def test_no_lock_is_put_back_for_a_pod_that_no_plugin_will_be_called_for(
    pod: records.PodRecord,
) -> None:
    held = unlocked(pod)

    assert put_back(held) == []
    assert put_back(held, 5) == []


@pytest.mark.parametrize("pod", [SERVED, of_two_vendors(admitted=True)], ids=["served", "admitted"])
def test_a_missing_lock_is_free_once_its_pod_is_served_or_admitted(pod: records.PodRecord) -> None:
    assert verdict(unlocked(pod)) is node_lock.Verdict.TAKE


def test_a_lock_that_somebody_removed_before_any_plugin_was_called_is_put_back_a_second_later() -> (
    None
):
    """Without it the plugin would guess, and may guess a pod that it has served before."""
    held = unlocked(bound(pending("p1")))
    assert verdict(held) is node_lock.Verdict.WAIT
    assert put_back(held) == []

    assert put_back(held, 0.9) == []
    (back,) = put_back(held, 1)

    assert back.annotations == {LOCK: "2026-01-15T10:00:01Z,team-a,p1"}


def test_a_version_of_the_node_is_answered_once_and_to_the_letter_again_when_nothing_came() -> None:
    held = unlocked(HALF_SERVED)
    assert put_back(held) == [BACK]

    for seconds in (0, 1, 4.9):
        assert put_back(held, seconds) == []
        assert reconcile.quick_tick(held, later(seconds)).effects == ()
    assert reconcile.quick_tick(held, later(5)).effects == (BACK,)
    assert put_back(held, 6) == []
    register.node_seen(held, node(version="11"), later(6))
    assert [back.resource_version for back in put_back(held, 6)] == ["11"]


@pytest.mark.parametrize("looks", [[], [1, 2], [1, 5]], ids=["none", "two", "asked again"])
def test_whatever_is_looked_at_while_a_put_back_is_on_its_way_its_echo_is_ours(
    looks: list[float],
) -> None:
    held = unlocked(HALF_SERVED)
    held.trusted_nodes.add("node-a")
    assert put_back(held) == [BACK]
    for seconds in looks:
        put_back(held, seconds)
        reconcile.quick_tick(held, later(seconds))

    register.node_seen(held, node(version="11", lock=BACK.annotations[LOCK]), later(6))

    sight = held.locks.get("node-a", LOCK)
    assert sight is not None
    assert sight.known_uid == "uid-of-p1"
    assert held.trusted_nodes == {"node-a"}


def test_a_lock_that_is_removed_again_and_again_is_put_back_once_a_second() -> None:
    """Ten times a second it is removed; each removal is a new version of the Node."""
    held = unlocked(HALF_SERVED)
    written = []
    version = 10
    for tenth in range(100):
        seconds = tenth / 10
        for back in put_back(held, seconds):
            written.append(seconds)
            version += 1
            text = back.annotations[LOCK]
            register.node_seen(held, node(version=str(version), lock=text), later(seconds))
        version += 1
        register.node_seen(held, node(version=str(version)), later(seconds + 0.05))

    assert written == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_the_next_plugin_that_is_done_within_the_second_gets_the_lock_put_back_at_once() -> None:
    wish = pending(
        "p1",
        *(
            clusters.container(clusters.asks(memory_mib=1000, vendor=vendor))
            for vendor in ("NVIDIA", "DCU", "Metax-SGPU")
        ),
    )
    pair = frozenset({"DCU", "Metax-SGPU"})
    held = unlocked(bound(wish, phase=SUCCESS, to_allocate=pair, version="30"))
    assert put_back(held) == [BACK]

    register.node_seen(held, node(version="11", lock=BACK.annotations[LOCK]), later(0.1))
    register.node_seen(held, node(version="12"), later(0.2))
    last = bound(wish, phase=SUCCESS, to_allocate=frozenset({"DCU"}), version="40")
    pod_events.pod_seen(held, last)

    assert [back.resource_version for back in put_back(held, 0.2)] == ["12"]


def test_a_follower_puts_no_lock_back_and_does_so_when_it_leads() -> None:
    held = unlocked(HALF_SERVED)
    held.leader = False
    assert put_back(held) == []
    assert reconcile.quick_tick(held, NOW).effects == ()

    held.leader = True

    assert reconcile.quick_tick(held, NOW).effects == (BACK,)


def test_a_new_leader_that_lists_everything_puts_the_lock_back_too() -> None:
    held = open_books()
    list_in(held, nodes=[node()], pods=[HALF_SERVED])

    assert reconcile.quick_tick(held, NOW).effects == (BACK,)


def test_a_pod_without_lock_that_no_kubelet_sees_closes_the_node_when_its_lock_would_expire() -> (
    None
):
    held = unlocked(bound_mlu())
    assert verdict(held, 120, key=MLU_LOCK) is node_lock.Verdict.WAIT

    reaction = reconcile.quick_tick(held, later(121))

    assert verdict(held, 121, key=MLU_LOCK) is node_lock.Verdict.BLOCKED
    assert next(e for e in reaction.effects if isinstance(e, effects.PostEvent)).reason == (
        "NodeLockStuck"
    )
    assert set(locks.closed_to(held, mlu("p2").request, later(121))) == {"node-a"}


def test_a_lock_that_names_a_pod_that_is_gone_is_not_taken_from_the_pod_that_needs_it() -> None:
    held = open_books()
    put_node(held, lock=lock_of("p9"))
    pod_events.pod_seen(held, bound(pending("p1")))

    assert verdict(held) is node_lock.Verdict.WAIT


def test_a_pod_whose_own_lock_stands_waits_for_the_pod_that_is_allocating_all_the_same() -> None:
    held = open_books()
    put_node(held, lock=lock_of("p2"))
    pod_events.pod_seen(held, bound(pending("p1")))

    assert verdict(held) is node_lock.Verdict.WAIT


def test_a_binding_in_doubt_without_a_lock_is_fenced_before_another_pod_goes_ahead() -> None:
    first, second = pending("p1"), pending("p2")
    held = unlocked(first, second)
    held.trusted_nodes.add("node-a")
    talk = Dialogue(bind.bind(held, bind_args(first), NOW))
    talk.answers("11")
    talk.fails(effects.Doubtful("no answer"))
    talk.fails(effects.Doubtful("no answer"))
    register.node_seen(held, node(version="12"), NOW)

    other = Dialogue(bind.bind(held, bind_args(second), NOW))

    assert other.expects(effects.PatchPod).pod == first.key


def test_what_pods_needed_is_forgotten_with_them() -> None:
    held = unlocked(HALF_SERVED)

    pod_events.pod_gone(held, HALF_SERVED.key)

    assert held.awaited == {}
    assert put_back(held) == []


# Bare locks.


def mlu_locked(text: str, *pods: records.PodRecord) -> books.Books:
    """Return books in which node-a's MLU lock has that text, and these pods."""
    held = open_books()
    for pod in pods:
        pod_events.pod_seen(held, pod)
    record = dataclasses.replace(node(), locks={MLU_LOCK: text})
    register.node_seen(held, record, NOW)
    return held


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-15T09:58:00Z", node_lock.Verdict.WAIT),
        ("2026-01-15T09:57:59Z", node_lock.Verdict.TAKE),
        ("2026-01-15T10:00:01Z", node_lock.Verdict.WAIT),
        ("2020-01-15 10:00:00", node_lock.Verdict.TAKE),
    ],
)
def test_an_mlu_lock_that_is_nobodys_ends_two_minutes_after_its_own_time(
    text: str, expected: node_lock.Verdict
) -> None:
    assert verdict(mlu_locked(text), key=MLU_LOCK) is expected


def test_an_mlu_lock_from_the_future_ages_from_when_it_was_first_seen() -> None:
    held = mlu_locked("2036-01-15T10:00:00Z")

    assert verdict(held, 120, key=MLU_LOCK) is node_lock.Verdict.WAIT
    assert verdict(held, 121, key=MLU_LOCK) is node_lock.Verdict.TAKE


def test_a_bare_lock_belongs_to_the_pod_that_is_allocating_there() -> None:
    owner = bound_mlu()
    held = mlu_locked("2026-01-15T09:59:00Z", owner)

    who, found = locks.holder(held, node="node-a", key=MLU_LOCK, wanted_by=None)

    assert (who, found) == (node_lock.Holder.AWAITED, owner)
    assert verdict(held, 61, key=MLU_LOCK) is node_lock.Verdict.BLOCKED


def test_a_bare_lock_is_taken_for_a_pod_by_its_time_alone() -> None:
    pod = mlu()
    held = open_books()
    register.node_seen(held, mlu_node(), NOW)
    pod_events.pod_seen(held, pod)

    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    assert talk.expects(effects.PatchNode).annotations == {MLU_LOCK: "2026-01-15T10:00:00Z"}


def mlu_node(version: str = "10", **texts: str) -> records.NodeRecord:
    """Return a node with two MLU cards, and nothing of NVIDIA's."""
    capacity = "cambricon.com/mlu.smlu.vcore=200,cambricon.com/mlu.smlu.vmemory=192"
    return dataclasses.replace(
        node(version=version, register=None, handshake=None, allocatable=None),
        registers={"MLU": capacity},
        allocatable={"MLU": 200},
        locks=texts,
    )


def taken(held: books.Books, pod: records.PodRecord) -> Dialogue:
    """Return the bind of a pod whose bare lock has just been written."""
    register.node_seen(held, mlu_node(), NOW)
    pod_events.pod_seen(held, pod)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.expects(effects.PatchNode)
    talk.answers("11")
    return talk


def test_a_bare_lock_of_ours_is_remembered_and_given_back_when_the_bind_fails() -> None:
    held = open_books()
    talk = taken(held, mlu())
    who, owner = locks.holder(held, node="node-a", key=MLU_LOCK, wanted_by=mlu("p2").key)
    assert (who, owner) == (node_lock.Holder.ABANDONED, mlu())

    talk.fails(effects.Denied("403"))

    assert talk.expects(effects.PatchNode).annotations == {MLU_LOCK: None}


def test_a_bare_lock_that_another_leader_wrote_in_the_same_second_is_not_ours() -> None:
    held = open_books()
    register.node_seen(held, mlu_node(), NOW)
    pod_events.pod_seen(held, mlu())
    talk = Dialogue(bind.bind(held, bind_args(mlu()), NOW))
    talk.expects(effects.PatchNode)

    theirs = mlu_node("11", **{MLU_LOCK: "2026-01-15T10:00:00Z"})
    register.node_seen(held, theirs, NOW)
    talk.fails(effects.Conflict("409"))

    talk.expects(effects.AwaitChange)


def test_a_bare_lock_whose_owner_is_done_is_left_to_its_plugin_before_it_is_handed_over() -> None:
    """The plugin removes whatever stands there: the next pod's lock too."""
    key = "4pd.io/mutex.lock"
    held = open_books()
    held.locks.put("node-a", key, "2026-01-15T09:59:00Z", now=NOW, owner_uid="uid-of-p1")
    pod_events.pod_seen(held, bound(pending("p1"), phase=SUCCESS))

    assert left_s(held, key, 0) == 3
    assert left_s(held, key, 2) == 1
    assert left_s(held, key, 3) == 0


def left_s(held: books.Books, key: str, seconds: float) -> float:
    return take_locks.removal_left_s(held, "node-a", (key,), pending("p2").key, later(seconds))


def test_a_pod_of_a_silent_plugin_is_never_stuck_once_its_kubelet_has_admitted_it() -> None:
    held = unlocked(bound_mlu(admitted=True))

    reaction = reconcile.quick_tick(held, later(3600))

    assert reaction.effects == ()
    assert held.allocating == {}


def test_a_pod_whose_vendor_uses_no_lock_is_never_stuck() -> None:
    wish = pending("p1", clusters.container(clusters.asks(vendor="GCU")))

    held = unlocked(bound(wish, to_allocate=frozenset()))

    assert held.allocating == {}


def test_the_lock_of_the_forerunners_dialect_lasts_five_minutes_and_is_bare() -> None:
    held = open_books(lock={"expiryS": 60})

    assert locks.expiry_s(held, "4pd.io/mutex.lock") == 300
    assert locks.expiry_s(held, MLU_LOCK) == 120
    assert locks.expiry_s(held, LOCK) == 60
    assert held.lock_kind("4pd.io/mutex.lock").style is lock_kinds.LockStyle.BARE
