"""The handshake on node events and ticks: who stamps what, when, and when cards leave."""

import dataclasses
import datetime

import pytest

from support.operator_books import (
    FRESH_STAMP,
    HANDSHAKE,
    NOW,
    NVIDIA,
    OLD_STAMP,
    TWO_CARDS,
    bound,
    later,
    lock_of,
    node,
    open_books,
    pending,
    plain,
    put_node,
    used_mib,
)
from vgpu_operator.flows import books, effects, reconcile, register
from vgpu_operator.flows import filter as flow_filter


def tick(held: books.Books, now: datetime.datetime) -> effects.Reaction:
    """Do what every handshake interval does."""
    return reconcile.tick(held, now) + register.step_handshakes(held, tuple(held.nodes), now)


def stamp(version: str) -> effects.PatchNode:
    """Return the stamp that is written at ten o'clock on that version of the Node."""
    return effects.PatchNode(
        node="node-a",
        annotations={HANDSHAKE: "Requesting_2026-01-15 10:00:00"},
        resource_version=version,
    )


def deletion(version: str) -> effects.PatchNode:
    return effects.PatchNode(node="node-a", annotations={HANDSHAKE: None}, resource_version=version)


def writes(reaction: effects.Reaction) -> list[effects.PatchNode]:
    return [e for e in reaction.effects if isinstance(e, effects.PatchNode)]


def has_cards(held: books.Books) -> bool:
    return bool(held.ledger.devices("node-a", NVIDIA))


@pytest.mark.parametrize(
    "text",
    [None, "", "Reported_2026.01.15 09:59:59", "Deleted_2026-01-15 09:50:00", "foo"],
    ids=["absent", "empty", "reported", "deleted", "nonsense"],
)
def test_case_21_and_28_whatever_does_not_contain_requesting_is_stamped_on_the_event(
    text: str | None,
) -> None:
    reaction = register.node_seen(open_books(), node(handshake=text), NOW)

    assert writes(reaction) == [stamp("10")]


@pytest.mark.parametrize(
    "text", ["Requesting", "Requesting_", "Requesting_yesterday", FRESH_STAMP, OLD_STAMP]
)
def test_case_28_whatever_contains_requesting_is_left_alone_while_something_is_allocatable(
    text: str,
) -> None:
    held = open_books()

    reaction = register.node_seen(held, node(handshake=text), NOW)
    reaction += tick(held, later(3600))

    assert writes(reaction) == []
    assert has_cards(held)


def test_a_report_is_stamped_at_the_tick_when_no_event_came() -> None:
    held = open_books()
    held.leader = False
    put_node(held, handshake="Reported_2026-01-15 09:59:59")
    held.leader = True

    assert writes(tick(held, NOW)) == [stamp("10")]


def test_a_follower_writes_nothing() -> None:
    held = open_books()
    held.leader = False

    reaction = register.node_seen(held, node(handshake=None), NOW)
    reaction += register.node_seen(
        held, node(version="11", handshake=OLD_STAMP, allocatable=0), NOW
    )
    reaction += tick(held, later(15))

    assert writes(reaction) == []


def test_a_followers_ledger_drops_expired_cards_all_the_same() -> None:
    held = open_books()
    held.leader = False

    put_node(held, handshake=OLD_STAMP, allocatable=0)

    assert not has_cards(held)


def test_case_30_a_vendor_that_never_registered_gets_no_stamp_and_no_word() -> None:
    held = open_books()
    reaction = register.node_seen(held, node(register=None, handshake=None, allocatable=None), NOW)
    for turn in range(10):
        reaction += tick(held, later(15 * turn))

    assert reaction.effects == ()


def test_case_33_only_the_vendors_own_handshake_key_is_ever_written() -> None:
    held = open_books()
    reaction = register.node_seen(held, node(handshake=None), NOW)
    reaction += register.node_seen(
        held, node(version="11", handshake=OLD_STAMP, allocatable=0), later(2)
    )

    assert {key for patch in writes(reaction) for key in patch.annotations} == {HANDSHAKE}


