"""Kubelets and device plugins of the cluster in memory: each plugin knows only its own key.

A kubelet takes in one pod at a time: it calls the plugin of every vendor that
the pod asks, one after the other, and writes a start time when all have
answered. A plugin's answer is several writes, and anything may happen between
two of them. It names no pod: whom it serves is the plugin's guess.
"""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from vgpu_operator.flows import effects
from vgpu_operator.wire import pod_devices

Json = dict[str, Any]


class Violation(AssertionError):
    """An invariant was broken."""


class Api(Protocol):
    """The part of the API server that kubelets and plugins write to."""

    nodes: dict[str, Json]
    pods: dict[str, Json]

    def write(self, kind: str, raw: Json) -> str:
        """Store an object under a new version."""

    def perform(self, effect: effects.Effect) -> Any:
        """Do what an effect asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What one vendor's plugin reads and writes.

    Attributes:
        to_allocate: its pod annotation.
        lock: its node annotation.
        phase: the pod annotation with the bind phase.
        pending: the phases of a pod that it takes where the lock names nobody.
        mark: the pod annotation that it goes by instead of all these.
    """

    to_allocate: str
    lock: str = "hami.io/mutex.lock"
    phase: str = "hami.io/bind-phase"
    pending: tuple[str, ...] = ("allocating", "success")
    mark: str = ""

    def owes(self, raw: Json) -> bool:
        """Whether the pod is still to be served by this plugin."""
        text = notes_of(raw).get(self.to_allocate, "")
        if self.mark:
            return bool(text) and notes_of(raw).get(self.mark) == "false"
        return not pod_devices.is_served(text)

    def takes(self, raw: Json) -> bool:
        """Whether it may take the pod for the one that the call is for, without a lock."""
        phase = notes_of(raw).get(self.phase)
        return self.owes(raw) and is_pending(raw) and bool(self.mark or phase in self.pending)


PLUGINS = {
    "NVIDIA": Plugin(to_allocate="hami.io/vgpu-devices-to-allocate"),
    "DCU": Plugin(to_allocate="hami.io/dcu-devices-to-allocate"),
    "MLU": Plugin(
        to_allocate="hami.io/cambricon-mlu-devices-to-allocate",
        lock="cambricon.com/dsmlu.lock",
        mark="CAMBRICON_DSMLU_ASSIGNED",
    ),
    "4pd": Plugin(
        to_allocate="4pd.io/devices-to-allocate",
        lock="4pd.io/mutex.lock",
        phase="4pd.io/bind-phase",
        pending=("allocating",),
    ),
}

LOCKS = tuple(sorted({plugin.lock for plugin in PLUGINS.values()}))


def notes_of(raw: Json) -> dict[str, str]:
    """Return an object's annotations."""
    found: dict[str, str] = raw["metadata"].get("annotations", {})
    return found


def node_of(raw: Json) -> str:
    """Return the node that a pod is bound to, empty while it is not."""
    return str(raw["spec"].get("nodeName", ""))


def is_pending(raw: Json) -> bool:
    """Whether a pod is bound and no container of it runs."""
    return bool(node_of(raw)) and raw["status"]["phase"] == "Pending"


def is_awaited(raw: Json) -> bool:
    """Whether a pod is bound and its kubelet has not taken it in."""
    return is_pending(raw) and "startTime" not in raw["status"]


def needs(raw: Json) -> set[str]:
    """Return the locks under which a plugin may still be called for the pod."""
    failed = any(notes_of(raw).get(plugin.phase) == "failed" for plugin in PLUGINS.values())
    if failed or not is_awaited(raw):
        return set()
    return {plugin.lock for plugin in PLUGINS.values() if plugin.owes(raw)}


class Kubelets:
    """The kubelets of all nodes; ``step`` lets one of them go on by one write."""

    def __init__(self, api: Api, die: random.Random) -> None:
        self._api = api
        self._die = die
        self._at_work: dict[str, Iterator[None]] = {}

    def step(self) -> bool:
        """Let one kubelet do one thing; say whether there was anything to do."""
        begun = sorted(self._at_work)
        waiting = sorted(
            uid
            for uid, raw in self._api.pods.items()
            if is_awaited(raw) and node_of(raw) not in self._at_work
        )
        if not begun and not waiting:
            return False
        if waiting and (not begun or self._die.random() < 0.5):
            uid = self._die.choice(waiting)
            node = node_of(self._api.pods[uid])
            self._at_work[node] = self._take_in(uid, node)
        else:
            node = self._die.choice(begun)
        if next(self._at_work[node], self) is self:
            del self._at_work[node]
        return True

    def finish(self) -> None:
        """Let all answers under way come to their end: none takes minutes."""
        for work in self._at_work.values():
            for _ in work:
                pass
        self._at_work = {}

    def _take_in(self, uid: str, node: str) -> Iterator[None]:
        for plugin in PLUGINS.values():
            if uid not in self._api.pods:
                return
            if not plugin.owes(self._api.pods[uid]):
                continue
            chosen = self._chosen(plugin, node)
            if chosen != uid:
                raise Violation(f"the plugin serves {chosen} the call that was made for {uid}")
            yield from self._serve(plugin, uid, node)
            if uid in self._api.pods and notes_of(self._api.pods[uid])[plugin.phase] == "failed":
                self._status(uid, phase="Failed")
                return
        if uid in self._api.pods:
            self._status(uid, startTime="2026-01-15T10:00:00Z")

    def _chosen(self, plugin: Plugin, node: str) -> str:
        """Return whom the plugin serves: the lock's pod, else the first that it may mean.

        Of pods that have nothing for it, the real one may take one too; it then
        serves nobody.
        """
        here = [raw for raw in self._api.pods.values() if node_of(raw) == node]
        owner = notes_of(self._api.nodes[node]).get(plugin.lock, "").partition(",")[2]
        named = [raw for raw in here if f"team-a,{raw['metadata']['name']}" == owner]
        pending = sorted(
            (raw for raw in here if plugin.takes(raw)), key=lambda raw: str(raw["metadata"]["name"])
        )
        return next((str(raw["metadata"]["uid"]) for raw in named or pending), "nobody")

    def _serve(self, plugin: Plugin, uid: str, node: str) -> Iterator[None]:
        """Write what the plugin writes, one thing after the other."""
        if plugin.mark:
            self._annotate(uid, {plugin.mark: "true"})
        elif self._die.random() < 0.2:
            self._annotate(uid, {plugin.phase: "failed"})
        else:
            self._annotate(uid, {plugin.to_allocate: ";"})
            yield
            self._annotate(uid, {plugin.phase: "success"})
        yield
        name = uid.removeprefix("u-")
        owner = notes_of(self._api.nodes[node]).get(plugin.lock, "").partition(",")[2]
        if plugin.mark or owner in ("", f"team-a,{name}"):
            self._api.perform(effects.PatchNode(node=node, annotations={plugin.lock: None}))
        yield

    def _annotate(self, uid: str, texts: dict[str, str]) -> None:
        if uid in self._api.pods:
            raw = copy.deepcopy(self._api.pods[uid])
            raw["metadata"]["annotations"] = {**notes_of(raw), **texts}
            self._api.write("pod", raw)

    def _status(self, uid: str, **fields: str) -> None:
        raw = copy.deepcopy(self._api.pods[uid])
        raw["status"] = {**raw["status"], **fields}
        self._api.write("pod", raw)
