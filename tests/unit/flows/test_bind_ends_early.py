"""Binds whose sense is lost while they wait, and whose turn it is."""

import itertools

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
from vgpu_operator.flows.turns import Turns, Waiter
from vgpu_operator.model import records

SUCCESS = records.BindPhase.SUCCESS


def waiting(
    *names: str, groups: dict[str, str] | None = None
) -> tuple[books.Books, list[Dialogue]]:
    """Return binds that wait for node-a, whose lock pod p0 holds."""
    held = open_books()
    put_node(held, lock=lock_of("p0"))
    held.ledger.observe(bound(pending("p0")))
    talks = []
    for name in names:
        pod = pending(name, group=(groups or {}).get(name, ""))
        held.ledger.observe(pod)
        talks.append(Dialogue(bind.bind(held, bind_args(pod), NOW)))
        talks[-1].expects(effects.AwaitChange)
    return held, talks


def test_a_wait_that_is_given_up_frees_the_cards_and_the_place_in_the_queue() -> None:
    held, (talk,) = waiting("p1")
    assert used_mib(held) == {"GPU-a0": 2000}

    talk.fails(effects.GivenUp("the caller hung up"))

    assert talk.result.error == "team-a/p1 was not bound to node-a: the caller hung up"
    assert used_mib(held) == {"GPU-a0": 1000}
    assert len(held.turns) == 0
    assert held.nodes["node-a"].locks == {LOCK: lock_of("p0")}


def test_a_pod_that_is_deleted_while_it_waits_is_refused() -> None:
    held, (talk,) = waiting("p1")

    reaction = pod_events.pod_gone(held, pending("p1").key)
    talk.answers(later(1))

    assert pending("p1").key.uid in reaction.pods, "the waiter is woken"
    assert talk.result.error == "pod team-a/p1 is gone"
    assert used_mib(held) == {"GPU-a0": 1000}
    assert len(held.turns) == 0


def test_a_node_that_is_deleted_refuses_those_who_wait_for_it() -> None:
    held, (talk,) = waiting("p1")

    reaction = register.node_gone(held, "node-a")
    talk.answers(later(1))

    assert "node-a" in reaction.nodes, "the waiter is woken"
    assert talk.result.error == "node node-a is gone"
    assert not held.ledger.assumed(pending("p1").key.uid)


def test_a_pod_that_somebody_else_bound_while_it_waits_is_refused() -> None:
    held, (talk,) = waiting("p1")

    held.ledger.observe(bound(pending("p1"), "node-b"))
    talk.answers(later(1))

    assert talk.result.error == "pod team-a/p1 is bound to node-b already"


def test_those_who_wait_are_served_first_come_first() -> None:
    held, talks = waiting("p1", "p2", "p3")
    pod_events.pod_seen(held, bound(pending("p0"), phase=SUCCESS, version="30"))

    for talk in reversed(talks):
        talk.answers(later(1))
        talk.passes_brief_waits(later(1))

    talks[0].expects(effects.PatchNode)
    talks[1].expects(effects.AwaitChange)
    talks[2].expects(effects.AwaitChange)


def test_case_97_members_of_a_group_stand_together_behind_their_first() -> None:
    held, _ = waiting("p1", "p2", "p3", "p4", groups={"p1": "gang", "p3": "gang"})

    order = held.turns.waiting_at("node-a")

    assert order == ("uid-of-p1", "uid-of-p3", "uid-of-p2", "uid-of-p4")


def test_the_lock_goes_from_hand_to_hand_until_all_are_bound() -> None:
    held, talks = waiting("p1", "p2")
    previous = "p0"
    for number, (name, talk) in enumerate(zip(("p1", "p2"), talks, strict=True)):
        pod_events.pod_seen(
            held, bound(pending(previous), phase=SUCCESS, version=str(100 + number))
        )
        talk.answers(later(number))
        talk.passes_brief_waits(later(number))
        assert talk.expects(effects.PatchNode).annotations[LOCK].endswith(f",team-a,{name}")
        talk.answers(str(11 + number))
        while not isinstance(talk.asked[-1], effects.BindPod):
            talk.answers(())
        talk.answers()
        assert talk.result == effects.BindResult()
        previous = name

    assert len(held.turns) == 0
    assert used_mib(held) == {"GPU-a0": 3000}


def test_a_waiter_for_another_lock_is_nobodys_follower() -> None:
    turns = Turns()
    turns.join("node-a", Waiter(uid="1", keys=("gpu.lock",)))
    turns.join("node-a", Waiter(uid="2", keys=("mlu.lock",)))
    turns.join("node-a", Waiter(uid="3", keys=("gpu.lock", "mlu.lock")))

    assert [turns.may_try("node-a", uid) for uid in ("1", "2", "3")] == [True, True, False]


def test_a_waiter_that_joins_elsewhere_leaves_its_first_queue() -> None:
    turns = Turns()
    turns.join("node-a", Waiter(uid="1", keys=(LOCK,)))
    turns.join("node-b", Waiter(uid="1", keys=(LOCK,)))

    assert turns.waiting_at("node-a") == ()
    assert turns.node_of("1") == "node-b"
    assert len(turns) == 1


def test_joining_twice_keeps_the_place() -> None:
    turns = Turns()
    for uid in ("1", "2", "1"):
        turns.join("node-a", Waiter(uid=uid, keys=(LOCK,)))

    assert turns.waiting_at("node-a") == ("1", "2")


def test_one_who_never_joined_may_not_try() -> None:
    assert not Turns().may_try("node-a", "1")


@pytest.mark.parametrize("order", list(itertools.permutations(("1", "2", "3"))))
def test_leaving_in_any_order_leaves_no_trace(order: tuple[str, ...]) -> None:
    turns = Turns()
    for uid in ("1", "2", "3"):
        turns.join("node-a", Waiter(uid=uid, keys=(LOCK,), group="gang"))

    for uid in order:
        assert turns.leave(uid) == "node-a"

    assert (len(turns), turns.leave("1"), turns.first("node-a", LOCK)) == (0, None, None)
