"""What a change of the bind phase calls for, and which pods are stuck."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vgpu_operator.machines import bind_phase
from vgpu_operator.machines.bind_phase import Effect, State
from vgpu_operator.model import errors, records, request

NOW = datetime(2026, 1, 15, 10, tzinfo=UTC)
NOW_UNIX_S = 1_768_471_200


def pod(**values: Any) -> records.PodRecord:
    key = request.PodKey(namespace="team-a", name="p1", uid="uid-1")
    default: dict[str, Any] = {
        "key": key,
        "resource_version": "1",
        "node": "node-a",
        "phase": "Pending",
        "scheduler": "hami-scheduler",
        "request": request.PodRequest(pod=key, containers=()),
        "bind_phase": records.BindPhase.ALLOCATING,
        "bind_time_s": NOW_UNIX_S - 61,
    }
    return records.PodRecord(**(default | values))


def test_every_pair_of_phases_is_listed() -> None:
    assert set(bind_phase.TABLE) == set(itertools.product(State, State))


@pytest.mark.parametrize("phase", State)
def test_a_phase_that_stays_calls_for_nothing(phase: State) -> None:
    assert bind_phase.step(phase, phase) == frozenset()


@pytest.mark.parametrize("before", [State.NONE, State.ALLOCATING, State.FAILED])
def test_success_needs_nothing_said(before: State) -> None:
    assert bind_phase.step(before, State.SUCCESS) == frozenset()


@pytest.mark.parametrize("before", [State.NONE, State.ALLOCATING, State.SUCCESS])
def test_failure_warns(before: State) -> None:
    assert bind_phase.step(before, State.FAILED) == {Effect.WARN_FAILED}


@pytest.mark.parametrize("before", State)
def test_a_pod_that_begins_or_loses_its_phase_calls_for_nothing(before: State) -> None:
    assert bind_phase.step(before, State.ALLOCATING) == frozenset()
    assert bind_phase.step(before, State.NONE) == frozenset()


def test_an_unknown_phase_is_our_fault() -> None:
    with pytest.raises(errors.MachineError, match="bound"):
        bind_phase.step(State.NONE, "bound")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"bind_phase": None}, State.NONE),
        ({}, State.ALLOCATING),
        ({"bind_phase": records.BindPhase.SUCCESS}, State.SUCCESS),
        ({"bind_phase": records.BindPhase.FAILED}, State.FAILED),
        (
            {"bind_phase": records.BindPhase.SUCCESS, "to_allocate": frozenset({"MLU"})},
            State.ALLOCATING,
        ),
        (
            {"bind_phase": records.BindPhase.FAILED, "to_allocate": frozenset({"MLU"})},
            State.FAILED,
        ),
    ],
)
def test_success_counts_only_when_no_vendor_has_anything_left(
    values: dict[str, Any], state: State
) -> None:
    assert bind_phase.state(pod(**values)) is state


def test_a_pod_not_seen_before_has_no_phase() -> None:
    assert bind_phase.state(None) is State.NONE


def test_a_pod_is_stuck_when_it_allocates_for_longer_than_the_limit() -> None:
    assert bind_phase.is_stuck(pod(bind_time_s=NOW_UNIX_S - 61), NOW, 60)
    assert not bind_phase.is_stuck(pod(bind_time_s=NOW_UNIX_S - 60), NOW, 60)


@pytest.mark.parametrize(
    "values",
    [
        {"bind_phase": None},
        {"bind_phase": records.BindPhase.SUCCESS},
        {"bind_phase": records.BindPhase.FAILED},
        {"node": ""},
        {"phase": "Failed"},
        {"phase": "Succeeded"},
        {"bind_time_s": NOW_UNIX_S + 3600},
    ],
)
def test_a_pod_that_does_not_allocate_on_a_node_is_never_stuck(values: dict[str, Any]) -> None:
    assert not bind_phase.is_stuck(pod(**values), NOW, 60)


def test_a_bind_time_that_lies_ahead_counts_from_first_sight() -> None:
    ahead = pod(bind_time_s=NOW_UNIX_S + 10_000)

    assert not bind_phase.is_stuck(ahead, NOW, 60, first_seen=NOW - timedelta(seconds=60))
    assert bind_phase.is_stuck(ahead, NOW, 60, first_seen=NOW - timedelta(seconds=61))


def test_a_pod_without_readable_bind_time_is_stuck_from_its_first_sight_on() -> None:
    record = pod(bind_time_s=None)

    assert not bind_phase.is_stuck(record, NOW, 60)
    assert not bind_phase.is_stuck(record, NOW, 60, first_seen=NOW - timedelta(seconds=60))
    assert bind_phase.is_stuck(record, NOW, 60, first_seen=NOW - timedelta(seconds=61))
