"""Runs flows: an effect becomes an API call, its outcome goes back into the flow."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, TypeVar

from vgpu_operator.flows import effects
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, events, paths
from vgpu_operator.model import records
from vgpu_operator.wire import keys

Result = TypeVar("Result")
Step = TypeVar("Step")

WRITE_TRIES = 3
"""How often a request that the server asks to slow down for is sent."""

LONGEST_PAUSE_S = 5.0

RETRY_PAUSE_S = 0.5
"""How long to wait before a request is sent again that got no proper answer."""

_FOR_NOW = (errors.TooMany, errors.Unauthorized, errors.NamespaceEnding)
"""Refusals that end by themselves: less load, a renewed token, or the pods that go with their
namespace."""

DecodePod = Callable[[kube_client.Json], records.PodRecord]
Wait = Callable[[effects.AwaitChange], Awaitable[Any]]
Tell = Callable[[effects.Reaction], None]


class Performer:
    """Performs effects against one API server.

    Args:
        may_write: asked before every write; a process that is not the leader
            writes nothing, whatever a flow asks for.
        wait: performs ``AwaitChange``.
        tell: performs ``Tell``: it gets what a flow has learned in passing.
        on_failure: told about effects that failed and that no flow waits for.
        on_retry: told about each request that is sent again.
    """

    def __init__(
        self,
        client: kube_client.KubeClient,
        sink: events.EventSink,
        *,
        decode_pod: DecodePod,
        may_write: Callable[[], bool],
        wait: Wait,
        tell: Tell,
        on_failure: Callable[[effects.Effect, effects.EffectFailed], None],
        on_retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._sink = sink
        self._decode_pod = decode_pod
        self._may_write = may_write
        self._wait = wait
        self._tell = tell
        self._on_failure = on_failure
        self._on_retry = on_retry

    async def run(self, flow: Generator[effects.Effect, Any, Result]) -> Result:
        """Drive a flow to its end and return its value."""
        return await drive(flow, self.perform)

    async def run_all(self, wanted: Iterable[effects.Effect]) -> None:
        """Perform effects that nobody waits for; a failure of one stops none."""
        for effect in wanted:
            try:
                await self.perform(effect)
            except effects.EffectFailed as fault:
                self._on_failure(effect, fault)

    async def perform(self, effect: effects.Effect) -> Any:
        """Perform one effect and return its answer.

        Raises:
            effects.EffectFailed: one of its kinds, the API error chained.
        """
        if isinstance(effect, effects.AwaitChange):
            return await self._wait(effect)
        if isinstance(effect, effects.Tell):
            self._tell(effect.news)
            return None
        if isinstance(effect, effects.PostEvent):
            self._sink.post(effect)
            return None
        for attempt in range(1, WRITE_TRIES + 1):
            # Asked each time: a term may end while the server makes us wait.
            if isinstance(effect, effects.Write) and not self._may_write():
                raise effects.NotLeading("this process is not the leader, so it writes nothing")
            try:
                return await self._call(effect)
            except errors.ApiError as fault:
                if isinstance(effect, effects.EvictPod | effects.NominateNode) and isinstance(
                    fault, _FOR_NOW
                ):
                    # A budget's refusal, say: whoever evicts decides whether it is still to be.
                    raise effects.NotYet(str(fault), retry_after_s=fault.retry_after_s) from fault
                if not isinstance(fault, errors.TooMany) or attempt == WRITE_TRIES:
                    raise translated(fault) from fault
                self._on_retry()
                await asyncio.sleep(min(fault.retry_after_s or 1.0, LONGEST_PAUSE_S))
        raise AssertionError("unreachable: the loop returns or raises")

    async def _call(self, effect: effects.Effect) -> Any:
        match effect:
            case effects.PatchNode():
                return await self._patch_node(effect)
            case effects.PatchPod():
                return await self._patch_pod(effect)
            case effects.BindPod():
                return await self._bind(effect)
            case effects.ReadPod():
                return await self._read_pod(effect)
            case effects.ListNodePods():
                items, _ = await self._client.list(
                    paths.PODS, params={"fieldSelector": f"spec.nodeName={effect.node}"}
                )
                return tuple(self._decode_pod(item) for item in items)
            case effects.EvictPod():
                return await self._evict(effect)
            case effects.NominateNode():
                return await self._nominate(effect)
            case effects.DeletePod():
                path = paths.pod(effect.pod.namespace, effect.pod.name)
                return await self._client.delete(
                    path,
                    grace_s=effect.grace_s,
                    uid=effect.pod.uid,
                    resource_version=effect.resource_version,
                )
            case _:
                raise AssertionError(f"no call is known for {type(effect).__name__}")

    async def _patch_node(self, effect: effects.PatchNode) -> str:
        metadata: kube_client.Json = {"annotations": dict(effect.annotations)}
        if effect.resource_version is not None:
            metadata["resourceVersion"] = effect.resource_version
        answer = await self._client.patch(paths.node(effect.node), {"metadata": metadata})
        return str(answer["metadata"]["resourceVersion"])

    async def _patch_pod(self, effect: effects.PatchPod) -> str:
        metadata: kube_client.Json = {"uid": effect.pod.uid}
        if effect.annotations:
            metadata["annotations"] = dict(effect.annotations)
        if effect.labels:
            metadata["labels"] = dict(effect.labels)
        path = paths.pod(effect.pod.namespace, effect.pod.name)
        answer = await self._client.patch(path, {"metadata": metadata})
        return str(answer["metadata"]["resourceVersion"])

    async def _bind(self, effect: effects.BindPod) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": effect.pod.name,
                "namespace": effect.pod.namespace,
                "uid": effect.pod.uid,
                "resourceVersion": effect.resource_version,
                "annotations": dict(effect.annotations),
                "labels": dict(effect.labels),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": effect.node},
        }
        await self._client.create(paths.binding(effect.pod.namespace, effect.pod.name), body)

    async def _evict(self, effect: effects.EvictPod) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": effect.pod.name, "namespace": effect.pod.namespace},
            "deleteOptions": {"preconditions": {"uid": effect.pod.uid}},
        }
        await self._client.create(paths.eviction(effect.pod.namespace, effect.pod.name), body)

    async def _nominate(self, effect: effects.NominateNode) -> None:
        """Write status and annotation in one request: a Pod's status may bring both."""
        body: kube_client.Json = {
            "metadata": {
                "uid": effect.pod.uid,
                "annotations": {keys.NOMINATION: effect.mark},
            },
            "status": {"nominatedNodeName": effect.node},
        }
        path = paths.pod_status(effect.pod.namespace, effect.pod.name)
        await self._client.patch(path, body)

    async def _read_pod(self, effect: effects.ReadPod) -> records.PodRecord | None:
        try:
            raw = await self._client.get(paths.pod(effect.namespace, effect.name))
        except errors.NotFound:
            return None
        return self._decode_pod(raw)


