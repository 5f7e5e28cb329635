"""The handshake's rules, each over every combination that it speaks of."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from vgpu_operator.machines import handshake
from vgpu_operator.machines.handshake import Age, Effect, News, Supply
from vgpu_operator.model import errors
from vgpu_operator.wire import handshake as handshake_text
from vgpu_operator.wire.handshake import State

NOW = datetime(2026, 1, 15, 10, tzinfo=UTC)
STAMP = {Effect.STAMP}
CLEAN_UP = {Effect.DROP_DEVICES, Effect.DELETE_KEY}


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def step(state: State, age: Age, supply: Supply, news: News) -> frozenset[Effect]:
    return handshake.step(state, age=age, supply=supply, news=news)


def test_every_combination_that_can_be_is_listed_and_no_other() -> None:
    timeless = itertools.product(set(State) - {State.REQUESTING}, [Age.TIMELESS], Supply, News)
    aged = itertools.product([State.REQUESTING], [Age.FRESH, Age.EXPIRED], Supply, News)

    assert set(handshake.TABLE) == {*timeless, *aged}


@pytest.mark.parametrize(
    ("state", "age"),
    [(State.REQUESTING, Age.TIMELESS), (State.ABSENT, Age.FRESH), (State.REPORTED, Age.EXPIRED)],
)
def test_a_combination_that_cannot_be_is_our_fault(state: State, age: Age) -> None:
    with pytest.raises(errors.MachineError, match=state.value):
        step(state, age, Supply.SOME, News.SAME)


@pytest.mark.parametrize("state", [State.REPORTED, State.UNREADABLE])
def test_an_answer_or_a_text_without_sense_is_stamped_whatever_else_holds(state: State) -> None:
    for supply, news in itertools.product(Supply, News):
        assert step(state, Age.TIMELESS, supply, news) == STAMP


@pytest.mark.parametrize("state", [State.ABSENT, State.DELETED])
def test_a_missing_handshake_is_stamped_when_something_is_allocatable_or_new(state: State) -> None:
    assert step(state, Age.TIMELESS, Supply.SOME, News.SAME) == STAMP
    assert step(state, Age.TIMELESS, Supply.SOME, News.CHANGED) == STAMP
    assert step(state, Age.TIMELESS, Supply.NONE, News.CHANGED) == STAMP


@pytest.mark.parametrize("state", [State.ABSENT, State.DELETED])
def test_a_missing_handshake_of_a_dead_node_stays_away(state: State) -> None:
    assert step(state, Age.TIMELESS, Supply.NONE, News.SAME) == frozenset()


def test_a_fresh_stamp_calls_for_nothing() -> None:
    for supply, news in itertools.product(Supply, News):
        assert step(State.REQUESTING, Age.FRESH, supply, news) == frozenset()


def test_an_old_stamp_with_something_allocatable_is_the_healthy_state() -> None:
    for news in News:
        assert step(State.REQUESTING, Age.EXPIRED, Supply.SOME, news) == frozenset()


def test_devices_leave_when_the_stamp_is_expired_and_nothing_is_allocatable() -> None:
    assert step(State.REQUESTING, Age.EXPIRED, Supply.NONE, News.SAME) == CLEAN_UP


def test_a_changed_register_text_asks_again_instead_of_cleaning_up() -> None:
    assert step(State.REQUESTING, Age.EXPIRED, Supply.NONE, News.CHANGED) == STAMP


def test_a_dead_node_is_cleaned_up_once_and_then_left_alone() -> None:
    effects = step(State.REQUESTING, Age.EXPIRED, Supply.NONE, News.SAME)
    after = handshake.state_after(State.REQUESTING, effects)

    assert after is State.ABSENT
    assert step(after, Age.TIMELESS, Supply.NONE, News.SAME) == frozenset()


def test_devices_never_leave_while_something_is_allocatable() -> None:
    for (state, age, supply, news), effects in handshake.TABLE.items():
        if Effect.DROP_DEVICES in effects:
            assert (state, age, supply, news) == (
                State.REQUESTING,
                Age.EXPIRED,
                Supply.NONE,
                News.SAME,
            )


def test_a_follower_drops_devices_and_writes_nothing() -> None:
    everything = frozenset(Effect)

    assert handshake.writes(everything, leader=True) == everything
    assert handshake.writes(everything, leader=False) == {Effect.DROP_DEVICES}


@pytest.mark.parametrize(
    ("text", "seen_before_s", "age"),
    [
        ("Requesting_2026-01-15 10:00:00", 0, Age.FRESH),
        ("Requesting_2026-01-15 09:59:01", 0, Age.FRESH),
        ("Requesting_2026-01-15 09:59:00", 0, Age.EXPIRED),
        ("Requesting_2025-01-15 09:59:00", 0, Age.EXPIRED),
        ("Requesting", 0, Age.FRESH),
        ("Requesting", 59.9, Age.FRESH),
        ("Requesting_yesterday", 60, Age.EXPIRED),
        ("Requesting_2026-01-15 10:00:01", 0, Age.FRESH),
        ("Requesting_2036-01-15 10:00:00", 60, Age.EXPIRED),
        ("Requesting_2026-01-15 09:59:30", 300, Age.FRESH),
        ("Reported_2025-01-15 09:59:00", 300, Age.TIMELESS),
        ("Deleted_2025-01-15 09:59:00", 300, Age.TIMELESS),
        ("foo", 300, Age.TIMELESS),
        ("", 300, Age.TIMELESS),
    ],
)
def test_a_stamp_is_expired_at_60_s_and_ages_from_its_first_sight_where_it_has_no_past(
    text: str, seen_before_s: float, age: Age
) -> None:
    read = handshake_text.decode_handshake(text)

    assert handshake.age(read, first_seen=NOW - seconds(seen_before_s), now=NOW, expiry_s=60) is age
