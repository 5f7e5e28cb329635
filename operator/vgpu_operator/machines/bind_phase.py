"""The bind phase of a pod, from one look at it to the next.

A plugin knows only its own key: while another vendor's to-allocate text still
names a device, ``success`` on the pod is not the pod's success, and it counts
as ``allocating`` here (``state``).

``failed`` frees the lock but never the cards: a plugin can put it on an
innocent pod that runs.
"""

import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from vgpu_operator.model import errors, records


class State(enum.StrEnum):
    """Where the node's plugins are with a pod."""

    NONE = "none"
    ALLOCATING = "allocating"
    SUCCESS = "success"
    FAILED = "failed"


class Effect(enum.StrEnum):
    """What a change calls for.

    ``WARN_FAILED`` an event, if the pod keeps running.
    """

    WARN_FAILED = "warn failed"


Key: TypeAlias = tuple[State, State]

_NOTHING: Final[frozenset[Effect]] = frozenset()
_WARN: Final = frozenset({Effect.WARN_FAILED})

TABLE: Final[Mapping[Key, frozenset[Effect]]] = {
    (State.NONE, State.NONE): _NOTHING,
    (State.NONE, State.ALLOCATING): _NOTHING,
    (State.NONE, State.SUCCESS): _NOTHING,
    (State.NONE, State.FAILED): _WARN,
    (State.ALLOCATING, State.NONE): _NOTHING,
    (State.ALLOCATING, State.ALLOCATING): _NOTHING,
    (State.ALLOCATING, State.SUCCESS): _NOTHING,
    (State.ALLOCATING, State.FAILED): _WARN,
    (State.SUCCESS, State.NONE): _NOTHING,
    (State.SUCCESS, State.ALLOCATING): _NOTHING,
    (State.SUCCESS, State.SUCCESS): _NOTHING,
    (State.SUCCESS, State.FAILED): _WARN,
    (State.FAILED, State.NONE): _NOTHING,
    (State.FAILED, State.ALLOCATING): _NOTHING,
    (State.FAILED, State.SUCCESS): _NOTHING,
    (State.FAILED, State.FAILED): _NOTHING,
}


def state(record: records.PodRecord | None) -> State:
    """Return where the plugins are with the pod; None is a pod not seen before."""
    if record is None or record.bind_phase is None:
        return State.NONE
    if record.bind_phase is records.BindPhase.SUCCESS and record.to_allocate:
        return State.ALLOCATING
    return State(record.bind_phase.value)


def step(before: State, after: State) -> frozenset[Effect]:
    """Return what a change of the phase calls for.

    >>> step(State.ALLOCATING, State.FAILED)
    frozenset({<Effect.WARN_FAILED: 'warn failed'>})

    Raises:
        MachineError: no such states.
    """
    try:
        return TABLE[before, after]
    except KeyError:
        raise errors.MachineError(f"no bind phase goes from {before} to {after}") from None


def is_stuck(
    record: records.PodRecord,
    now: datetime,
    stuck_after_s: float,
    *,
    first_seen: datetime | None = None,
) -> bool:
    """Say whether a bound pod has been allocating for longer than ``stuck_after_s``.

    Args:
        first_seen: since when this process has seen it so: counts where the pod's
            bind time is unreadable or lies ahead; without it such a pod is never stuck.
    """
    if record.ended or not record.node or state(record) is not State.ALLOCATING:
        return False
    since = first_seen
    if record.bind_time_s is not None and record.bind_time_s <= now.timestamp():
        since = datetime.fromtimestamp(record.bind_time_s, tz=UTC)
    return since is not None and (now - since).total_seconds() > stuck_after_s
