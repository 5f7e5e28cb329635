"""Who has to leave for a pod of higher priority, in process: the whole plan beside one filter.

Nodes of 8 cards with ten pods each, so that no card has room; every pod has another start, so
that nodes that look alike have to be told apart. Processor time: other processes of the
machine do not count.
"""

import dataclasses
import datetime
import functools
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from bench import columns
from support import clusters
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows.preemption import plan
from vgpu_operator.model import budgets, policy, records, request, settings
from vgpu_operator.scheduling import fit, preempt, victims
from vgpu_operator.vendors import registry, roster

NOW = datetime.datetime(2026, 1, 15, 10, tzinfo=datetime.UTC)
PRIORITY = 1000
CARD_MIB = 24_576
PODS = 10
LABELS = {"app": "web"}
"""One object for all pods, as the reader of pods has it."""
KEPT = budgets.Budget(namespace="team-a", name="all", selector=(), allowed=0)


def full_node(chance: random.Random, name: str, first: int, levels: int) -> list[records.PodRecord]:
    """Return ten pods that fill a node: six hold a whole card's memory, four half of one."""
    held = []
    for place in range(PODS):
        memory_mib = CARD_MIB if place < 6 else CARD_MIB // 2
        card = place if place < 6 else 6 + place % 2
        uid, card_id = f"held-{first + place}", f"GPU-{name}-{card}"
        held.append(
            dataclasses.replace(
                clusters.holder(uid, name, card_id, memory_mib, cores_percent=5),
                priority=chance.randrange(levels),
                labels=LABELS,
                started=NOW - datetime.timedelta(seconds=chance.randrange(10**6)),
            )
        )
    return held


def full(n_nodes: int, levels: int) -> flow_books.Books:
    """Return the books of a full cluster whose pods have so many different priorities."""
    chance = random.Random(7)  # noqa: S311 - a fixed seed, not a secret
    vendors = registry.build(settings.Settings())
    nodes = clusters.eight_card_nodes(n_nodes)
    pods: list[records.PodRecord] = []
    for name in nodes:
        pods += full_node(chance, name, len(pods), levels)
    return flow_books.Books(
        settings=settings.Settings(),
        vendors=roster.of(vendors),
        ledger=clusters.build_ledger(
            clusters.Cluster(nodes=nodes, pods=pods), rules=vendors.by_keyword
        ),
    )


def questions() -> dict[str, request.PodRequest]:
    """Return pods of which none fits, by what they ask for."""
    whole = clusters.asks(memory_mib=CARD_MIB)
    mutex = (policy.CardPolicy.MUTEX,)
    return {
        "memory": clusters.wish(whole, uid="new"),
        "three cards": clusters.wish(clusters.asks(3, memory_mib=CARD_MIB), uid="new"),
        "all cards whole": clusters.wish(
            clusters.asks(8, memory_mib=CARD_MIB, cores_percent=100), uid="new"
        ),
        "cores only": clusters.wish(clusters.asks(cores_percent=100), uid="new"),
        "unused cards": clusters.wish(
            clusters.asks(2, memory_mib=1), uid="new", card_policies=mutex
        ),
        "two containers": clusters.wish(whole, clusters.asks(memory_mib=1000), uid="new"),
    }


def measure(*, nodes: int, levels: int, quick: bool = False) -> dict[str, Any]:
    """Return the milliseconds of a plan for each question, and what they are made of."""
    repeats = 3 if quick else 15
    books = full(nodes, levels)
    names = tuple(books.ledger.node_names)

    def planned(wish: request.PodRequest, kept: Sequence[budgets.Budget] = ()) -> plan.Answer:
        return plan.plan(
            books,
            wish,
            priority=PRIORITY,
            nodes=names,
            budgets=kept,
            may_go=lambda _record: True,
            now=NOW,
        )

    timed = functools.partial(columns.timed, repeats=repeats, clock_s=time.thread_time)
    asked = questions()
    first = asked["memory"]
    view = books.ledger.snapshot()
    found: dict[str, Any] = {
        "nodes": nodes,
        "pods": PODS * nodes,
        "levels": levels,
        "one filter": timed(lambda: fit.place(view, names, first, books.defaults)),
    }
    exact = []
    for name, wish in asked.items():
        found[name] = timed(functools.partial(planned, wish))
        answer = planned(wish)
        exact.append(isinstance(answer, plan.Plan) and answer.exact)
    found["all kept by a budget"] = timed(lambda: planned(first, [KEPT]))
    found["exact"] = sum(exact) / len(exact)
    found["survey"] = share_of(lambda: planned(first), preempt, "survey", repeats)
    found["sets"] = share_of(lambda: planned(first), victims, "smallest", repeats)
    tracemalloc.start()
    planned(first)
    found["memory_mib"] = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return found


def share_of(call: Callable[[], object], module: Any, name: str, repeats: int) -> float:
    """Return which part of a call's processor time one function of a module takes."""
    inside = 0.0
    real = getattr(module, name)

    def clocked(*args: Any, **words: Any) -> Any:
        nonlocal inside
        start = time.thread_time()
        try:
            return real(*args, **words)
        finally:
            inside += time.thread_time() - start

    start = time.thread_time()
    with mock.patch.object(module, name, clocked):
        for _ in range(repeats):
            call()
    return inside / (time.thread_time() - start)
