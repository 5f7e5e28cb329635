"""Node events: what of a register text reaches the ledger, and what is said about it."""

import json

import pytest

from support import clusters
from support.operator_books import (
    LOCK,
    NOW,
    NVIDIA,
    ONE_CARD,
    TWO_CARDS,
    bound,
    later,
    lock_of,
    node,
    open_books,
    pending,
    plain,
    put_node,
    register_text,
    used_mib,
)
from vgpu_operator.flows import books, effects, register
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import records


def cards(held: books.Books, name: str = "node-a") -> list[str]:
    """Return the ids of the cards that the ledger knows there."""
    return [card.id for card in held.ledger.devices(name, NVIDIA)]


def events(reaction: effects.Reaction) -> list[tuple[str, str]]:
    """Return node and reason word of the Events."""
    return [(e.node, e.reason) for e in reaction.effects if isinstance(e, effects.PostEvent)]


def fits(held: books.Books, pod: records.PodRecord, name: str = "node-a") -> bool:
    return flow_filter.filter_nodes(held, pod, [name], NOW).fitting == (name,)


def test_a_registered_node_offers_its_cards() -> None:
    held = open_books()

    put_node(held, register=TWO_CARDS)

    assert cards(held) == ["GPU-a0", "GPU-a1"]
    assert fits(held, pending())


def test_case_23_a_changed_register_text_counts_although_the_handshake_stays() -> None:
    held = open_books()
    put_node(held)
    for name in ("p1", "p2"):
        held.ledger.observe(bound(pending(name), memory_mib=100))
    third = pending("p3", clusters.asks(memory_mib=100))
    assert fits(held, third)

    put_node(held, version="11", register=register_text(("GPU-a0", 24576), count=2))

    result = flow_filter.filter_nodes(held, third, ["node-a"], NOW)
    assert str(result.rejections["node-a"]) == "1/1 CardTimeSlicingExhausted"


def test_case_29_added_cards_are_seen_and_pods_keep_what_they_hold() -> None:
    held = open_books()
    put_node(held)
    wish = clusters.asks(memory_mib=20000)
    held.ledger.observe(bound(pending("p1", wish), memory_mib=20000))

    put_node(held, version="11", register=TWO_CARDS)

    assert used_mib(held) == {"GPU-a0": 20000, "GPU-a1": 0}
    assert fits(held, pending("p2", wish))


def test_case_29_a_card_that_leaves_and_returns_is_charged_again() -> None:
    held = open_books()
    put_node(held, register=TWO_CARDS)
    held.ledger.observe(bound(pending("p1"), card="GPU-a1"))

    put_node(held, version="11", register=ONE_CARD)
    assert used_mib(held) == {"GPU-a0": 0}
    put_node(held, version="12", register=TWO_CARDS)

    assert used_mib(held) == {"GPU-a0": 0, "GPU-a1": 1000}


def test_one_bad_segment_is_lost_and_the_rest_stays_with_one_event() -> None:
    held = open_books()
    text = "GPU-a0,10,24x,100,NVIDIA-A10,0,true:GPU-a1,10,24576,100,NVIDIA-A10,0,true:"

    reaction = register.node_seen(held, node(register=text), NOW)

    assert cards(held) == ["GPU-a1"]
    assert events(reaction) == [("node-a", "RegisterUnreadable")]
    (event,) = (e for e in reaction.effects if isinstance(e, effects.PostEvent))
    assert "hami.io/node-nvidia-register, segment 0" in event.message
    again = register.node_seen(held, node(register=text, version="11"), NOW)
    assert events(again) == []


@pytest.mark.parametrize("text", ["{{", "nonsense", "GPU-a0,10,32768,NVIDIA-V100,true,hami-core:"])
def test_a_text_that_turns_wholly_bad_keeps_the_last_good_cards(text: str) -> None:
    held = open_books()
    put_node(held)

    reaction = register.node_seen(held, node(register=text, version="11"), NOW)

    assert cards(held) == ["GPU-a0"]
    assert events(reaction) == [("node-a", "RegisterUnreadable")]
    assert fits(held, pending())


def test_a_bad_text_on_one_node_costs_no_other_node() -> None:
    held = open_books()
    put_node(held, "node-b", register=ONE_CARD.replace("a0", "b0"))

    put_node(held, "node-a", register="{{")

    assert (cards(held, "node-a"), cards(held, "node-b")) == ([], ["GPU-b0"])
    assert fits(held, pending(), "node-b")
    assert not fits(held, pending(), "node-a")


def test_case_27_a_node_whose_text_is_bad_still_loses_its_cards_when_it_is_dead() -> None:
    held = open_books()
    put_node(held)

    reaction = register.node_seen(
        held,
        node(
            register="{{", version="11", handshake="Requesting_2026-01-15 09:58:00", allocatable=0
        ),
        NOW,
    )
    reaction += register.node_seen(
        held,
        node(
            register="{{", version="12", handshake="Requesting_2026-01-15 10:00:00", allocatable=0
        ),
        later(1),
    )
    reaction += register.step_handshakes(held, ["node-a"], later(61))

    assert cards(held) == []
    assert ("node-a", "DevicesExpired") in events(reaction)


