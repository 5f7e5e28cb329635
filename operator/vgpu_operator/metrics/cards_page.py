"""What every card and every share holds, as Prometheus text, in short steps.

A large cluster has hundreds of thousands of these series. A client library
would make them all in one step, during which nobody is scheduled; here a page is
written piece by piece, and others get their turn in between. A page may thus be
of several moments, as a page of several nodes' exporters would be.

Names, labels and units of the ``hami_`` series are HAMi's, so that dashboards
made for it work. They come from the leader only: with two replicas a sum over
all targets must not double.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from vgpu_operator.flows.books import Books
from vgpu_operator.kube import steps
from vgpu_operator.ledger import nodes
from vgpu_operator.model import device

MIB: Final = 1024 * 1024
ZONE: Final = "vGPU"
CARD_LABELS: Final = ("zone", "node", "device_uuid", "device_index", "device_type")
SHARE_LABELS: Final = ("zone", "namespace", "node", "pod", "container_index", "device_uuid")
LINES: Final = 500
"""Lines of a page that are written at once."""


_WITH_CORES: Final = "hami_gpu_memory_allocated_bytes"
"""The one series that also says in a label how many cores its card has."""


@dataclass(frozen=True, slots=True)
class _Card:
    labels: str
    device: device.Device
    used: nodes.CardUsage

    def labels_of(self, series: str) -> str:
        if series != _WITH_CORES:
            return self.labels
        return f'{self.labels},device_cores="{self.device.cores_percent}"'


@dataclass(frozen=True, slots=True)
class _Share:
    labels: str
    memory_mib: int
    cores_percent: int

    def labels_of(self, _series: str) -> str:
        return self.labels


_Row = TypeVar("_Row", _Card, _Share)


_CARD_SERIES: Final[Sequence[tuple[str, str, Callable[[_Card], float | None]]]] = (
    (
        "hami_gpu_memory_limit_bytes",
        "Schedulable memory of the card.",
        lambda card: card.device.memory_mib * MIB,
    ),
    (
        "hami_gpu_core_limit_ratio",
        "Schedulable cores in percent of one card.",
        lambda card: card.device.cores_percent,
    ),
    (
        "hami_gpu_memory_allocated_bytes",
        "Memory promised to pods.",
        lambda card: card.used.used_memory_mib * MIB,
    ),
    (
        "hami_gpu_core_allocated_ratio",
        "Cores promised to pods.",
        lambda card: card.used.used_cores_percent,
    ),
    (
        "hami_gpu_shared_count",
        "Containers that share the card.",
        lambda card: card.used.used_slots,
    ),
    (
        "hami_node_gpu_memory_allocated_ratio",
        "Promised by schedulable memory, 0 to 1.",
        lambda card: (
            card.used.used_memory_mib / card.device.memory_mib
            if card.device.memory_mib > 0
            else None
        ),
    ),
)

_SHARE_SERIES: Final[Sequence[tuple[str, str, Callable[[_Share], float | None]]]] = (
    (
        "hami_vgpu_memory_allocated_bytes",
        "Memory promised to a container on a card.",
        lambda share: share.memory_mib * MIB,
    ),
    (
        "hami_vgpu_core_allocated_ratio",
        "Cores promised to a container on a card.",
        lambda share: share.cores_percent,
    ),
)


def described() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield every series' name, its help and its labels."""
    for name, help_text, _ in _CARD_SERIES:
        more = ("device_cores",) if name == _WITH_CORES else ()
        yield name, help_text, (*CARD_LABELS, *more)
    for name, help_text, _ in _SHARE_SERIES:
        yield name, help_text, SHARE_LABELS


async def pieces(books: Books) -> AsyncIterator[bytes]:
    """Yield the page's pieces; no further family once this replica does not lead."""
    async for piece in _families(books, _CARD_SERIES, _cards):
        yield piece
    async for piece in _families(books, _SHARE_SERIES, _shares):
        yield piece


async def _families(
    books: Books,
    series: Sequence[tuple[str, str, Callable[[_Row], float | None]]],
    read: Callable[[Books], Awaitable[Sequence[_Row]]],
) -> AsyncIterator[bytes]:
    """Yield the pieces of these series, one after another, of rows that are read once."""
    rows = await read(books) if books.leader else ()
    for name, help_text, value in series:
        if not books.leader:
            return
        lines = (_line(name, row.labels_of(name), value(row)) for row in rows)
        async for piece in _family(name, help_text, lines):
            yield piece


async def _cards(books: Books) -> list[_Card]:
    found = []
    async for node in steps.through(sorted(books.nodes)):
        for vendor in books.vendors:
            for used in books.ledger.usage(node, vendor.spec.keyword):
                card = used.device
                texts = (ZONE, node, card.id, str(card.index), card.type)
                labels = _labels(CARD_LABELS, texts)
                found.append(_Card(labels, card, used))
    return found


async def _shares(books: Books) -> list[_Share]:
    found = []
    async for node in steps.through(sorted(books.nodes)):
        for row in books.ledger.holders(node):
            pod, share = row.pod, row.share
            texts = (ZONE, pod.namespace, node, pod.name, str(row.container), share.card_id)
            labels = _labels(SHARE_LABELS, texts)
            found.append(_Share(labels, share.memory_mib, share.cores_percent))
    return found


async def _family(name: str, help_text: str, lines: Iterable[str]) -> AsyncIterator[bytes]:
    """Yield one family's text, some hundred lines at a time."""
    piece = [f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"]
    async for line in steps.through(lines):
        piece.append(line)
        if len(piece) >= LINES:
            yield _encoded("".join(piece))
            piece = []
    yield _encoded("".join(piece))


def _line(name: str, labels: str, value: float | None) -> str:
    """Return one sample's line; none for a value that there is not."""
    if value is None:
        return ""
    return f"{name}{{{labels}}} {float(value)!r}\n"


def _labels(names: Sequence[str], texts: Sequence[str]) -> str:
    pairs = zip(names, texts, strict=True)
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in pairs)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _encoded(text: str) -> bytes:
    """Return what UTF-8 can carry: a lone surrogate would break the whole page."""
    return text.encode("utf-8", "replace")
