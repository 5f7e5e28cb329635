"""``/api/v1/events``: what changes, told to whoever listens.

One look at the books for all listeners, at most four times a second. Each
listener has a queue with an end: one that reads more slowly than things change
is let go, and begins again from the revision that it has seen.
"""

import asyncio
import collections
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

import structlog

from vgpu_operator.flows import shown_pods
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import steps
from vgpu_operator.state import rows as state_rows
from vgpu_operator.state import texts

INTERVAL_S: Final = 0.25
"""Between two looks at the books."""

SILENCE_S: Final = 10.0
"""After so long without news a comment says that we are still here."""

LIFETIME_S: Final = 600.0
"""A stream ends then, and its listener comes again: rights are looked at again."""

MOST_LISTENERS: Final = 32
MOST_WAITING: Final = 64
"""Messages that may wait for one listener."""

NODES_AT_ONCE: Final = 200
"""Nodes in one message."""

MOST_NODES: Final = 5_000
"""Changed nodes that are told one by one; of more, only that the map is another."""

MOST_PENDING: Final = 200
"""Waiting pods that are told, those first seen first; how many there are is told too."""

ALIVE: Final = b": alive\n\n"

_log = structlog.get_logger(__name__)


class Listener:
    """One stream's queue.

    Args:
        client: the address that listens.
    """

    def __init__(self, client: str = "") -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(MOST_WAITING)
        self._held_back: list[bytes] | None = []
        self.client = client
        self.ended = asyncio.Event()
        self.is_slow = False

    def greet(self, messages: Iterable[bytes]) -> None:
        """Add what has to be known first, then what came while it was being made."""
        held_back, self._held_back = self._held_back or [], None
        for message in (*messages, *held_back):
            self.put(message)

    def put(self, message: bytes) -> None:
        """Add a message; a listener whose queue is full is let go."""
        if self._held_back is not None and len(self._held_back) < MOST_WAITING:
            self._held_back.append(message)
            return
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            self.is_slow = True
            self.ended.set()

    async def next(self) -> bytes:
        """Return what comes next; a comment after a while of silence."""
        try:
            async with asyncio.timeout(SILENCE_S):
                return await self._queue.get()
        except TimeoutError:
            return ALIVE


