"""The node lock: which pod may be between binding and Allocate.

Grammar::

    lock = time "," namespace "," pod     HAMi's form
         | time                           nobody is named: HAMi's old form, and
                                          the only one of bare locks

``time`` is written as RFC 3339; every form of ``clock_text`` is read. A lock
of three parts whose time is unreadable still names its owner. Anything else
is malformed.
"""

from dataclasses import dataclass
from datetime import datetime

from vgpu_operator.model import errors
from vgpu_operator.wire import clock_text, fields, lock_kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class LockText:
    """A lock annotation.

    Attributes:
        time: when it was taken, by its taker's clock; None when unreadable.
        namespace: of the pod that holds it; empty where nobody is named.
        pod: name of the pod that holds it; empty where nobody is named.
    """

    time: datetime | None
    namespace: str = ""
    pod: str = ""

    @property
    def owned(self) -> bool:
        """Whether the lock names a pod."""
        return bool(self.namespace and self.pod)


def decode_lock(text: str, *, key: str = "") -> LockText:
    """Read a lock annotation.

    >>> lock = decode_lock("2026-01-15T09:59:30Z,team-a,p1")
    >>> lock.time.isoformat(), lock.namespace, lock.pod
    ('2026-01-15T09:59:30+00:00', 'team-a', 'p1')
    >>> decode_lock("2026-01-15T09:59:30Z").owned
    False
    >>> decode_lock("2026-02-11T08:00:00Z,team-a", key="hami.io/mutex.lock")
    Traceback (most recent call last):
    vgpu_operator.model.errors.DecodeError: hami.io/mutex.lock: malformed lock: 3 parts are \
wanted, got 2 from '2026-02-11T08:00:00Z,team-a'

    Raises:
        DecodeError: malformed.
    """
    parts = text.split(",")
    time = clock_text.decode_time(parts[0])
    if len(parts) == 1:
        if time is None:
            raise errors.DecodeError(
                f"malformed lock: a time is wanted, got {fields.shown(text)}", key=key
            )
        return LockText(time=time)
    if len(parts) != 3:
        raise errors.DecodeError(
            f"malformed lock: 3 parts are wanted, got {len(parts)} from {fields.shown(text)}",
            key=key,
        )
    _, namespace, pod = parts
    if not (namespace and pod):
        raise errors.DecodeError(
            f"malformed lock: namespace and pod are wanted, got {fields.shown(text)}", key=key
        )
    return LockText(time=time, namespace=namespace, pod=pod)


def encode_lock(
    now: datetime,
    *,
    namespace: str,
    pod: str,
    style: lock_kinds.LockStyle = lock_kinds.LockStyle.OWNED,
    exact: bool = False,
) -> str:
    """Write a lock for that pod.

    Args:
        now: when it is taken.
        namespace: of the pod.
        pod: its name.
        style: whether the pod is named.
        exact: write a fraction of a second too, where there is one.

    >>> from datetime import UTC
    >>> encode_lock(datetime(2026, 1, 15, 10, 0, tzinfo=UTC), namespace="team-a", pod="p1")
    '2026-01-15T10:00:00Z,team-a,p1'
    """
    time = clock_text.encode_rfc3339(now, exact=exact)
    return time if style is lock_kinds.LockStyle.BARE else f"{time},{namespace},{pod}"