async def drive(
    flow: Generator[Step, Any, Result], perform: Callable[[Step], Awaitable[Any]]
) -> Result:
    """Drive a flow to its end and return its value.

    Args:
        flow: yields what is to be done; gets its answer, or ``EffectFailed`` thrown in.
        perform: does one of these things; any other fault ends the flow.
    """
    try:
        step = next(flow)
        while True:
            try:
                answer = await perform(step)
            except effects.EffectFailed as fault:
                step = flow.throw(fault)
            else:
                step = flow.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # StopIteration cannot say its type
    finally:
        flow.close()


async def patiently(
    call: Callable[[], Awaitable[Result]],
    *,
    on_failure: Callable[[errors.ApiError], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Result:
    """Send a request until the API server really answers; only for what may be sent twice."""
    while True:
        try:
            return await call()
        except (errors.Unreachable, errors.TooMany, errors.ServerFault) as fault:
            on_failure(fault)
            await sleep(fault.retry_after_s or RETRY_PAUSE_S)


def translated(fault: errors.ApiError) -> effects.EffectFailed:
    """Return the outcome that flows know for an API error."""
    text = str(fault)
    if isinstance(fault, errors.Conflict):
        return effects.Conflict(text)
    if isinstance(fault, errors.NotFound):
        return effects.Missing(text)
    if isinstance(fault, errors.Unreachable | errors.ServerFault):
        return effects.Doubtful(text)
    return effects.Denied(text)
