"""The page of all cards is written in pieces, and others get their turn in between."""

import asyncio

import pytest
from prometheus_client import parser

from support.operator_books import bound, open_books, pending, put_node, register_text
from vgpu_operator.flows import books, pod_events, register
from vgpu_operator.kube import steps
from vgpu_operator.metrics import cards_page

NODES = 130


def many_nodes() -> books.Books:
    held = open_books()
    for number in range(NODES):
        name = f"node-{number}"
        cards = register_text(*((f"GPU-{number}-{card}", 24576) for card in range(8)))
        put_node(held, name, register=cards)
    return held


async def test_a_page_with_thousands_of_lines_lets_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    pieces = [piece async for piece in cards_page.pieces(many_nodes())]
    other.cancel()

    # A turn at least at every node and at every line: 130 x 8 cards in six series.
    assert turns > NODES * 8 * 6
    # 1,040 lines and two more a family: three pieces each, and one for each of the two of shares.
    assert len(pieces) == 6 * 3 + 2
    assert max(piece.count(b"\n") for piece in pieces) <= cards_page.LINES + 2


async def test_every_family_stands_together_once_with_all_its_cards() -> None:
    text = b"".join([piece async for piece in cards_page.pieces(many_nodes())]).decode()

    families = list(parser.text_string_to_metric_families(text))

    assert len({family.name for family in families}) == len(families) == 8
    by_name = {family.name: family for family in families}
    assert len(by_name["hami_gpu_memory_limit_bytes"].samples) == NODES * 8
    (labels,) = {frozenset(s.labels) for s in by_name["hami_gpu_memory_allocated_bytes"].samples}
    assert labels == {
        "zone",
        "node",
        "device_uuid",
        "device_index",
        "device_type",
        "device_cores",
    }


async def test_a_node_that_leaves_while_the_page_is_made_costs_only_its_own_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    held = many_nodes()
    for number in (7, NODES - 1):
        node = f"node-{number}"
        pod = bound(pending(f"on-{node}"), node, card=f"GPU-{number}-0")
        held.ledger.observe(pod)

    async def page() -> str:
        return b"".join([piece async for piece in cards_page.pieces(held)]).decode()

    made = asyncio.create_task(page())
    await asyncio.sleep(0)
    register.node_gone(held, "node-7")
    pod_events.pod_gone(held, pending("on-node-7").key)

    text = await made
    assert 'pod="on-node-7"' not in text
    assert f'pod="on-node-{NODES - 1}"' in text


async def test_a_replica_that_loses_the_lead_ends_its_page_with_the_family_it_writes() -> None:
    held = many_nodes()
    pieces = cards_page.pieces(held)
    first = await anext(pieces)

    held.leader = False
    rest = b"".join([piece async for piece in pieces])

    assert first.startswith(b"# HELP hami_gpu_memory_limit_bytes")
    assert b"# HELP" not in rest
