"""Where binds wait: futures that node and pod events resolve."""

import asyncio
import datetime
from collections.abc import Iterable

from vgpu_operator.flows import effects
from vgpu_operator.flows.books import Books
from vgpu_operator.kube import clock as kube_clock


class Waiting:
    """Lets each bind wait for news, and ends waits that have lost their sense."""

    def __init__(self, books: Books, clock: kube_clock.Clock) -> None:
        self._books = books
        self._clock = clock
        self._news: dict[str, asyncio.Future[None]] = {}
        self._deadlines: dict[str, float] = {}
        self._ends: dict[str, str] = {}

    def begin(self, uid: str, *, limit_s: float) -> None:
        """Note that a bind for this pod begins; its waits end after ``limit_s``."""
        self._ends.pop(uid, None)
        self._deadlines[uid] = asyncio.get_running_loop().time() + limit_s

    def end(self, uid: str) -> None:
        """Forget the bind of this pod."""
        self._ends.pop(uid, None)
        self._deadlines.pop(uid, None)
        self._news.pop(uid, None)

    async def change(self, effect: effects.AwaitChange) -> datetime.datetime:
        """Wait for news about the effect's node or pod; return the time then.

        Raises:
            effects.GivenUp: the wait was ended; the text says why.
        """
        uid = effect.pod.uid
        self._raise_if_over(uid)
        loop = asyncio.get_running_loop()
        left_s = max(0.0, self._deadlines.get(uid, loop.time()) - loop.time())
        brief = effect.at_most_s is not None and effect.at_most_s < left_s
        news = loop.create_future()
        self._news[uid] = news
        try:
            await asyncio.wait_for(news, timeout=effect.at_most_s if brief else left_s)
        except TimeoutError:
            if not brief:
                raise effects.GivenUp(
                    f"the lock of {effect.node} did not become free in time;"
                    " kube-scheduler tries again"
                ) from None
        finally:
            if self._news.get(uid) is news:
                del self._news[uid]
        self._raise_if_over(uid)
        return self._clock.now()

    def notify(self, nodes: Iterable[str], pods: Iterable[str] = ()) -> None:
        """Let waiters look again: those of these pods, and the next ones at these nodes."""
        turns = self._books.turns
        for node in nodes:
            for uid in turns.heads(node):
                self._wake(uid)
        for uid in pods:
            self._wake(uid)

    def give_up(self, uid: str, why: str) -> None:
        """End the wait of this pod, now or when it next waits."""
        self._ends[uid] = why
        self._wake(uid)

    def give_up_all(self, why: str) -> None:
        """End all waits."""
        for uid in tuple(self._deadlines):
            self.give_up(uid, why)

    def _wake(self, uid: str) -> None:
        news = self._news.get(uid)
        if news is not None and not news.done():
            news.set_result(None)

    def _raise_if_over(self, uid: str) -> None:
        why = self._ends.get(uid)
        if why is not None:
            raise effects.GivenUp(why)