def test_nothing_is_written_to_a_locked_node_and_the_stamp_follows_when_it_is_free() -> None:
    held = open_books()
    held.ledger.observe(bound(pending("p1")))

    locked = register.node_seen(held, node(handshake=None, lock=lock_of("p1")), NOW)
    locked += tick(held, later(15))
    free = register.node_seen(held, node(handshake=None, version="11"), later(16))

    assert writes(locked) == []
    assert [patch.annotations for patch in writes(free)] == [
        {HANDSHAKE: "Requesting_2026-01-15 10:00:16"}
    ]


def test_an_event_that_was_on_its_way_before_our_stamp_causes_no_second_one() -> None:
    held = open_books()

    first = register.node_seen(held, node(handshake=None), NOW)
    second = register.node_seen(held, node(handshake=None, version="11"), later(0.5))
    third = register.node_seen(held, node(handshake=None, version="12"), later(1.5))

    assert [len(writes(r)) for r in (first, second, third)] == [1, 0, 1]


def test_case_19_expired_with_nothing_allocatable_drops_the_cards_and_deletes_the_key() -> None:
    held = open_books()
    put_node(held)

    reaction = register.node_seen(
        held, node(version="11", handshake="Requesting_2026-01-15 09:58:59", allocatable=0), NOW
    )

    assert not has_cards(held)
    assert writes(reaction) == [deletion("11")]
    assert [e.reason for e in reaction.effects if isinstance(e, effects.PostEvent)] == [
        "DevicesExpired"
    ]
    answer = flow_filter.filter_nodes(held, pending(), ["node-a"], NOW)
    assert "node unregistered" in str(answer.rejections["node-a"])
    assert flow_filter.filter_nodes(held, plain(), ["node-a"], NOW).fitting == ("node-a",)


@pytest.mark.parametrize(
    ("seconds_old", "gone"), [(59, False), (60, True)], ids=["59 s old", "60 s old"]
)
def test_a_stamp_is_expired_when_it_is_sixty_seconds_old(seconds_old: int, gone: bool) -> None:
    held = open_books()
    put_node(held, handshake="Requesting_2026-01-15 10:00:00", allocatable=0)

    tick(held, later(seconds_old))

    assert has_cards(held) is not gone


def test_an_expired_stamp_with_something_allocatable_removes_nothing() -> None:
    held = open_books()

    put_node(held, handshake=OLD_STAMP, allocatable=1)

    assert has_cards(held)


def test_after_the_deletion_the_key_stays_away_and_there_is_one_event() -> None:
    held = open_books()
    put_node(held)
    register.node_seen(held, node(version="11", handshake=OLD_STAMP, allocatable=0), NOW)

    reaction = register.node_seen(held, node(version="12", handshake=None, allocatable=0), later(2))
    for turn in range(8):
        reaction += tick(held, later(15 * turn))

    assert reaction.effects == ()


@pytest.mark.parametrize(
    "change",
    [
        {"allocatable": 10, "handshake": None},
        {"allocatable": 0, "handshake": "Reported_2026-01-15 10:00:01"},
        {"allocatable": 0, "handshake": None, "register": TWO_CARDS},
    ],
    ids=["allocatable again", "a new value", "a changed register text"],
)
def test_a_dead_node_that_shows_life_is_asked_again(change: dict[str, object]) -> None:
    held = open_books()
    put_node(held)
    register.node_seen(held, node(version="11", handshake=OLD_STAMP, allocatable=0), NOW)
    register.node_seen(held, node(version="12", handshake=None, allocatable=0), later(1))

    reaction = register.node_seen(held, node(version="13", **change), later(2))  # type: ignore[arg-type]

    assert [patch.annotations for patch in writes(reaction)] == [
        {HANDSHAKE: "Requesting_2026-01-15 10:00:02"}
    ]


