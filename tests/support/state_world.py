"""A state page over books that were made up: any number of nodes, cards, holders, waiting pods."""

import asyncio
import contextlib
import dataclasses
import datetime
import json
import random
from collections.abc import AsyncIterator

from support import clusters, operator_books
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows import pod_events
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import clock, listen
from vgpu_operator.model import device, records
from vgpu_operator.state import access, routes, server

NVIDIA = operator_books.NVIDIA
KINDS = (("NVIDIA-NVIDIA A100-SXM4-80GB", 81920), ("NVIDIA-NVIDIA L40S", 46068))
NAMES = ("train-llm", "notebook", "embed", "rank-api", "speech", "eval", "batch-infer", "vision")


def card_id(node: int, card: int) -> str:
    """Return the UUID of a made-up card."""
    return f"GPU-{node:05d}{card:03d}-5f1e-4c7a-9d20-7b3a"


def node_name(number: int) -> str:
    """Return a made-up node's name."""
    return f"gpu-node-{number + 1}"


def fill(books: Books, *, nodes: int, cards: int = 8, seed: int = 7) -> None:
    """Put nodes and pods in, some full, some free, a few ill: a map to look at."""
    chance = random.Random(seed)  # noqa: S311  # a picture, no secret
    for number in range(nodes):
        kind, memory_mib = KINDS[0 if number % 5 < 3 else 1]
        ill = chance.random() < 0.04
        text = json.dumps(
            [
                {
                    "id": card_id(number, card),
                    "index": card,
                    "count": 10,
                    "devmem": memory_mib,
                    "devcore": 100,
                    "type": kind,
                    "mode": "hami-core",
                    "health": not (ill and card == cards - 1),
                }
                for card in range(cards)
            ]
        )
        name = node_name(number)
        cordoned = [card_id(number, 0)] if chance.random() < 0.03 else []
        operator_books.put_node(books, name, register=text, cordoned=cordoned)
        _hold(books, number, cards, memory_mib, chance)


def fill_quickly(books: Books, *, nodes: int, cards: int = 8, seed: int = 7) -> None:
    """Put thousands of nodes in, with one pod each that holds several cards; no text is read."""
    chance = random.Random(seed)  # noqa: S311  # a picture, no secret
    since = int(clock.SystemClock().now().timestamp()) - 5400
    for number in range(nodes):
        name = node_name(number)
        kind, memory_mib = KINDS[0 if number % 5 < 3 else 1]
        ill = cards - 1 if chance.random() < 0.04 else -1
        books.nodes[name] = operator_books.node(name, register="")
        books.registrations[name, NVIDIA] = flow_books.Registration(
            handshake_seen_at=operator_books.NOW
        )
        devices = [
            device.Device(
                id=card_id(number, card),
                index=card,
                slots=10,
                memory_mib=memory_mib,
                cores_percent=100,
                type=kind,
                mode="hami-core",
                healthy=card != ill,
            )
            for card in range(cards)
        ]
        books.ledger.set_devices(name, NVIDIA, devices)
        books.ledger.set_allocatable(name, NVIDIA, 10)
        busy = chance.random() ** 0.7
        shares = tuple(
            clusters.share(card_id(number, card), memory_mib * part // 8, 12 * part)
            for card in range(cards)
            if chance.random() < busy
            for part in (chance.randint(1, 8),)
        )
        asks = clusters.asks(count=max(1, len(shares)), memory_mib=memory_mib, cores_percent=100)
        pod = operator_books.bound(
            operator_books.pending(f"{chance.choice(NAMES)}-{number}", asks),
            name,
            phase=records.BindPhase.SUCCESS,
            promised={NVIDIA: (shares,)},
            bind_time_s=since - number,
        )
        books.ledger.observe(pod)


def _hold(books: Books, number: int, cards: int, memory_mib: int, chance: random.Random) -> None:
    busy = chance.random() ** 0.7
    for card in range(cards):
        left = memory_mib
        for turn in range(4):
            if chance.random() > busy:
                continue
            share = min(left, chance.choice((4000, 8192, 16384, memory_mib // 2, memory_mib)))
            if share <= 0:
                break
            left -= share
            hold(books, f"{chance.choice(NAMES)}-{number}-{card}{turn}", number, card, share)


def hold(books: Books, name: str, number: int, card: int, memory_mib: int) -> records.PodRecord:
    """Let a pod hold a share of a card, allocated some time ago."""
    cores = 10 * (memory_mib // 8192)
    pod = operator_books.bound(
        operator_books.pending(name, clusters.asks(memory_mib=memory_mib, cores_percent=cores)),
        node_name(number),
        phase=records.BindPhase.SUCCESS,
    )
    since = clock.SystemClock().now() - datetime.timedelta(minutes=7 * (number % 300) + card)
    share = clusters.share(card_id(number, card), memory_mib, cores)
    pod = dataclasses.replace(
        pod, promised={operator_books.NVIDIA: ((share,),)}, bind_time_s=int(since.timestamp())
    )
    pod_events.pod_seen(books, pod)
    return pod


def wait_for_cards(books: Books, name: str, **asks: int) -> records.PodRecord:
    """Let a pod come that fits nowhere, and be refused."""
    created = clock.SystemClock().now() - datetime.timedelta(minutes=4)
    pod = operator_books.pending(name, clusters.asks(**asks), created=created)
    pod_events.pod_seen(books, pod)
    flow_filter.filter_nodes(books, pod, tuple(books.nodes), operator_books.NOW)
    return pod


@contextlib.asynccontextmanager
async def served(
    books: Books, *, asks: access.Access | None = None, leader: bool = True, port: int = 0
) -> AsyncIterator[str]:
    """Serve a state page over these books on loopback; yield its address."""
    desk = routes.Desk(
        books=books,
        clock=clock.SystemClock(),
        facts=lambda: {
            "leader": leader,
            "holder": "vgpu-operator-scheduler-7c9d_1",
            "apiReachable": True,
        },
        answered_s=lambda: 0.5,
    )
    running = await server.start(desk, listen.Address(host="127.0.0.1", port=port), asks=asks)
    try:
        yield f"http://127.0.0.1:{running.port}"
    finally:
        await running.close()


async def _serve_for_ever() -> None:
    """Serve a made-up cluster, to look at the page while changing it."""
    import sys

    books = operator_books.open_books()
    fill(books, nodes=int(sys.argv[1]))
    wait_for_cards(books, "too-large", memory_mib=90000)
    async with served(books) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve_for_ever())
