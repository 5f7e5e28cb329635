"""Points in time as the peers write them.

Grammar; ``digit`` counts are exact, a time without zone is UTC::

    time     = date ( " " | "T" ) clock [ "." digits ] [ zone ]
    date     = YYYY "-" MM "-" DD | YYYY "." MM "." DD
    clock    = hh ":" mm ":" ss
    zone     = "Z" | ( "+" | "-" ) hh ":" mm
             | " " ( "+" | "-" ) hhmm [ " " name ] [ " m=" ( "+" | "-" ) seconds ]
    unix     = 1 to 12 digits

The last zone is what Go prints for a ``time.Time``, monotonic clock included;
dots in the date are the Ascend plugin's and the protocol page's MLU example.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_TIME: Final = re.compile(
    r"(?P<year>\d{4})(?P<dot>[-.])(?P<month>\d\d)(?P=dot)(?P<day>\d\d)[ T]"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,20}))?"
    r"(?:Z|(?P<sign>[+-])(?P<zone_hour>\d\d):(?P<zone_minute>\d\d)"
    r"| (?P<go_sign>[+-])(?P<go_hour>\d\d)(?P<go_minute>\d\d)(?: [A-Z0-9+-]{1,6})?"
    r"(?: m=[+-]\d{1,20}(?:\.\d{1,20})?)?)?",
    re.ASCII,
)
_PLAIN: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
"""How the API server writes every time; by far the most."""
_PLAIN_LENGTH: Final = 20
_UNIX: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_LAST_UNIX_S: Final = 253_402_300_799
"""The last second of year 9999: what comes after it is no time in Python."""


def decode_time(text: str) -> datetime | None:
    """Return the time, aware and in UTC; None when the text is no time.

    Fractions finer than a microsecond are cut.

    >>> decode_time("2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.777756895")
    datetime.datetime(2024, 1, 23, 4, 30, 4, 434037, tzinfo=datetime.timezone.utc)
    >>> decode_time("2024.01.10 04:06:57").isoformat()
    '2024-01-10T04:06:57+00:00'
    >>> decode_time("2026-01-15T17:59:30+08:00").isoformat()
    '2026-01-15T09:59:30+00:00'
    >>> decode_time("yesterday") is None
    True
    """
    if len(text) == _PLAIN_LENGTH and text[-1] == "Z" and _PLAIN.fullmatch(text):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            return None
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        local = datetime(
            int(match["year"]),
            int(match["month"]),
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            int(match["second"]),
            int((match["fraction"] or "")[:6].ljust(6, "0")),
            tzinfo=_zone(match),
        )
        return local.astimezone(UTC)
    except (ValueError, OverflowError):  # a 31st of February, a year before 1
        return None


def encode_datetime(now: datetime, *, exact: bool = False) -> str:
    """Write the handshake's form: UTC, whole seconds, no zone.

    Args:
        now: the time.
        exact: write a fraction of a second too, where there is one.

    >>> encode_datetime(datetime(2026, 1, 15, 10, 0, tzinfo=UTC))
    '2026-01-15 10:00:00'
    """
    return _written(now, exact=exact).isoformat(" ")


def encode_rfc3339(now: datetime, *, exact: bool = False) -> str:
    """Write RFC 3339: UTC, whole seconds.

    Args:
        now: the time.
        exact: write a fraction of a second too, where there is one.

    >>> encode_rfc3339(datetime(2026, 1, 15, 10, 0, tzinfo=UTC))
    '2026-01-15T10:00:00Z'
    >>> encode_rfc3339(datetime(2026, 1, 15, 10, 0, 0, 70, tzinfo=UTC), exact=True)
    '2026-01-15T10:00:00.000070Z'
    """
    return _written(now, exact=exact).isoformat() + "Z"


def decode_unix_s(text: str) -> int | None:
    """Return Unix seconds; None when the text is not digits alone, or no time before year 10000.

    >>> decode_unix_s("1705054796"), decode_unix_s("17e8"), decode_unix_s("253402300800")
    (1705054796, None, None)
    """
    seconds = int(text) if _UNIX.fullmatch(text) else None
    return None if seconds is None or seconds > _LAST_UNIX_S else seconds


def encode_unix_s(now: datetime) -> str:
    """Write Unix seconds.

    >>> encode_unix_s(datetime(2026, 1, 15, 10, 0, tzinfo=UTC))
    '1768471200'
    """
    return str(int(_utc(now).timestamp()))


def encode_unix_ns(now: datetime) -> str:
    """Write Unix nanoseconds, as exact as a microsecond.

    >>> encode_unix_ns(datetime(2026, 1, 15, 10, 0, 0, 7, tzinfo=UTC))
    '1768471200000007000'
    """
    utc = _utc(now)
    seconds = int(utc.replace(microsecond=0).timestamp())
    return str(seconds * 10**9 + utc.microsecond * 1000)


def _zone(match: re.Match[str]) -> timezone:
    sign = match["sign"] or match["go_sign"]
    if sign is None:
        return UTC
    offset = timedelta(
        hours=int(match["zone_hour"] or match["go_hour"]),
        minutes=int(match["zone_minute"] or match["go_minute"]),
    )
    return timezone(-offset if sign == "-" else offset)


def _written(now: datetime, *, exact: bool) -> datetime:
    utc = _utc(now).replace(tzinfo=None)
    return utc if exact else utc.replace(microsecond=0)


def _utc(now: datetime) -> datetime:
    # A naive time would be taken as this machine's local time, silently.
    if now.tzinfo is None:
        raise ValueError("a time with a zone is wanted")
    return now.astimezone(UTC)
