"""How long ago something was, in kubectl's short form."""

import datetime


def age_s(time: datetime.datetime | None, now: datetime.datetime) -> int | None:
    """Return whole seconds since ``time``, at least 0; None when there is no time."""
    if time is None:
        return None
    return max(0, int((now - time).total_seconds()))


def encode_age(seconds: int | None) -> str:
    """Return the age in at most two units.

    >>> [encode_age(s) for s in (None, 7, 90, 3600, 7500, 200000)]
    ['?', '7s', '90s', '60m', '2h5m', '2d7h']
    """
    if seconds is None:
        return "?"
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if hours else f"{days}d"
