"""Cases from real use, area F: the ledger.

Elsewhere: 100 and 116 in ``tests/unit/flows/test_reconcile_lists.py`` and
``tests/unit/kube/test_intake.py``; 102, 105, 106, 108, 114 and 115 in
``tests/unit/flows/test_reconcile_pods.py``; the first half of 112 in
``tests/unit/flows/test_filter_answers.py``.
"""

import random
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from support import clusters, operator_books
from support.operator_books import NOW, NVIDIA, bound, open_books, pending, put_node, used_mib
from vgpu_operator.flows import books, pod_events, register
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.kube import steps
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.metrics import cards_page
from vgpu_operator.model import records

EIGHT = operator_books.register_text(*((f"GPU-a{n}", 24576) for n in range(8)))
TWO_WHOLE = clusters.asks(2, percent=100)


def whole_pair(name: str, *cards: str) -> records.PodRecord:
    """Return a running pod that holds two whole cards."""
    shares = tuple(clusters.share(card, 24576) for card in cards)
    return bound(pending(name, TWO_WHOLE), promised={NVIDIA: (shares,)}, phase=None)


def fits(held: books.Books, pod: records.PodRecord, *nodes: str) -> tuple[str, ...]:
    return flow_filter.filter_nodes(held, pod, nodes or ("node-a",), NOW).fitting


def test_case_111_a_new_pod_waits_until_the_old_one_is_gone() -> None:
    held = open_books()
    put_node(held, register=EIGHT)
    running = [whole_pair(f"p{n}", f"GPU-a{2 * n}", f"GPU-a{2 * n + 1}") for n in range(4)]
    for pod in running:
        pod_events.pod_seen(held, pod)
    newcomer = pending("p9", TWO_WHOLE)

    before = fits(held, newcomer)
    leaving = bound(
        pending("p0", TWO_WHOLE),
        promised=running[0].promised,
        phase=None,
        deleting=True,
        version="21",
    )
    pod_events.pod_seen(held, leaving)
    while_leaving = fits(held, newcomer)
    pod_events.pod_gone(held, leaving.key)

    assert (before, while_leaving, fits(held, newcomer)) == ((), (), ("node-a",))


def test_case_112_a_node_that_goes_between_filter_and_score_scores_nothing() -> None:
    held = open_books()
    put_node(held)
    put_node(held, "node-b", register=operator_books.ONE_CARD.replace("a0", "b0"))
    held.ledger.observe(bound(pending("p9"), "node-b", card="GPU-b0", memory_mib=12288))
    pod = pending()
    assert fits(held, pod, "node-a", "node-b") == ("node-a", "node-b")

    register.node_gone(held, "node-a")

    assert flow_filter.score_nodes(held, pod, ["node-a", "node-b"])[0] == 0
    answer = flow_filter.filter_nodes(held, pod, ["node-a", "node-b"], NOW)
    assert answer.fitting == ("node-b",)
    assert "node unregistered" in str(answer.rejections["node-a"])


def test_case_116_the_first_filter_after_a_start_sees_what_pods_hold() -> None:
    """Until the list is complete nobody is answered: see ``test_routes.py`` and /readyz."""
    held = open_books()
    held.synced = False
    asks = clusters.asks(memory_mib=8000)
    three = [bound(pending(f"p{n}", asks), memory_mib=8000) for n in range(3)]
    operator_books.list_in(held, nodes=[operator_books.node()], pods=three)

    assert held.synced
    # 24576 - 3 x 8000 = 576
    assert fits(held, pending("p8", clusters.asks(memory_mib=577))) == ()
    assert fits(held, pending("p9", clusters.asks(memory_mib=576))) == ("node-a",)


# --- 113: readers and writers ----------------------------------------------------------


def events(seed: int, steps: int) -> Iterator[records.PodRecord | str]:
    """Yield pods that come, change and go; a text is the UID of one that is gone."""
    dice = random.Random(seed)  # noqa: S311  # no secret
    alive: dict[str, records.PodRecord] = {}
    for step in range(steps):
        if alive and dice.random() < 0.4:
            name = dice.choice(sorted(alive))
            yield alive.pop(name).key.uid
            continue
        name = f"p{step}"
        card = f"GPU-a{dice.randrange(8)}"
        alive[name] = bound(pending(name), card=card, memory_mib=1000, version=str(step + 20))
        yield alive[name]


@pytest.mark.parametrize("seed", range(2))
async def test_case_113_events_filters_and_scrapes_leave_what_a_fresh_rebuild_finds(
    seed: int,
) -> None:
    """The books belong to one event loop, and no flow awaits between reading and writing.

    So readers and writers take turns, as here; what a reader has in hand must
    not change under it, and it cannot change the books. A page of metrics is
    made in pieces, and everything else may happen between two of them.
    """
    held = open_books()
    put_node(held, register=EIGHT)
    pages, page = 0, cards_page.pieces(held)
    in_hand: list[tuple[ledger_nodes.CardUsage, ...]] = []
    copies: list[list[int]] = []
    alive: dict[str, records.PodRecord] = {}

    for step, event in enumerate(events(seed, 100)):
        if isinstance(event, str):
            pod_events.pod_gone(held, alive.pop(event).key)
        else:
            alive[event.key.uid] = event
            pod_events.pod_seen(held, event)
        fits(held, pending(f"asks-{step}"))
        if await anext(page, None) is None:
            pages, page = pages + 1, cards_page.pieces(held)
        in_hand.append(held.ledger.usage("node-a", NVIDIA))
        copies.append([card.used_memory_mib for card in in_hand[-1]])

    assert pages > 3
    fresh = open_books()
    put_node(fresh, register=EIGHT)
    for pod in alive.values():
        pod_events.pod_seen(fresh, pod)
    assert used_mib(held) == used_mib(fresh)
    assert [[card.used_memory_mib for card in usage] for usage in in_hand] == copies


def test_case_113_a_reader_cannot_write_what_it_reads() -> None:
    held = open_books()
    put_node(held)

    view = held.ledger.snapshot().vendor(NVIDIA)

    assert view is not None
    arrays = [
        value for name in view.__slots__ if isinstance(value := getattr(view, name), np.ndarray)
    ]
    assert arrays
    assert not any(array.flags.writeable for array in arrays)


async def test_case_113_a_node_that_goes_while_a_page_is_written_costs_only_its_own_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another one comes at the same time; the page has begun before."""

    async def through(items: Iterable[Any], **_: float) -> AsyncIterator[Any]:
        for item in items:
            yield item
            if item == "node-a":
                register.node_gone(held, "node-b")
                put_node(held, "node-c", register=operator_books.ONE_CARD.replace("a0", "c0"))

    held = open_books()
    for name in ("a", "b", "d"):
        cards = operator_books.ONE_CARD.replace("a0", f"{name}0")
        put_node(held, f"node-{name}", register=cards)
    monkeypatch.setattr(steps, "through", through)

    page = b"".join([piece async for piece in cards_page.pieces(held)]).decode()

    limits = [line for line in page.splitlines() if line.startswith("hami_gpu_memory_limit_bytes{")]
    assert [node for node in "abcd" if any(f'"node-{node}"' in line for line in limits)] == [
        "a",
        "d",
    ]
