"""The page of all cards is written in pieces, and others get their turn in between."""

import asyncio
from collections.abc import Iterable

import pytest
from prometheus_client import parser

from support.operator_books import ONE_CARD, bound, open_books, pending, put_node, register_text
from vgpu_operator.flows import books, pod_events, register
from vgpu_operator.kube import steps
from vgpu_operator.metrics import cards_page, kept

NODES = 130


def many_nodes() -> books.Books:
    held = open_books()
    for number in range(NODES):
        name = f"node-{number}"
        cards = register_text(*((f"GPU-{number}-{card}", 24576) for card in range(8)))
        put_node(held, name, register=cards)
    return held


async def read(held: books.Books, texts: kept.Kept | None = None) -> str:
    return b"".join([piece async for piece in cards_page.pieces(held, texts)]).decode()


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

    # A turn at least at every node that is read, and at every piece that is sent.
    assert turns > NODES
    most = cards_page.NODES_AT_ONCE * 8
    assert max(piece.count(b"\n") for piece in pieces) <= most
    assert sum(piece.count(b"\n") == most for piece in pieces) >= 7 * (NODES * 8 // most)


async def test_every_family_stands_together_once_with_all_its_cards() -> None:
    families = list(parser.text_string_to_metric_families(await read(many_nodes())))

    assert len({family.name for family in families}) == len(families) == 13
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


async def test_kept_text_is_written_again_for_nodes_that_changed_and_only_for_them() -> None:
    held, texts = many_nodes(), kept.Kept()
    await read(held, texts)
    wanted = kept.groups(held.settings.metrics)
    before = await texts.read(held, wanted)

    held.ledger.observe(bound(pending(), "node-7", card="GPU-7-0"))
    after = await texts.read(held, wanted)

    changed = [old is not new for old, new in zip(before, after, strict=True)]
    assert changed.count(True) == 1
    assert await read(held, texts) == await read(held)


async def test_kept_text_is_the_same_as_fresh_text_whatever_happens() -> None:
    held, texts = many_nodes(), kept.Kept()
    pod = bound(pending(), "node-7", card="GPU-7-0")

    def cordon() -> None:
        put_node(
            held,
            "node-9",
            register=register_text(("GPU-9-0", 24576)),
            cordoned=["GPU-9-0"],
            version="12",
        )

    for change in (
        lambda: held.ledger.observe(pod),
        lambda: put_node(held, "node-8", register=register_text(("GPU-8-0", 1)), version="11"),
        cordon,
        lambda: pod_events.pod_gone(held, pod.key),
        lambda: register.node_gone(held, "node-3"),
        lambda: put_node(held, "node-3", uid="another", version="13"),
    ):
        await read(held, texts)
        change()
        assert await read(held, texts) == await read(held)


async def test_a_node_that_leaves_while_the_page_is_made_costs_only_its_own_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    held = many_nodes()
    for number in (7, NODES - 1):
        node = f"node-{number}"
        pod = bound(pending(f"on-{node}"), node, card=f"GPU-{number}-0")
        held.ledger.observe(pod)

    made = asyncio.create_task(read(held))
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


async def test_names_are_sorted_again_only_when_a_node_comes_or_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sorting thousands of names is one long step of the thread that schedules."""
    books, texts = open_books(), kept.Kept()
    n_sorted = 0

    def counted(names: Iterable[str]) -> list[str]:
        nonlocal n_sorted
        n_sorted += 1
        return sorted(names)

    monkeypatch.setattr(kept, "sorted", counted, raising=False)
    put_node(books, "node-b", register=ONE_CARD.replace("a0", "b0"))
    put_node(books, "node-a")
    for _ in range(3):
        assert len(await texts.read(books, kept.HAMI)) == 2
    assert n_sorted == 1

    register.node_gone(books, "node-a")
    assert len(await texts.read(books, kept.HAMI)) == 1
    assert n_sorted == 2
