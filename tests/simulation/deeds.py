"""What users, machines and chance do to the cluster: one function for each word of a history."""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from simulation import budgets, clocks, history, nodes, oracle, preemption, schedulers
from simulation.server import Json
from vgpu_operator.agent import node as simulated_node
from vgpu_operator.kube import errors, paths

if TYPE_CHECKING:
    from simulation.world import World

RECOUNT_S: Final = 0.3
"""How long after a change of a pod the budgets are counted anew."""

REPLACED_S: Final = 0.2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """A wire that a process stumbles over.

    Attributes:
        write: the kind of write, as ``oracle.kind_of_write`` says, or ``any``.
        skip: how many of them pass first.
        how: ``pause``, ``pause replica`` and ``kill`` once it is sent, ``kill before`` it is.
        for_s: for how long.
    """

    write: str
    skip: int
    how: str
    for_s: float


def do(world: "World", action: history.Action) -> None:
    """Do one action of a history."""
    world.count(action.what)
    _DEEDS[action.what](world, **action.args)


def end_trouble(world: "World") -> None:
    """Have every process run, every clock be nearly right, every plugin be there."""
    for party in tuple(world.pauses):
        _go_on(world, party)
    for clock in world.clocks.values():
        clock.offset_s = max(-1.0, min(1.0, clock.offset_s))
    for replica in world.replicas.values():
        replica.start_operator()
        replica.start_scheduler()
    for entry in world.told.nodes:
        start_node(world, entry)
        if f"{oracle.NODES}{entry['name']}" not in world.api.objects:
            # Somebody has deleted the Node: a kubelet that starts registers again.
            _kill_node(world, entry["name"])
            start_node(world, entry)
        _come_back(world, entry["name"])


def start_node(world: "World", entry: Json) -> None:
    """Start a node's kubelet and plugins, unless they run."""
    name = entry["name"]
    if name in world.nodes:
        return
    made = nodes.SimulatedNode(name, entry, world.connect(name), world.clock_of(name))
    world.nodes[name] = made

    async def run() -> None:
        await made.run()
        world.report(0, f"the simulated node {name} has stopped by itself")

    world.loop.start(name, run())


# Users.


def create_pod(
    world: "World",
    *,
    name: str,
    shape: str,
    memory: int,
    cores: int,
    rank: str = "",
    never: bool = False,
) -> None:
    """Somebody creates a pod."""
    body = _pod(name, shape, memory, cores)
    if rank:
        body["metadata"]["labels"] = {"tier": rank}
        body["spec"] |= {"priority": history.PRIORITIES[rank], "priorityClassName": rank}
    if never:
        body["spec"]["preemptionPolicy"] = "Never"
    _ask(world, "POST", paths.namespaced(history.NAMESPACE, "pods"), body)


def delete_pod(world: "World", *, name: str, grace_s: int | None) -> None:
    """Somebody deletes a pod."""
    options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
    _ask(world, "DELETE", _pod_path(name), options)


def finish_pod(world: "World", *, name: str) -> None:
    """A pod's containers end, if it runs."""
    raw = world.api.objects.get(_pod_path(name))
    if raw is not None and raw["status"].get("phase") == "Running":
        path = paths.pod_status(history.NAMESPACE, name)
        _ask(world, "PATCH", path, {"status": {"phase": "Succeeded"}})


def create_budget(world: "World", *, name: str, label: str, at_least: int) -> None:
    """Somebody says how many pods of a label are to be left running."""
    path = f"/apis/policy/v1/namespaces/{history.NAMESPACE}/poddisruptionbudgets"
    _ask(world, "POST", path, budgets.made(name, label, at_least))
    recount_later(world)


def recount_later(world: "World") -> None:
    """The disruption controller looks at all budgets in a moment."""

    def recount() -> None:
        pods = tuple(oracle.pods(world.api.objects))
        for path, raw in tuple(world.api.objects.items()):
            if "/poddisruptionbudgets/" in path:
                _ask(world, "PUT", path, budgets.recounted(raw, pods))

    _later(world, RECOUNT_S, recount)


