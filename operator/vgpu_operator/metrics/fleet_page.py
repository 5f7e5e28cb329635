"""What this replica knows of its whole fleet, as a few sums that take many looks to make.

By vendor and state, never by node: 5,000 nodes would be 5,000 series each, and what
somebody is called for is how many and since when. Which nodes they are say the events
and ``vgpu nodes``. What has an age is exported as the time of the oldest, so that
Prometheus reckons with its own clock.
"""

import datetime
import functools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Final

from vgpu_operator.flows.books import Books, Registration
from vgpu_operator.kube import steps
from vgpu_operator.metrics import families
from vgpu_operator.metrics.families import Numbered
from vgpu_operator.wire import handshake

REGISTRATIONS: Final = families.numbered(
    "vgpu_node_registrations",
    "Nodes by what their device plugin's registration is worth.",
    "vendor",
    "state",
)
CHANGED: Final = families.numbered(
    "vgpu_node_registration_last_change_timestamp_seconds",
    "When a register text was last seen to change on any node.",
    "vendor",
)
HANDSHAKES: Final = families.numbered(
    "vgpu_node_handshakes", "Nodes by the state of their handshake.", "vendor", "state"
)
UNANSWERED: Final = families.numbered(
    "vgpu_node_handshake_oldest_unanswered_timestamp_seconds",
    "When the oldest stamp was first seen on a node where nothing is allocatable; they expire.",
    "vendor",
)
REFUSED: Final = families.numbered(
    "vgpu_pods_refused_oldest_created_timestamp_seconds",
    "When the oldest of the pods was created that fitted nowhere when last asked.",
)
LOCKED: Final = families.numbered(
    "vgpu_node_locks_oldest_timestamp_seconds", "When the oldest lock on a node was first seen."
)

FAMILIES: Final = (REGISTRATIONS, CHANGED, HANDSHAKES, UNANSWERED, REFUSED, LOCKED)


async def pieces(books: Books) -> AsyncIterator[bytes]:
    """Yield the page's pieces."""
    sums = await _registered(books)
    refused = await _oldest(books, tuple(books.refused), _created)
    locked = await _oldest(books, books.locks.nodes(), _locked_since)
    found = (
        families.counted(sums.states),
        _timed(sums.changed),
        families.counted(sums.handshakes),
        _timed(sums.unanswered),
        [Numbered(labels="", value=refused)],
        [Numbered(labels="", value=locked)],
    )
    for family, rows in zip(FAMILIES, found, strict=True):
        async for piece in families.written(family, rows):
            yield piece


class _Sums:
    """Registrations counted, by vendor."""

    def __init__(self) -> None:
        self.states: Counter[tuple[str, str]] = Counter()
        self.handshakes: Counter[tuple[str, str]] = Counter()
        self.changed: dict[str, float] = {}
        self.unanswered: dict[str, float] = {}

    def take_in(self, vendor: str, registration: Registration, state: str) -> None:
        """Count one node's registration."""
        self.states[vendor, state] += 1
        if registration.text_seen_at is not None:
            changed_at = registration.text_seen_at.timestamp()
            self.changed[vendor] = max(self.changed.get(vendor, 0.0), changed_at)
        answered = _handshake_state(registration.handshake)
        self.handshakes[vendor, answered.value] += 1
        if answered is handshake.State.REQUESTING and state == NOT_ALLOCATABLE:
            seen_at = registration.handshake_seen_at.timestamp()
            self.unanswered[vendor] = min(self.unanswered.get(vendor, seen_at), seen_at)


@functools.lru_cache(maxsize=16_384)
def _handshake_state(text: str | None) -> handshake.State:
    """Return what a handshake says; between two scrapes few texts change."""
    return handshake.decode_handshake(text).state


NOT_ALLOCATABLE: Final = "not allocatable"

STATES: Final = ("ready", NOT_ALLOCATABLE, "unreadable", "removed", "expired")
"""Of a registration: cards that pods can get; cards of which the kubelet offers none; a text
that cannot be read; a text that is gone while its cards are kept; cards that have left
while the text stays. Where text and cards are gone, nothing is counted."""


async def _registered(books: Books) -> _Sums:
    sums = _Sums()
    async for (node, keyword), registration in steps.through(
        tuple(books.registrations.items()), pause_s=steps.PAUSE_S
    ):
        if registration.text is None and not books.ledger.devices(node, keyword):
            continue  # its plugin is gone: a process that starts now knows nothing of it
        spec = books.by_keyword[keyword].spec
        sums.take_in(spec.id, registration, _state(books, node, keyword, registration))
    return sums


def _state(books: Books, node: str, keyword: str, registration: Registration) -> str:
    if registration.unreadable:
        return "unreadable"
    if registration.expired:
        return "expired"
    if registration.text is None:
        return "removed"
    record = books.nodes.get(node)
    offered = record.allocatable.get(keyword, 0) if record is not None else 0
    return "ready" if offered > 0 else NOT_ALLOCATABLE


async def _oldest(
    books: Books,
    names: Iterable[str],
    times: Callable[[Books, str], Iterator[datetime.datetime]],
) -> float | None:
    """Return the earliest of all times; None when there is none."""
    earliest: datetime.datetime | None = None
    async for name in steps.through(names, pause_s=steps.PAUSE_S):
        for time in times(books, name):
            earliest = time if earliest is None else min(earliest, time)
    return None if earliest is None else earliest.timestamp()


def _created(books: Books, uid: str) -> Iterator[datetime.datetime]:
    record = books.ledger.record(uid)
    if record is not None and record.created is not None:
        yield record.created


def _locked_since(books: Books, node: str) -> Iterator[datetime.datetime]:
    return (sight.seen_at for _, sight in books.locks.on(node))


def _timed(times: dict[str, float]) -> list[Numbered]:
    return [
        Numbered(labels=families.labels(vendor=vendor), value=at)
        for vendor, at in sorted(times.items())
    ]