def test_a_removed_key_keeps_the_last_good_cards_with_one_event() -> None:
    held = open_books()
    put_node(held)

    reaction = register.node_seen(held, node(register=None, version="11"), NOW)
    again = register.node_seen(held, node(register=None, version="12"), NOW)

    assert cards(held) == ["GPU-a0"]
    assert events(reaction) == [("node-a", "RegisterRemoved")]
    assert events(again) == []


def test_an_empty_list_is_valid_and_the_cards_leave() -> None:
    held = open_books()
    put_node(held)

    reaction = register.node_seen(held, node(register="[]", version="11"), NOW)

    assert cards(held) == []
    assert events(reaction) == []


def test_a_text_that_only_changes_its_order_is_no_news() -> None:
    held = open_books()
    put_node(held, register=TWO_CARDS)
    generation = held.ledger.generation

    put_node(held, version="11", register=json.dumps(json.loads(TWO_CARDS)[::-1]))

    assert held.ledger.generation == generation
    assert cards(held) == ["GPU-a0", "GPU-a1"]


def test_case_25_nothing_allocatable_stops_new_pods_at_once_and_the_cards_stay() -> None:
    held = open_books()
    put_node(held)

    put_node(held, version="11", allocatable=0)
    assert not fits(held, pending())
    assert cards(held) == ["GPU-a0"]
    put_node(held, version="12", allocatable=10)

    assert fits(held, pending())


def test_a_cordoned_card_takes_no_new_pod() -> None:
    held = open_books()

    put_node(held, cordoned=["GPU-a0"])

    result = flow_filter.filter_nodes(held, pending(), ["node-a"], NOW)
    assert str(result.rejections["node-a"]) == "1/1 CardCordoned"


def test_case_35_a_card_without_memory_is_a_reason_and_no_crash() -> None:
    held = open_books()

    put_node(held, register=register_text(("GPU-a0", 0)))

    result = flow_filter.filter_nodes(held, pending(), ["node-a"], NOW)
    assert str(result.rejections["node-a"]) == "1/1 CardInsufficientMemory"


def test_case_31_a_node_that_comes_again_under_its_name_starts_from_nothing() -> None:
    held = open_books()
    put_node(held, register=TWO_CARDS, lock=lock_of("p1"))
    held.trusted_nodes.add("node-a")

    register.node_gone(held, "node-a", uid="uid-of-node-a")
    put_node(held, uid="second", version="30", register=register_text(("GPU-c0", 8192)))

    assert cards(held) == ["GPU-c0"]
    assert held.locks.get("node-a", LOCK) is None
    assert "node-a" not in held.trusted_nodes


def test_case_31_a_deletion_that_no_watch_delivered_shows_by_the_new_uid() -> None:
    held = open_books()
    put_node(held, register=TWO_CARDS, lock=lock_of("p1"))
    held.trusted_nodes.add("node-a")

    put_node(held, uid="second", version="30", register=register_text(("GPU-c0", 8192)))

    assert cards(held) == ["GPU-c0"]
    assert held.locks.get("node-a", LOCK) is None
    assert "node-a" not in held.trusted_nodes


def test_an_older_state_of_a_node_that_comes_late_is_ignored() -> None:
    held = open_books()
    put_node(held, version="12", register=TWO_CARDS)

    reaction = register.node_seen(held, node(version="9", register=ONE_CARD), NOW)

    assert reaction == effects.NOTHING
    assert cards(held) == ["GPU-a0", "GPU-a1"]


def test_a_late_state_of_an_earlier_node_of_that_name_is_ignored() -> None:
    held = open_books()
    put_node(held, uid="second", version="12", register=TWO_CARDS)

    register.node_seen(held, node(uid="first", version="9", register=ONE_CARD), NOW)

    assert held.nodes["node-a"].uid == "second"
    assert cards(held) == ["GPU-a0", "GPU-a1"]


def test_nothing_revives_a_node_that_is_gone() -> None:
    held = open_books()
    put_node(held)
    register.node_gone(held, "node-a", uid="uid-of-node-a")

    put_node(held, version="11")

    assert "node-a" not in held.nodes
    assert held.ledger.node_names == ()


def test_the_same_state_twice_changes_nothing() -> None:
    held = open_books()
    put_node(held)
    generation = held.ledger.generation

    put_node(held)

    assert held.ledger.generation == generation


def test_a_node_without_register_text_keeps_no_books_and_gets_no_word() -> None:
    held = open_books()

    reaction = register.node_seen(held, node(register=None, handshake=None, allocatable=None), NOW)

    assert events(reaction) == []
    assert held.registrations == {}
    assert fits(held, plain())


def test_case_14_a_malformed_lock_is_told() -> None:
    held = open_books()

    reaction = register.node_seen(held, node(lock="2026-02-11T08:00:00Z,team-a"), NOW)

    assert events(reaction) == [("node-a", "NodeLockMalformed")]


def test_a_restarted_operator_holds_no_cards_of_a_node_that_had_expired() -> None:
    """Handshake removed and nothing allocatable: so a node looks after its cards have left."""
    held = open_books()

    put_node(held, handshake=None, allocatable=0)
    assert cards(held) == []
    put_node(held, version="11", handshake=None, allocatable=10)

    assert cards(held) == ["GPU-a0"]
