"""A cluster in memory for interleaved binds: an API server, plugins, and leaders with old views.

Everything that may go wrong between a leader and the API server goes wrong by
a seeded die: conflicts, answers that are lost before or after the write, writes
that happen much later, watches that lag, restarts, two leaders at once. Only
the API server's own rules are kept: one version for everything, preconditions,
a Binding that is all or nothing, watches in order for each kind.
"""

import copy
import datetime
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from support import operator_books, pods
from support.dialogue import Dialogue
from vgpu_operator.flows import bind, books, effects, locks, pod_events, reconcile, register
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import errors, request
from vgpu_operator.vendors import records
from vgpu_operator.wire import extender, pod_devices

LOCK = "hami.io/mutex.lock"
NODE = "hami.io/vgpu-node"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"
CARD_MIB = 10000
SLOTS = 3

Json = dict[str, Any]


class Violation(AssertionError):
    """An invariant was broken."""


@dataclass(slots=True)
class Api:
    """Raw Nodes and Pods, and everything that happened to them in order."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    history: list[tuple[str, str, Json]] = field(default_factory=list)
    version: int = 0

    def write(self, kind: str, raw: Json) -> str:
        """Store an object under a new version."""
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        key = raw["metadata"]["name" if kind == "node" else "uid"]
        (self.nodes if kind == "node" else self.pods)[key] = raw
        self.history.append((kind, "seen", copy.deepcopy(raw)))
        return str(self.version)

    def remove_pod(self, uid: str) -> None:
        """Delete a pod for good."""
        self.version += 1
        self.history.append(("pod", "gone", self.pods.pop(uid)))

    def perform(self, effect: effects.Effect) -> Any:
        """Do what an effect asks for, as the API server would.

        Raises:
            effects.EffectFailed: a precondition does not hold, or it is not there.
        """
        match effect:
            case effects.PatchNode():
                return self._patch_node(effect)
            case effects.PatchPod():
                raw = self._pod(effect.pod)
                _merge(raw, effect.annotations)
                return self.write("pod", raw)
            case effects.BindPod():
                return self._bind(effect)
            case effects.ReadPod():
                return next(
                    (r for r in self.pods.values() if r["metadata"]["name"] == effect.name), None
                )
            case effects.ListNodePods():
                return [r for r in self.pods.values() if r["spec"].get("nodeName") == effect.node]
        return None

    def _patch_node(self, effect: effects.PatchNode) -> str:
        raw = copy.deepcopy(self.nodes[effect.node])
        wanted = effect.resource_version
        if wanted is not None and wanted != raw["metadata"]["resourceVersion"]:
            raise effects.Conflict("409 version")
        _merge(raw, effect.annotations)
        if raw == self.nodes[effect.node]:
            return str(raw["metadata"]["resourceVersion"])
        return self.write("node", raw)

    def _bind(self, effect: effects.BindPod) -> None:
        raw = self._pod(effect.pod)
        if raw["metadata"]["resourceVersion"] != effect.resource_version:
            raise effects.Conflict("409 version")
        if raw["spec"].get("nodeName"):
            raise effects.Conflict("409 already assigned")
        raw["spec"]["nodeName"] = effect.node
        _merge(raw, effect.annotations)
        self.write("pod", raw)

    def _pod(self, key: request.PodKey) -> Json:
        raw = self.pods.get(key.uid)
        if raw is None:
            raise effects.Missing("404")
        return copy.deepcopy(raw)


def _merge(raw: Json, annotations: Any) -> None:
    notes = {**raw["metadata"].get("annotations", {}), **annotations}
    raw["metadata"]["annotations"] = {k: v for k, v in notes.items() if v is not None}


class Leader:
    """One process that believes that it leads, with its own view."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.books: books.Books
        self.flows: dict[str, Dialogue] = {}
        self.read_up_to: dict[str, int] = {}

    def restart(self, now: datetime.datetime) -> None:
        """Forget everything and take in one complete list."""
        self.books = operator_books.open_books()
        self.flows = {}
        self.read_up_to = dict.fromkeys(("node", "pod"), len(self.api.history))
        operator_books.list_in(
            self.books,
            nodes=[self.node(raw) for raw in self.api.nodes.values()],
            pods=[self.pod(raw) for raw in self.api.pods.values()],
            version=str(self.api.version),
            now=now,
        )

    def node(self, raw: Json) -> Any:
        return records.node_record(raw, self.books.vendors)

    def pod(self, raw: Json) -> Any:
        return records.pod_record(raw, self.books.vendors, aliases={})

    def behind(self, kind: str) -> bool:
        """Whether this kind's watch has something to show."""
        return any(k == kind for k, _, _ in self.api.history[self.read_up_to[kind] :])

    def see_next(self, kind: str, now: datetime.datetime) -> None:
        """Let the watch of one kind show its next event."""
        for at in range(self.read_up_to[kind], len(self.api.history)):
            happened_to, what, raw = self.api.history[at]
            if happened_to != kind:
                continue
            self.read_up_to[kind] = at + 1
            if kind == "node":
                register.node_seen(self.books, self.node(raw), now)
            elif what == "gone":
                pod_events.pod_gone(self.books, self.pod(raw).key)
            else:
                pod_events.pod_seen(self.books, self.pod(raw))
            return

    def answer(self, effect: effects.Effect) -> Any:
        """Perform an effect and decode what comes of it."""
        outcome = self.api.perform(effect)
        if isinstance(effect, effects.ReadPod):
            return None if outcome is None else self.pod(outcome)
        if isinstance(effect, effects.ListNodePods):
            return tuple(self.pod(raw) for raw in outcome)
        return outcome


