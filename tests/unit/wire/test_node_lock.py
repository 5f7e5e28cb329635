"""Lock texts."""

from datetime import UTC, datetime

import pytest

from vgpu_operator.model import errors
from vgpu_operator.wire import node_lock

KEY = "hami.io/mutex.lock"


@pytest.mark.parametrize(
    "text", ["", ",", ",,", "x,y", "yesterday", "t,team-a,", "t,,p1", "a,b,c,d", "," * 100_000]
)
def test_a_lock_that_fits_no_form_is_malformed(text: str) -> None:
    with pytest.raises(errors.DecodeError, match=rf"^{KEY}: malformed lock") as fault:
        node_lock.decode_lock(text, key=KEY)

    assert len(str(fault.value)) < 200


def test_an_unreadable_time_does_not_cost_the_owner() -> None:
    lock = node_lock.decode_lock("1768471170,team-a,p1")

    assert lock == node_lock.LockText(time=None, namespace="team-a", pod="p1")
    assert lock.owned


def test_a_bare_time_names_nobody() -> None:
    lock = node_lock.decode_lock("2026-01-15T10:00:00Z")

    assert lock == node_lock.LockText(time=datetime(2026, 1, 15, 10, tzinfo=UTC))
    assert not lock.owned
