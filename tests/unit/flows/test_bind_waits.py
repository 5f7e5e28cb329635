"""A bind that meets a lock: when it waits, when it passes, when nobody may."""

import dataclasses
import datetime

import pytest

from support.dialogue import Dialogue
from support.operator_books import (
    LOCK,
    NOW,
    bind_args,
    bound,
    later,
    lock_of,
    open_books,
    pending,
    put_node,
    used_mib,
)
from vgpu_operator.flows import bind, books, effects, pod_events, register
from vgpu_operator.model import records

SUCCESS, FAILED = records.BindPhase.SUCCESS, records.BindPhase.FAILED
EXPIRED = "2026-01-15T09:54:59Z"
"""Five minutes and a second before ten o'clock."""


def locked(*pods: records.PodRecord, lock: str, version: str = "10") -> books.Books:
    """Return books with node-a locked that way, trusted before, and these pods."""
    held = open_books()
    held.trusted_nodes.add("node-a")
    put_node(held, lock=lock, version=version)
    for pod in pods:
        held.ledger.observe(pod)
    return held


def started(held: books.Books, pod: records.PodRecord) -> Dialogue:
    held.ledger.observe(pod)
    return Dialogue(bind.bind(held, bind_args(pod), NOW))


def test_case_96_a_second_pod_waits_while_the_first_is_allocating_and_binds_in_the_same_call() -> (
    None
):
    owner = bound(pending("p1"))
    held = locked(owner, lock=lock_of("p1"))
    talk = started(held, pending("p2"))
    assert talk.expects(effects.AwaitChange) == effects.AwaitChange(
        node="node-a", pod=pending("p2").key
    )

    pod_events.pod_seen(held, bound(pending("p1"), phase=SUCCESS, version="30"))
    talk.answers(later(1))
    talk.passes_brief_waits(later(1))

    assert talk.expects(effects.PatchNode) == effects.PatchNode(
        node="node-a",
        annotations={LOCK: "2026-01-15T10:00:01Z,team-a,p2"},
        resource_version="10",
    )


def test_a_wait_that_is_woken_for_nothing_goes_on() -> None:
    held = locked(bound(pending("p1")), lock=lock_of("p1"))
    talk = started(held, pending("p2"))

    talk.answers(later(1))
    talk.answers(later(2))

    talk.expects(effects.AwaitChange)
    assert used_mib(held) == {"GPU-a0": 2000}, "the waiter's cards stay reserved"


def test_a_lock_whose_owner_still_has_a_device_to_allocate_is_not_passed_on_at_success() -> None:
    owner = dataclasses.replace(
        bound(pending("p1"), phase=SUCCESS), to_allocate=frozenset({"Kunlun"})
    )

    talk = started(locked(owner, lock=lock_of("p1")), pending("p2"))

    talk.expects(effects.AwaitChange)


@pytest.mark.parametrize(
    "owner",
    [
        bound(pending("p1"), phase=SUCCESS),
        bound(pending("p1"), phase=FAILED),
        dataclasses.replace(bound(pending("p1")), phase="Succeeded"),
        dataclasses.replace(bound(pending("p1")), phase="Failed"),
        bound(pending("p1"), "node-b"),
    ],
    ids=["served", "failed", "pod succeeded", "pod failed", "bound elsewhere"],
)
def test_case_82_a_lock_whose_owner_is_done_passes_on_at_once(owner: records.PodRecord) -> None:
    talk = started(locked(owner, lock=lock_of("p1")), pending("p2"))
    talk.passes_brief_waits(later(0))

    lock = talk.expects(effects.PatchNode)
    assert lock.annotations == {LOCK: "2026-01-15T10:00:00Z,team-a,p2"}
    assert lock.resource_version == "10"


def test_a_lock_of_somebody_else_that_is_taken_over_makes_the_bind_list_the_nodes_pods() -> None:
    talk = started(locked(bound(pending("p1"), phase=SUCCESS), lock=lock_of("p1")), pending("p2"))
    talk.passes_brief_waits(later(0))

    talk.answers("11")

    talk.expects(effects.ListNodePods)


