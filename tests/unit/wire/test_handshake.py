"""Handshake texts."""

from datetime import UTC, datetime

import pytest

from vgpu_operator.wire import handshake
from vgpu_operator.wire.handshake import State

NOW = datetime(2026, 1, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (None, State.ABSENT),
        ("", State.ABSENT),
        (" ", State.UNREADABLE),
        ("foo", State.UNREADABLE),
        ("requesting_2026-01-15 10:00:00", State.UNREADABLE),
        ("Requesting", State.REQUESTING),
        ("Requesting_", State.REQUESTING),
        ("Requesting_yesterday", State.REQUESTING),
        ("Requesting__2026-01-15 10:00:00", State.REQUESTING),
        ("Reported_Requesting", State.REQUESTING),
        ("Reported", State.REPORTED),
        ("Deleted", State.DELETED),
    ],
)
def test_a_text_without_a_readable_time_still_has_its_state(text: str | None, state: State) -> None:
    assert handshake.decode_handshake(text) == handshake.HandshakeText(state=state)


def test_the_time_is_what_follows_the_first_underscore_wherever_the_word_stands() -> None:
    read = handshake.decode_handshake("xRequesting_2026-01-15 10:00:00")

    assert read == handshake.HandshakeText(state=State.REQUESTING, time=NOW)


def test_the_three_stamps_are_written_with_utc_time() -> None:
    assert handshake.encode_requesting(NOW) == "Requesting_2026-01-15 10:00:00"
    assert handshake.encode_reported(NOW) == "Reported_2026-01-15 10:00:00"
    assert handshake.encode_deleted(NOW) == "Deleted_2026-01-15 10:00:00"
