"""One node's kubelet and device plugins: the simulated ones that users get, with a real agent.

The kubelet is watched: whom did it call Allocate for, and whom did the plugin
serve? A blind plugin does not see the lock and takes another pod than the one
it is called for whenever the protocol lets it.
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterator
from unittest import mock

from simulation import oracle
from simulation.server import Json
from vgpu_operator.agent import kubelet, objects, simulator, spec
from vgpu_operator.agent import node as simulated_node
from vgpu_operator.agent import plugins as vendor_plugins
from vgpu_operator.flows import allocate, effects, effects_agent
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.model import settings as model_settings

Served = Callable[[str, Json, str], None]
"""Told the node, the pod that the kubelet admits and the name of that which the plugin served."""

ROUND_S = 10.0


class WatchedKubelet(kubelet.Kubelet):
    """The agent's kubelet; says whom each Allocate call was for and whom it served."""

    blind = False
    served: Served = staticmethod(lambda *_: None)

    def _conversation(
        self, call: objects.ContainerCall
    ) -> effects_agent.Steps[allocate.AllocateResult]:
        pod = self._pods[self._admitting]
        wanted = objects.full_name(pod)
        steps = super()._conversation(call)
        if self.blind:
            steps = _blindly(steps, own=wanted, key=call.plugin.spec.to_allocate_key or "")
        result = yield from steps
        if result.pod is not None and not result.error:
            self.served(self._name, pod, str(result.pod))
        return result


def _blindly(
    steps: effects_agent.Steps[allocate.AllocateResult], *, own: str, key: str
) -> effects_agent.Steps[allocate.AllocateResult]:
    """Run a plugin that sees no lock and prefers other pods that wait for cards."""
    looked = False
    try:
        effect = next(steps)
        while True:
            try:
                answer = yield effect
            except effects.EffectFailed as fault:
                effect = steps.throw(fault)
                continue
            if isinstance(answer, effects_agent.NodeSeen) and not looked:
                looked = True
                seen = {k: v for k, v in answer.annotations.items() if k != oracle.LOCK}
                answer = effects_agent.NodeSeen(
                    name=answer.name, resource_version=answer.resource_version, annotations=seen
                )
            elif isinstance(effect, effects_agent.ListNodePods) and isinstance(answer, tuple):
                waiting = [pod for pod in answer if "," in pod.annotations.get(key, "")]
                answer = tuple(sorted(waiting, key=lambda pod: str(pod) == own))
            effect = steps.send(answer)
    except StopIteration as end:
        result: allocate.AllocateResult = end.value
        return result


@contextlib.contextmanager
def watched(served: Served, *, blind: bool) -> Iterator[None]:
    """Have all kubelets made in here be watched ones."""

    class _Kubelet(WatchedKubelet):
        pass

    _Kubelet.blind = blind
    _Kubelet.served = staticmethod(served)
    with (
        mock.patch.object(simulated_node.kubelet, "Kubelet", _Kubelet),
        mock.patch.object(vendor_plugins, "every_plugin", _every_plugin),
    ):
        yield


_real_every_plugin = vendor_plugins.every_plugin


@functools.cache
def _plugins() -> dict[str, vendor_plugins.Plugin]:
    return _real_every_plugin(model_settings.Settings())


def _every_plugin(_settings: model_settings.Settings) -> dict[str, vendor_plugins.Plugin]:
    """Return the plugins of all vendors; they are the same in every history."""
    return _plugins()


class SimulatedNode:
    """One node as a process of its own."""

    def __init__(
        self, name: str, entry: Json, client: kube_client.KubeClient, clock: kube_clock.Clock
    ) -> None:
        self.name = name
        self.handle: simulated_node.SimulatedNode | None = None
        self._one_at_a_time = asyncio.Lock()
        self._simulation = spec.build({"nodes": [entry], "roundInterval": ROUND_S})
        self._client = client
        self._clock = clock

    async def turn(self, turn: Callable[[simulated_node.SimulatedNode], Awaitable[None]]) -> None:
        """Turn one of the node's handles, after those that are being turned."""
        async with self._one_at_a_time:
            if self.handle is not None:
                await turn(self.handle)

    async def run(self) -> None:
        """Register, serve, report until killed."""
        async with simulator.Simulator(self._client, self._simulation, self._clock) as playing:
            self.handle = playing.node(self.name)
            await playing.failure()
