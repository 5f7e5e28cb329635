"""Bodies that are read at once: bounded in all, and shared fairly among clients.

Each may be as large as the API server's largest object, so the number bounds memory.
A call beyond it waits for its turn. Where one client has bodies under way and another
comes with fewer, the oldest of the greediest client gives way: bodies that never come
can be many, but keep nobody else out.
"""

import asyncio
import collections
from dataclasses import dataclass


@dataclass(slots=True, eq=False, kw_only=True)
class Call:
    """One call whose body is to be read.

    Attributes:
        client: its address.
        limit: the time limit under which it waits and reads; ended early when it gives way.
        is_inside: whether its body is being read.
        gave_way: whether it was ended early.
    """

    client: str
    limit: asyncio.Timeout
    is_inside: bool = False
    gave_way: bool = False


class Room:
    """Room for so many bodies."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: dict[Call, None] = {}  # in the order of their coming
        self._waiting: dict[Call, asyncio.Future[None]] = {}
        self._held: collections.Counter[str] = collections.Counter()

    def __len__(self) -> int:
        """Return how many bodies are being read."""
        return len(self._inside)

    async def enter(self, call: Call) -> None:
        """Come in, at once or when there is room; ``leave`` must follow in any case."""
        if len(self._inside) < self._most or self._make_room(call.client):
            self._take(call)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[call] = turn
        try:
            await turn
        finally:
            self._waiting.pop(call, None)

    def leave(self, call: Call) -> None:
        """Go, whether inside or not; the next comes in: of those who hold least, the first."""
        if call not in self._inside:
            return
        del self._inside[call]
        self._held -= collections.Counter((call.client,))  # keeps no client that has none left
        there = (one for one, turn in self._waiting.items() if not turn.done())
        following = min(there, key=lambda one: self._held[one.client], default=None)
        if following is not None:
            self._take(following)
            self._waiting[following].set_result(None)

    def _take(self, call: Call) -> None:
        call.is_inside = True
        self._inside[call] = None
        self._held[call.client] += 1

    def _make_room(self, client: str) -> bool:
        """End the oldest call of the greediest client, where that makes the shares more even."""
        greediest = max(self._inside, key=lambda one: self._held[one.client], default=None)
        if greediest is None or self._held[greediest.client] <= self._held[client] + 1:
            return False
        del self._inside[greediest]
        self._held[greediest.client] -= 1
        greediest.gave_way = True
        if not greediest.limit.expired():  # else it is on its way out
            greediest.limit.reschedule(asyncio.get_running_loop().time())
        return True