def test_a_plugin_that_has_just_served_is_left_a_moment_to_remove_its_lock() -> None:
    held = locked(bound(pending("p1"), phase=SUCCESS), lock=lock_of("p1"))
    talk = started(held, pending("p2"))

    assert talk.expects(effects.AwaitChange) == effects.AwaitChange(
        node="node-a", pod=pending("p2").key, at_most_s=0.05
    )
    put_node(held, version="11")
    talk.answers(later(1))

    assert talk.expects(effects.PatchNode).resource_version == "11"


def test_a_plugin_that_does_not_remove_its_lock_in_that_moment_has_it_handed_over() -> None:
    held = locked(bound(pending("p1"), phase=SUCCESS), lock=lock_of("p1"))
    talk = started(held, pending("p2"))
    talk.expects(effects.AwaitChange)

    talk.answers(later(1))

    lock = talk.expects(effects.PatchNode)
    assert lock.annotations == {LOCK: "2026-01-15T10:00:01Z,team-a,p2"}
    assert lock.resource_version == "10"


def test_a_lock_of_our_own_that_is_handed_over_needs_no_list() -> None:
    first, second = pending("p1"), pending("p2")
    held = open_books()
    put_node(held)
    held.trusted_nodes.add("node-a")
    talk = started(held, first)
    talk.answers("11")
    talk.answers()
    register.node_seen(
        held, dataclasses.replace(held.nodes["node-a"], resource_version="11"), later(1)
    )
    pod_events.pod_seen(held, bound(first, phase=SUCCESS))

    talk = started(held, second)
    talk.passes_brief_waits(later(2))
    talk.answers("12")

    talk.expects(effects.BindPod)


def test_case_81_a_missing_owner_is_confirmed_by_a_read_and_then_the_lock_is_taken() -> None:
    talk = started(locked(lock=lock_of("p1")), pending("p2"))

    assert talk.expects(effects.ReadPod) == effects.ReadPod(namespace="team-a", name="p1")
    talk.answers(None)

    talk.expects(effects.PatchNode)


def test_case_81_an_owner_that_cannot_be_read_keeps_the_lock() -> None:
    held = locked(lock=lock_of("p1"))
    talk = started(held, pending("p2"))

    talk.fails(effects.Doubtful("503"))

    talk.expects(effects.AwaitChange)
    assert held.nodes["node-a"].locks == {LOCK: lock_of("p1")}


def test_an_owner_that_only_our_watch_has_missed_keeps_the_lock() -> None:
    talk = started(locked(lock=lock_of("p1")), pending("p2"))

    talk.answers(bound(pending("p1")))

    talk.expects(effects.AwaitChange)


def test_a_lock_that_changed_hands_while_its_owner_was_read_is_looked_at_again() -> None:
    held = locked(lock=lock_of("p1"))
    talk = started(held, pending("p2"))
    talk.expects(effects.ReadPod)
    held.ledger.observe(pending("p3"))
    put_node(held, lock=lock_of("p3", at="2026-01-15T10:00:00Z"), version="11")

    talk.answers(None)

    talk.expects(effects.AwaitChange)


def test_a_node_that_went_away_while_the_owner_was_read_ends_the_bind() -> None:
    held = locked(lock=lock_of("p1"))
    talk = started(held, pending("p2"))
    register.node_gone(held, "node-a")

    talk.answers(None)

    assert talk.result.error == "node node-a is gone"


def test_an_expired_lock_of_an_unbound_pod_is_taken_only_after_that_pod_was_fenced() -> None:
    owner = pending("p1", version="7")
    talk = started(locked(owner, lock=lock_of("p1", at=EXPIRED)), pending("p2"))

    fence = talk.expects(effects.PatchPod)
    assert fence.pod == owner.key
    assert set(fence.annotations) == {"vgpu-operator.io/fenced"}
    talk.answers("8")
    talk.expects(effects.ReadPod)
    talk.answers(dataclasses.replace(owner, resource_version="8"))

    assert talk.expects(effects.PatchNode).annotations[LOCK].endswith(",team-a,p2")


