"""A cluster in memory for interleaved binds: an API server, plugins, and leaders with old views.

Everything that may go wrong between a leader and the API server goes wrong by
a seeded die: conflicts, answers that are lost before or after the write, writes
that happen much later, watches that lag, restarts, two leaders at once. Only
the API server's own rules are kept: one version for everything, preconditions,
a Binding that is all or nothing, watches in order for each kind.
"""

import contextlib
import copy
import datetime
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from support import operator_books, pods
from support.bind_kubelet import LOCKS, Kubelets, Violation, needs, node_of, notes_of
from support.dialogue import Dialogue
from vgpu_operator.flows import (
    bind,
    books,
    effects,
    lock_needs,
    locks,
    pod_events,
    reconcile,
    register,
)
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import request
from vgpu_operator.vendors import records
from vgpu_operator.wire import extender

CARD_MIB = 10000
SLOTS = 3

Json = dict[str, Any]

REGISTERS = (
    ("hami.io/node-nvidia-register", "hami.io/node-handshake"),
    ("4pd.io/node-nvidia-register", "4pd.io/node-handshake"),
)
"""Where NVIDIA's plugin registers, and its handshake: today, and the forerunner's."""

ONE_OF = {
    "NVIDIA": {"nvidia.com/gpu": "1"},
    "DCU": {"hygon.com/dcunum": "1", "hygon.com/dcumem": "1000", "hygon.com/dcucores": "10"},
    "MLU": {
        "cambricon.com/vmlu": "1",
        "cambricon.com/mlu.smlu.vmemory": "1",
        "cambricon.com/mlu.smlu.vcore": "10",
    },
}
"""What a container asks of a vendor besides NVIDIA, by keyword."""


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
                news = register.node_seen(self.books, self.node(raw), now)
            elif what == "gone":
                news = pod_events.pod_gone(self.books, self.pod(raw).key)
            else:
                news = pod_events.pod_seen(self.books, self.pod(raw))
            for effect in lock_needs.put_back(self.books, nodes=news.nodes, now=now):
                with contextlib.suppress(effects.EffectFailed):
                    self.api.perform(effect)
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
    """The whole simulation; ``step`` does one thing that may happen next.

    Args:
        seed: of the die.
        n_leaders: how many processes believe that they lead.
        n_nodes: how many nodes there are.
        vendors: whose cards every node has; pods ask for one or several of them.
        forerunner: the nodes register in the dialect of k8s-vgpu-scheduler.
        moving: NVIDIA's plugins are replaced now and then: by the forerunner's,
            or by today's.
    """

    def __init__(
        self,
        seed: int,
        *,
        n_leaders: int,
        n_nodes: int,
        vendors: Sequence[str] = ("NVIDIA",),
        forerunner: bool = False,
        moving: bool = False,
    ) -> None:
        self.die = random.Random(seed)  # noqa: S311  # a die for tests
        self.api = Api()
        self.kubelets = Kubelets(self.api, self.die)
        self.now = operator_books.NOW
        self.late: list[effects.Effect] = []
        self._vendors = vendors
        self._moving = moving
        self._bare = forerunner or moving or "MLU" in vendors
        self._read: dict[str, tuple[str, Any]] = {}
        self._names = 0
        for number in range(n_nodes):
            self.api.write("node", self._new_node(number, forerunner=forerunner))
        self.leaders = [Leader(self.api) for _ in range(n_leaders)]
        for leader in self.leaders:
            leader.restart(self.now)

    def _new_node(self, number: int, *, forerunner: bool) -> Json:
        cards = [(f"GPU-{number}{n}", CARD_MIB) for n in range(2)]
        text = operator_books.register_text(*cards, count=SLOTS)
        place, stamp = REGISTERS[forerunner]
        notes = {place: text, stamp: operator_books.FRESH_STAMP}
        offered = {"nvidia.com/gpu": "6"}
        if "DCU" in self._vendors:
            notes["hami.io/node-dcu-register"] = (
                f"DCU-{number},{SLOTS},{CARD_MIB},100,DCU-K100_AI,0,true,0,hami-core:"
            )
            notes["hami.io/node-handshake-dcu"] = operator_books.FRESH_STAMP
            offered["hygon.com/dcunum"] = "3"
        if "MLU" in self._vendors:
            offered |= {
                "cambricon.com/mlu.smlu.vcore": "200",
                "cambricon.com/mlu.smlu.vmemory": "80",
                "cambricon.com/vmlu": "200",
            }
        return {
            "metadata": {"name": f"node-{number}", "uid": f"n{number}", "annotations": notes},
            "status": {"allocatable": offered, "capacity": offered},
        }

    def step(self) -> None:
        """Do one thing, then check what must always hold."""
        leader = self.die.choice(self.leaders)
        doings = (
            (14, lambda: self.create()),
            (30, lambda: self._schedule(leader)),
            (60, lambda: self._go_on(leader)),
            (90, lambda: leader.see_next(self.die.choice(("node", "pod")), self.now)),
            (110, lambda: self.kubelets.step()),
            (10, lambda: self._end_or_delete()),
            (4, lambda: self._quick_tick(leader)),
            (4, lambda: self._late_write()),
            (1, lambda: leader.restart(self.now)),
            (20 if self._moving else 0, lambda: self.move(self.die.choice(sorted(self.api.nodes)))),
        )
        self.now += datetime.timedelta(seconds=self.die.choice((0, 0, 0, 1, 5)))
        if self.die.random() < 0.02:
            self._minutes_pass()
        weights = [weight for weight, _ in doings]
        self.die.choices(doings, weights)[0][1]()
        self.check()

    def _minutes_pass(self) -> None:
        """Let every lock expire; no request and no plugin takes so long.

        Where a lock names its owner, a Binding may: its owner is fenced.
        """
        self.kubelets.finish()
        if self._bare:
            while self.late:
                self._late_write()
        self.now += datetime.timedelta(seconds=301)

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
            served = self.kubelets.step()
            self.check()
            if not (busy or served or self._locks()):
                return
        raise Violation(f"the cluster never comes to rest: {self._locks()}")

    def show_all(self) -> None:
        """Let every watch catch up."""
        for leader in self.leaders:
            for kind in ("node", "pod"):
                while leader.behind(kind):
                    leader.see_next(kind, self.now)

    def move(self, node: str) -> None:
        """Have that node's plugin of NVIDIA replaced by the one of the other dialect."""
        notes = notes_of(self.api.nodes[node])
        old, new = REGISTERS if REGISTERS[0][0] in notes else REGISTERS[::-1]
        changes: dict[str, str | None] = dict.fromkeys(old)
        changes |= {place: notes[before] for before, place in zip(old, new, strict=True)}
        self.api.perform(effects.PatchNode(node=node, annotations=changes))

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
        wanted = [pods.container("main", **limits)]
        if len(self._vendors) > 1:
            chosen = self.die.sample(self._vendors, self.die.choice((1, 1, 2, len(self._vendors))))
            wanted = [
                {"name": word.lower(), "image": "busybox", "resources": {"limits": ONE_OF[word]}}
                for word in chosen
            ]
            if "NVIDIA" in chosen:
                wanted[chosen.index("NVIDIA")] = pods.container("nvidia", **limits)
        raw = pods.pod(*wanted, schedulerName="hami-scheduler")
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
        args = operator_books.bind_args(record, self.die.choice(fitting))
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
                self.now += datetime.timedelta(seconds=effect.at_most_s or 0)
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

    def _end_or_delete(self) -> None:
        if not self.api.pods:
            return
        raw = copy.deepcopy(self.die.choice(list(self.api.pods.values())))
        if "startTime" in raw["status"] and self.die.random() < 0.8:
            raw["status"]["phase"] = "Succeeded"
            self.api.write("pod", raw)
        else:
            self.api.remove_pod(raw["metadata"]["uid"])

    # What must hold.

    def check(self) -> None:
        """Check what must hold after every step, from the API server's objects alone."""
        used: dict[str, list[int]] = {}
        needed: dict[tuple[str, str], list[str]] = {}
        for raw in self.api.pods.values():
            seen, node = self._record(raw), node_of(raw)
            if bool(node) != bool(seen.promised) or node != seen.promised_node or seen.faults:
                raise Violation(f"bound to {node!r} with {notes_of(raw)}")
            for lock in needs(raw):
                needed.setdefault((node, lock), []).append(seen.key.name)
            if not node or raw["status"]["phase"] in ("Succeeded", "Failed"):
                continue
            for containers in seen.promised.values():
                for share in itertools.chain.from_iterable(containers):
                    total = used.setdefault(share.device_id, [0, 0])
                    total[0] += 1
                    total[1] += share.memory_mib
        for card, (slots, mib) in used.items():
            if slots > (100 if "mlu" in card else SLOTS) or mib > CARD_MIB:
                raise Violation(f"{card} is promised {slots} times, {mib} MiB")
        for place, names in needed.items():
            if len(names) > 1:
                raise Violation(f"{names} are allocating at {place}")

    def _record(self, raw: Json) -> Any:
        uid, version = raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
        known = self._read.get(uid)
        if known is None or known[0] != version:
            known = self._read[uid] = (version, self.leaders[0].pod(raw))
        return known[1]

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

    def _locks(self) -> list[tuple[str, str, str]]:
        """Return every lock that stands: node, annotation, text."""
        return [
            (name, lock, notes_of(raw)[lock])
            for name, raw in self.api.nodes.items()
            for lock in LOCKS
            if lock in notes_of(raw)
        ]
