"""Keeps the Node's annotations as the plugin wants them, and tells of its cards' health.

HAMi's plugin writes them when it starts and when its cards change, so an edit may
stay. This one follows its Node and repairs an edit at once; its text is always the
same for the same cards, so nothing is written without need.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence

import structlog

from vgpu_operator.agent import plugins, seen
from vgpu_operator.flows import effects_agent
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths
from vgpu_operator.kube import perform as kube_perform
from vgpu_operator.model import device
from vgpu_operator.node_agent import board, node_events
from vgpu_operator.wire import handshake, resource_version

RECONNECT_PAUSE_S = 0.5
"""Between the end of a watch and the next one."""

MOST_REPAIRS = 10
REPAIRS_WITHIN_S = 60.0
"""So many repairs within so long are made at once; more mean that somebody else writes, too."""


class NodeKeeper:
    """Keeps one Node.

    Args:
        node: its name.
        plugin: what is written about the cards.
        cards: the cards as they are now.
        client: the API server.
        clock: what time it is, by the node.
    """

    def __init__(
        self,
        node: str,
        *,
        plugin: plugins.Plugin,
        cards: board.Board,
        client: kube_client.KubeClient,
        clock: kube_clock.Clock,
    ) -> None:
        self._node = node
        self._plugin = plugin
        self._board = cards
        self._client = client
        self._clock = clock
        self._log = structlog.get_logger().bind(node=node)
        self._raw: kube_client.Json | None = None
        self._look = asyncio.Event()
        self._repairs: deque[float] = deque(maxlen=MOST_REPAIRS)
        self._is_braked = False
        self._said = ""
        self._written: Mapping[str, str] = {}

    @property
    def seen(self) -> effects_agent.NodeSeen | None:
        """The Node as its watch has it; None while it has not."""
        return None if self._raw is None else seen.node(self._raw)

    async def follow_node(self) -> None:
        """Watch the Node until cancelled; list again when the watch is too old."""
        selects = {"fieldSelector": f"metadata.name={self._node}"}
        version = ""
        while True:
            try:
                if not version:
                    found, version = await self._client.list(paths.NODES, params=selects)
                    self._take_in(found[0] if found else None)
                async for event in self._client.watch(
                    paths.NODES, resource_version=version, params=selects
                ):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] == "DELETED":
                        self._take_in(None)
                    elif event["type"] != "BOOKMARK":
                        self._take_in(event["object"])
            except errors.ApiError as fault:
                if not isinstance(fault, errors.Expired):
                    self._complain(fault)
                if not isinstance(fault, errors.Unreachable):
                    version = ""
            await asyncio.sleep(RECONNECT_PAUSE_S)

    async def keep(self) -> None:
        """Write what the Node lacks until cancelled."""
        while True:
            await self._look.wait()
            self._look.clear()
            changes = self._lacking()
            if not changes:
                continue
            # Cards that changed are never held back: pods would be put on a sick one.
            if self._are_repairs(changes) and await self._holds_back():
                continue
            await self._write(changes)

    async def follow_cards(self) -> None:
        """Register changed cards until cancelled, and post what happened to them."""
        # A card that is sick from the start is news as well.
        known: Sequence[device.Device] = ()
        told: Sequence[device.Device] = ()
        ration = node_events.Ration()
        async for cards in self._board.follow():
            self._look.set()
            for news in node_events.of_change(known, cards):
                self._log.info(news.message)
            known = cards
            told = await self._tell(told, cards, ration)

    async def _tell(
        self,
        told: Sequence[device.Device],
        cards: Sequence[device.Device],
        ration: node_events.Ration,
    ) -> Sequence[device.Device]:
        """Post what differs from what was told, as far as it may be; return what is told now."""
        untold = set()
        for news in node_events.of_change(told, cards):
            allowed = ration.take(news, now_s=asyncio.get_running_loop().time())
            if allowed is None:
                untold.add(news.card)
            else:
                await self._post(allowed)
        return [
            *(card for card in cards if card.id not in untold),
            *(card for card in told if card.id in untold),
        ]

    def _take_in(self, raw: kube_client.Json | None) -> None:
        if raw is None and self._said != "gone":
            self._log.warning("there is no such node: the kubelet, or --node, has another name")
            self._said = "gone"
        elif raw is not None:
            self._said = ""
            if self._raw is not None and _is_older(raw, self._raw):
                # The answer to our own write was faster than the watch.
                return
        self._raw = raw
        self._look.set()

    def _lacking(self) -> dict[str, str]:
        """Return the annotations to write; none for a Node that is not there."""
        if self._raw is None:
            return {}
        notes = seen.node(self._raw).annotations
        wanted = self._plugin.registers(self._board.cards)
        changes = {key: text for key, text in wanted.items() if notes.get(key) != text}
        key = self._plugin.spec.handshake_key or ""
        asked = handshake.decode_handshake(notes.get(key)).state is handshake.State.REQUESTING
        if asked or changes:
            changes |= self._plugin.reports(self._clock.now())
        return changes

    def _are_repairs(self, changes: Mapping[str, str]) -> bool:
        """Whether we have written the same before: somebody else has changed it since."""
        report = self._plugin.spec.handshake_key
        return all(self._written.get(key) == text for key, text in changes.items() if key != report)

    async def _holds_back(self) -> bool:
        """Return whether a repair has to wait, once there is something to look at again."""
        now_s = asyncio.get_running_loop().time()
        full = len(self._repairs) == MOST_REPAIRS
        left_s = self._repairs[0] + REPAIRS_WITHIN_S - now_s if full else 0.0
        if left_s <= 0:
            self._repairs.append(now_s)
            self._is_braked = False
            return False
        if not self._is_braked:
            self._log.warning(
                "somebody else writes our annotations again and again; is another device "
                "plugin of this vendor running here?",
                waits_s=round(left_s),
            )
        self._is_braked = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._look.wait()
        self._look.set()
        return True

    async def _write(self, changes: Mapping[str, str]) -> None:
        body = {"metadata": {"annotations": dict(changes)}}
        try:
            self._raw = await kube_perform.patiently(
                lambda: self._client.patch(paths.node(self._node), body),
                on_failure=self._complain,
            )
        except errors.NotFound:
            self._take_in(None)
        except errors.ApiError as fault:
            self._complain(fault)
            await asyncio.sleep(RECONNECT_PAUSE_S)
            self._look.set()
        else:
            was_repair = self._are_repairs(changes)
            self._written = {**self._written, **changes}
            event = "repaired the node's annotations" if was_repair else "registered the cards"
            self._log.info(event, keys=",".join(sorted(changes)), cards=len(self._board.cards))

    async def _post(self, news: node_events.News) -> None:
        body = node_events.body(news, node=self._node, now=self._clock.now())
        path = paths.namespaced(body["metadata"]["namespace"], "events")
        try:
            await kube_perform.patiently(
                lambda: self._client.create(path, body), on_failure=self._complain
            )
        except errors.ApiError as fault:
            self._log.warning("an event was not sent", why=str(fault))

    def _complain(self, fault: errors.ApiError) -> None:
        """Say once what is wrong with the API server."""
        if str(fault) != self._said:
            self._log.warning("the API server does not do as asked", why=str(fault))
        self._said = str(fault)


def _is_older(raw: kube_client.Json, known: kube_client.Json) -> bool:
    """Whether a Node is an earlier state of the same object."""
    one, other = raw["metadata"], known["metadata"]
    return bool(one["uid"] == other["uid"]) and resource_version.is_earlier(
        one["resourceVersion"], other["resourceVersion"]
    )
