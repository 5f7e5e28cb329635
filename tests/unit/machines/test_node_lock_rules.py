"""Who may take a node's lock, and which locks are removed."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vgpu_operator.machines import node_lock
from vgpu_operator.machines.node_lock import Age, Holder, Progress, Remnant, Verdict
from vgpu_operator.model import errors, records, request
from vgpu_operator.wire import lock_kinds
from vgpu_operator.wire import node_lock as lock_text

NOW = datetime(2026, 1, 15, 10, tzinfo=UTC)
LOCK = "2026-01-15T09:59:30Z,team-a,owner"
WANTED_BY = request.PodKey(namespace="team-a", name="waiter", uid="uid-waiter")


def owner(**values: Any) -> records.PodRecord:
    key = request.PodKey(namespace="team-a", name="owner", uid="uid-owner")
    default: dict[str, Any] = {
        "key": key,
        "resource_version": "1",
        "node": "node-a",
        "phase": "Pending",
        "scheduler": "hami-scheduler",
        "request": request.PodRequest(pod=key, containers=()),
        "bind_phase": records.BindPhase.ALLOCATING,
        "to_allocate": frozenset({"NVIDIA"}),
    }
    return records.PodRecord(**(default | values))


def holder(text: str | None = LOCK, seen: records.PodRecord | None = None) -> Holder:
    return node_lock.holder(text, node="node-a", wanted_by=WANTED_BY, owner=seen)


def test_without_a_lock_nobody_holds_it() -> None:
    assert holder(None) is Holder.NOBODY


@pytest.mark.parametrize("text", ["", "x,y", "2026-01-15T09:59:30Z", "yesterday", "t,,"])
def test_a_lock_that_names_no_pod_is_unnamed(text: str) -> None:
    assert holder(text) is Holder.UNNAMED


def test_a_lock_of_the_pod_that_wants_it_is_its_own() -> None:
    assert holder("2026-01-15T09:59:30Z,team-a,waiter") is Holder.SELF
    assert holder("2026-01-15T09:59:30Z,team-b,waiter") is Holder.GONE


def test_a_new_pod_of_the_same_name_owns_its_forerunners_lock() -> None:
    reborn = request.PodKey(namespace="team-a", name="owner", uid="uid-new")

    seen = node_lock.holder(LOCK, node="node-a", wanted_by=reborn, owner=owner())

    assert seen is Holder.SELF


def test_nobody_waits_so_no_lock_is_its_own() -> None:
    seen = node_lock.holder(LOCK, node="node-a", wanted_by=None, owner=owner())

    assert seen is Holder.AWAITED


@pytest.mark.parametrize(
    ("values", "held_by"),
    [
        ({"node": "", "bind_phase": None}, Holder.UNBOUND),
        ({"node": "", "bind_phase": records.BindPhase.FAILED}, Holder.UNBOUND),
        (
            {"node": "", "bind_phase": records.BindPhase.SUCCESS, "to_allocate": frozenset()},
            Holder.UNBOUND,
        ),
        ({"node": "node-b"}, Holder.ELSEWHERE),
        ({"phase": "Succeeded"}, Holder.ENDED),
        ({"phase": "Failed", "admitted": True}, Holder.ENDED),
        ({"phase": "Failed", "node": ""}, Holder.ENDED),
        ({"bind_phase": records.BindPhase.FAILED}, Holder.FAILED),
        ({"bind_phase": records.BindPhase.FAILED, "admitted": True}, Holder.FAILED),
        ({"bind_phase": records.BindPhase.SUCCESS, "to_allocate": frozenset()}, Holder.SERVED),
        ({"bind_phase": records.BindPhase.SUCCESS}, Holder.AWAITED),
        ({"bind_phase": records.BindPhase.SUCCESS, "admitted": True}, Holder.ADMITTED),
        ({"to_allocate": frozenset()}, Holder.AWAITED),
        ({}, Holder.AWAITED),
        ({"admitted": True}, Holder.ADMITTED),
        ({"bind_phase": None}, Holder.AWAITED),
    ],
)
def test_the_owners_state_says_whether_its_allocate_may_still_come(
    values: dict[str, Any], held_by: Holder
) -> None:
    assert holder(seen=owner(**values)) is held_by


def test_an_owner_that_does_not_exist_is_gone() -> None:
    assert holder(seen=None) is Holder.GONE


def test_case_n8_another_pod_of_the_name_is_not_whom_we_took_the_lock_for() -> None:
    reborn = owner(node="", bind_phase=None)

    def held(owner_uid: str) -> Holder:
        return node_lock.holder(
            LOCK, node="node-a", wanted_by=None, owner=reborn, owner_uid=owner_uid
        )

    assert held("uid-before") is Holder.GONE
    assert held("uid-owner") is Holder.UNBOUND


@pytest.mark.parametrize(
    ("second", "held_by"), [(29, Holder.UNBOUND), (30, Holder.UNBOUND), (31, Holder.REPLACED)]
)
def test_case_n8_a_pod_created_after_somebody_elses_lock_has_replaced_its_owner(
    second: int, held_by: Holder
) -> None:
    created = datetime(2026, 1, 15, 9, 59, second, tzinfo=UTC)

    assert holder(seen=owner(node="", bind_phase=None, created=created)) is held_by


def test_a_pod_that_is_bound_here_has_the_lock_however_young_it_is() -> None:
    assert holder(seen=owner(created=NOW)) is Holder.AWAITED


def test_a_lock_of_ours_is_abandoned_when_no_binding_of_ours_for_its_owner_is_under_way() -> None:
    unbound = owner(node="", bind_phase=None)

    def held(*, owner_uid: str, idle: bool) -> Holder:
        return node_lock.holder(
            LOCK, node="node-a", wanted_by=WANTED_BY, owner=unbound, owner_uid=owner_uid, idle=idle
        )

    assert held(owner_uid="uid-owner", idle=True) is Holder.ABANDONED
    assert held(owner_uid="uid-owner", idle=False) is Holder.UNBOUND
    assert held(owner_uid="", idle=True) is Holder.UNBOUND, "somebody else's lock"


@pytest.mark.parametrize(
    ("text", "seen_before_s", "age"),
    [
        ("2026-01-15T09:55:00Z,team-a,p1", 0, Age.FRESH),
        ("2026-01-15T09:54:59Z,team-a,p1", 0, Age.EXPIRED),
        ("2026-01-15T09:59:00Z,team-a,p1", 900, Age.FRESH),
        ("2026-01-15T10:00:01Z,team-a,p1", 0, Age.FRESH),
        ("2036-01-15T10:00:00Z,team-a,p1", 301, Age.EXPIRED),
        ("yesterday,team-a,p1", 300, Age.FRESH),
        ("yesterday,team-a,p1", 301, Age.EXPIRED),
        ("2020-01-15T10:00:00Z", 0, Age.FRESH),
        ("2020-01-15T10:00:00Z", 301, Age.EXPIRED),
        (None, 300, Age.FRESH),
        (None, 301, Age.EXPIRED),
    ],
)
def test_a_lock_expires_after_5_min_counted_from_its_first_sight_where_its_text_has_no_past(
    text: str | None, seen_before_s: float, age: Age
) -> None:
    lock = None if text is None else lock_text.decode_lock(text)

    first_seen = NOW - timedelta(seconds=seen_before_s)

    assert node_lock.age(lock, first_seen=first_seen, now=NOW, expiry_s=300) is age


def test_both_tables_list_every_combination() -> None:
    every = set(itertools.product(Holder, Age))

    assert set(node_lock.VERDICTS) == every
    assert set(node_lock.REMNANTS) == every


ENDED_WITH_IT = [
    Holder.NOBODY,
    Holder.GONE,
    Holder.ELSEWHERE,
    Holder.ENDED,
    Holder.FAILED,
    Holder.SERVED,
    Holder.ABANDONED,
]


@pytest.mark.parametrize("held_by", ENDED_WITH_IT)
def test_a_lock_whose_owner_is_done_passes_on_at_once(held_by: Holder) -> None:
    for age in Age:
        assert node_lock.verdict(held_by, age) is Verdict.TAKE


@pytest.mark.parametrize(
    "held_by", sorted(set(Holder) - {*ENDED_WITH_IT, Holder.SELF, Holder.REPLACED})
)
def test_a_fresh_lock_of_anybody_else_is_waited_for(held_by: Holder) -> None:
    assert node_lock.verdict(held_by, Age.FRESH) is Verdict.WAIT


@pytest.mark.parametrize(
    ("held_by", "verdict"),
    [
        (Holder.UNNAMED, Verdict.TAKE),
        (Holder.UNBOUND, Verdict.FENCE),
        (Holder.AWAITED, Verdict.BLOCKED),
        (Holder.ADMITTED, Verdict.TAKE),
    ],
)
def test_an_expired_lock_is_taken_only_where_no_allocate_can_come(
    held_by: Holder, verdict: Verdict
) -> None:
    assert node_lock.verdict(held_by, Age.EXPIRED) is verdict


def test_a_lock_older_than_the_pod_that_it_names_passes_on_once_that_pod_is_fenced() -> None:
    """The clocks of two machines may differ, so the pod may be its owner after all."""
    for age in Age:
        assert node_lock.verdict(Holder.REPLACED, age) is Verdict.FENCE


def test_our_own_lock_is_kept() -> None:
    for age in Age:
        assert node_lock.verdict(Holder.SELF, age) is Verdict.KEEP


@pytest.mark.parametrize(
    ("held_by", "fresh", "expired"),
    [
        (Holder.NOBODY, Remnant.NEVER, Remnant.NEVER),
        (Holder.SELF, Remnant.NEVER, Remnant.NEVER),
        (Holder.UNNAMED, Remnant.NEVER, Remnant.NOW),
        (Holder.GONE, Remnant.NOW, Remnant.NOW),
        (Holder.ELSEWHERE, Remnant.NOW, Remnant.NOW),
        (Holder.ENDED, Remnant.NOW, Remnant.NOW),
        (Holder.FAILED, Remnant.AFTER_GRACE, Remnant.AFTER_GRACE),
        (Holder.SERVED, Remnant.AFTER_GRACE, Remnant.AFTER_GRACE),
        (Holder.UNBOUND, Remnant.NEVER, Remnant.AFTER_FENCE),
        (Holder.ABANDONED, Remnant.NOW, Remnant.NOW),
        (Holder.REPLACED, Remnant.AFTER_FENCE, Remnant.AFTER_FENCE),
        (Holder.AWAITED, Remnant.NEVER, Remnant.NEVER),
        (Holder.ADMITTED, Remnant.NEVER, Remnant.NOW),
    ],
)
def test_a_lock_that_nobody_waits_for_is_removed_when_its_owner_needs_it_no_more(
    held_by: Holder, fresh: Remnant, expired: Remnant
) -> None:
    assert node_lock.may_release(held_by, Age.FRESH) is fresh
    assert node_lock.may_release(held_by, Age.EXPIRED) is expired


def test_no_lock_is_removed_that_a_waiter_could_not_take() -> None:
    for (held_by, age), remnant in node_lock.REMNANTS.items():
        fenced = remnant is Remnant.AFTER_FENCE
        if remnant is not Remnant.NEVER:
            assert node_lock.verdict(held_by, age) is (Verdict.FENCE if fenced else Verdict.TAKE)


def test_an_unknown_combination_is_our_fault() -> None:
    with pytest.raises(errors.MachineError):
        node_lock.verdict(Holder.SELF, "old")  # type: ignore[arg-type]
    with pytest.raises(errors.MachineError):
        node_lock.may_release("me", Age.FRESH)  # type: ignore[arg-type]


BARE = lock_kinds.LockStyle.BARE
BARE_LOCK = "2026-01-15T09:59:30Z"


def bare_holder(seen: records.PodRecord | None = None, owner_uid: str = "") -> Holder:
    return node_lock.holder(
        BARE_LOCK,
        node="node-a",
        wanted_by=WANTED_BY,
        owner=seen,
        owner_uid=owner_uid,
        style=BARE,
    )


def test_a_bare_lock_is_of_whom_we_took_it_for_else_of_the_pod_that_needs_it() -> None:
    assert bare_holder() is Holder.UNNAMED
    assert bare_holder(owner()) is Holder.AWAITED
    assert bare_holder(owner(), owner_uid="uid-owner") is Holder.AWAITED
    assert bare_holder(None, owner_uid="uid-gone") is Holder.GONE
    assert bare_holder(None, owner_uid="uid-waiter") is Holder.SELF


def test_a_bare_lock_ages_from_its_own_time() -> None:
    def age(text: str) -> Age:
        lock = lock_text.decode_lock(text)
        return node_lock.age(lock, first_seen=NOW, now=NOW, expiry_s=120, style=BARE)

    assert age("2026-01-15T09:58:00Z") is Age.FRESH
    assert age("2026-01-15T09:57:59Z") is Age.EXPIRED
    assert age("2026-01-15T10:00:01Z") is Age.FRESH


@pytest.mark.parametrize(
    ("left", "reported", "progress"),
    [
        ({"NVIDIA", "DCU"}, True, Progress.NONE),
        ({"DCU"}, True, Progress.SOME),
        ({"MLU"}, True, Progress.ALL),
        (set(), True, Progress.ALL),
        ({"NVIDIA"}, False, Progress.UNKNOWN),
    ],
)
def test_progress_counts_the_plugins_that_share_the_lock(
    left: set[str], reported: bool, progress: Progress
) -> None:
    record = owner(to_allocate=frozenset(left))
    users = frozenset({"NVIDIA", "DCU"})

    assert node_lock.progress(record, users=users, reported=reported) is progress


@pytest.mark.parametrize(
    ("values", "awaited"),
    [
        ({}, True),
        ({"bind_phase": records.BindPhase.SUCCESS}, True),
        ({"bind_phase": records.BindPhase.SUCCESS, "to_allocate": frozenset()}, False),
        ({"bind_phase": records.BindPhase.FAILED}, False),
        ({"bind_phase": None}, False),
        ({"admitted": True}, False),
        ({"phase": "Failed"}, False),
        ({"promised_node": "node-b"}, False),
        ({"node": "", "promised_node": ""}, False),
    ],
)
def test_a_pod_is_awaited_between_its_binding_and_its_allocate(
    values: dict[str, Any], awaited: bool
) -> None:
    assert node_lock.is_awaited(owner(**({"promised_node": "node-a"} | values))) is awaited


def test_every_progress_has_its_row() -> None:
    assert {progress for (progress,) in node_lock.RETURNS} == set(Progress)
    with pytest.raises(errors.MachineError):
        node_lock.may_return("much")  # type: ignore[arg-type]
