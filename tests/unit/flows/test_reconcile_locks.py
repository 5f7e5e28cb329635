"""What time alone does to locks: forgotten ones end, stuck ones are told."""

import dataclasses

import pytest

from support.dialogue import Dialogue
from support.operator_books import (
    LOCK,
    NOW,
    bind_args,
    bound,
    later,
    lock_of,
    node,
    open_books,
    pending,
    put_node,
)
from vgpu_operator.flows import bind, books, effects, locks, pod_events, reconcile, register
from vgpu_operator.flows.turns import Waiter
from vgpu_operator.model import records

SUCCESS, FAILED = records.BindPhase.SUCCESS, records.BindPhase.FAILED
ENDED = dataclasses.replace(bound(pending("p1")), phase="Succeeded")
JUST_NOW = "2026-01-15T09:59:59Z"
REMOVAL = effects.PatchNode(node="node-a", annotations={LOCK: None}, resource_version="10")


def locked(*pods: records.PodRecord, lock: str, **values: object) -> books.Books:
    held = open_books(**values)
    for pod in pods:
        pod_events.pod_seen(held, pod)
    put_node(held, lock=lock)
    return held


def removals(held: books.Books, seconds: float) -> list[effects.PatchNode]:
    """Return what a quick tick that many seconds after the first sight removes."""
    reaction = reconcile.quick_tick(held, later(seconds))
    return [effect for effect in reaction.effects if isinstance(effect, effects.PatchNode)]


@pytest.mark.parametrize(
    "owner", [ENDED, bound(pending("p1"), "node-b")], ids=["ended", "bound elsewhere"]
)
def test_a_lock_whose_owner_is_over_is_removed_at_once(owner: records.PodRecord) -> None:
    assert removals(locked(owner, lock=lock_of("p1")), 0) == [REMOVAL]


def test_case_81_a_lock_whose_owner_is_deleted_is_removed_at_once_after_a_read() -> None:
    held = locked(bound(pending("p1")), lock=lock_of("p1"))
    assert locks.orphans(held, nodes=["node-a"], now=NOW) == ()

    pod_events.pod_gone(held, pending("p1").key)

    (flow,) = locks.orphans(held, nodes=held.locks.nodes(), now=NOW)
    talk = Dialogue(flow)
    assert talk.expects(effects.ReadPod) == effects.ReadPod(namespace="team-a", name="p1")
    talk.answers(None)
    assert talk.expects(effects.PatchNode) == REMOVAL
    talk.fails(effects.Conflict("409"))
    assert talk.ended


def test_a_lock_that_is_seen_before_its_owner_stays() -> None:
    """Nodes and pods come by two watches; another leader's lock may come first."""
    held = locked(lock=lock_of("p1", at=JUST_NOW))
    assert removals(held, 600) == []
    (flow,) = locks.orphans(held, nodes=["node-a"], now=NOW)
    talk = Dialogue(flow)

    talk.answers(pending("p1"))

    assert talk.ended
    assert locks.orphans(held, nodes=["node-a"], now=NOW) == ()


def test_a_lock_whose_owner_cannot_be_read_stays() -> None:
    (flow,) = locks.orphans(locked(lock=lock_of("p1")), nodes=["node-a"], now=NOW)
    talk = Dialogue(flow)

    talk.fails(effects.Doubtful("503"))

    assert talk.ended


def test_a_lock_that_changed_hands_while_its_owner_was_read_is_removed_by_nobody() -> None:
    held = locked(lock=lock_of("p1"))
    (flow,) = locks.orphans(held, nodes=["node-a"], now=NOW)
    talk = Dialogue(flow)
    put_node(held, lock=lock_of("p2"), version="11")

    talk.answers(None)

    assert talk.expects(effects.PatchNode).resource_version == "10", "the API server refuses it"


def test_an_orphaned_lock_that_somebody_waits_for_is_left_to_him() -> None:
    held = locked(lock=lock_of("p1"))
    held.turns.join("node-a", Waiter(uid="uid-of-p2", keys=(LOCK,)))

    assert locks.orphans(held, nodes=["node-a"], now=NOW) == ()


@pytest.mark.parametrize("phase", [SUCCESS, FAILED])
def test_case_82_a_lock_that_its_plugin_should_remove_is_removed_after_a_grace_time(
    phase: records.BindPhase,
) -> None:
    held = locked(bound(pending("p1"), phase=phase), lock=lock_of("p1"))

    assert removals(held, 0) == []
    assert removals(held, 2.9) == []
    assert removals(held, 3) == [REMOVAL]


def test_the_grace_time_begins_when_the_owner_is_done_however_old_the_lock_is() -> None:
    """A removal at once would meet the plugin's own, and cost it two requests more."""
    held = locked(bound(pending("p1"), admitted=True), lock=lock_of("p1"))
    assert removals(held, 10) == []
    pod_events.pod_seen(held, bound(pending("p1"), phase=SUCCESS, version="21"))

    assert removals(held, 11) == []
    assert removals(held, 13.9) == []
    assert removals(held, 14) == [REMOVAL]


