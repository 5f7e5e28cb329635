"""One history, before it happens: the cluster, the weather, and who does what when.

A history is a value: the same seed gives the same one, and a part of its
actions and faults can be left out to see whether the rest is enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simulation import weather
from simulation.chance import Chance
from simulation.server import Json

REPLICAS: Final = ("a", "b")
NAMESPACE: Final = "team"

RANKS: Final = ("low", "middle", "high")
PRIORITIES: Final[Mapping[str, int]] = {"low": 0, "middle": 100, "high": 1000}
"""PriorityClasses by name; a pod's label ``tier`` says its class too."""

MOST_PODS = 8
MOST_TROUBLE = 6

BAD_REGISTERS: Final = ("nonsense", "[{", '{"id": 1}', "a,b:", "")
BAD_LOCKS: Final = (
    "nonsense",
    "2026-03-01T08:00:00Z,team,nobody",
    "2031-01-01T00:00:00Z,team,nobody",
    "2026-03-01T08:00:00Z",
    ",,",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that somebody does at a time.

    Attributes:
        name: unique in its history.
        at: virtual seconds.
        what: which method of the world does it.
        args: its arguments.
    """

    name: str
    at: float
    what: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.what} {' '.join(f'{k}={v}' for k, v in self.args.items())}"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything that a seed decides before the first step.

    Attributes:
        seed: which.
        nodes: entries of the agent's simulation file.
        rates: how bad the way to the API server is.
        replicas: names of the replicas; one alone follows no Lease.
        blind: the plugins see no lock, and take other pods than they are called for.
        replaces: somebody creates a pod anew whenever one is evicted, as a ReplicaSet does.
        settings: the operator's configuration as a file would say it.
        actions: in their order.
        end_s: when all trouble is over.
    """

    seed: int
    nodes: tuple[Json, ...]
    rates: weather.Rates
    replicas: tuple[str, ...]
    blind: bool
    replaces: bool
    settings: Json
    actions: tuple[Action, ...]
    end_s: float


def write(seed: int) -> History:
    """Return the history of that seed."""
    chance = Chance(seed)
    n_nodes = chance.one_of((1, 1, 2, 2, 3), "nodes")
    is_ranked = chance.happens(0.4, "ranked")
    nodes = tuple(_node(chance, number, is_ranked) for number in range(1, n_nodes + 1))
    names = [node["name"] for node in nodes]
    replicas = REPLICAS if chance.happens(0.7, "two") else REPLICAS[:1]
    rates = chance.one_of(
        (weather.CALM, weather.USUAL, weather.USUAL, weather.ROUGH, weather.STORM), "weather"
    )
    settings: Json = {
        "lock": {"expiryS": chance.one_of((8.0, 20.0), "expiry"), "releaseAfterS": 3.0},
        "handshake": {"intervalS": 5.0, "expiryS": 20.0},
        "ledger": {"auditIntervalS": 20.0},
        "bind": {
            "stuckAfterS": 15.0,
            "timeLimitS": chance.one_of((30.0, 600.0), "limit"),
            "stuckPod": chance.one_of(("report", "report", "delete"), "stuck pod"),
        },
    }
    if is_ranked:
        settings["preemption"] = {
            "timeLimitS": chance.one_of((20.0, 60.0), "preemption limit"),
            "minPriorityGap": chance.one_of((1, 1, 500), "gap"),
            "exemptPriorityClasses": chance.one_of(((), (), ("middle",)), "exempt"),
        }
        actions = [*_ranked(chance, nodes), *_ranked_trouble(chance, replicas)]
    else:
        actions = _pods(chance, names)
    actions += _trouble(chance, names, replicas)
    actions.sort(key=lambda action: (action.at, action.name))
    return History(
        seed=seed,
        nodes=nodes,
        rates=rates,
        replicas=replicas,
        blind=chance.happens(0.3, "blind"),
        replaces=is_ranked and chance.happens(0.5, "replaces"),
        settings=settings,
        actions=tuple(actions),
        end_s=max([16.0, *(a.at + a.args.get("for_s", 0.0) for a in actions)]) + 1.0,
    )


def _node(chance: Chance, number: int, is_ranked: bool) -> Json:
    name = f"n{number}"
    cards: list[Json] = [
        {"id": f"{name}-gpu{index}", "memory": 10_000, "count": 3, "type": "NVIDIA A10"}
        for index in range(chance.integer(1, 2, "cards", name))
    ]
    if chance.happens(0.3, "dcu", name):
        cards.append({"vendor": "DCU", "id": f"{name}-dcu0", "memory": 8_000, "count": 2})
    return {
        "name": name,
        "cards": cards,
        "delay": chance.one_of((0.0, 0.05, 0.8, 2.0), "delay", name),
        "stop": chance.one_of((0.0, 0.0, 0.5, 4.0), "stop", name) if is_ranked else 0.0,
    }


def _pods(chance: Chance, names: list[str]) -> list[Action]:
    found = []
    n_pods = chance.integer(2, MOST_PODS, "pods")
    begin = 0.0
    for number in range(1, n_pods + 1):
        name = f"p{number}"
        # Bursts, with pauses in between.
        begin += chance.one_of((0.0, 0.0, 0.02, 0.5, 5.0), "pause", name)
        found.append(
            Action(name=f"make {name}", at=3.0 + begin, what="create_pod", args=_pod(chance, name))
        )
        later = 3.0 + begin + chance.between(0.01, 12.0, "later", name)
        what = chance.one_of(
            ("", "", "", "delete_pod", "finish_pod", "finish_pod", "touch_pod", "replace_pod"),
            "end",
            name,
        )
        if what:
            args: dict[str, Any] = {"name": name}
            if what == "delete_pod":
                args["grace_s"] = chance.one_of((None, None, 0), "grace", name)
            if what == "finish_pod":
                later += 2.0
            if what == "replace_pod":
                args = _pod(chance, name, "again")
            found.append(Action(name=f"{what} {name}", at=later, what=what, args=args))
    return found


def _pod(chance: Chance, name: str, turn: str = "") -> dict[str, Any]:
    shape = chance.one_of(
        ("one", "one", "one", "two cards", "two containers", "init", "both vendors", "dcu"),
        "shape",
        name,
        turn,
    )
    memory = chance.one_of((2_000, 4_000, 6_000, 10_000), "memory", name, turn)
    return {
        "name": name,
        "shape": shape,
        "memory": memory,
        "cores": chance.one_of((0, 30, 60, 100), "cores", name, turn),
    }


def _ranked(chance: Chance, nodes: tuple[Json, ...]) -> list[Action]:
    """Pods of low priority fill the cards; others of higher priority come after them."""
    found: list[Action] = []
    args: dict[str, Any]

    def make(at: float, **args: Any) -> str:
        name = f"p{sum(action.what == 'create_pod' for action in found) + 1}"
        made = {**args, "name": name}
        found.append(Action(name=f"make {name}", at=at, what="create_pod", args=made))
        return name

    for card in (each for node in nodes for each in node["cards"]):
        key = card["id"]
        shape = "dcu" if card.get("vendor") == "DCU" else "one"
        sizes = ((10_000,), (6_000, 4_000), (4_000, 4_000, 2_000), (6_000,))
        for place, memory in enumerate(chance.one_of(sizes, "filled", key)):
            name = make(
                3.0 + chance.between(0.0, 2.0, "fills at", key, place),
                shape=shape,
                memory=memory,
                cores=chance.one_of((0, 30), "fills with", key, place),
                rank=chance.one_of(("low", "low", "low", "middle"), "fills as", key, place),
            )
            end = chance.one_of(("", "", "finish_pod", "replace_pod"), "ends", key, place)
            if end:
                args = {"name": name} if end == "finish_pod" else dict(found[-1].args)
                at = chance.between(8.0, 14.0, "ends at", key, place)
                found.append(Action(name=f"{end} {name}", at=at, what=end, args=args))
    for number in range(chance.integer(1, 5, "important")):
        key = f"important {number}"
        name = make(
            8.0 + chance.one_of((0.0, 0.1, 3.0, 10.0), "comes", key),
            **_pod(chance, key),
            rank=chance.one_of(("middle", "high", "high"), "ranks", key),
            never=chance.happens(0.1, "never", key),
        )
        end = chance.one_of(("", "", "", "delete_pod", "finish_pod", "touch_pod"), "ends", key)
        if end:
            args = {"name": name}
            if end == "delete_pod":
                args["grace_s"] = chance.one_of((None, 0), "grace", key)
            at = found[-1].at + chance.between(0.05, 12.0, "ends at", key)
            found.append(Action(name=f"{end} {name}", at=at, what=end, args=args))
    return found


def _ranked_trouble(chance: Chance, replicas: tuple[str, ...]) -> list[Action]:
    """Budgets come, and leaders stumble over what they write for a preemption."""
    found = []
    for number in range(chance.integer(0, 2, "budgets")):
        args: dict[str, Any] = {
            "name": f"b{number}",
            "label": chance.one_of(RANKS, "budget of", number),
            "at_least": chance.integer(0, 3, "budget keeps", number),
        }
        at = chance.between(1.0, 14.0, "budget at", number)
        found.append(Action(name=f"budget {number}", at=at, what="create_budget", args=args))
    for replica in replicas:
        if not chance.happens(0.4, "preemption trip", replica):
            continue
        args = {
            "party": f"op-{replica}",
            "write": chance.one_of(("nominate", "nominate", "evict", "evict"), "of", replica),
            "skip": chance.integer(0, 1, "passes", replica),
            "how": chance.one_of(("pause replica", "kill", "kill before"), "how", replica),
            "for_s": chance.one_of((2.0, 18.0, 25.0), "falls for", replica),
        }
        found.append(Action(name=f"trip {replica}", at=7.0, what="trip", args=args))
    return found


def _trouble(chance: Chance, names: list[str], replicas: tuple[str, ...]) -> list[Action]:
    found = []
    parties = [
        *(f"op-{each}" for each in replicas),
        *(f"sched-{each}" for each in replicas),
        *names,
    ]
    for number in range(chance.integer(0, MOST_TROUBLE, "trouble")):
        key = f"t{number}"
        what = chance.one_of(
            (
                "kill",
                "kill",
                "pause",
                "pause",
                "pause_replica",
                "pause_replica",
                "jump_clock",
                "outage",
                "forget_history",
                "sicken_card",
                "stop_plugin",
                "spoil_register",
                "remove_register",
                "delist_cards",
                "delete_node",
                "cordon_card",
                "remove_lock",
                "write_lock",
                "forge_pod",
                "foreign_bind",
                "foreign_bind",
                "mark_failed",
                "take_lease",
                "trip",
                "trip",
                "trip",
            ),
            "what",
            key,
        )
        at = chance.between(1.0, 18.0, "at", key)
        for_s = chance.one_of((0.2, 2.0, 8.0, 25.0, 40.0), "for", key)
        node = chance.one_of(names, "node", key)
        args: dict[str, Any]
        match what:
            case "kill" | "pause":
                args = {"party": chance.one_of(parties, "party", key), "for_s": for_s}
            case "pause_replica":
                args = {"replica": chance.one_of(replicas, "replica", key), "for_s": for_s}
            case "jump_clock":
                args = {
                    "party": chance.one_of(parties, "party", key),
                    "by_s": chance.one_of((-3600.0, -40.0, -2.0, 2.0, 40.0, 3600.0), "by", key),
                    "for_s": for_s,
                }
            case "outage":
                args = {"for_s": min(for_s, 25.0)}
            case "forget_history" | "take_lease":
                args = {}
            case "sicken_card" | "cordon_card":
                args = {"node": node, "for_s": for_s}
            case "stop_plugin" | "delete_node" | "delist_cards":
                args = {"node": node, "for_s": chance.one_of((3.0, 12.0, 32.0), "gone", key)}
            case "spoil_register":
                args = {"node": node, "text": chance.one_of(BAD_REGISTERS, "text", key)}
            case "write_lock":
                args = {"node": node, "text": chance.one_of(BAD_LOCKS, "text", key)}
            case "trip":
                writer = chance.one_of(("op", "op", "op", "node"), "writer", key)
                choices = [f"op-{each}" for each in replicas] if writer == "op" else names
                args = {
                    "party": chance.one_of(choices, "party", key),
                    "write": chance.one_of(
                        ("lock", "lock", "binding", "binding", "any")
                        if writer == "op"
                        else ("serve", "any"),
                        "write",
                        key,
                    ),
                    "skip": chance.integer(0, 2, "skip", key),
                    "how": chance.one_of(
                        ("pause", "pause replica", "pause replica", "kill", "kill before"),
                        "how",
                        key,
                    ),
                    # A replica that sleeps for long loses its Lease meanwhile.
                    "for_s": chance.one_of((2.0, 18.0, 25.0, 35.0), "stumbles for", key),
                }
            case "foreign_bind":
                args = {
                    "name": f"f{number}",
                    "node": node,
                    "memory": chance.one_of((2_000, 6_000, 10_000), "foreign memory", key),
                }
            case "mark_failed":
                args = {"name": f"p{chance.integer(1, 4, 'marked', key)}"}
            case "forge_pod":
                args = {"name": f"p{chance.integer(1, 4, 'forged', key)}", "node": node}
            case _:
                args = {"node": node}
        found.append(Action(name=f"{key} {what}", at=at, what=what, args=args))
    return found
