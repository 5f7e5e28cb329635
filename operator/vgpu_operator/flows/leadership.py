"""Who leads: the holder of our own kube-scheduler's Lease.

kube-scheduler's Lease is the only election. It names its holder
``<hostname>_<random>``; the operator leads when that hostname is its own,
whole: ``x-1`` must not follow ``x-10``.
"""

from dataclasses import dataclass

from vgpu_operator.wire import lease, resource_version


@dataclass(slots=True)
class Leadership:
    """What has been seen of the Lease.

    A renewal counts from when it was seen here, by a clock that nobody sets,
    never from the time written in it. Without any renewal for the Lease's
    duration nobody leads. Answers may overtake each other: one that is older
    than what has been seen says nothing.
    """

    hostname: str
    _last: lease.Lease = lease.Lease()  # noqa: RUF009  # frozen
    _newest: str = ""
    _renewal_seen_at_s: float | None = None
    _is_there: bool = False

    def observe(self, seen: lease.Lease | None, now_s: float) -> None:
        """Take in the Lease as it was at ``now_s``; None means that there was none."""
        if seen is None:
            # What was seen last is kept: should this answer have been overtaken, the
            # same renewal is no news when it is read again.
            self._is_there, self._renewal_seen_at_s = False, None
            return
        if resource_version.is_earlier(seen.resource_version, self._newest):
            return
        self._newest, self._is_there = seen.resource_version, True
        if seen != self._last:
            self._last, self._renewal_seen_at_s = seen, now_s

    def leads(self, now_s: float) -> bool:
        """Whether this host's kube-scheduler holds a Lease that is still renewed."""
        unseen_s = self.unseen_s(now_s)
        return unseen_s is not None and unseen_s < self._last.duration_s

    def unseen_s(self, now_s: float) -> float | None:
        """How long this host's own Lease has not been seen renewed; None where it has none."""
        if self._renewal_seen_at_s is None or not self.hostname or self._last.duration_s <= 0:
            return None
        if not self._last.holder.startswith(f"{self.hostname}_"):
            return None
        return now_s - self._renewal_seen_at_s

    @property
    def holder(self) -> str:
        """Identity of the last seen holder; empty when none."""
        return self._last.holder if self._is_there else ""
