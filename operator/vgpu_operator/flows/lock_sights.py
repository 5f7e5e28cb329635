"""The lock annotations of all nodes, as last seen, with an index by owner."""

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vgpu_operator.model import errors
from vgpu_operator.wire import node_lock


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSight:
    """One lock annotation.

    Attributes:
        text: as it stands on the Node.
        lock: what it says; None when it is malformed.
        seen_at: when this process first saw this text there.
        owner_uid: whom this process took it for; empty when somebody else wrote it.
        proven: the API server has confirmed our write. Without that another
            leader may have written the same text for the same pod in the same second.
    """

    text: str
    lock: node_lock.LockText | None
    seen_at: datetime.datetime
    owner_uid: str = ""
    proven: bool = False

    @property
    def ours(self) -> bool:
        """Whether this process wrote it."""
        return bool(self.known_uid)

    @property
    def known_uid(self) -> str:
        """Whom this process took it for, as far as the text or the API server proves it.

        A bare text may be another leader's of the same second.
        """
        named = self.lock is not None and self.lock.owned
        return self.owner_uid if named or self.proven else ""

    @property
    def owner(self) -> tuple[str, str] | None:
        """Namespace and name of the pod that the lock names, None when it names nobody."""
        if self.lock is None or not self.lock.owned:
            return None
        return self.lock.namespace, self.lock.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReturn:
    """The last time that we asked for a missing lock to be put back.

    Attributes:
        version: the Node's version that the write was conditioned on.
        at: when we asked.
        text: what we wrote.
        owner_uid: the pod that needs it.
        unserved: the vendors whose plugins still owed that pod its part.
    """

    version: str
    at: datetime.datetime
    text: str
    owner_uid: str
    unserved: frozenset[str]


@dataclass(slots=True)
class LockSights:
    """Sights by node and lock key."""

    _by_node: dict[str, dict[str, LockSight]] = field(default_factory=dict)
    _by_owner: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    _announced: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    _done: dict[tuple[str, str], datetime.datetime] = field(default_factory=dict)
    _missing: dict[tuple[str, str], datetime.datetime] = field(default_factory=dict)
    _returns: dict[str, dict[str, LockReturn]] = field(default_factory=dict)

    def announce(self, node: str, texts: Mapping[str, str], *, owner_uid: str) -> None:
        """Note what is about to be written: the watch may show it before the answer comes."""
        written = {key: (text, owner_uid) for key, text in texts.items()}
        self._announced.setdefault(node, {}).update(written)

    def put(
        self, node: str, key: str, text: str, *, now: datetime.datetime, owner_uid: str = ""
    ) -> None:
        """Take in a lock text; one that is known keeps its first sight.

        Args:
            node: where it stands.
            key: the annotation.
            text: its value.
            now: when it was seen.
            owner_uid: whom this process has taken it for; empty when a watch has shown it.
        """
        known = self.get(node, key)
        if known is not None and known.text == text:
            return
        self.drop(node, key)
        self._missing.pop((node, key), None)
        try:
            lock: node_lock.LockText | None = node_lock.decode_lock(text, key=key)
        except errors.DecodeError:
            lock = None
        announced, announced_for = self._announced.get(node, {}).get(key, ("", ""))
        sight = LockSight(
            text=text,
            lock=lock,
            seen_at=now,
            owner_uid=owner_uid or (announced_for if announced == text else ""),
            proven=bool(owner_uid),
        )
        self._by_node.setdefault(node, {})[key] = sight
        if sight.owner is not None:
            self._by_owner.setdefault(sight.owner, set()).add(node)

    def drop(self, node: str, key: str) -> None:
        """Forget a lock."""
        self._done.pop((node, key), None)
        locks = self._by_node.get(node)
        sight = None if locks is None else locks.pop(key, None)
        if locks is None or sight is None:
            return
        if not locks:
            del self._by_node[node]
        owner = sight.owner
        if owner is not None and not any(other.owner == owner for other in locks.values()):
            nodes = self._by_owner[owner]
            nodes.discard(node)
            if not nodes:
                del self._by_owner[owner]

    def drop_node(self, node: str) -> None:
        """Forget all locks of a node."""
        for key in tuple(self._by_node.get(node, ())):
            self.drop(node, key)
        self._announced.pop(node, None)
        self._returns.pop(node, None)
        for place in [place for place in self._missing if place[0] == node]:
            del self._missing[place]

    def confirm(self, node: str, texts: Mapping[str, str | None], *, owner_uid: str) -> None:
        """Note that the API server has confirmed our write of a text that still stands."""
        for key, text in texts.items():
            sight = self.get(node, key)
            if sight is not None and sight.text == text and sight.owner_uid == owner_uid:
                self._by_node[node][key] = dataclasses.replace(sight, proven=True)

    def get(self, node: str, key: str) -> LockSight | None:
        """Return a lock, None when that key is absent on that node."""
        return self._by_node.get(node, {}).get(key)

    def done_since(self, node: str, key: str, *, now: datetime.datetime) -> datetime.datetime:
        """Return when this lock, whose owner is done with it, was first asked about here."""
        return self._done.setdefault((node, key), now)

    def missing_since(self, node: str, key: str, *, now: datetime.datetime) -> datetime.datetime:
        """Return when this lock, absent and needed, was first asked about here."""
        return self._missing.setdefault((node, key), now)

    def returns(self, node: str) -> Mapping[str, LockReturn]:
        """Return when and how each lock of a node was last put back, by key."""
        return self._returns.get(node, {})

    def note_return(self, node: str, key: str, asked: LockReturn) -> None:
        """Note that we ask for a lock to be put back."""
        self._returns.setdefault(node, {})[key] = asked

    def nodes_of(self, namespace: str, pod: str) -> frozenset[str]:
        """Return the nodes with a lock that names the pod."""
        return frozenset(self._by_owner.get((namespace, pod), ()))

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that have any lock, sorted."""
        return tuple(sorted(self._by_node))

    def on(self, node: str) -> Iterator[tuple[str, LockSight]]:
        """Yield the locks of a node by key, sorted."""
        yield from sorted(self._by_node.get(node, {}).items())
