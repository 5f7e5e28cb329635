"""The machine's clocks."""

import sys
import time

import pytest

from vgpu_operator.kube import clock


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such clock")
def test_ages_count_the_time_of_a_suspended_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = time.clock_gettime
    monkeypatch.setattr(
        time, "clock_gettime", lambda number: (asked.append(number), read(number))[1]
    )

    seen_s = clock.SystemClock().monotonic_s()

    assert asked == [time.CLOCK_BOOTTIME]
    assert seen_s <= read(time.CLOCK_BOOTTIME)
