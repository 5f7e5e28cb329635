"""Drives the agent's conversations: each effect becomes an API call, its answer goes back.

The kubelet waits as long as a call takes, and admits no other pod meanwhile, so
every conversation has an end by the clock.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from vgpu_operator.agent import seen
from vgpu_operator.flows import effects, effects_agent, serve
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths
from vgpu_operator.kube import perform as kube_perform
from vgpu_operator.node_agent import objects

REMEMBERED_S = 5.0
"""How long a Pod is remembered as it was last seen; what relies on it is conditioned on it."""

_Result = TypeVar("_Result")


def _always() -> bool:
    return True


async def _nothing_to_make(effect: serve.Prepare) -> None:
    raise effects.Denied(f"nobody makes anything for {effect.pod}")


class Desk:
    """Talks to the API server for one node.

    Args:
        client: the connection.
        resource: what of a Pod's containers counts.
    """

    def __init__(self, client: kube_client.KubeClient, *, resource: str) -> None:
        self._client = client
        self._resource = resource
        self._remembered: dict[tuple[str, str], tuple[effects_agent.PodSeen, float]] = {}

    async def run(
        self,
        steps: serve.Steps[_Result],
        *,
        within_s: float,
        node: effects_agent.NodeSeen | None = None,
        is_wanted: Callable[[], bool] = _always,
        prepare: Callable[[serve.Prepare], Awaitable[None]] = _nothing_to_make,
        on_pod_written: Callable[[effects_agent.PatchPod], None] = lambda _: None,
    ) -> _Result:
        """Run a conversation to its end and return its result.

        Args:
            steps: the conversation.
            within_s: how long the API server has for all of it.
            node: the Node as somebody knows it, to begin with; it is read when it is
                asked for once more.
            is_wanted: asked before a Pod is written: is the result still wanted?
            prepare: makes what a container is given.
            on_pod_written: told when a Pod was written.
        """
        end = asyncio.get_running_loop().time() + within_s
        known = node

        async def answer(effect: serve.Effect) -> effects_agent.Answer:
            nonlocal known
            if isinstance(effect, serve.Prepare):
                await prepare(effect)
                return None
            if isinstance(effect, effects_agent.Pause):
                await asyncio.sleep(effect.seconds)
                return None
            if isinstance(effect, effects_agent.GetNode) and known is not None:
                told, known = known, None
                return told
            if isinstance(effect, effects_agent.PatchPod) and not is_wanted():
                raise effects.Denied("the kubelet no longer waits for the answer")
            done = await self._ask(effect, end)
            if isinstance(effect, effects_agent.PatchPod):
                on_pod_written(effect)
            return done

        return await kube_perform.drive(steps, answer)

    async def _ask(self, effect: effects_agent.Effect, end: float) -> effects_agent.Answer:
        """Send what an effect stands for until the API server really answers, or time is up.

        Raises:
            effects.EffectFailed: one of its kinds, for the conversation.
        """
        why = ""

        def note(fault: errors.ApiError) -> None:
            nonlocal why
            why = str(fault)

        try:
            async with asyncio.timeout_at(end):
                return await kube_perform.patiently(lambda: self._call(effect), on_failure=note)
        except TimeoutError:
            raise effects.Doubtful(
                f"the API server has not answered in time{why and f': {why}'}"
            ) from None
        except errors.ApiError as fault:
            raise kube_perform.translated(fault) from fault

    async def _call(self, effect: effects_agent.Effect) -> effects_agent.Answer:
        """Send one request, or answer from memory."""
        match effect:
            case effects_agent.GetNode(name=name):
                return seen.node(await self._client.get(paths.node(name)))
            case effects_agent.GetPod(namespace=namespace, name=name, fresh=fresh):
                known = None if fresh else self._recall(namespace, name)
                return known or self._keep(await self._client.get(paths.pod(namespace, name)))
            case effects_agent.ListNodePods(node=node):
                pods, _ = await self._client.list(
                    paths.PODS, params={"fieldSelector": f"spec.nodeName={node}"}
                )
                return tuple(objects.pod_seen(pod, resource=self._resource) for pod in pods)
            case effects_agent.PatchPod(namespace=namespace, name=name):
                given = {"uid": effect.uid, "resourceVersion": effect.resource_version}
                metadata: kube_client.Json = {key: value for key, value in given.items() if value}
                metadata["annotations"] = dict(effect.annotations)
                body = {"metadata": metadata}
                return self._keep(await self._client.patch(paths.pod(namespace, name), body))
            case effects_agent.PatchNode(name=name, resource_version=version, annotations=changes):
                body = {"metadata": {"resourceVersion": version, "annotations": dict(changes)}}
                return seen.node(await self._client.patch(paths.node(name), body))
            case effects_agent.Pause():
                raise AssertionError("unreachable: pauses are no requests")

    def _keep(self, raw: kube_client.Json) -> effects_agent.PodSeen:
        """Remember a Pod as the API server has just shown it."""
        pod = objects.pod_seen(raw, resource=self._resource)
        now = asyncio.get_running_loop().time()
        self._remembered = {
            key: (known, at)
            for key, (known, at) in self._remembered.items()
            if now - at < REMEMBERED_S
        }
        self._remembered[pod.namespace, pod.name] = (pod, now)
        return pod

    def _recall(self, namespace: str, name: str) -> effects_agent.PodSeen | None:
        pod, at = self._remembered.get((namespace, name), (None, 0.0))
        return pod if asyncio.get_running_loop().time() - at < REMEMBERED_S else None