@pytest.mark.parametrize(
    "owner",
    [pending("p1"), bound(pending("p1"), admitted=False)],
    ids=["unbound", "bound and not admitted"],
)
def test_a_lock_whose_owner_may_still_be_served_is_never_removed(
    owner: records.PodRecord,
) -> None:
    held = locked(owner, lock=lock_of("p1"))

    assert [removals(held, seconds) for seconds in (0, 10, 301, 36000)] == [[], [], [], []]


def test_an_expired_lock_of_an_unbound_pod_that_nobody_waits_for_is_removed_after_a_fence() -> None:
    owner = pending("p1", version="7")
    held = locked(owner, lock=lock_of("p1"))
    assert locks.orphans(held, nodes=["node-a"], now=later(270)) == ()

    (flow,) = locks.orphans(held, nodes=["node-a"], now=later(271))
    talk = Dialogue(flow)
    assert talk.expects(effects.PatchPod).pod == owner.key
    talk.answers("8")
    talk.expects(effects.ReadPod)
    talk.answers(dataclasses.replace(owner, resource_version="8"))

    assert talk.expects(effects.PatchNode) == REMOVAL


def test_a_lock_whose_owner_turns_out_to_be_bound_after_the_fence_stays() -> None:
    owner = pending("p1", version="7")
    (flow,) = locks.orphans(locked(owner, lock=lock_of("p1")), nodes=["node-a"], now=later(271))
    talk = Dialogue(flow)

    talk.answers("8")
    talk.answers(bound(owner, version="9"))

    assert talk.ended


def test_a_node_that_goes_before_its_orphans_are_looked_at_is_no_fault() -> None:
    held = locked(lock=lock_of("p1"))
    (flow,) = locks.orphans(held, nodes=["node-a"], now=NOW)
    register.node_gone(held, "node-a")

    talk = Dialogue(flow)
    talk.fails(effects.Missing("404"))

    assert talk.ended


def test_a_lock_of_ours_that_no_bind_uses_is_removed_at_once() -> None:
    held = open_books()
    put_node(held)
    pod = pending("p1")
    pod_events.pod_seen(held, pod)
    held.trusted_nodes.add("node-a")
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    held.binding.add(pod.key.uid)
    talk.answers("11")
    assert removals(held, 0) == []
    talk.fails(effects.Denied("403"))
    talk.fails(effects.Denied("403"))
    assert removals(held, 0) == [], "its bind has not ended"

    held.binding.clear()

    (removal,) = removals(held, 0)
    assert (removal.annotations, removal.resource_version) == ({LOCK: None}, "11")


def test_a_lock_of_a_pod_that_we_have_bound_and_the_watch_has_not_shown_stays() -> None:
    held = open_books()
    put_node(held)
    pod = pending("p1")
    pod_events.pod_seen(held, pod)
    held.trusted_nodes.add("node-a")
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.answers("11")
    talk.answers()

    assert removals(held, 0) == []


def test_a_lock_whose_owner_kubelet_has_admitted_ends_when_it_expires() -> None:
    held = locked(bound(pending("p1"), admitted=True), lock=lock_of("p1", at=JUST_NOW))

    assert removals(held, 299) == []
    assert removals(held, 300) == [REMOVAL]


@pytest.mark.parametrize("text", ["2026-02-11T08:00:00Z,team-a", "2026-01-15T09:59:30Z"])
def test_case_14_a_lock_that_names_nobody_ends_one_period_after_it_was_first_seen(
    text: str,
) -> None:
    held = locked(lock=text)

    assert removals(held, 300) == []
    assert removals(held, 301) == [REMOVAL]


def test_a_lock_that_somebody_waits_for_is_left_to_him() -> None:
    held = locked(ENDED, lock=lock_of("p1"))
    held.turns.join("node-a", Waiter(uid="uid-of-p2", keys=(LOCK,)))

    reaction = reconcile.quick_tick(held, later(10))

    assert reaction.effects == ()
    assert reaction.nodes == {"node-a"}, "he is told to look again"


def test_who_waits_at_a_node_without_a_lock_looks_again_too() -> None:
    """His write of the lock may have had no answer, and a quiet node sends no event."""
    held = open_books()
    put_node(held)
    held.turns.join("node-a", Waiter(uid="uid-of-p2", keys=(LOCK,)))

    assert reconcile.quick_tick(held, later(1)).nodes == {"node-a"}


def test_a_follower_removes_no_lock_and_tells_nobody() -> None:
    held = locked(ENDED, lock=lock_of("p1"))
    held.leader = False

    assert reconcile.quick_tick(held, later(10)) == effects.NOTHING