def test_an_owner_that_was_bound_before_the_fence_keeps_the_lock() -> None:
    owner = pending("p1", version="7")
    talk = started(locked(owner, lock=lock_of("p1", at=EXPIRED)), pending("p2"))

    talk.answers("8")
    talk.answers(bound(owner, version="9"))

    talk.expects(effects.AwaitChange)


def test_an_owner_that_cannot_be_fenced_because_it_is_gone_loses_the_lock() -> None:
    held = locked(pending("p1"), lock=lock_of("p1", at=EXPIRED))
    talk = started(held, pending("p2"))

    talk.fails(effects.Missing("404"))

    talk.expects(effects.PatchNode)


@pytest.mark.parametrize("found", [None, pending("p1", uid="another")], ids=["gone", "replaced"])
def test_a_fence_that_meets_a_409_asks_whether_the_owner_is_still_the_same(
    found: records.PodRecord | None,
) -> None:
    held = locked(pending("p1"), lock=lock_of("p1", at=EXPIRED))
    talk = started(held, pending("p2"))

    talk.fails(effects.Conflict("409"))
    talk.expects(effects.ReadPod)
    talk.answers(found)

    talk.expects(effects.PatchNode)


def test_an_owner_whose_fence_lost_against_another_write_is_not_fenced() -> None:
    """The API server answers 409 too when a patch has lost too often; the owner still lives."""
    owner = pending("p1", version="7")
    talk = started(locked(owner, lock=lock_of("p1", at=EXPIRED)), pending("p2"))

    talk.fails(effects.Conflict("409 the object has been modified"))
    talk.answers(dataclasses.replace(owner, resource_version="8"))

    talk.expects(effects.AwaitChange)


@pytest.mark.parametrize(
    "fault", [effects.Doubtful("no answer"), effects.Denied("403")], ids=["in doubt", "denied"]
)
def test_an_owner_that_may_not_be_fenced_keeps_the_lock(fault: effects.EffectFailed) -> None:
    held = locked(pending("p1"), lock=lock_of("p1", at=EXPIRED))
    talk = started(held, pending("p2"))

    talk.fails(fault)

    talk.expects(effects.AwaitChange)


def test_an_expired_lock_of_a_bound_pod_that_no_kubelet_has_seen_is_never_taken() -> None:
    owner = bound(pending("p1"), admitted=False)
    held = locked(owner, lock=lock_of("p1", at=EXPIRED))
    talk = started(held, pending("p2"))

    assert talk.result.error == (
        "team-a/p2 was not bound to node-a: the node lock is stuck on pod team-a/p1, which is"
        " bound there and no kubelet has seen"
    )
    assert talk.asked == []
    assert used_mib(held) == {"GPU-a0": 1000}


def test_a_pod_in_line_is_refused_as_soon_as_the_lock_is_stuck() -> None:
    owner = bound(pending("p1"), admitted=False)
    talk = started(locked(owner, lock=lock_of("p1")), pending("p2"))
    talk.expects(effects.AwaitChange)

    talk.answers(later(271))

    assert "the node lock is stuck on pod team-a/p1" in talk.result.error


def test_an_expired_lock_of_a_pod_that_kubelet_has_admitted_passes_on() -> None:
    owner = bound(pending("p1"), admitted=True)

    talk = started(locked(owner, lock=lock_of("p1", at=EXPIRED)), pending("p2"))

    talk.expects(effects.PatchNode)


def test_a_fresh_lock_of_an_unbound_pod_is_waited_for() -> None:
    talk = started(locked(pending("p1"), lock=lock_of("p1")), pending("p2"))

    talk.expects(effects.AwaitChange)


@pytest.mark.parametrize(
    "text",
    ["2026-02-11T08:00:00Z,team-a", "2026-01-15T09:59:30Z", "nonsense"],
    ids=["two parts", "no owner", "no lock at all"],
)
def test_case_14_a_lock_that_names_nobody_ends_one_period_after_it_was_first_seen(
    text: str,
) -> None:
    held = locked(lock=text)
    talk = started(held, pending("p2"))
    talk.expects(effects.AwaitChange)

    talk.answers(later(300))
    talk.expects(effects.AwaitChange)
    talk.answers(later(301))

    talk.expects(effects.PatchNode)


