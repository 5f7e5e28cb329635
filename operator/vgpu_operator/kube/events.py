"""Events: sent in the background, never a flood, never a reason to wait."""

import asyncio
import datetime
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from vgpu_operator.flows import effects
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths
from vgpu_operator.model import request
from vgpu_operator.wire import clock_text

COMPONENT = "vgpu-operator"
REPEAT_AFTER = datetime.timedelta(minutes=5)
"""The same sentence about the same object is sent again only after so long."""

QUEUE_LIMIT = 500
"""Events of one reason that wait to be sent; more are dropped."""

REMEMBERED = 10_000
PER_SECOND = 20.0
"""Events a second at the most; the rest wait in their queues."""

MOST_ABOUT_ONE = 24
"""Events of one reason about one object within ``REPEAT_AFTER``: in a busy cluster each
refusal of the same pod may name other nodes. More are dropped."""


_Subject: TypeAlias = tuple[request.PodKey | str, str]
"""A pod or the name of a node, and a reason."""


@dataclass(slots=True, kw_only=True)
class _Count:
    """How many events there were of one reason about one object since then."""

    since: datetime.datetime
    events: int = 0


class EventSink:
    """Sends Events one after another, the reasons in turns.

    Each reason has a queue of its own: a thousand pods that fit nowhere keep
    no stuck node waiting. ``on_drop`` is told about those that found their
    queue full, and about those of which there were too many about one object.

    Args:
        leads: whether a term of this process lasts: what it has to say is its
            to say, and what is still queued at the end is left to the next leader.
        may_write: asked before each is sent: a Lease may lapse and be seen renewed
            within one term, and what was queued is still to be said then.
        message: what an event says when it is sent.
    """

    def __init__(
        self,
        client: kube_client.KubeClient,
        clock: kube_clock.Clock,
        *,
        leads: Callable[[], bool],
        may_write: Callable[[], bool],
        on_failure: Callable[[effects.PostEvent, errors.ApiError], None],
        on_drop: Callable[[effects.PostEvent], None],
        message: Callable[[effects.PostEvent, datetime.datetime], str],
    ) -> None:
        self._client = client
        self._clock = clock
        self._leads = leads
        self._may_write = may_write
        self._on_failure = on_failure
        self._on_drop = on_drop
        self._message = message
        self._queues: dict[str, deque[effects.PostEvent]] = {}
        self._filled = asyncio.Event()
        self._sent: OrderedDict[effects.PostEvent, datetime.datetime] = OrderedDict()
        self._counts: OrderedDict[_Subject, _Count] = OrderedDict()

    def __len__(self) -> int:
        """Return how many wait to be sent."""
        return sum(map(len, self._queues.values()))

    def post(self, event: effects.PostEvent) -> None:
        """Queue a leader's event unless the same one was sent a moment ago."""
        if not self._leads():
            return
        now = self._clock.now()
        last = self._sent.get(event)
        if last is not None and now - last < REPEAT_AFTER:
            return
        queue = self._queues.get(event.reason, deque())
        if len(queue) >= QUEUE_LIMIT or self._too_many(event, now):
            self._on_drop(event)
            return
        queue.append(event)
        self._queues[event.reason] = queue
        self._filled.set()
        self._sent[event] = now
        self._sent.move_to_end(event)
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    def _too_many(self, event: effects.PostEvent, now: datetime.datetime) -> bool:
        """Count an event about its object, and say whether that was one too many."""
        subject = (event.pod or event.node, event.reason)
        count = self._counts.get(subject)
        if count is None or now - count.since >= REPEAT_AFTER:
            count = self._counts[subject] = _Count(since=now)
            self._counts.move_to_end(subject)
            while len(self._counts) > REMEMBERED:
                self._counts.popitem(last=False)
        count.events += 1
        return count.events > MOST_ABOUT_ONE

    async def run(self) -> None:
        """Send what is queued until cancelled."""
        while True:
            event = await self._next()
            while self._leads() and not self._may_write():  # noqa: ASYNC110  # a clock tells
                await asyncio.sleep(1 / PER_SECOND)
            if not self._leads():
                # Never sent: this process may lead again and have the same to say.
                self._sent.pop(event, None)
                continue
            try:
                now = self._clock.now()
                raw = body(event, self._message(event, now), now)
                await self._client.create(paths.namespaced(_namespace(event), "events"), raw)
            except errors.ApiError as fault:
                # A lasting refusal is no reason to ask again before its time.
                if isinstance(fault, errors.Unreachable | errors.ServerFault | errors.TooMany):
                    self._sent.pop(event, None)
                self._on_failure(event, fault)
            await asyncio.sleep(1 / PER_SECOND)

    async def _next(self) -> effects.PostEvent:
        """Wait for an event; its reason goes to the end of the line."""
        while not self._queues:
            self._filled.clear()
            await self._filled.wait()
        reason = next(iter(self._queues))
        queue = self._queues.pop(reason)
        event = queue.popleft()
        if queue:
            self._queues[reason] = queue
        return event


def _namespace(event: effects.PostEvent) -> str:
    return event.pod.namespace if event.pod is not None else "default"


def body(
    event: effects.PostEvent,
    message: str,
    now: datetime.datetime,
    *,
    component: str = COMPONENT,
    host: str = "",
) -> kube_client.Json:
    """Return a core/v1 Event; its name is made unique by the server.

    Args:
        event: what it is about.
        message: what it says.
        now: the time.
        component: who says it.
        host: the node that says it; empty where no node does.
    """
    if event.pod is not None:
        regarding = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": event.pod.namespace,
            "name": event.pod.name,
            "uid": event.pod.uid,
        }
    else:
        # Kubernetes itself names the node, not its UID, as the UID of node events.
        regarding = {"apiVersion": "v1", "kind": "Node", "name": event.node, "uid": event.node}
    stamp = clock_text.encode_rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "vgpu-", "namespace": _namespace(event)},
        "involvedObject": regarding,
        "type": event.type.value,
        "reason": event.reason,
        "message": message,
        "source": {"component": component} | ({"host": host} if host else {}),
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
