"""One simulated node: its object, its cards, and the handles that tests turn."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping

import structlog

from vgpu_operator.agent import kubelet, objects, perform, plugins, spec, switches, tasks
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths
from vgpu_operator.model import device
from vgpu_operator.wire import shape


class SimulatedNode:
    """A node that is an object only, with plugins and a kubelet played by us."""

    def __init__(
        self,
        name: str,
        entry: spec.Node,
        *,
        client: kube_client.KubeClient,
        clock: kube_clock.Clock,
        plugins: Mapping[str, plugins.Plugin],
        running: tasks.Tasks,
        heartbeat: bool = False,
        sleep: perform.Sleep = asyncio.sleep,
    ) -> None:
        self.name = name
        self._entry = entry
        self._client = client
        self._clock = clock
        self._plugins = plugins
        self._heartbeat = heartbeat
        self._sleep = sleep
        self._log = structlog.get_logger().bind(node=name)
        self._devices = dict(entry.devices_of(name))
        self.switches = switches.Switches(
            delay_s=entry.delay,
            stop_s=entry.stop,
            never_answer=entry.failures.never_answer,
            fail=entry.failures.fail,
            die_after_first_container=entry.failures.die_after_first_container,
        )
        self.kubelet = kubelet.Kubelet(
            name,
            self.switches,
            client=client,
            clock=clock,
            plugins=plugins,
            running=running,
            writes_status=entry.kubelet,
            sleep=sleep,
        )

    # Handles.

    def set_failure(
        self,
        *,
        never_answer: bool | None = None,
        fail: bool | None = None,
        die_after_first_container: bool | None = None,
    ) -> None:
        """Change what goes wrong with the next Allocate calls; None leaves a switch as it is."""
        if never_answer is not None:
            self.switches.never_answer = never_answer
        if fail is not None:
            self.switches.fail = fail
        if die_after_first_container is not None:
            self.switches.die_after_first_container = die_after_first_container
        self.switches.touch()

    def set_delay(self, delay_s: float) -> None:
        """Change how long each Allocate call takes from now on."""
        self.switches.delay_s = delay_s

    def pause(self) -> None:
        """Let plugin and kubelet fall silent, as after a kill; objects stay as they are."""
        self.switches.paused = True
        self._log.info("paused")

    def resume(self) -> None:
        """Wake plugin and kubelet: they go on where they were."""
        self.switches.paused = False
        self.switches.die_after_first_container = False
        self.switches.touch()
        self._log.info("resumed")

    async def vanish(self) -> None:
        """End the plugins: the kubelet sets allocatable to 0 and rejects new pods."""
        self.switches.vanished = True
        self.switches.touch()
        await self._write_counts()
        self._log.info("plugin vanished")

    async def come_back(self) -> None:
        """Start the plugins again: cards are registered, allocatable returns."""
        self.switches.vanished = False
        await self._write_annotations()
        await self._write_counts()
        self.resume()
        self._log.info("plugin came back")

    async def set_healthy(self, card_id: str, healthy: bool) -> None:
        """Change one card's health and register it anew.

        Raises:
            KeyError: the node has no such card.
        """
        for vendor, devices in self._devices.items():
            if any(card.id == card_id for card in devices):
                self._devices[vendor] = tuple(
                    dataclasses.replace(card, healthy=healthy) if card.id == card_id else card
                    for card in devices
                )
                break
        else:
            raise KeyError(f"node {self.name} has no card {card_id}")
        await self._write_annotations()
        await self._write_counts()
        self._log.info("card is healthy" if healthy else "card is not healthy", card=card_id)

    @property
    def cards(self) -> tuple[device.Device, ...]:
        """All cards of the node, vendor by vendor."""
        return tuple(card for devices in self._devices.values() for card in devices)

    # What the plugins and the kubelet write about the node.

    async def register(self) -> None:
        """Create the Node, or take over one that exists, with all cards registered."""
        body = objects.new_node(
            self.name,
            self._entry,
            notes=self._registers() | self._reports(),
            labels=self._labels(),
            counts=self._counts(),
            now=self._clock.now(),
        )
        try:
            made = await perform.patiently(
                lambda: self._client.create(paths.NODES, body), self._sleep
            )
        except errors.Conflict:
            await self._write_annotations()
            await self._write_counts()
            self._log.info("registered on the existing node", cards=len(self.cards))
            return
        await self._untaint(made)
        self._log.info("registered on a new node", cards=len(self.cards))

    async def look(self, node: objects.Json) -> None:
        """Repair the register annotations of the node as it was just seen, and report."""
        if self.switches.paused:
            return
        if self._heartbeat:
            body = objects.heartbeat_patch(node, self._clock.now())
            await self._patch(f"{paths.node(self.name)}/status", body)
        if self.switches.vanished:
            return
        seen = objects.annotations(node)
        changes = {k: v for k, v in self._registers().items() if seen.get(k) != v}
        if changes:
            self._log.info("repaired the register annotation")
        changes |= self._reports()
        if changes:
            await self._annotate(changes)

    def _registers(self) -> dict[str, str]:
        """Return the annotations that the plugins keep up; what the file says wins."""
        notes: dict[str, str] = {}
        for plugin, devices in self._by_plugin():
            notes |= plugin.registers(devices)
        return notes | dict(self._entry.annotations)

    def _labels(self) -> dict[str, str]:
        """Return the labels that say something of the cards."""
        labels: dict[str, str] = {}
        for plugin, devices in self._by_plugin():
            labels |= plugin.labels(devices)
        return labels

    def _reports(self) -> dict[str, str]:
        """Return the handshake annotations, where this node's plugins write any."""
        if self._entry.handshake is False:
            return {}
        now, always = self._clock.now(), bool(self._entry.handshake)
        notes: dict[str, str] = {}
        for plugin, _ in self._by_plugin():
            notes |= plugin.reports(now, always=always)
        return notes

    def _counts(self) -> dict[str, tuple[int, int]]:
        """Return capacity and allocatable by resource name."""
        counts: dict[str, tuple[int, int]] = {}
        for plugin, devices in self._by_plugin():
            usable = tuple(card for card in devices if card.healthy and not self.switches.vanished)
            free = plugin.counts(usable)
            counts |= {name: (total, free[name]) for name, total in plugin.counts(devices).items()}
        return counts

    def _by_plugin(self) -> Iterator[tuple[plugins.Plugin, tuple[device.Device, ...]]]:
        for vendor, devices in self._devices.items():
            yield self._plugins[vendor], devices

    async def _write_annotations(self) -> None:
        await self._annotate(self._registers() | self._reports())

    async def _annotate(self, notes: Mapping[str, str]) -> None:
        body = {"metadata": {"annotations": dict(notes)}}
        await self._patch(paths.node(self.name), body)

    async def _write_counts(self) -> None:
        await self._patch(f"{paths.node(self.name)}/status", objects.counts_patch(self._counts()))

    async def _patch(self, path: str, body: objects.Json) -> None:
        """Patch the node; one that somebody deleted stays deleted."""
        try:
            await perform.patiently(lambda: self._client.patch(path, body), self._sleep)
        except errors.NotFound:
            self._log.warning("the node is gone")

    async def _untaint(self, node: objects.Json) -> None:
        """Remove the taint of a node that is not ready yet: nobody else would."""
        taints = shape.mappings(shape.mapping(node.get("spec")).get("taints"))
        kept = [taint for taint in taints if taint.get("key") != objects.NOT_READY_TAINT]
        if len(kept) < len(taints):
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(paths.node(self.name), {"spec": {"taints": kept or None}})
