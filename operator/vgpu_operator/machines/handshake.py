"""The handshake of one vendor on one node: what its annotation calls for.

The scheduler owns the clock: it stamps ``Requesting_<its now>`` and looks how
old its own stamp is. A plugin that lives answers ``Reported_…``, but NVIDIA's
never does: an old stamp with something allocatable is its healthy state.
Devices leave only when the stamp is expired **and** nothing is allocatable,
and the annotation is then deleted and stays away, so that a dead node sees no
loop of stamps and deletions.

Nothing here is asked for a vendor that has never registered on the node: that
is the caller's rule. So is the reading of the register text itself.
"""

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from vgpu_operator.model import errors
from vgpu_operator.wire import handshake
from vgpu_operator.wire.handshake import State


class Age(enum.StrEnum):
    """How old a stamp is; ``TIMELESS`` where the state does not ask."""

    TIMELESS = "timeless"
    FRESH = "fresh"
    EXPIRED = "expired"


class Supply(enum.StrEnum):
    """Whether any of the vendor's count resource is allocatable on the node."""

    SOME = "allocatable > 0"
    NONE = "allocatable 0"


class News(enum.StrEnum):
    """Whether the register text changed since it was last looked at."""

    SAME = "register same"
    CHANGED = "register changed"


class Effect(enum.StrEnum):
    """What is to be done.

    ``STAMP`` and ``DELETE_KEY`` write to the node, which only the leader may;
    ``DROP_DEVICES`` changes the ledger of whoever keeps one.
    """

    STAMP = "stamp"
    DELETE_KEY = "delete key"
    DROP_DEVICES = "drop devices"


Key: TypeAlias = tuple[State, Age, Supply, News]

_NOTHING: Final[frozenset[Effect]] = frozenset()
_STAMP: Final = frozenset({Effect.STAMP})
_CLEAN_UP: Final = frozenset({Effect.DROP_DEVICES, Effect.DELETE_KEY})

TABLE: Final[Mapping[Key, frozenset[Effect]]] = {
    (State.ABSENT, Age.TIMELESS, Supply.SOME, News.SAME): _STAMP,
    (State.ABSENT, Age.TIMELESS, Supply.SOME, News.CHANGED): _STAMP,
    (State.ABSENT, Age.TIMELESS, Supply.NONE, News.SAME): _NOTHING,
    (State.ABSENT, Age.TIMELESS, Supply.NONE, News.CHANGED): _STAMP,
    (State.DELETED, Age.TIMELESS, Supply.SOME, News.SAME): _STAMP,
    (State.DELETED, Age.TIMELESS, Supply.SOME, News.CHANGED): _STAMP,
    (State.DELETED, Age.TIMELESS, Supply.NONE, News.SAME): _NOTHING,
    (State.DELETED, Age.TIMELESS, Supply.NONE, News.CHANGED): _STAMP,
    (State.REPORTED, Age.TIMELESS, Supply.SOME, News.SAME): _STAMP,
    (State.REPORTED, Age.TIMELESS, Supply.SOME, News.CHANGED): _STAMP,
    (State.REPORTED, Age.TIMELESS, Supply.NONE, News.SAME): _STAMP,
    (State.REPORTED, Age.TIMELESS, Supply.NONE, News.CHANGED): _STAMP,
    (State.UNREADABLE, Age.TIMELESS, Supply.SOME, News.SAME): _STAMP,
    (State.UNREADABLE, Age.TIMELESS, Supply.SOME, News.CHANGED): _STAMP,
    (State.UNREADABLE, Age.TIMELESS, Supply.NONE, News.SAME): _STAMP,
    (State.UNREADABLE, Age.TIMELESS, Supply.NONE, News.CHANGED): _STAMP,
    (State.REQUESTING, Age.FRESH, Supply.SOME, News.SAME): _NOTHING,
    (State.REQUESTING, Age.FRESH, Supply.SOME, News.CHANGED): _NOTHING,
    (State.REQUESTING, Age.FRESH, Supply.NONE, News.SAME): _NOTHING,
    (State.REQUESTING, Age.FRESH, Supply.NONE, News.CHANGED): _NOTHING,
    (State.REQUESTING, Age.EXPIRED, Supply.SOME, News.SAME): _NOTHING,
    (State.REQUESTING, Age.EXPIRED, Supply.SOME, News.CHANGED): _NOTHING,
    (State.REQUESTING, Age.EXPIRED, Supply.NONE, News.SAME): _CLEAN_UP,
    # Somebody has just written the register text: ask again before believing in its death.
    (State.REQUESTING, Age.EXPIRED, Supply.NONE, News.CHANGED): _STAMP,
}


def age(
    text: handshake.HandshakeText, *, first_seen: datetime, now: datetime, expiry_s: float
) -> Age:
    """Return how old a stamp is; one that is exactly ``expiry_s`` old is expired.

    Args:
        first_seen: when this process first saw exactly this text: a stamp that
            is unreadable or lies in the future ages from there.
    """
    if text.state is not State.REQUESTING:
        return Age.TIMELESS
    since = first_seen if text.time is None or text.time > now else text.time
    return Age.EXPIRED if now - since >= timedelta(seconds=expiry_s) else Age.FRESH


def step(state: State, *, age: Age, supply: Supply, news: News) -> frozenset[Effect]:
    """Return what the handshake calls for.

    >>> step(State.REPORTED, age=Age.TIMELESS, supply=Supply.SOME, news=News.SAME)
    frozenset({<Effect.STAMP: 'stamp'>})

    Raises:
        MachineError: a combination that cannot be, a timeless stamp say.
    """
    try:
        return TABLE[state, age, supply, news]
    except KeyError:
        raise errors.MachineError(
            f"the handshake knows no step for {state}, {age}, {supply}, {news}"
        ) from None


def writes(effects: frozenset[Effect], *, leader: bool) -> frozenset[Effect]:
    """Return what of the effects this process may do: a follower writes nothing."""
    return effects if leader else effects & {Effect.DROP_DEVICES}


def state_after(state: State, effects: frozenset[Effect]) -> State:
    """Return the state that the annotation is in once the effects are done."""
    if Effect.STAMP in effects:
        return State.REQUESTING
    if Effect.DELETE_KEY in effects:
        return State.ABSENT
    return state