def test_a_lock_from_the_future_ages_from_when_it_was_first_seen() -> None:
    owner = bound(pending("p1"), admitted=True)
    talk = started(locked(owner, lock=lock_of("p1", at="2027-01-01T00:00:00Z")), pending("p2"))
    talk.expects(effects.AwaitChange)

    talk.answers(later(301))

    talk.expects(effects.PatchNode)


def test_case_n8_a_lock_that_names_the_pod_itself_is_written_anew_before_the_binding() -> None:
    """Locks carry no UID and views may be old: only a write proves that it is ours."""
    held = locked(lock=lock_of("p1", at=EXPIRED))
    talk = started(held, pending("p1", uid="u2"))

    lock = talk.expects(effects.PatchNode)
    assert lock.annotations == {LOCK: "2026-01-15T10:00:00Z,team-a,p1"}
    talk.answers("11")

    talk.expects(effects.ListNodePods)


def test_a_conflict_on_the_lock_waits_for_the_watch_and_tries_with_what_it_shows() -> None:
    held = open_books()
    put_node(held)
    talk = started(held, pending("p1"))

    talk.fails(effects.Conflict("409"))
    talk.expects(effects.AwaitChange)
    put_node(held, version="12")
    talk.answers(later(1))

    assert talk.expects(effects.PatchNode).resource_version == "12"


def test_a_conflict_that_the_watch_has_shown_meanwhile_is_not_waited_for() -> None:
    held = open_books()
    put_node(held)
    talk = started(held, pending("p1"))
    put_node(held, version="12")

    talk.fails(effects.Conflict("409"))

    assert talk.expects(effects.PatchNode).resource_version == "12"


def test_a_lock_in_doubt_is_not_believed_until_a_write_has_succeeded() -> None:
    held = open_books()
    put_node(held)
    talk = started(held, pending("p1"))

    talk.fails(effects.Doubtful("no answer"))
    talk.expects(effects.AwaitChange)
    put_node(held, version="12", lock="2026-01-15T10:00:00Z,team-a,p1")
    talk.answers(later(1))

    assert talk.expects(effects.PatchNode).resource_version == "12"


def test_a_lock_that_may_not_be_written_refuses_the_bind_and_frees_the_cards() -> None:
    held = open_books()
    put_node(held)
    talk = started(held, pending("p1"))

    talk.fails(effects.Denied("403 nodes is forbidden"))

    assert talk.result.error == "the lock of node-a cannot be taken: 403 nodes is forbidden"
    assert used_mib(held) == {"GPU-a0": 0}
    assert len(held.turns) == 0


def test_an_answer_that_comes_after_the_watch_has_gone_on_does_not_turn_the_books_back() -> None:
    held = open_books()
    put_node(held)
    talk = started(held, pending("p1"))
    put_node(held, version="12", lock=None)

    talk.answers("11")

    assert held.nodes["node-a"].resource_version == "12"
    assert held.nodes["node-a"].locks == {}
    assert held.locks.get("node-a", LOCK) is None


def test_the_echo_of_our_own_lock_that_beats_the_answer_costs_no_list() -> None:
    pod, held = pending("p1"), open_books()
    held.trusted_nodes.add("node-a")
    put_node(held)
    talk = started(held, pod)
    text = talk.expects(effects.PatchNode).annotations[LOCK]
    put_node(held, version="11", lock=text)

    talk.answers("11")

    talk.expects(effects.BindPod)


def test_a_foreign_lock_taken_over_costs_the_trust_although_our_echo_beats_the_answer() -> None:
    held = locked(bound(pending("p1"), phase=records.BindPhase.SUCCESS), lock=lock_of("p1"))
    held.trusted_nodes.add("node-a")
    talk = started(held, pending("p2"))
    talk.passes_brief_waits(later(0))
    text = talk.expects(effects.PatchNode).annotations[LOCK]
    put_node(held, version="11", lock=text)

    talk.answers("11")

    talk.expects(effects.ListNodePods)


