"""The pod side of the books: every known pod by UID and by name, and who is gone for good."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from vgpu_operator.ledger import charges
from vgpu_operator.model import records, request

_TOMBSTONES: Final = 65_536
"""UIDs of gone pods that are remembered, oldest dropped first: far more than
events of one pod can be late."""


@dataclass(slots=True, kw_only=True)
class Pod:
    """One pod.

    Attributes:
        key: which.
        record: as last observed; None while only assumed.
        assumption: what it will hold if its binding succeeds.
        assumed_notes: its annotations, those included that the binding writes.
        holding: what it is charged now.
        settled_notes: its notes when that was last worked out.
    """

    key: request.PodKey
    record: records.PodRecord | None = None
    assumption: charges.Holding | None = None
    assumed_notes: Mapping[str, str] = field(default_factory=dict)
    holding: charges.Holding | None = None
    settled_notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def notes(self) -> Mapping[str, str]:
        """Its annotations that vendors' rules read."""
        if self.assumption is None and self.record is not None:
            return self.record.request.notes
        return self.assumed_notes

    @property
    def needs_nothing(self) -> bool:
        """Whether it holds cards already, or will never be bound any more."""
        record = self.record
        over = record is not None and bool(record.node or record.ended or record.deleting)
        return over or self.holding is not None


class Pods:
    """All known pods; a name can have had several UIDs."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._named: dict[tuple[str, str], dict[str, None]] = {}
        self._gone: dict[str, None] = {}

    def __getitem__(self, uid: str) -> Pod:
        return self._pods[uid]

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> Pod | None:
        """Return the pod of that UID."""
        return self._pods.get(uid)

    def add(self, key: request.PodKey) -> Pod:
        """Return a new entry."""
        pod = self._pods[key.uid] = Pod(key=key)
        self._named.setdefault((key.namespace, key.name), {})[key.uid] = None
        return pod

    def remove(self, pod: Pod) -> None:
        """Take an entry out."""
        key = pod.key
        del self._pods[key.uid]
        same_name = self._named[key.namespace, key.name]
        del same_name[key.uid]
        if not same_name:
            del self._named[key.namespace, key.name]

    def named(self, namespace: str, name: str) -> Iterator[Pod]:
        """Yield the pods of that name, the one seen first last."""
        return (self._pods[uid] for uid in reversed(self._named.get((namespace, name), {})))

    def bury(self, uid: str) -> None:
        """Remember that no later event of that UID counts."""
        self._gone.pop(uid, None)
        self._gone[uid] = None
        if len(self._gone) > _TOMBSTONES:
            del self._gone[next(iter(self._gone))]

    def is_gone(self, uid: str) -> bool:
        """Whether the pod object of that UID is known to be gone."""
        return uid in self._gone
