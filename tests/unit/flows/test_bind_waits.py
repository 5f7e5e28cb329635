"""A bind that meets a lock: when it waits, and how it writes the lock that it takes."""

import dataclasses

import pytest

from support.locked_books import EXPIRED, locked, started
from support.operator_books import (
    LOCK,
    bound,
    later,
    lock_of,
    open_books,
    pending,
    put_node,
    used_mib,
)
from vgpu_operator.flows import effects, pod_events, register
from vgpu_operator.model import records

SUCCESS, FAILED = records.BindPhase.SUCCESS, records.BindPhase.FAILED


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


def test_other_news_of_the_node_do_not_cut_the_plugins_moment_short() -> None:
    held = locked(bound(pending("p1"), phase=SUCCESS), lock=lock_of("p1"))
    talk = started(held, pending("p2"))

    talk.answers(later(0.02))

    left = talk.expects(effects.AwaitChange)
    assert left.at_most_s == pytest.approx(0.03)
    talk.answers(later(0.06))
    talk.expects(effects.PatchNode)


def test_a_clock_that_was_set_back_ends_the_plugins_moment() -> None:
    held = locked(bound(pending("p1"), phase=SUCCESS), lock=lock_of("p1"))
    talk = started(held, pending("p2"))

    talk.answers(later(-3600))

    talk.expects(effects.PatchNode)


def test_a_plugin_that_was_met_at_its_lock_is_left_twice_the_moment_next_time() -> None:
    held = locked(bound(pending("p1"), phase=SUCCESS), lock=lock_of("p1"))
    talk = started(held, pending("p2"))
    talk.passes_brief_waits(later(0))

    talk.fails(effects.Conflict("the plugin was quicker"))

    assert held.release_grace_s == pytest.approx(0.1)
    put_node(held, version="11")
    talk.answers(later(1))
    talk.answers("12")
    assert held.release_grace_s == pytest.approx(0.095)


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