def replace_evicted(world: "World", raw: Json) -> None:
    """A pod was evicted: its owner creates another one like it."""
    world.count("evicted")
    if raw["spec"].get("schedulerName") != schedulers.SCHEDULER_NAME or not world.told.replaces:
        return
    base = preemption.family(raw)
    spec = {key: value for key, value in raw["spec"].items() if key != "nodeName"}
    world.count("replaced")
    metadata = {
        "name": f"{base}.{world.facts['replaced']}",
        "labels": {**raw["metadata"].get("labels", {})},
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    pods = paths.namespaced(history.NAMESPACE, "pods")
    _later(world, REPLACED_S, lambda: _ask(world, "POST", pods, body))


def touch_pod(world: "World", *, name: str) -> None:
    """Somebody annotates a pod: it gets another version."""
    note = {"example.com/touched": f"{world.loop.time():.3f}"}
    _ask(world, "PATCH", _pod_path(name), {"metadata": {"annotations": note}})


def replace_pod(world: "World", **made: Any) -> None:
    """Somebody deletes a pod without grace and creates another of its name at once."""
    delete_pod(world, name=made["name"], grace_s=0)
    create_pod(world, **made)


def forge_pod(world: "World", *, name: str, node: str) -> None:
    """Somebody writes a promise on a pod that is not bound."""
    raw = world.api.objects.get(_pod_path(name))
    if raw is None or oracle.node_of(raw):
        return
    text = f"{node}-gpu0,NVIDIA,10000,100:;"
    world.forged.add(raw["metadata"]["uid"])
    notes = {
        oracle.VENDORS["NVIDIA"].to_allocate: text,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1",
    }
    _ask(world, "PATCH", _pod_path(name), {"metadata": {"annotations": notes}})


def foreign_bind(world: "World", *, name: str, node: str, memory: int) -> None:
    """Another scheduler that keeps to the protocol binds a pod of its own, if it finds room.

    It looks and writes in one moment, so it is as careful as one can be.
    """
    raw = world.api.objects.get(paths.node(node))
    if raw is None or oracle.LOCK in oracle.notes(raw):
        return
    pods = [pod for pod in oracle.pods(world.api.objects) if oracle.node_of(pod) == node]
    keys = oracle.VENDORS["NVIDIA"]
    cards = oracle.registered(oracle.notes(raw).get(keys.register, "")) or {}
    used = {card: oracle.Amount() for card in cards}
    for pod in pods:
        for (_, vendor, card), amount in oracle.held(pod).items():
            if vendor == "NVIDIA" and card in used:
                used[card] += amount
    more = oracle.Amount(slots=1, memory=memory)
    room = [card for card in cards if (used[card] + more).within(cards[card])]
    if not room or any(map(oracle.unserved, pods)):
        return
    body = _pod(name, "one", memory, 0)
    body["spec"]["schedulerName"] = "another-scheduler"
    _ask(world, "POST", paths.namespaced(history.NAMESPACE, "pods"), body)
    stamp = clocks.text(world.clock.now())
    _annotate_node(world, node, {oracle.LOCK: f"{stamp},{history.NAMESPACE},{name}"})
    text = f"{room[0]},NVIDIA,{memory},0:;"
    promise = {
        oracle.NODE: node,
        oracle.PHASE: "allocating",
        "hami.io/bind-time": str(int(world.clock.now().timestamp())),
        keys.to_allocate: text,
        keys.allocated: text,
    }
    binding = {"metadata": {"annotations": promise}, "target": {"name": node}}
    _ask(world, "POST", f"{_pod_path(name)}/binding", binding)


def mark_failed(world: "World", *, name: str) -> None:
    """A plugin says of a pod that runs that its allocation has failed."""
    raw = world.api.objects.get(_pod_path(name))
    if raw is not None and raw["status"].get("phase") == "Running":
        note = {oracle.PHASE: "failed"}
        _ask(world, "PATCH", _pod_path(name), {"metadata": {"annotations": note}})


# Processes and machines.


def trip(world: "World", *, party: str, write: str, skip: int, how: str, for_s: float) -> None:
    """The next write of a kind that the process sends is its last for a while."""
    world.trips[party] = Trip(write=write, skip=skip, how=how, for_s=for_s)


def stumble(world: "World", party: str, write: frozenset[str]) -> None:
    """A write is leaving a process: does it stop or end right there?"""
    wire = world.trips.get(party)
    if wire is None or not (wire.write == "any" or wire.write in write):
        return
    if wire.skip:
        world.trips[party] = dataclasses.replace(wire, skip=wire.skip - 1)
        return
    del world.trips[party]
    if world.weather.is_over:
        return
    world.count(wire.how.partition(" ")[0])
    world.story.tell(party, f"stumbles: {wire.how} for {wire.for_s} s")
    if wire.how.startswith("pause"):
        word, _, name = party.partition("-")
        if wire.how == "pause" or word != "op":
            pause(world, party=party, for_s=wire.for_s)
        else:
            pause_replica(world, replica=name, for_s=wire.for_s)
        return
    if wire.how == "kill before":
        world.clients[party].is_dead = True
    world.loop.call_soon(lambda: kill(world, party=party, for_s=wire.for_s))


def kill(world: "World", *, party: str, for_s: float) -> None:
    """A process ends at once, and is started again after a while."""
    word, _, name = party.partition("-")
    if word == "op":
        world.replicas[name].kill_operator()
        _later(world, for_s, world.replicas[name].start_operator)
    elif word == "sched":
        world.replicas[name].kill_scheduler()
        _later(world, for_s, world.replicas[name].start_scheduler)
    else:
        _kill_node(world, party)
        entry = next(entry for entry in world.told.nodes if entry["name"] == party)
        _later(world, for_s, lambda: start_node(world, entry))


def pause(world: "World", *, party: str, for_s: float) -> None:
    """A process stands still for a while and goes on where it was."""
    if party not in world.pauses:
        world.pauses[party] = world.loop.time()
        world.loop.stop_party(party)
        _later(world, for_s, lambda: _go_on(world, party))


def pause_replica(world: "World", *, replica: str, for_s: float) -> None:
    """A whole replica stands still: its machine sleeps."""
    pause(world, party=f"op-{replica}", for_s=for_s)
    pause(world, party=f"sched-{replica}", for_s=for_s + 0.5)


def jump_clock(world: "World", *, party: str, by_s: float, for_s: float) -> None:
    """A machine's clock is set, and set right again after a while."""
    clock = world.clock_of(party)
    clock.offset_s += by_s

    def back() -> None:
        clock.offset_s -= by_s

    _later(world, for_s, back)


def outage(world: "World", *, for_s: float) -> None:
    """Nobody reaches the API server for a while; all watches break."""
    world.weather.outages += 1
    world.api.break_streams()

    def back() -> None:
        world.weather.outages -= 1

    _later(world, for_s, back)


def forget_history(world: "World") -> None:
    """The API server compacts: watches break, and those that are behind get 410."""
    world.api.forget_history()
    world.api.break_streams()


def take_lease(world: "World") -> None:
    """Somebody else takes the Lease and does not renew it."""
    path = paths.lease(*schedulers.LEASE)
    spec = {
        "holderIdentity": "stranger_1",
        "leaseDurationSeconds": schedulers.LEASE_S,
        "renewTime": clocks.text(world.clock.now()),
    }
    _ask(world, "PATCH", path, {"spec": spec})


# Nodes.


def sicken_card(world: "World", *, node: str, for_s: float) -> None:
    """A card is not healthy for a while."""
    _health(world, node, False)
    _later(world, for_s, lambda: _health(world, node, True))


def stop_plugin(world: "World", *, node: str, for_s: float) -> None:
    """A node's plugins end: nothing is allocatable for a while."""
    _turn(world, node, lambda handle: handle.vanish())
    _later(world, for_s, lambda: _come_back(world, node))


def delist_cards(world: "World", *, node: str, for_s: float) -> None:
    """The register text says that there are no cards; the plugin repairs it in its round."""
    _annotate_node(world, node, {oracle.VENDORS["NVIDIA"].register: "[]"})


def spoil_register(world: "World", *, node: str, text: str) -> None:
    """Somebody overwrites the register text with nonsense; the plugin repairs it later."""
    _annotate_node(world, node, {oracle.VENDORS["NVIDIA"].register: text})


def remove_register(world: "World", *, node: str) -> None:
    """Somebody removes the register text; the plugin repairs it later."""
    _annotate_node(world, node, {oracle.VENDORS["NVIDIA"].register: None})


def delete_node(world: "World", *, node: str, for_s: float) -> None:
    """Somebody deletes a Node; its kubelet registers it again when it is started next."""
    _ask(world, "DELETE", paths.node(node))
    _kill_node(world, node)
    entry = next(entry for entry in world.told.nodes if entry["name"] == node)
    _later(world, for_s, lambda: start_node(world, entry))


def cordon_card(world: "World", *, node: str, for_s: float) -> None:
    """A card takes no new pods for a while."""
    _annotate_node(world, node, {"hami.io/device-cordon": f"{node}-gpu0"})
    _later(world, for_s, lambda: _annotate_node(world, node, {"hami.io/device-cordon": None}))


def remove_lock(world: "World", *, node: str) -> None:
    """Somebody removes a node's lock by hand."""
    world.meddled.add(node)
    _annotate_node(world, node, {oracle.LOCK: None})


def write_lock(world: "World", *, node: str, text: str) -> None:
    """Somebody writes a lock by hand, where none stands."""
    raw = world.api.objects.get(paths.node(node))
    if raw is not None and oracle.LOCK not in oracle.notes(raw):
        _annotate_node(world, node, {oracle.LOCK: text})


_DEEDS: Final[dict[str, Callable[..., None]]] = {
    deed.__name__: deed
    for deed in (
        create_pod,
        create_budget,
        delete_pod,
        finish_pod,
        touch_pod,
        replace_pod,
        forge_pod,
        foreign_bind,
        mark_failed,
        trip,
        kill,
        pause,
        pause_replica,
        jump_clock,
        outage,
        forget_history,
        take_lease,
        sicken_card,
        stop_plugin,
        delist_cards,
        spoil_register,
        remove_register,
        delete_node,
        cordon_card,
        remove_lock,
        write_lock,
    )
}


# Means.


def _ask(world: "World", verb: str, path: str, body: Any = None) -> None:
    """Do it at once, as somebody with a good connection does; refusals are nobody's matter."""
    fault = None
    try:
        world.api.handle(verb, path, body, author="user")
    except errors.ApiError as refusal:
        fault = refusal
    world.story.tell("user", f"{verb} {path}{'' if fault is None else f' -> {fault.status}'}")


def _annotate_node(world: "World", node: str, notes: dict[str, str | None]) -> None:
    _ask(world, "PATCH", paths.node(node), {"metadata": {"annotations": notes}})


def _later(world: "World", after_s: float, do_it: Callable[[], None]) -> None:
    world.loop.call_later(after_s, do_it)


def _go_on(world: "World", party: str) -> None:
    since = world.pauses.pop(party, None)
    if since is not None:
        world.paused.setdefault(party, []).append((since, world.loop.time()))
        world.loop.go_on(party)
        world.story.tell(party, "goes on")


def _kill_node(world: "World", name: str) -> None:
    if world.nodes.pop(name, None) is not None:
        world.clients[name].is_dead = True
        world.loop.kill(name)


def _come_back(world: "World", node: str) -> None:
    async def turn(handle: simulated_node.SimulatedNode) -> None:
        if handle.switches.vanished:
            await handle.come_back()

    _turn(world, node, turn)


def _health(world: "World", node: str, healthy: bool) -> None:
    _turn(world, node, lambda handle: handle.set_healthy(f"{node}-gpu0", healthy))


def _turn(
    world: "World", node: str, turn: Callable[[simulated_node.SimulatedNode], Awaitable[None]]
) -> None:
    """Turn a handle of a node, if its agent runs."""
    if node in world.nodes:
        world.loop.start(node, world.nodes[node].turn(turn))


def _pod_path(name: str) -> str:
    return paths.pod(history.NAMESPACE, name)


@dataclasses.dataclass(frozen=True, slots=True)
class _Wish:
    """What one container asks for."""

    gpus: int = 0
    memory: int = 0
    cores: int = 0
    dcus: int = 0


def _pod(name: str, shape: str, memory: int, cores: int) -> Json:
    """Return a pod that asks for cards in that shape."""
    whole = _Wish(gpus=1, memory=memory, cores=cores)
    half = _Wish(gpus=1, memory=memory // 2, cores=cores // 2)
    mains, inits = {
        "one": ((whole,), ()),
        "two cards": ((_Wish(gpus=2, memory=memory // 2, cores=cores),), ()),
        "two containers": ((half, half), ()),
        "init": ((half,), (whole,)),
        "both vendors": ((_Wish(gpus=1, memory=memory, dcus=1),), ()),
        "dcu": ((_Wish(dcus=1),), ()),
    }[shape]
    spec: Json = {
        "schedulerName": schedulers.SCHEDULER_NAME,
        "containers": [_container(f"c{i}", wish, memory) for i, wish in enumerate(mains)],
    }
    if inits:
        spec["initContainers"] = [_container(f"i{i}", wish, memory) for i, wish in enumerate(inits)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _container(name: str, wish: _Wish, memory: int) -> Json:
    limits = {}
    if wish.gpus:
        limits |= {
            "nvidia.com/gpu": str(wish.gpus),
            "nvidia.com/gpumem": str(wish.memory),
            "nvidia.com/gpucores": str(wish.cores),
        }
    if wish.dcus:
        limits |= {"hygon.com/dcunum": str(wish.dcus), "hygon.com/dcumem": str(memory // 2)}
    return {"name": name, "image": "busybox", "resources": {"limits": limits}}
