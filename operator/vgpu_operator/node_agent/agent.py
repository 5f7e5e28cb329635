"""The node agent as a whole: a back end, the kubelet's plugin, and the Node's keeper."""

import asyncio
from collections.abc import Sequence

import structlog

from vgpu_operator.agent import manners, plugins
from vgpu_operator.flows import effects, serve
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.model import device, errors
from vgpu_operator.model import settings as model_settings
from vgpu_operator.node_agent import (
    backend,
    board,
    configuration,
    desk,
    device_list,
    node_keeper,
    plugin_socket,
    pod_resources,
    service,
    switches,
)

RETRY_S = 5.0
"""How long to wait before the cards are asked for again, or the lock is looked at again."""

TIDY_LIMIT_S = 4.0
"""How long one look may take: no call is answered meanwhile."""

MOST_LOOKS = 6
"""How often the lock is looked at after a start, and after an answer that was lost."""


async def prepare(
    configured: configuration.Configuration,
    client: kube_client.KubeClient,
    *,
    clock: kube_clock.Clock | None = None,
) -> "Agent":
    """Return an agent that knows its cards, once they can be told.

    Raises:
        SettingsError: the configuration, the card file or the kubelet's folder is wrong.
    """
    if not configured.node:
        raise errors.SettingsError(
            "give the name of this machine's Node, with --node or in the variable NODE_NAME"
        )
    if not configured.kubelet_dir.is_dir():
        raise errors.SettingsError(
            f"{configured.kubelet_dir} is no folder: name the kubelet's folder of device plugins "
            "with --kubelet-dir"
        )
    cards = _backend(configured)
    try:
        first = await _first_cards(cards, node=configured.node)
        device_list.refuse_too_many(first)
        return Agent(
            configured,
            client,
            cards=cards,
            first=first,
            clock=clock or kube_clock.SystemClock(),
        )
    except BaseException:
        await cards.close()
        raise


class Agent:
    """The parts, wired together.

    Args:
        configured: what the command line says.
        client: the API server.
        cards: the back end.
        first: what it told first.
        clock: what time it really is.
    """

    def __init__(
        self,
        configured: configuration.Configuration,
        client: kube_client.KubeClient,
        *,
        cards: backend.Backend,
        first: Sequence[device.Device],
        clock: kube_clock.Clock,
    ) -> None:
        self._configured = configured
        self._backend = cards
        self._log = structlog.get_logger().bind(node=configured.node)
        self._unsure = asyncio.Event()
        self._is_sick = False
        self._board = board.Board(first)
        self._plugin, vendor = _plugin(configured, cards.vendor)
        self._desk = desk.Desk(client, resource=self._plugin.resource)
        self.keeper = node_keeper.NodeKeeper(
            configured.node,
            plugin=vendor,
            cards=self._board,
            client=client,
            clock=switches.SkewedClock(clock, ahead_s=configured.switches.clock_skew_s),
        )
        self.service = service.DevicePlugin(
            service.Surroundings(
                plugin=self._plugin,
                backend=cards,
                board=self._board,
                desk=self._desk,
                pod_resources=pod_resources.Lister(
                    configured.pod_resources, resource=self._plugin.resource
                ).held,
                node=lambda: self.keeper.seen,
                switches=configured.switches,
                on_unsure=self._unsure.set,
            )
        )
        self.socket = plugin_socket.PluginSocket(
            configured.kubelet_dir, resource=self._plugin.resource, plugin=self.service
        )

    async def run(self) -> None:
        """Be the device plugin of this node until cancelled, or until a part breaks for good.

        Raises:
            SettingsError: the kubelet's folder is not ours to serve in.
        """
        self._log.info("serving", backend=self._configured.backend, cards=len(self._board.cards))
        parts = (
            self.keeper.follow_node(),
            self.keeper.keep(),
            self.keeper.follow_cards(),
            self._follow_backend(),
            self._fall_ill(),
            self._tidy(),
            self.socket.run(),
        )
        try:
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(part)
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from faults
        finally:
            await self.service.settle()
            await self._backend.close()

    async def _follow_backend(self) -> None:
        async for cards in self._backend.changes():
            try:
                device_list.refuse_too_many(cards)
            except errors.SettingsError as fault:
                self._log.warning("kept the cards as they were", why=str(fault))
            else:
                self._put(cards)

    async def _fall_ill(self) -> None:
        """Call the first card unhealthy when its time has come, if it ever does."""
        after_s = self._configured.switches.unhealthy_after_s
        if after_s is not None:
            await asyncio.sleep(after_s)
            self._is_sick = True
            self._put(self._board.cards)

    def _put(self, cards: Sequence[device.Device]) -> None:
        self._board.put(switches.first_unhealthy(cards) if self._is_sick else cards)

    async def _tidy(self) -> None:
        """Finish what was left half done: before this agent, or by an answer that was lost."""
        while True:
            # What becomes unsure from here on is looked at once more.
            self._unsure.clear()
            looks = 0
            while looks < MOST_LOOKS:
                done = await self._tidy_once()
                if done:
                    break
                # One that the API server did not answer is none.
                looks += done is not None
                # The pod's end may be a moment away: the kubelet has yet to write it.
                await asyncio.sleep(RETRY_S)
            await self._unsure.wait()

    async def _tidy_once(self) -> bool | None:
        """Return whether there was something to finish; None when that cannot be told."""
        try:
            async with self.service.my_turn(TIDY_LIMIT_S) as left_s:
                done = await self._desk.run(serve.tidy(self._plugin), within_s=left_s)
        except service.BusyError:
            return None
        except effects.EffectFailed as fault:
            self._log.warning("could not look after the node's lock", why=str(fault))
            return None if isinstance(fault, effects.Doubtful) else False
        if done:
            self._log.info(done)
        return bool(done)


