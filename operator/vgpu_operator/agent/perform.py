"""Drives a plugin's conversation: each effect becomes an API call, its answer goes back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import structlog

from vgpu_operator.agent import objects, seen
from vgpu_operator.flows import effects_agent
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths
from vgpu_operator.kube import perform as kube_perform

PATIENT_ATTEMPTS = 10
"""After so many attempts a request says that it waits; the watch says so at once."""

Sleep = Callable[[float], Awaitable[None]]

_Result = TypeVar("_Result")
_Value = TypeVar("_Value")


class Surroundings(Protocol):
    """What a conversation needs from the node that it takes place on."""

    def known_pod(self, namespace: str, name: str) -> objects.Json | None:
        """Return the Pod as the watch has it; None sends a request instead."""
        ...

    def remember_pod(self, pod: objects.Json) -> None:
        """Take note of a Pod as the API server has just returned it."""
        ...

    async def awake(self) -> None:
        """Return once the node is not paused."""
        ...


async def perform(
    steps: effects_agent.Steps[_Result],
    *,
    client: kube_client.KubeClient,
    surroundings: Surroundings,
    sleep: Sleep = asyncio.sleep,
) -> _Result:
    """Run a conversation to its end and return its result."""

    async def answer(effect: effects_agent.Effect) -> effects_agent.Answer:
        await surroundings.awake()
        return await _answer(effect, client, surroundings, sleep)

    return await kube_perform.drive(steps, answer)


async def _answer(
    effect: effects_agent.Effect,
    client: kube_client.KubeClient,
    surroundings: Surroundings,
    sleep: Sleep,
) -> effects_agent.Answer:
    """Return the API server's answer as the plugin sees it.

    Raises:
        effects.EffectFailed: one of its kinds, for the conversation.
    """
    try:
        return await patiently(lambda: _call(effect, client, surroundings), sleep)
    except errors.ApiError as fault:
        raise kube_perform.translated(fault) from fault


async def patiently(call: Callable[[], Awaitable[_Value]], sleep: Sleep) -> _Value:
    """Send a request until the API server really answers; only for what may be sent twice.

    A node does not give its pods up because the control plane is away.
    """
    attempts = 0

    def count(fault: errors.ApiError) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == PATIENT_ATTEMPTS:
            structlog.get_logger().warning("the API server does not answer", why=str(fault))

    return await kube_perform.patiently(call, on_failure=count, sleep=sleep)


async def _call(
    effect: effects_agent.Effect, client: kube_client.KubeClient, surroundings: Surroundings
) -> effects_agent.Answer:
    """Send the request that an effect stands for."""
    match effect:
        case effects_agent.GetNode(name=name):
            return seen.node(await client.get(paths.node(name)))
        case effects_agent.GetPod(namespace=namespace, name=name):
            pod = surroundings.known_pod(namespace, name)
            return seen.pod(pod or await client.get(paths.pod(namespace, name)))
        case effects_agent.ListNodePods(node=node):
            pods, _ = await client.list(
                paths.PODS, params={"fieldSelector": f"spec.nodeName={node}"}
            )
            return tuple(seen.pod(pod) for pod in pods)
        case effects_agent.PatchPod(namespace=namespace, name=name, annotations=notes):
            body = {"metadata": {"annotations": dict(notes)}}
            pod = await client.patch(paths.pod(namespace, name), body)
            surroundings.remember_pod(pod)
            return seen.pod(pod)
        case effects_agent.PatchNode(name=name, resource_version=version, annotations=changes):
            metadata = {"resourceVersion": version, "annotations": dict(changes)}
            return seen.node(await client.patch(paths.node(name), {"metadata": metadata}))
        case effects_agent.Pause():
            # HAMi's plugin, which is what is played here, never waits.
            raise AssertionError("no conversation of a simulated plugin pauses")
