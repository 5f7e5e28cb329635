"""The dialects of the protocol: which keys a node and its pods are written in.

``hami`` is today's. ``4pd`` is that of the forerunner, k8s-vgpu-scheduler,
whose device plugins still run: one pair of pod keys for all vendors, and a
lock that names nobody. Its node keys come under two domains: its own, and
that of a public walk-through (``HAMi.sh``), which names them in two ways.

A node speaks, vendor by vendor, the dialect of the key that it registers with.
Where it registers in both, today's counts and the older text is not looked at.

Source: HAMi v2.10.0 for ``hami``; k8s-vgpu-scheduler v2.3 and the protocol's
published texts for ``4pd``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from vgpu_operator.model import records
from vgpu_operator.wire import keys, lock_kinds


def _no_keys() -> Mapping[str, tuple[records.OlderKeys, ...]]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The keys of a dialect.

    Attributes:
        name: what documents, settings and tables call it.
        assigned_node: pod annotation: the node that the promise is for.
        assigned_time: pod annotation: when the cards were chosen, Unix seconds.
        bind_time: pod annotation: when the pod was bound, Unix seconds.
        bind_phase: pod annotation: ``allocating``, then ``success`` or ``failed``.
        to_allocate: pod annotation that the device plugins empty, one for all
            vendors; None = every vendor has its own.
        allocated: pod annotation that stays for the pod's life, as above.
        lock: what admits one pod at a time, one for all vendors, as above.
        node_keys: by vendor keyword, where that vendor may register, the one
            that is preferred first; for ``hami`` the vendors say so themselves.
    """

    name: str
    assigned_node: str
    assigned_time: str
    bind_time: str
    bind_phase: str
    to_allocate: str | None = None
    allocated: str | None = None
    lock: lock_kinds.LockKind | None = None
    node_keys: Mapping[str, tuple[records.OlderKeys, ...]] = field(
        default_factory=_no_keys, hash=False
    )

    @property
    def lock_key(self) -> str | None:
        """The node annotation of the dialect's own lock."""
        return None if self.lock is None else self.lock.key

    @property
    def pod_keys(self) -> tuple[str, ...]:
        """Every pod annotation of the dialect itself that users must not write."""
        of_all = (self.assigned_node, self.assigned_time, self.bind_time, self.bind_phase)
        return of_all + tuple(key for key in (self.to_allocate, self.allocated) if key)


HAMI: Final = Dialect(
    name="hami",
    assigned_node=keys.ASSIGNED_NODE,
    assigned_time=keys.ASSIGNED_TIME,
    bind_time=keys.BIND_TIME,
    bind_phase=keys.BIND_PHASE,
)

FORERUNNER: Final = Dialect(
    name="4pd",
    assigned_node="4pd.io/vgpu-node",
    assigned_time="4pd.io/vgpu-time",
    bind_time="4pd.io/bind-time",
    bind_phase="4pd.io/bind-phase",
    to_allocate="4pd.io/devices-to-allocate",
    allocated="4pd.io/vgpu-ids-new",
    lock=lock_kinds.FOURPD_LOCK,
    node_keys=MappingProxyType(
        {
            "NVIDIA": (
                records.OlderKeys(
                    register="4pd.io/node-nvidia-register", handshake="4pd.io/node-handshake"
                ),
                records.OlderKeys(
                    register="HAMi.sh/node-register-nvidia",
                    handshake="HAMi.sh/node-handshake-nvidia",
                ),
                records.OlderKeys(
                    register="HAMi.sh/node-nvidia-register",
                    handshake="HAMi.sh/node-handshake-nvidia",
                ),
            ),
            "MLU": (
                records.OlderKeys(
                    register="4pd.io/node-mlu-register", handshake="4pd.io/node-handshake-mlu"
                ),
            ),
            "DCU": (
                records.OlderKeys(
                    register="4pd.io/node-dcu-register", handshake="4pd.io/node-handshake-dcu"
                ),
            ),
        }
    ),
)

ALL: Final = (HAMI, FORERUNNER)
"""Today's first."""

POD_KEYS: Final = tuple(key for dialect in ALL for key in dialect.pod_keys)
"""Every pod annotation that some dialect has for all vendors together."""

NODE_PLACES: Final = tuple(
    place for dialect in ALL for places in dialect.node_keys.values() for place in places
)
"""Where the vendors of all older dialects may register."""


def written_on(annotations: Mapping[str, Any], *, node: str) -> tuple[Dialect, ...]:
    """Return the dialects that a pod's promise is written in; empty when there is none.

    A promise for the very node that the pod is bound to beats a left-over one
    (a copied template's, say). Two are returned only for a pod that is written
    in both: its cards come from vendors that speak different ones on its node.

    >>> pod = {"hami.io/vgpu-node": "", "4pd.io/vgpu-node": "node67-4v100"}
    >>> [dialect.name for dialect in written_on(pod, node="node67-4v100")]
    ['4pd']
    """
    written = [dialect for dialect in ALL if annotations.get(dialect.assigned_node)]
    here = [dialect for dialect in written if annotations[dialect.assigned_node] == node]
    return tuple(here or written[:1])
