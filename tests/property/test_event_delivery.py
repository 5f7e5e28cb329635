"""Invariant 8: events that come twice, late or out of order change nothing in the end."""

import dataclasses
from typing import Any

import hypothesis
from hypothesis import strategies as st

from support import clusters
from support.operator_books import (
    FRESH_STAMP,
    NOW,
    NVIDIA,
    ONE_CARD,
    TWO_CARDS,
    bound,
    node,
    open_books,
    pending,
)
from vgpu_operator.flows import books, pod_events, register
from vgpu_operator.model import records

Event = tuple[str, Any]

P1, P2, P3 = (pending(f"p{n}", clusters.asks(memory_mib=n * 1000)) for n in (1, 2, 3))
SUCCESS = records.BindPhase.SUCCESS
RECREATED = pending("p2", clusters.asks(memory_mib=500), uid="second", version="41")

HISTORY: tuple[Event, ...] = (
    ("node", node("node-a", version="1", register=None, allocatable=None)),
    ("node", node("node-a", version="2")),
    ("node", node("node-b", version="3", register=ONE_CARD.replace("a0", "b0"))),
    ("pod", dataclasses.replace(P1, resource_version="5")),
    ("pod", dataclasses.replace(P2, resource_version="6")),
    ("node", node("node-a", version="7", lock="2026-01-15T09:59:30Z,team-a,p1")),
    ("pod", bound(P1, memory_mib=1000, version="8")),
    ("node", node("node-a", version="9", register=TWO_CARDS)),
    ("pod", bound(P1, memory_mib=1000, phase=SUCCESS, version="10")),
    ("pod", bound(P2, "node-b", card="GPU-b0", memory_mib=2000, version="11")),
    ("pod", dataclasses.replace(P3, resource_version="12")),
    ("pod", bound(P3, card="GPU-a1", memory_mib=3000, version="13")),
    ("node", node("node-a", version="14", register=TWO_CARDS, cordoned=["GPU-a1"])),
    ("pod gone", P2.key),
    ("node gone", ("node-b", "uid-of-node-b")),
    ("pod", RECREATED),
    ("pod", bound(RECREATED, card="GPU-a1", memory_mib=500, version="42")),
    ("pod", dataclasses.replace(bound(P3, card="GPU-a1", version="43"), phase="Succeeded")),
    ("node", node("node-b", uid="second", version="44", register=ONE_CARD.replace("a0", "b9"))),
    ("node", node("node-c", version="45", allocatable=0, handshake=FRESH_STAMP)),
)

FINAL: tuple[Event, ...] = (
    HISTORY[12],
    HISTORY[18],
    HISTORY[19],
    HISTORY[8],
    HISTORY[16],
    HISTORY[17],
)
"""The last state of everything that is still there."""


def deliver(held: books.Books, event: Event) -> None:
    kind, what = event
    if kind == "node":
        register.node_seen(held, what, NOW)
    elif kind == "node gone":
        register.node_gone(held, what[0], uid=what[1])
    elif kind == "pod":
        pod_events.pod_seen(held, what)
    else:
        pod_events.pod_gone(held, what)


def state(held: books.Books) -> dict[str, Any]:
    """Return what the books say: nodes, locks, cards, usage, holders."""
    names = ("node-a", "node-b", "node-c")
    return {
        "nodes": {name: record.resource_version for name, record in sorted(held.nodes.items())},
        "locks": held.locks.nodes(),
        "usage": {
            name: {
                card.device.id: (card.used_slots, card.used_memory_mib, card.used_cores_percent)
                for card in held.ledger.usage(name, NVIDIA)
            }
            for name in names
        },
        "holders": {name: held.ledger.holders(name) for name in names},
        "pods": sorted((r.key, r.resource_version) for r in held.ledger.records()),
    }


def told(events: tuple[Event, ...]) -> books.Books:
    held = open_books()
    for event in events:
        deliver(held, event)
    return held


def test_the_history_in_order_ends_in_the_final_state() -> None:
    expected = {"GPU-a0": (1, 1000, 0), "GPU-a1": (1, 500, 0)}

    assert state(told(HISTORY))["usage"]["node-a"] == expected
    assert state(told(HISTORY)) == state(told(FINAL))


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(data=st.data())
def test_any_order_with_any_repeats_ends_in_the_same_state(data: st.DataObject) -> None:
    twice = data.draw(st.lists(st.sampled_from(HISTORY), max_size=10))

    events = data.draw(st.permutations([*HISTORY, *twice]))

    assert state(told(tuple(events))) == state(told(FINAL))
