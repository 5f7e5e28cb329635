"""The handshake annotation of a node.

Grammar, in this order of precedence; the words may stand anywhere::

    handshake = … "Requesting" …    the scheduler asked; it owns the clock
              | … "Reported" …      the plugin answered
              | … "Deleted" …       an older scheduler gave the node up
              | ""                  same as no annotation
              | any other text

The time is what follows the first ``_`` (see ``clock_text``). Reading never
fails: a text that makes no sense is a state of its own.
"""

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from vgpu_operator.wire import clock_text


class State(enum.StrEnum):
    """What a handshake text says."""

    ABSENT = "absent"
    REPORTED = "reported"
    REQUESTING = "requesting"
    DELETED = "deleted"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeText:
    """A handshake annotation; ``time`` is None where none could be read."""

    state: State
    time: datetime | None = None


_WORDS: Final = (
    ("Requesting", State.REQUESTING),
    ("Reported", State.REPORTED),
    ("Deleted", State.DELETED),
)


def decode_handshake(text: str | None) -> HandshakeText:
    """Read a handshake annotation; None means that the node has none.

    >>> decode_handshake("Requesting_2026-01-15 10:00:00").time.isoformat()
    '2026-01-15T10:00:00+00:00'
    >>> decode_handshake("Requesting_yesterday")
    HandshakeText(state=<State.REQUESTING: 'requesting'>, time=None)
    >>> decode_handshake("foo").state, decode_handshake(None).state
    (<State.UNREADABLE: 'unreadable'>, <State.ABSENT: 'absent'>)
    """
    if not text:
        return HandshakeText(state=State.ABSENT)
    for word, state in _WORDS:
        if word in text:
            _, _, time = text.partition("_")
            return HandshakeText(state=state, time=clock_text.decode_time(time))
    return HandshakeText(state=State.UNREADABLE)


def encode_handshake(found: HandshakeText) -> str:
    """Write any text that says the same, its time as exact as it was read.

    >>> encode_handshake(decode_handshake("Reported_2026.01.15 09:59:50.5"))
    'Reported_2026-01-15 09:59:50.500000'

    Raises:
        ValueError: nothing that can be written says so.
    """
    if found.state is State.ABSENT and found.time is None:
        return ""
    words = {state: word for word, state in _WORDS}
    if found.state not in words:
        raise ValueError(f"no text says {found.state} at a time")
    word = words[found.state]
    if found.time is None:
        return word
    return f"{word}_{clock_text.encode_datetime(found.time, exact=True)}"


def encode_requesting(now: datetime) -> str:
    """Write the scheduler's stamp.

    >>> from datetime import UTC
    >>> encode_requesting(datetime(2026, 1, 15, 10, 0, tzinfo=UTC))
    'Requesting_2026-01-15 10:00:00'
    """
    return f"Requesting_{clock_text.encode_datetime(now)}"


def encode_reported(now: datetime) -> str:
    """Write a plugin's answer (our simulated ones; NVIDIA's plugin never answers)."""
    return f"Reported_{clock_text.encode_datetime(now)}"


def encode_deleted(now: datetime) -> str:
    """Write the older dialect's mark that the node's devices left the table."""
    return f"Deleted_{clock_text.encode_datetime(now)}"
