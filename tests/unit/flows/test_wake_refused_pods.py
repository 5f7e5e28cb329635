"""Refused pods that now might fit cause one Node write, and only then."""

import pytest

from support import clusters
from support.dialogue import Dialogue
from support.operator_books import (
    NOW,
    ONE_CARD,
    bound,
    later,
    lock_of,
    open_books,
    pending,
    put_node,
)
from vgpu_operator.flows import books, effects, pod_events, reconcile, register, wake
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import records

WHOLE = clusters.asks(percent=100)
HOLDER = bound(pending("p9", WHOLE), memory_mib=24576)


def full(*more: str) -> books.Books:
    """Return books with a full node-a and the refused whole-card pod p1."""
    held = open_books()
    put_node(held)
    pod_events.pod_seen(held, HOLDER)
    held.woken_generation = held.ledger.generation
    flow_filter.filter_nodes(held, pending("p1", WHOLE), ["node-a", *more], NOW)
    return held


def woken(held: books.Books) -> list[str]:
    """Return the nodes that a waking writes to."""
    talk = Dialogue(wake.wake(held))
    written = []
    while not talk.ended:
        effect = talk.expects(effects.PatchNode)
        assert set(effect.annotations) == {"vgpu-operator.io/wake"}
        assert effect.resource_version is None
        written.append(effect.node)
        talk.answers("99")
    return written


def test_a_full_cluster_wakes_nobody() -> None:
    held = full()

    assert not wake.is_due(held)
    assert woken(held) == []


def test_freed_cards_wake_a_pod_that_fits_now_exactly_once() -> None:
    held = full()

    pod_events.pod_gone(held, HOLDER.key)

    assert wake.is_due(held)
    assert woken(held) == ["node-a"]
    assert not wake.is_due(held)
    assert woken(held) == []


@pytest.mark.parametrize("event", ["registered", "allocatable", "uncordoned", "claim ended"])
def test_whatever_makes_room_wakes(event: str) -> None:
    held = full("node-b")
    cards = ONE_CARD.replace("a0", "b0")
    if event == "allocatable":
        put_node(held, "node-b", register=cards, allocatable=0)
    elif event == "uncordoned":
        put_node(held, "node-b", register=cards, cordoned=["GPU-b0"])
    elif event == "claim ended":
        put_node(held, "node-b", register=cards)
        flow_filter.filter_nodes(held, pending("p2", WHOLE), ["node-b"], NOW)
    flow_filter.filter_nodes(held, pending("p1", WHOLE), ["node-a", "node-b"], NOW)
    held.woken_generation = held.ledger.generation

    if event == "claim ended":
        reconcile.quick_tick(held, later(1))
    else:
        put_node(held, "node-b", register=cards, version="11")

    assert woken(held) == ["node-b"]


def test_freed_cards_that_are_too_few_wake_nobody() -> None:
    held = full()
    pod_events.pod_seen(held, bound(pending("p8"), memory_mib=1000, version="31"))
    flow_filter.filter_nodes(held, pending("p1", WHOLE), ["node-a"], NOW)

    pod_events.pod_gone(held, pending("p8").key)

    assert woken(held) == []
    assert not wake.is_due(held), "this change is settled"


def test_a_pod_that_was_refused_from_the_present_state_is_not_woken() -> None:
    held = full()
    pod_events.pod_gone(held, HOLDER.key)
    pod_events.pod_seen(held, bound(pending("p7", WHOLE), memory_mib=24576, version="40"))
    flow_filter.filter_nodes(held, pending("p1", WHOLE), ["node-a"], NOW)

    assert woken(held) == []


def test_nobody_waits_nobody_is_woken() -> None:
    held = full()
    pod_events.pod_gone(held, pending("p1").key)

    pod_events.pod_gone(held, HOLDER.key)

    assert woken(held) == []


def test_a_follower_wakes_nobody() -> None:
    held = full()
    held.leader = False

    pod_events.pod_gone(held, HOLDER.key)

    assert woken(held) == []


def test_a_locked_node_is_not_written_to() -> None:
    held = full()
    put_node(held, "node-b", register=None)
    put_node(held, version="11", lock=lock_of("p9"))

    pod_events.pod_gone(held, HOLDER.key)

    assert woken(held) == ["node-b"]


def test_when_every_node_is_locked_the_waking_waits() -> None:
    held = full()
    put_node(held, version="11", lock=lock_of("p9"))
    pod_events.pod_gone(held, HOLDER.key)
    assert woken(held) == []
    assert wake.is_due(held)

    put_node(held, version="12")

    assert woken(held) == ["node-a"]


def test_the_value_always_differs_from_what_the_node_carries() -> None:
    """After a restart generations begin again; writing the same value would change nothing."""
    held = full()
    pod_events.pod_gone(held, HOLDER.key)
    put_node(held, version="11", woken=str(held.ledger.generation))

    effect = Dialogue(wake.wake(held)).expects(effects.PatchNode)

    assert isinstance(effect, effects.PatchNode)
    assert effect.annotations["vgpu-operator.io/wake"] != held.nodes["node-a"].woken


def test_a_node_that_is_gone_is_not_written_to() -> None:
    held = full()
    pod_events.pod_gone(held, HOLDER.key)

    register.node_gone(held, "node-a")

    assert woken(held) == []


def test_a_waking_that_fails_is_due_again() -> None:
    """Nothing else would wake the pod: a quiet cluster has no Node events."""
    held = full()
    pod_events.pod_gone(held, HOLDER.key)
    talk = Dialogue(wake.wake(held))
    assert not wake.is_due(held)

    talk.fails(effects.Doubtful("no answer"))

    assert talk.ended
    assert wake.is_due(held)
    assert woken(held) == ["node-a"]


def test_nothing_is_due_for_a_follower() -> None:
    """Else the timer of a former leader would never rest."""
    held = full()
    pod_events.pod_gone(held, HOLDER.key)

    held.leader = False

    assert not wake.is_due(held)


def test_a_lock_that_is_stuck_no_longer_wakes_who_was_refused_for_it() -> None:
    owner = bound(pending("p9"), admitted=False)
    held = open_books()
    put_node(held)
    pod_events.pod_seen(held, owner)
    # Its lock is gone with the Node, so that its service changes no Node either.
    reconcile.quick_tick(held, later(400))
    refused = flow_filter.filter_nodes(held, pending("p1"), ["node-a"], later(400))
    assert "stuck" in refused.rejections["node-a"].text
    held.woken_generation = held.ledger.generation

    served = bound(pending("p9"), phase=records.BindPhase.SUCCESS, version="21")
    pod_events.pod_seen(held, served)
    reconcile.quick_tick(held, later(401))

    assert wake.is_due(held)
    assert woken(held) == ["node-a"]
    assert not wake.is_due(held), "once is enough"