def _backend(configured: configuration.Configuration) -> backend.Backend:
    """Return the back end that the command line asks for."""
    if configured.backend == "nvml":
        from vgpu_operator.node_agent import enforcement, nvml_cards
        from vgpu_operator.node_agent.backends import nvml

        options = nvml_cards.Options(
            slots=configured.split_count,
            memory_scaling=configured.memory_scaling,
            memory_where_untold_mib=configured.memory_where_untold_mib,
            ignored_xids=configured.ignored_xids,
        )
        enforced = enforcement.Enforcement(configured.host_dir)
        return nvml.NvmlBackend(options, enforced=enforced)
    from vgpu_operator.node_agent.backends import simulated

    if configured.cards is None:
        raise errors.SettingsError(
            "give a file that describes the simulated cards, with --cards; "
            "for two of NVIDIA's it says: cards: 2"
        )
    return simulated.SimulatedBackend(
        configured.cards, node=configured.node, host_dir=configured.host_dir
    )


async def _first_cards(cards: backend.Backend, *, node: str) -> tuple[device.Device, ...]:
    """Return the cards once the back end can tell; say once why it cannot."""
    said = ""
    while True:
        try:
            return await cards.cards()
        except errors.SettingsError:
            raise
        except errors.VgpuError as fault:
            if str(fault) != said:
                structlog.get_logger().warning("waiting for the cards", node=node, why=str(fault))
            said = str(fault)
        await asyncio.sleep(RETRY_S)


def _plugin(
    configured: configuration.Configuration, keyword: str
) -> tuple[serve.Plugin, plugins.Plugin]:
    """Return what the agent is to the node, and what it writes there.

    Raises:
        SettingsError: that vendor's plugin does not take entries off pods by the lock.
    """
    every = plugins.every_plugin(model_settings.Settings())
    vendor = every[keyword]
    spec = vendor.spec
    if vendor.manners.serving is not manners.Serving.ENTRY or not (spec.lock and spec.register_key):
        raise errors.SettingsError(
            f"{keyword} cards are not handed out by the node lock, so this agent cannot serve "
            "them; vgpu agent --simulate plays such nodes"
        )
    others = [
        other.spec.to_allocate_key
        for other in every.values()
        if other.spec.lock == spec.lock
        and other.manners.serving is manners.Serving.ENTRY
        and other.spec.keyword != keyword
    ]
    plugin = serve.Plugin(
        node=configured.node,
        spec=spec,
        resource=configured.resource or spec.count_resource,
        others=tuple(key for key in others if key),
    )
    return plugin, vendor
