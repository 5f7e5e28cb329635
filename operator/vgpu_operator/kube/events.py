"""Events: sent in the background, never a flood, never a reason to wait."""

import asyncio
import datetime
from collections import OrderedDict
from collections.abc import Callable

from vgpu_operator.flows import effects
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths

COMPONENT = "vgpu-operator"
REPEAT_AFTER = datetime.timedelta(minutes=5)
"""The same sentence about the same object is sent again only after so long."""

QUEUE_LIMIT = 1000
REMEMBERED = 10_000
PER_SECOND = 20.0
"""Events a second at the most; the rest wait in the queue, past its limit they are dropped."""


class EventSink:
    """Sends Events one after another.

    ``may_write`` is asked before each is sent: what is still queued when a
    term ends is left to the next leader. ``dropped`` counts those that found
    the queue full.
    """

    def __init__(
        self,
        client: kube_client.KubeClient,
        clock: kube_clock.Clock,
        *,
        may_write: Callable[[], bool],
        on_failure: Callable[[effects.PostEvent, errors.ApiError], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._may_write = may_write
        self._on_failure = on_failure
        self._queue: asyncio.Queue[effects.PostEvent] = asyncio.Queue(QUEUE_LIMIT)
        self._sent: OrderedDict[effects.PostEvent, datetime.datetime] = OrderedDict()
        self.dropped = 0

    def post(self, event: effects.PostEvent) -> None:
        """Queue an event unless the same one was sent a moment ago."""
        now = self._clock.now()
        last = self._sent.get(event)
        if last is not None and now - last < REPEAT_AFTER:
            return
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1
            return
        self._sent[event] = now
        self._sent.move_to_end(event)
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    async def run(self) -> None:
        """Send what is queued until cancelled."""
        while True:
            event = await self._queue.get()
            if not self._may_write():
                continue
            try:
                await self._client.create(
                    paths.namespaced(_namespace(event), "events"), _body(event, self._clock.now())
                )
            except errors.ApiError as fault:
                self._on_failure(event, fault)
            await asyncio.sleep(1 / PER_SECOND)


def _namespace(event: effects.PostEvent) -> str:
    return event.pod.namespace if event.pod is not None else "default"


def _body(event: effects.PostEvent, now: datetime.datetime) -> kube_client.Json:
    """Return a core/v1 Event; its name is made unique by the server."""
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
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "vgpu-", "namespace": _namespace(event)},
        "involvedObject": regarding,
        "type": event.type.value,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": COMPONENT},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
