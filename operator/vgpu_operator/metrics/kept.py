"""The text of every node's cards and shares, kept from one scrape to the next.

Writing 300,000 lines takes half a second of the one thread that also schedules. Between two
scrapes few nodes change, so each node's lines are kept and written again only then.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from vgpu_operator.flows.books import Books
from vgpu_operator.kube import steps
from vgpu_operator.metrics import card_families, older_families, rows, web_ui_families
from vgpu_operator.metrics.families import Family, encoded
from vgpu_operator.model.settings import MetricsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The families of a page, by what they have a sample for."""

    cards: tuple[Family[rows.Card], ...]
    shares: tuple[Family[rows.Share], ...]
    instances: tuple[Family[rows.Instance], ...]

    @property
    def all(self) -> tuple[Family[Any], ...]:
        """All of them, in the order of ``NodeText.lines``."""
        return (*self.cards, *self.shares, *self.instances)


HAMI: Final = Groups(
    cards=tuple(card_families.CARDS),
    shares=tuple(card_families.SHARES),
    instances=tuple(card_families.INSTANCES),
)
OLDER: Final = Groups(
    cards=tuple(older_families.CARDS),
    shares=tuple(older_families.SHARES),
    instances=tuple(older_families.INSTANCES),
)
WEB_UI: Final = Groups(
    cards=tuple(web_ui_families.CARDS), shares=tuple(web_ui_families.SHARES), instances=()
)


def groups(wanted: MetricsSettings) -> Groups:
    """Return the families that are switched on."""
    chosen = [HAMI]
    chosen += [OLDER] if wanted.legacy_names else []
    chosen += [WEB_UI] if wanted.web_ui_names else []
    return Groups(
        cards=tuple(family for group in chosen for family in group.cards),
        shares=tuple(family for group in chosen for family in group.shares),
        instances=tuple(family for group in chosen for family in group.instances),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeText:
    """One node on the page.

    Attributes:
        lines: its lines, by family.
        states: how many of its cards are in which state, by vendor.
        pools: slots, MiB and cores of its cards, by vendor.
    """

    lines: tuple[bytes, ...]
    states: Counter[tuple[str, str]]
    pools: dict[str, tuple[int, int, int]]


@dataclass(slots=True)
class Kept:
    """The text of all nodes, as last written."""

    _by_node: dict[str, NodeText] = field(default_factory=dict)
    _revision: int = -1
    _names: tuple[str, ...] = ()
    _named: frozenset[str] = frozenset()

    async def read(self, books: Books, wanted: Groups) -> list[NodeText]:
        """Return every node's text, that of nodes that changed written again, in steps.

        One ``Kept`` is for one set of families.
        """
        changed = books.ledger.seen_since(self._revision)
        # Before the first pause: what changes from now on is written again next time.
        self._revision = books.ledger.revision
        if changed is None:
            self._by_node.clear()
        for node in changed or ():
            self._by_node.pop(node, None)
        rest = steps.Steps()
        names = self._sorted_names(books)
        await rest.rest()
        found = []
        async for node in steps.through(names):
            if node not in books.nodes:
                # It has left while others had their turn.
                continue
            text = self._by_node.get(node)
            if text is None:
                text = self._by_node[node] = _text(rows.read_node(books, node), wanted)
            found.append(text)
        return found

    def _sorted_names(self, books: Books) -> tuple[str, ...]:
        """Return the nodes' names; they are sorted, and the gone looked for, only when others.

        Sorting thousands takes milliseconds, and nodes come and go rarely.
        """
        if self._named != books.nodes.keys():
            for gone in self._by_node.keys() - books.nodes.keys():
                del self._by_node[gone]
            self._names, self._named = tuple(sorted(books.nodes)), frozenset(books.nodes)
        return self._names


def _text(found: rows.NodeRows, wanted: Groups) -> NodeText:
    return NodeText(
        lines=(
            *(encoded(family.samples(found.cards)) for family in wanted.cards),
            *(encoded(family.samples(found.shares)) for family in wanted.shares),
            *(encoded(family.samples(found.instances)) for family in wanted.instances),
        ),
        states=Counter((card.vendor, card.state) for card in found.cards),
        pools=_pools(found.cards),
    )


def _pools(cards: Sequence[rows.Card]) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for card in cards:
        slots, memory_mib, cores = found.get(card.vendor, (0, 0, 0))
        found[card.vendor] = (
            slots + card.slots,
            memory_mib + card.memory_mib,
            cores + card.cores_percent,
        )
    return found