def test_a_foreign_lock_that_shows_up_during_the_list_costs_the_trust() -> None:
    held = open_books()
    put_node(held)
    talk = started(held, pending("p1"))
    talk.answers("11")
    talk.expects(effects.ListNodePods)
    put_node(held, version="12", lock=lock_of("p9"))

    talk.answers(())

    assert "node-a" not in held.trusted_nodes


CREATED_LATER = datetime.datetime(2026, 1, 15, 9, 59, 40, tzinfo=datetime.UTC)


def test_case_n8_a_lock_of_ours_whose_owner_was_replaced_passes_on_after_a_read() -> None:
    held = open_books()
    put_node(held)
    old, new = pending("web-0", uid="u1"), pending("web-0", uid="u2", version="6")
    talk = started(held, old)
    talk.answers("11")
    talk.answers(())
    talk.fails(effects.Missing("404"))
    talk.answers(new)
    talk.fails(effects.Denied("403"))
    assert talk.result.error == "pod team-a/web-0 is gone"

    talk = started(held, pending("p2"))
    assert talk.expects(effects.ReadPod).name == "web-0"
    talk.answers(new)

    assert talk.expects(effects.PatchNode).annotations[LOCK].endswith(",team-a,p2")


def test_case_n8_a_lock_older_than_the_pod_of_that_name_passes_on_after_a_fence() -> None:
    reborn = pending("web-0", uid="u2", created=CREATED_LATER)
    talk = started(locked(reborn, lock=lock_of("web-0")), pending("p2"))

    assert talk.expects(effects.PatchPod).pod == reborn.key
    talk.answers("8")
    talk.answers(dataclasses.replace(reborn, resource_version="8"))

    talk.expects(effects.PatchNode)


def test_a_lock_of_ours_that_nobody_could_remove_passes_on_at_once() -> None:
    """Its bind failed and so did the removal; nothing of it is on its way."""
    held = open_books()
    put_node(held)
    held.trusted_nodes.add("node-a")
    talk = started(held, pending("p1"))
    talk.answers("11")
    talk.fails(effects.Denied("403"))
    talk.fails(effects.Denied("403"))
    assert talk.ended

    talk = started(held, pending("p2"))

    talk.expects(effects.PatchNode)


def test_a_lock_of_ours_whose_binding_is_in_doubt_is_waited_for() -> None:
    held = open_books()
    put_node(held)
    held.trusted_nodes.add("node-a")
    talk = started(held, pending("p1"))
    talk.answers("11")
    talk.fails(effects.Doubtful("no answer"))
    talk.fails(effects.Doubtful("no answer either"))
    assert "it is unknown" in talk.result.error

    talk = started(held, pending("p2"))
    talk.expects(effects.AwaitChange)
    pod_events.pod_seen(held, pending("p1", version="6"))
    talk.answers(later(1))

    talk.expects(effects.PatchNode)


def test_a_lock_text_that_stands_on_the_node_already_is_not_written_again() -> None:
    """Another leader may have written it in the same second; no write proves nothing."""
    held = locked(lock="2026-01-15T10:00:00Z,team-a,p1")

    talk = started(held, pending("p1"))

    assert talk.expects(effects.PatchNode).annotations == {LOCK: "2026-01-15T10:00:01Z,team-a,p1"}


def test_what_a_read_of_the_owner_shows_is_told_to_others() -> None:
    held = locked(lock=lock_of("p1"))
    held.trusted_nodes.add("node-a")
    talk = started(held, pending("p2"))
    owner = bound(pending("p1"))

    talk.answers(owner)

    assert [news.pods for news in talk.told] == [{owner.key.uid}]
    assert held.ledger.record(owner.key.uid) == owner
    assert "node-a" not in held.trusted_nodes, "somebody else has bound there"


def test_an_owner_that_a_read_does_not_find_gives_its_cards_back() -> None:
    owner = pending("p1")
    held = locked(owner, lock=lock_of("p1", at=EXPIRED))
    held.refused[owner.key.uid] = object()  # type: ignore[assignment]  # never looked at
    talk = started(held, pending("p2"))

    talk.fails(effects.Missing("404"))

    assert held.ledger.record(owner.key.uid) is None
    assert held.refused == {}
    assert [news.pods for news in talk.told] == [{owner.key.uid}]
