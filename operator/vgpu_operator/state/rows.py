"""The map's rows, one for each node, written once and again when the node changes.

A map of 40,000 cards is some MiB of JSON and 0.2 s of work. It is done in short
steps, kept, and from then on only for the nodes that the ledger says have changed.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from vgpu_operator.flows import shown_nodes
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import steps
from vgpu_operator.state import texts

PIECE_BYTES = 2**15
"""About so much of the map is written, and packed, in one step."""


class Rows:
    """Every node's row as JSON, ``["name",[card, …]]``; ``refresh`` brings them up to date."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._rows: dict[str, bytes] = {}
        self._revision = -1
        self._lock = asyncio.Lock()

    async def refresh(self) -> int:
        """Write those again that have changed; return the revision that they show at least.

        Others may refresh them again before the caller goes on.
        """
        async with self._lock:
            ledger = self._books.ledger
            revision, changed = ledger.revision, ledger.seen_since(self._revision)
            if changed is None:
                changed = tuple({*self._rows, *self._books.nodes})
            async for node in steps.through(changed):
                self._write(node)
            self._revision = revision
            return revision

    def _write(self, node: str) -> None:
        cards = shown_nodes.card_rows(self._books, node)
        if cards is None:
            self._rows.pop(node, None)
        else:
            self._rows[node] = texts.encode([node, cards])

    def of(self, nodes: Iterable[str]) -> tuple[list[bytes], list[str]]:
        """Return the rows of these nodes, and which of them have none."""
        there, gone = [], []
        for node in nodes:
            row = self._rows.get(node)
            if row is None:
                gone.append(node)
            else:
                there.append(row)
        return there, gone

    def pieces(self) -> Iterator[bytes]:
        """Yield all rows with commas between them, as they are now, some KiB at a time."""
        return joined(list(self._rows.values()))


def joined(rows: Sequence[bytes]) -> Iterator[bytes]:
    """Yield values of a JSON list with commas between them, some KiB at a time."""
    piece: list[bytes] = []
    size = 0
    for place, row in enumerate(rows):
        piece.append(row if place == 0 else b"," + row)
        size += len(row)
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
