"""A lock whose owner is missing, expired or unknown: who may take it over, and after what."""

import dataclasses
import datetime

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
from vgpu_operator.flows import effects, register
from vgpu_operator.model import records


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
