"""What looks different now: nodes since a revision, and pods that no node has yet."""

from collections.abc import Collection, Iterator
from typing import Final

from vgpu_operator.model import records

MOST_NODES: Final = 65_536
"""Names that are remembered; the one that changed longest ago is forgotten first."""


class NodeLog:
    """Per node the newest revision in which something about it changed.

    Other than the ledger's generation a revision counts what people see, not
    what could alter an answer: a claim is no news here, a Binding that the watch
    confirms is.

    >>> log = NodeLog()
    >>> log.note("node-a"), log.note("node-b"), log.note("node-a")
    (None, None, None)
    >>> log.revision, log.since(1), log.since(3)
    (3, ('node-a', 'node-b'), ())
    """

    def __init__(self, most: int = MOST_NODES) -> None:
        self.revision = 0
        self._most = most
        self._newest: dict[str, int] = {}
        self._forgotten = 0

    def note(self, node: str) -> None:
        """Something about the node changed, or the node is gone."""
        self.revision += 1
        self._newest.pop(node, None)
        self._newest[node] = self.revision
        if len(self._newest) > self._most:
            oldest = next(iter(self._newest))
            self._forgotten = self._newest.pop(oldest)

    def since(self, revision: int) -> tuple[str, ...] | None:
        """Return what changed after that revision, newest first; None when that is forgotten."""
        if revision < self._forgotten or revision > self.revision:
            return None
        return tuple(self._after(revision))

    def _after(self, revision: int) -> Iterator[str]:
        for node in reversed(self._newest):
            if self._newest[node] <= revision:
                return
            yield node


class Unbound:
    """The pods that ask for cards and have no node, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._uids: dict[str, None] = {}

    def note(self, record: records.PodRecord) -> None:
        """Take a pod in as it is now."""
        if record.node or record.ended or not record.request.wants_devices:
            self.drop(record.key.uid)
        else:
            self._uids.setdefault(record.key.uid)

    def drop(self, uid: str) -> None:
        """The pod is gone."""
        self._uids.pop(uid, None)

    @property
    def uids(self) -> Collection[str]:
        """Their UIDs."""
        return self._uids.keys()