class Stream:
    """Looks at the books and tells the listeners.

    Args:
        books: what is known.
        rows: of the map.
        boot: names this process: revisions of another one say nothing here.
        status: returns what the replica says about itself.
    """

    def __init__(
        self,
        books: Books,
        rows: state_rows.Rows,
        *,
        boot: str,
        status: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._books = books
        self._rows = rows
        self._boot = boot
        self._status = status
        self._listeners: dict[Listener, None] = {}  # in the order of their coming
        self._wanted = asyncio.Event()
        self._told = 0
        self._told_pending: object = None
        self._told_status: object = None

    async def run(self) -> None:
        """Look and tell until cancelled; nothing is looked at while nobody listens."""
        while True:
            await self._wanted.wait()
            try:
                await self.look()
            except Exception:  # what cannot be shown is no reason to schedule nobody
                _log.exception("the state page cannot be brought up to date")
            await asyncio.sleep(INTERVAL_S)

    async def look(self) -> None:
        """Tell all listeners what has changed since the last look."""
        revision, changed = await self._changed_nodes(self._told)
        changes = [*changed, *await self._changed_others()]
        self._told = revision
        for listener in tuple(self._listeners):
            for message in changes:
                listener.put(message)

    @contextlib.asynccontextmanager
    async def listening(self, seen: str, *, client: str = "") -> AsyncIterator[Listener | None]:
        """Join the listeners; None where there are too many.

        Args:
            seen: the id of the last message seen, or what the map was answered with.
            client: the address that listens.
        """
        if not self._has_room(client):
            yield None
            return
        listener = Listener(client)
        self._listeners[listener] = None  # first: its place must not be given away meanwhile
        try:
            revision, messages = await self._greeting(seen)
            listener.greet(messages)
            if len(self._listeners) == 1:  # what has changed while nobody listened is no news
                self._told = revision
            self._wanted.set()
            yield listener
        finally:
            self._leave(listener)

    def _has_room(self, client: str) -> bool:
        """Whether one more may listen; the oldest stream of the greediest address makes room."""
        if len(self._listeners) < MOST_LISTENERS:
            return True
        held = collections.Counter(one.client for one in self._listeners)
        first = max(self._listeners, key=lambda one: held[one.client])
        # More by two: else two addresses would take one place from each other for ever.
        if held[first.client] <= held[client] + 1:
            return False
        first.ended.set()
        self._leave(first)
        return True

    def _leave(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)
        if not self._listeners:
            self._wanted.clear()

    def end(self) -> None:
        """End every stream."""
        for listener in self._listeners:
            listener.ended.set()

    async def _greeting(self, seen: str) -> tuple[int, list[bytes]]:
        """Return what a new listener has to know first, and up to which revision it then knows."""
        boot, _, revision = seen.rpartition("-")
        known = boot == self._boot and revision.isdecimal() and len(revision) < 20
        shown, messages = await self._changed_nodes(int(revision) if known else -1)
        status, pending = dict(self._status()), self._pending_as_it_is()
        # Other than what was told last: whatever the next look finds is news to somebody.
        if status != self._told_status:
            self._told_status = None
        if pending != self._told_pending:
            self._told_pending = None
        waiting = _message("pending", await self.pending())
        return shown, [_message("status", status), *messages, waiting]

    async def _changed_nodes(self, since: int) -> tuple[int, list[bytes]]:
        """Return a revision, and at least what has changed from the one to the other.

        A node that changes meanwhile may be told as it was: it comes again next time.
        """
        revision = await self._rows.refresh()
        changed = self._books.ledger.seen_since(since)
        if changed is None or len(changed) > MOST_NODES:
            return revision, [_message("reset", {})]
        messages = []
        async for start in steps.through(range(0, len(changed), NODES_AT_ONCE)):
            there, gone = self._rows.of(changed[start : start + NODES_AT_ONCE])
            body = b'{"nodes":[' + b",".join(there) + b'],"gone":' + texts.encode(gone) + b"}"
            # Only the last part takes the listener to this revision.
            is_last = start + NODES_AT_ONCE >= len(changed)
            id_ = f"{self._boot}-{revision}" if is_last else ""
            messages.append(_encoded("nodes", body, id_=id_))
        return revision, messages

    async def _changed_others(self) -> list[bytes]:
        messages = []
        status = dict(self._status())
        if status != self._told_status:
            self._told_status = status
            messages.append(_message("status", status))
        pending = self._pending_as_it_is()
        if pending != self._told_pending:
            self._told_pending = pending
            messages.append(_message("pending", await self.pending()))
        return messages

    def _pending_as_it_is(self) -> object:
        """Return what differs whenever the list of waiting pods would."""
        books = self._books
        alike = tuple(
            (uid, uid in books.binding, books.refused.get(uid), books.ledger.record(uid))
            for uid in self._first_waiting()
        )
        return len(books.ledger.unbound), alike

    def _first_waiting(self) -> tuple[str, ...]:
        """Return the UIDs of the waiting pods that are told."""
        return tuple(itertools.islice(self._books.ledger.unbound, MOST_PENDING))

    async def pending(self) -> dict[str, Any]:
        """Return the waiting pods, those first seen first, and how many there are."""
        pods = []
        async for uid in steps.through(self._first_waiting()):
            told = shown_pods.waiting(self._books, uid)
            if told is not None:
                pods.append(told)
        return {"total": len(self._books.ledger.unbound), "pods": pods}


def _message(event: str, value: Any, *, id_: str = "") -> bytes:
    return _encoded(event, texts.encode(value), id_=id_)


def _encoded(event: str, body: bytes, *, id_: str = "") -> bytes:
    """Return one server-sent event; JSON of ours has no line break in it."""
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {event}\ndata: ".encode() + body + b"\n\n"
