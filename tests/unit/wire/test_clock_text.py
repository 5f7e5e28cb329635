"""Points in time in every form that peers write."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from vgpu_operator.wire import clock_text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-15 10:00:00", datetime(2026, 1, 15, 10, tzinfo=UTC)),
        ("2024.01.10 04:06:57", datetime(2024, 1, 10, 4, 6, 57, tzinfo=UTC)),
        ("2026-01-15T10:00:00Z", datetime(2026, 1, 15, 10, tzinfo=UTC)),
        ("2026-01-15 10:00:00Z", datetime(2026, 1, 15, 10, tzinfo=UTC)),
        ("2026-01-15T17:59:30+08:00", datetime(2026, 1, 15, 9, 59, 30, tzinfo=UTC)),
        ("2026-01-15T00:30:00-00:45", datetime(2026, 1, 15, 1, 15, tzinfo=UTC)),
        ("2026-01-15T10:00:00.5Z", datetime(2026, 1, 15, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-15 10:00:00.123456789", datetime(2026, 1, 15, 10, 0, 0, 123_456, tzinfo=UTC)),
        (
            "2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.777756895",
            datetime(2024, 1, 23, 4, 30, 4, 434_037, tzinfo=UTC),
        ),
        ("2024-01-23 04:30:04 +0800 CST", datetime(2024, 1, 22, 20, 30, 4, tzinfo=UTC)),
        ("2024-01-23 04:30:04 +0330 +0330", datetime(2024, 1, 23, 1, 0, 4, tzinfo=UTC)),
        ("2024-01-23 04:30:04 -0500", datetime(2024, 1, 23, 9, 30, 4, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_utc(text: str, meant: datetime) -> None:
    read = clock_text.decode_time(text)

    assert read == meant
    assert read is not None
    assert read.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-1-15 9:00:00",
        "2026-01-15",
        "2026-01.15 10:00:00",
        "2026-02-30 10:00:00",
        "2026-01-15 24:00:00",
        "2026-01-15 10:00:60",
        "2026-01-15 10:00:00 ",
        " 2026-01-15 10:00:00",
        "2026-01-15 10:00:00\n",
        "2026-01-15T10:00:00+25:00",
        "0001-01-01T00:00:00+01:00",
        "0000-01-01 00:00:00",
        "1768471170",
        "٢٠٢٦-01-15 10:00:00",
    ],
)
def test_a_text_that_is_no_time_gives_none(text: str) -> None:
    assert clock_text.decode_time(text) is None


def test_times_are_written_in_utc_whole_seconds_whatever_their_zone() -> None:
    now = datetime(2026, 1, 15, 18, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=8)))

    assert clock_text.encode_datetime(now) == "2026-01-15 10:00:00"
    assert clock_text.encode_rfc3339(now) == "2026-01-15T10:00:00Z"
    assert clock_text.encode_unix_s(now) == "1768471200"


def test_a_time_without_zone_is_not_written() -> None:
    naive = datetime(2026, 1, 15, 10)  # noqa: DTZ001 (the point of the test)

    with pytest.raises(ValueError, match="zone"):
        clock_text.encode_datetime(naive)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1705054796", 1_705_054_796),
        ("0", 0),
        ("", None),
        ("-1", None),
        ("1e9", None),
        ("1705054796.5", None),
        (" 1705054796", None),
        ("1705054796000", None),
        ("٣", None),
    ],
)
def test_unix_seconds_are_digits_alone(text: str, meant: int | None) -> None:
    assert clock_text.decode_unix_s(text) == meant