def test_a_pod_that_is_not_served_for_a_minute_is_told_once() -> None:
    held = locked(bound(pending("p1"), admitted=True), lock=lock_of("p1"))

    told = [reconcile.quick_tick(held, later(seconds)).effects for seconds in (60, 61, 62)]

    assert [len(effects_) for effects_ in told] == [0, 1, 0]
    (event,) = told[1]
    assert isinstance(event, effects.PostEvent)
    assert (event.reason, event.pod) == ("AllocationStuck", pending("p1").key)
    assert "node-a" in event.message


def test_a_pod_that_no_kubelet_has_seen_when_its_lock_expires_is_told_on_the_node_once() -> None:
    held = locked(bound(pending("p1"), admitted=False), lock=lock_of("p1"))

    told = [reconcile.quick_tick(held, later(seconds)).effects for seconds in (61, 270, 271, 272)]

    words = [[e.reason for e in some if isinstance(e, effects.PostEvent)] for some in told]
    assert words == [["AllocationStuck"], [], ["NodeLockStuck"], []]


def test_bind_stuck_pod_delete_deletes_that_pod_and_no_other() -> None:
    held = locked(
        bound(pending("p1"), admitted=False),
        lock=lock_of("p1"),
        bind={"stuckPod": "delete"},
    )

    reaction = reconcile.quick_tick(held, later(400))

    assert [e for e in reaction.effects if isinstance(e, effects.DeletePod)] == [
        effects.DeletePod(pod=pending("p1").key, grace_s=0, resource_version="20")
    ]


def test_bind_stuck_pod_delete_tries_again_until_the_pod_is_being_deleted() -> None:
    owner = bound(pending("p1"), admitted=False)
    held = locked(owner, lock=lock_of("p1"), bind={"stuckPod": "delete"})

    def deletions(reaction: effects.Reaction) -> int:
        return sum(isinstance(effect, effects.DeletePod) for effect in reaction.effects)

    assert deletions(reconcile.quick_tick(held, later(400))) == 1
    assert deletions(reconcile.quick_tick(held, later(401))) == 0
    assert deletions(reconcile.tick(held, later(415))) == 1, "the first one may have failed"
    pod_events.pod_seen(held, dataclasses.replace(owner, deleting=True, resource_version="21"))
    assert deletions(reconcile.tick(held, later(430))) == 0


def test_a_bound_pod_without_any_lock_that_is_not_served_for_a_minute_is_told_once() -> None:
    held = open_books()
    put_node(held)
    pod_events.pod_seen(held, bound(pending("p1"), admitted=True))

    told = [reconcile.quick_tick(held, later(seconds)).effects for seconds in (60, 61, 62)]

    assert [len(effects_) for effects_ in told] == [0, 1, 0]
    (event,) = told[1]
    assert isinstance(event, effects.PostEvent)
    assert (event.reason, event.pod) == ("AllocationStuck", pending("p1").key)
    assert "wait for the lock" not in event.message


def test_a_pod_whose_bind_time_is_unreadable_is_stuck_a_minute_after_it_was_seen() -> None:
    held = open_books()
    pod_events.pod_seen(held, bound(pending("p1"), bind_time_s=None))

    told = [reconcile.quick_tick(held, later(seconds)).effects for seconds in (300, 360, 361)]

    assert [len(effects_) for effects_ in told] == [0, 0, 1]


@pytest.mark.parametrize(
    "after",
    [bound(pending("p1"), phase=SUCCESS, version="21"), None],
    ids=["served", "gone"],
)
def test_only_pods_that_are_not_served_are_looked_at(after: records.PodRecord | None) -> None:
    held = open_books()
    pod_events.pod_seen(held, bound(pending("p1")))
    assert set(held.allocating) == {"uid-of-p1"}

    if after is None:
        pod_events.pod_gone(held, pending("p1").key)
    else:
        pod_events.pod_seen(held, after)

    assert held.allocating == {}


def test_a_served_pod_is_never_stuck() -> None:
    held = locked(bound(pending("p1"), phase=SUCCESS), lock=lock_of("p1"))

    reaction = reconcile.quick_tick(held, later(3600))

    assert not any(isinstance(effect, effects.PostEvent) for effect in reaction.effects)


def test_a_lock_that_its_plugin_removed_is_forgotten() -> None:
    held = locked(bound(pending("p1"), phase=SUCCESS), lock=lock_of("p1"))

    register.node_seen(held, node(version="11"), NOW)

    assert held.locks.nodes() == ()
    assert removals(held, 10) == []


def test_the_owners_index_follows_the_locks() -> None:
    held = locked(lock=lock_of("p1"))
    put_node(held, "node-b", lock=lock_of("p1"))
    assert held.locks.nodes_of("team-a", "p1") == {"node-a", "node-b"}

    put_node(held, lock=lock_of("p2"), version="11")
    register.node_gone(held, "node-b")

    assert held.locks.nodes_of("team-a", "p1") == frozenset()
    assert held.locks.nodes_of("team-a", "p2") == {"node-a"}