class World:
    """The whole simulation; ``step`` does one thing that may happen next."""

    def __init__(self, seed: int, *, n_leaders: int, n_nodes: int) -> None:
        self.die = random.Random(seed)  # noqa: S311  # a die for tests
        self.api = Api()
        self.now = operator_books.NOW
        self.late: list[effects.Effect] = []
        self._names = 0
        for number in range(n_nodes):
            cards = [(f"GPU-{number}{n}", CARD_MIB) for n in range(2)]
            text = operator_books.register_text(*cards, count=SLOTS)
            notes = {
                "hami.io/node-nvidia-register": text,
                "hami.io/node-handshake": operator_books.FRESH_STAMP,
            }
            raw = {
                "metadata": {"name": f"node-{number}", "uid": f"n{number}", "annotations": notes},
                "status": {"allocatable": {"nvidia.com/gpu": "6"}},
            }
            self.api.write("node", raw)
        self.leaders = [Leader(self.api) for _ in range(n_leaders)]
        for leader in self.leaders:
            leader.restart(self.now)

    def step(self) -> None:
        """Do one thing, then check what must always hold."""
        leader = self.die.choice(self.leaders)
        doings = (
            (10, lambda: self.create()),
            (14, lambda: self._schedule(leader)),
            (40, lambda: self._go_on(leader)),
            (30, lambda: leader.see_next(self.die.choice(("node", "pod")), self.now)),
            (14, lambda: self._kubelet()),
            (6, lambda: self._plugin_frees_a_lock()),
            (4, lambda: self._end_or_delete()),
            (4, lambda: self._quick_tick(leader)),
            (4, lambda: self._late_write()),
            (1, lambda: leader.restart(self.now)),
        )
        self.now += datetime.timedelta(seconds=self.die.choice((0, 0, 0, 1, 5)))
        if self.die.random() < 0.04:
            self.now += datetime.timedelta(seconds=301)
        weights = [weight for weight, _ in doings]
        self.die.choices(doings, weights)[0][1]()
        self.check()

    def settle(self) -> None:
        """Let everything come to its end without further faults."""
        for effect in self.late:
            self._perform_quietly(effect)
        self.late = []
        for _ in range(2000):
            self.now += datetime.timedelta(seconds=5)
            busy = False
            for leader in self.leaders:
                busy = busy or leader.behind("node") or leader.behind("pod")
            self.show_all()
            for leader in self.leaders:
                self._quick_tick(leader)
                for uid in list(leader.flows):
                    busy = True
                    self._advance(leader, uid, faults=False)
            served = self._kubelet()
            freed = self._plugin_frees_a_lock()
            self.check()
            if not (busy or served or freed or self._locks()):
                return
        raise Violation(f"the cluster never comes to rest: {self._locks()}")

    def show_all(self) -> None:
        """Let every watch catch up."""
        for leader in self.leaders:
            for kind in ("node", "pod"):
                while leader.behind(kind):
                    leader.see_next(kind, self.now)

    def start_bind(self, leader: Leader, name: str, node: str) -> Dialogue:
        """Have a leader begin to bind that pod to that node."""
        args = extender.BindArgs(namespace="team-a", name=name, uid=f"u-{name}", node=node)
        return Dialogue(bind.bind(leader.books, args, self.now))

    # What may happen.

    def create(self) -> None:
        """Create one more pod, ``p<number>``."""
        self._names += 1
        name = f"p{self._names}"
        limits = {"gpu": self.die.choice((1, 1, 2)), "mem": self.die.choice((2000, 5000, 9000))}
        raw = pods.pod(pods.container("main", **limits), schedulerName="hami-scheduler")
        raw["metadata"] |= {"name": name, "uid": f"u-{name}"}
        raw["status"] = {"phase": "Pending"}
        self.api.write("pod", raw)

    def _schedule(self, leader: Leader) -> None:
        waiting = [
            record
            for record in leader.books.ledger.records()
            if not record.node and not record.ended and record.key.uid not in leader.flows
        ]
        if not waiting:
            return
        record = self.die.choice(waiting)
        names = sorted(leader.books.nodes)
        fitting = flow_filter.filter_nodes(leader.books, record, names, self.now).fitting
        if not fitting:
            return
        args = extender.BindArgs(
            namespace=record.key.namespace,
            name=record.key.name,
            uid=record.key.uid,
            node=self.die.choice(fitting),
        )
        leader.books.binding.add(args.uid)
        leader.flows[args.uid] = Dialogue(bind.bind(leader.books, args, self.now))
        self._finish_if_ended(leader, args.uid)

    def _go_on(self, leader: Leader) -> None:
        if leader.flows:
            self._advance(leader, self.die.choice(sorted(leader.flows)), faults=True)

    def _advance(self, leader: Leader, uid: str, *, faults: bool) -> None:
        talk = leader.flows[uid]
        effect = talk.expects(object)
        if isinstance(effect, effects.AwaitChange):
            if faults and self.die.random() < 0.1:
                talk.fails(effects.GivenUp("the caller hung up"))
            else:
                talk.answers(self.now)
        else:
            self._exchange(leader, talk, effect, faults=faults)
        self._finish_if_ended(leader, uid)

    def _exchange(self, leader: Leader, talk: Dialogue, effect: Any, *, faults: bool) -> None:
        roll = self.die.random() if faults else 1.0
        if roll < 0.05:
            talk.fails(effects.Doubtful("lost on the way there"))
            return
        if roll < 0.1 and isinstance(effect, effects.Write):
            self.late.append(effect)
            talk.fails(effects.Doubtful("lost on the way there, for now"))
            return
        if roll < 0.12:
            talk.fails(effects.Denied("403"))
            return
        try:
            outcome = leader.answer(effect)
        except effects.EffectFailed as fault:
            talk.fails(fault)
            return
        if roll < 0.2:
            talk.fails(effects.Doubtful("lost on the way back"))
        else:
            talk.answers(outcome)

    def _finish_if_ended(self, leader: Leader, uid: str) -> None:
        if leader.flows[uid].ended:
            del leader.flows[uid]
            leader.books.binding.discard(uid)

    def _quick_tick(self, leader: Leader) -> None:
        for effect in reconcile.quick_tick(leader.books, self.now).effects:
            self._perform_quietly(effect)
        for flow in locks.orphans(leader.books, nodes=leader.books.locks.nodes(), now=self.now):
            talk = Dialogue(flow)
            while not talk.ended:
                self._exchange(leader, talk, talk.expects(object), faults=False)

    def _late_write(self) -> None:
        if self.late:
            self._perform_quietly(self.late.pop(self.die.randrange(len(self.late))))

    def _perform_quietly(self, effect: effects.Effect) -> None:
        try:
            self.api.perform(effect)
        except effects.EffectFailed:
            return

    def _kubelet(self) -> bool:
        """Admit one bound pod and have the plugin serve whom it takes for it."""
        todo = [r for r in self.api.pods.values() if _is_unserved(r)]
        if not todo:
            return False
        admitted = copy.deepcopy(self.die.choice(todo))
        admitted["status"] = {"phase": "Pending", "startTime": "2026-01-15T10:00:00Z"}
        self.api.write("pod", admitted)
        served = self._chosen_by_plugin(admitted["spec"]["nodeName"])
        if served["metadata"]["uid"] != admitted["metadata"]["uid"]:
            raise Violation(
                f"the plugin serves {served['metadata']['name']} the call that kubelet made for"
                f" {admitted['metadata']['name']}"
            )
        _merge(served, {TO_ALLOCATE: ";", PHASE: self.die.choice(("success", "success", "failed"))})
        self.api.write("pod", served)
        return True

    def _chosen_by_plugin(self, node: str) -> Json:
        """Return whom the plugin serves: the lock's pod, else the first in ``allocating``."""
        here = [r for r in self.api.pods.values() if _is_unserved(r) and _node_of(r) == node]
        owner = self._locks().get(node, ",,").split(",")[2]
        named = [r for r in here if r["metadata"]["name"] == owner]
        return copy.deepcopy((named or here)[0])

    def _plugin_frees_a_lock(self) -> bool:
        """Remove a lock whose pod the plugin is done with."""
        for node, text in self._locks().items():
            owner = text.split(",")[2]
            for raw in self.api.pods.values():
                is_owner = raw["metadata"]["name"] == owner and _node_of(raw) == node
                if is_owner and _notes(raw).get(PHASE) in ("success", "failed"):
                    self.api.perform(effects.PatchNode(node=node, annotations={LOCK: None}))
                    return True
        return False

    def _end_or_delete(self) -> None:
        if not self.api.pods:
            return
        raw = copy.deepcopy(self.die.choice(list(self.api.pods.values())))
        if _node_of(raw) and not _is_unserved(raw) and self.die.random() < 0.5:
            raw["status"]["phase"] = "Succeeded"
            self.api.write("pod", raw)
        else:
            self.api.remove_pod(raw["metadata"]["uid"])

    # What must hold.

    def check(self) -> None:
        """Check what must hold after every step, from the API server's objects alone."""
        used: dict[str, list[int]] = {}
        for raw in self.api.pods.values():
            notes, node = _notes(raw), _node_of(raw)
            if bool(node) != bool(notes.get(ALLOCATED)) or (node or None) != notes.get(NODE):
                raise Violation(f"bound to {node!r} with {notes}")
            if not node or raw["status"]["phase"] in ("Succeeded", "Failed"):
                continue
            for card, mib in _shares(notes[ALLOCATED]):
                total = used.setdefault(card, [0, 0])
                total[0] += 1
                total[1] += mib
        for card, (slots, mib) in used.items():
            if slots > SLOTS or mib > CARD_MIB:
                raise Violation(f"{card} is promised {slots} times, {mib} MiB")
        unserved = [_node_of(raw) for raw in self.api.pods.values() if _is_unserved(raw)]
        if len(unserved) != len(set(unserved)):
            raise Violation(f"two pods of one node are allocating: {sorted(unserved)}")

    def ledger_of(self, leader: Leader) -> dict[str, Any]:
        """Return what a leader's ledger charges, by node.

        A reservation in doubt ends when its pod is filtered again, so every
        unbound pod is.
        """
        book = leader.books.ledger
        for record in book.records():
            if not record.node and not record.ended:
                flow_filter.filter_nodes(leader.books, record, sorted(self.api.nodes), self.now)
        return {name: book.usage(name, "NVIDIA") for name in sorted(self.api.nodes)}

    def _locks(self) -> dict[str, str]:
        return {
            name: raw["metadata"]["annotations"][LOCK]
            for name, raw in self.api.nodes.items()
            if LOCK in raw["metadata"]["annotations"]
        }


def _notes(raw: Json) -> dict[str, str]:
    found: dict[str, str] = raw["metadata"].get("annotations", {})
    return found


def _node_of(raw: Json) -> str:
    return str(raw["spec"].get("nodeName", ""))


def _is_unserved(raw: Json) -> bool:
    return _notes(raw).get(PHASE) == "allocating" and raw["status"]["phase"] == "Pending"


def _shares(text: str) -> Iterator[tuple[str, int]]:
    decoded = pod_devices.decode_pod_devices(text, key=ALLOCATED, containers=1)
    if decoded.faults:
        raise errors.DecodeError(f"unreadable promise {text!r}")
    for container in decoded.shares:
        for share in container:
            yield share.device_id, share.memory_mib