def test_the_cards_come_back_with_the_allocatable_count_and_are_charged_again() -> None:
    held = open_books()
    put_node(held)
    held.ledger.observe(bound(pending("p1")))
    register.node_seen(held, node(version="11", handshake=OLD_STAMP, allocatable=0), NOW)
    register.node_seen(held, node(version="12", handshake=None, allocatable=0), later(1))
    assert used_mib(held) == {}

    register.node_seen(held, node(version="13", handshake=None, allocatable=10), later(2))

    assert used_mib(held) == {"GPU-a0": 1000}


def test_a_register_text_written_just_now_is_asked_about_before_its_cards_are_dropped() -> None:
    held = open_books()
    put_node(held)

    reaction = register.node_seen(
        held, node(version="11", register=TWO_CARDS, handshake=OLD_STAMP, allocatable=0), NOW
    )

    assert writes(reaction) == [stamp("11")]
    assert has_cards(held)


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_text_that_changed_long_ago_does_not_delay_the_end_of_a_dead_node(leads: bool) -> None:
    held = open_books()
    held.leader = leads
    put_node(held)
    put_node(held, version="11", register=TWO_CARDS)

    register.node_seen(
        held,
        node(version="12", register=TWO_CARDS, handshake=FRESH_STAMP, allocatable=0),
        later(3600),
    )

    assert not has_cards(held)


def test_a_text_that_changed_while_the_node_was_locked_is_still_news_afterwards() -> None:
    held = open_books()
    put_node(held, handshake=None, allocatable=0)
    locked = node(
        version="11", register=TWO_CARDS, handshake=None, allocatable=0, lock=lock_of("p1")
    )
    assert writes(register.node_seen(held, locked, NOW)) == []

    free = dataclasses.replace(locked, resource_version="12", locks={})

    assert writes(register.node_seen(held, free, NOW)) == [stamp("12")]


def test_a_stamp_from_the_future_ages_from_when_it_was_first_seen() -> None:
    held = open_books()
    put_node(held, handshake="Requesting_2027-01-01 00:00:00", allocatable=0)

    tick(held, later(59))
    assert has_cards(held)
    tick(held, later(60))

    assert not has_cards(held)


def test_case_37_five_thousand_events_of_one_node_cost_one_stamp() -> None:
    held = open_books()
    written = 0
    for version in range(5000):
        reaction = register.node_seen(
            held, node(version=str(version + 1), handshake=None), later(version / 5000)
        )
        written += len(writes(reaction))

    assert written == 1


def test_a_stamp_that_was_refused_is_asked_for_again_by_the_next_event() -> None:
    """The plugin wrote in between: its new register text is still news."""
    held = open_books()
    put_node(held)
    dead = {"register": TWO_CARDS, "handshake": OLD_STAMP, "allocatable": 0}
    register.node_seen(held, node(version="11", **dead), NOW)

    again = register.node_seen(held, node(version="12", **dead), later(2))

    assert [patch.resource_version for patch in writes(again)] == ["12"]
    assert has_cards(held)


@pytest.mark.parametrize("seconds", [0, 30])
def test_a_follower_drops_the_cards_whose_handshake_its_leader_has_removed(seconds: float) -> None:
    held = open_books()
    held.leader = False
    put_node(held)
    gone = node(version="11", handshake=None, allocatable=0)

    register.node_seen(held, gone, later(seconds))
    restarted = open_books()
    register.node_seen(restarted, gone, later(seconds))

    assert has_cards(held) is has_cards(restarted) is False


def test_a_register_text_that_has_just_changed_keeps_the_cards_without_a_handshake() -> None:
    held = open_books()
    put_node(held)

    put_node(held, version="11", register=TWO_CARDS, handshake=None, allocatable=0)

    assert has_cards(held)
