"""Who leads: the holder of our own kube-scheduler's Lease.

kube-scheduler's Lease is the only election. It names its holder
``<hostname>_<random>``; the operator leads when that hostname is its own,
whole: ``x-1`` must not follow ``x-10``.
"""

import datetime
from dataclasses import dataclass

from vgpu_operator.wire import lease


@dataclass(slots=True)
class Leadership:
    """What has been seen of the Lease.

    A renewal counts from when it was seen here, never from the time written
    in it. Without any renewal for the Lease's duration nobody leads.
    """

    hostname: str
    _last: lease.Lease = lease.Lease()  # noqa: RUF009  # frozen
    _renewal_seen_at: datetime.datetime | None = None

    def observe(self, seen: lease.Lease | None, now: datetime.datetime) -> None:
        """Take in the Lease as just read; None means that there is none."""
        if seen is None:
            self._last, self._renewal_seen_at = lease.Lease(), None
            return
        if seen != self._last:
            self._last, self._renewal_seen_at = seen, now

    def leads(self, now: datetime.datetime) -> bool:
        """Whether this host's kube-scheduler holds a Lease that is still renewed."""
        if self._renewal_seen_at is None or not self.hostname:
            return False
        if not self._last.holder.startswith(f"{self.hostname}_"):
            return False
        age_s = (now - self._renewal_seen_at).total_seconds()
        return age_s < self._last.duration_s

    @property
    def holder(self) -> str:
        """Identity of the last seen holder; empty when none."""
        return self._last.holder
