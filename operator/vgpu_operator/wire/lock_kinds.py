"""What a node lock looks like and how long it lasts, by its annotation.

A plugin that shares its lock with others finds its pod by the name in it; a
plugin that has a lock of its own needs no name. Sources: HAMi v2.10.0
(``pkg/util/nodelock/nodelock.go``, ``pkg/device/cambricon/device.go``) and the
published annotations of k8s-vgpu-scheduler.
"""

import enum
from dataclasses import dataclass
from typing import Final

from vgpu_operator.wire import keys


class LockStyle(enum.StrEnum):
    """What the annotation says.

    ``OWNED`` time, namespace and pod. ``BARE`` the time alone: nothing on the
    Node says whose it is, and its plugin removes it without looking.
    """

    OWNED = "owned"
    BARE = "bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockKind:
    """One node lock.

    Attributes:
        key: the Node annotation.
        style: what its text says.
        expiry_s: how old it is when it may pass on; None means what the
            settings say (``lock.expiryS``).
        reported: the plugins that use it empty their to-allocate key and write
            the bind phase. One that does not, says by removing the lock that
            it is done, and nothing else does before the kubelet.
    """

    key: str
    style: LockStyle = LockStyle.OWNED
    expiry_s: float | None = None
    reported: bool = True


NODE_LOCK: Final = LockKind(key=keys.NODE_LOCK)
"""HAMi's: shared by most vendors' plugins."""

FOURPD_LOCK: Final = LockKind(key="4pd.io/mutex.lock", style=LockStyle.BARE, expiry_s=300.0)
"""The same for nodes that speak k8s-vgpu-scheduler's dialect."""
