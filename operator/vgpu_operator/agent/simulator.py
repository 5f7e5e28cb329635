"""Any number of simulated nodes in one process, with one watch for all their pods."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Self

import structlog

from vgpu_operator.agent import node as simulated_node
from vgpu_operator.agent import objects, perform, plugins, spec, tasks
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths
from vgpu_operator.model import settings as model_settings

BOUND_PODS: Mapping[str, str] = {"fieldSelector": "spec.nodeName!="}

RECONNECT_PAUSE_S = 0.5
"""Between the end of a watch and the next one."""

REGISTERING_AT_ONCE = 16


class Simulator:
    """Plays the nodes of a simulation while it is entered.

    Use::

        async with Simulator(client, simulation, clock) as sim:
            await sim.node("sim-1").vanish()

    Leaving it stops all activity and leaves the objects as they are.
    """

    def __init__(
        self,
        client: kube_client.KubeClient,
        simulation: spec.Simulation,
        clock: kube_clock.Clock,
        *,
        settings: model_settings.Settings | None = None,
        sleep: perform.Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._simulation = simulation
        self._clock = clock
        self._sleep = sleep
        self._plugins = plugins.every_plugin(settings or model_settings.Settings())
        spec.refuse_unknown_vendors(simulation, self._plugins)
        self._log = structlog.get_logger()
        self._nodes: dict[str, simulated_node.SimulatedNode] = {}
        self._tasks: tasks.Tasks | None = None

    async def __aenter__(self) -> Self:
        self._tasks = tasks.Tasks()
        try:
            await self._start(self._tasks)
        except BaseException:
            await self._tasks.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._tasks is not None:
            await self._tasks.stop()

    def node(self, name: str) -> simulated_node.SimulatedNode:
        """Return one node, to turn its switches."""
        return self._nodes[name]

    @property
    def nodes(self) -> Mapping[str, simulated_node.SimulatedNode]:
        """All nodes by name."""
        return self._nodes

    async def failure(self) -> None:
        """Wait until something inside breaks, and raise it."""
        if self._tasks is not None:
            await self._tasks.failure()

    async def _start(self, running: tasks.Tasks) -> None:
        """Register every node, then serve the pods that are bound already, then watch."""
        for entry in self._simulation.nodes:
            spoken = {
                word: plugins.speaking(plugin, entry.dialect)
                for word, plugin in self._plugins.items()
            }
            for name in entry.names:
                self._nodes[name] = simulated_node.SimulatedNode(
                    name,
                    entry,
                    client=self._client,
                    clock=self._clock,
                    plugins=spoken,
                    running=running,
                    heartbeat=self._simulation.heartbeat,
                    sleep=self._sleep,
                )
        await self._wait_for_server()
        await _register_all(self._nodes.values())
        version = await self._take_stock()
        running.start(self._follow_pods(version))
        running.start(self._make_rounds())
        for entry in self._simulation.nodes:
            if entry.failures.vanish_after is not None:
                for name in entry.names:
                    running.start(self._vanish_later(name, entry.failures.vanish_after))
        self._log.info("simulating", nodes=len(self._nodes), server=self._client.server_url)

    async def _wait_for_server(self) -> None:
        """Return once the API server answers; say once that it does not.

        Raises:
            Unauthorized: it answers, and does not accept our credentials.
        """
        said = False
        async for fault in self._client.wait_until_reachable():
            if isinstance(fault, errors.Unauthorized):
                raise fault
            if isinstance(fault, errors.Denied):
                return
            if not said:
                self._log.warning("waiting for the API server", why=str(fault))
            said = True

    # Pods.

    async def _take_stock(self) -> str:
        """List the bound pods, pass them on, and return the list's version."""
        pods, version = await perform.patiently(
            lambda: self._client.list(paths.PODS, params=BOUND_PODS), self._sleep
        )
        listed = {objects.uid(pod) for pod in pods}
        for node in self._nodes.values():
            for uid in node.kubelet.known_uids() - listed:
                node.kubelet.forget(uid)
        for pod in pods:
            self._pass_on(pod)
        return version

    async def _follow_pods(self, version: str) -> None:
        """Watch the bound pods for ever; list again when the version is too old."""
        said = False
        while True:
            try:
                async for event in self._client.watch(
                    paths.PODS, resource_version=version, params=BOUND_PODS
                ):
                    said = False
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] == "DELETED":
                        self._pass_on_deletion(event["object"])
                    elif event["type"] != "BOOKMARK":
                        self._pass_on(event["object"])
            except errors.Expired:
                version = await self._take_stock()
            except errors.ApiError as fault:
                if not said:
                    self._log.warning("the watch of pods broke", why=str(fault))
                said = True
                if not isinstance(fault, errors.Unreachable):
                    version = await self._take_stock()
            await self._sleep(RECONNECT_PAUSE_S)

    def _pass_on(self, pod: objects.Json) -> None:
        node = self._nodes.get(objects.node_of(pod))
        if node is not None:
            node.kubelet.observe(pod)

    def _pass_on_deletion(self, pod: objects.Json) -> None:
        node = self._nodes.get(objects.node_of(pod))
        if node is not None:
            node.kubelet.forget(objects.uid(pod))

    # Nodes.

    async def _make_rounds(self) -> None:
        """Have every plugin look at its node again and again."""
        while True:
            await self._sleep(self._simulation.round_interval)
            found, _ = await perform.patiently(lambda: self._client.list(paths.NODES), self._sleep)
            for raw in found:
                node = self._nodes.get(raw["metadata"]["name"])
                if node is not None:
                    await node.look(raw)

    async def _vanish_later(self, name: str, after_s: float) -> None:
        await self._sleep(after_s)
        await self._nodes[name].vanish()


async def _register_all(nodes: Iterable[simulated_node.SimulatedNode]) -> None:
    """Register many nodes, a bounded number at once; raise the first failure."""
    room = asyncio.Semaphore(REGISTERING_AT_ONCE)

    async def register(node: simulated_node.SimulatedNode) -> None:
        async with room:
            await node.register()

    try:
        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(register(node))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
