"""The invariants of the design, each a function that says what breaks it.

Checked after every commit of the API server: 1, 2, 6. At every write, answer or
serving: 5, 6, 7. Again and again, from inside of each operator: 4. At the end,
when nothing goes wrong any more and time has passed: 3, 7, 8. Number 9 is all
of them in histories with bad input, and that no operator logs a fault. Of pods
that leave for others speak 10, at every plan and eviction, and 11, at the end:
``preemption``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from simulation import oracle
from simulation.oracle import Amount, Card
from simulation.server import Change, Json

NAMES: Final[Mapping[int, str]] = {
    1: "no card is promised beyond its slots, memory or cores",
    2: "bound and promised come together or not at all",
    3: "the ledger after a restart equals the ledger before",
    4: "devices vanish only when expired and nothing is allocatable, delisted, or with the node",
    5: "a non-leader writes nothing",
    6: "a lock is never taken from an owner whose Allocate may come; no pod gets another's cards",
    7: "every refusal has a reason and an event; no pod that fits stays refused",
    8: "events twice, late or out of order change nothing in the end",
    9: "bad input costs nothing else",
    10: "a pod is evicted only for a live nomination of higher priority, and where it helps",
    11: "every preemption ends: nobody waits who may evict, nothing stays held, no exchange",
}


class Capacities:
    """The most that each card has ever been registered with: promises outlive a change."""

    def __init__(self) -> None:
        self.most: dict[Card, Amount] = {}

    def learn(self, node: Json) -> None:
        """Take in a Node."""
        name = node["metadata"]["name"]
        for vendor, keys in oracle.VENDORS.items():
            for card, amount in (
                oracle.registered(oracle.notes(node).get(keys.register, "")) or {}
            ).items():
                known = self.most.get((name, vendor, card), Amount())
                self.most[name, vendor, card] = known.at_least(amount)


def overpromised(objects: Mapping[str, Json], capacities: Capacities, node: str) -> Iterator[str]:
    """1: yield the cards of a node that are promised beyond what they have."""
    used: dict[Card, Amount] = {}
    for pod in oracle.pods(objects):
        if oracle.node_of(pod) == node:
            for card, amount in oracle.held(pod).items():
                used[card] = used.get(card, Amount()) + amount
    for card, amount in used.items():
        limit = capacities.most.get(card)
        if limit is None:
            yield f"{card[2]} is promised, which {node} never had"
        elif not amount.within(limit):
            yield f"{card[2]} of {node} promises {amount} and has {limit}"


def torn(pod: Json) -> Iterator[str]:
    """2: yield what is there of a binding and its promise without the other."""
    node, own = oracle.node_of(pod), oracle.notes(pod)
    name = pod["metadata"]["name"]
    promised = own.get(oracle.NODE, "")
    if node and promised and promised != node:
        yield f"{name} is on {node} with a promise for {promised}"
    texts = {word: own.get(keys.allocated, "") for word, keys in oracle.VENDORS.items()}
    if not node and (promised or any(texts.values())):
        yield f"{name} is not bound and carries a promise for {promised}"
    if node:
        for vendor in oracle.wants(pod):
            if "," not in texts[vendor]:
                yield f"{name} is bound to {node} without a promise of {vendor} cards"
    if node and promised:
        n_containers = len(pod["spec"].get("initContainers") or ()) + len(pod["spec"]["containers"])
        for vendor in oracle.wants(pod):
            if len(oracle.entries(texts[vendor])) != n_containers:
                yield f"{name} has another number of {vendor} entries than containers"


def crowded(objects: Mapping[str, Json], node: str) -> Iterator[str]:
    """6: yield the pods of a node of which more than one waits for its plugin."""
    waiting = [
        pod["metadata"]["name"]
        for pod in oracle.pods(objects)
        if oracle.node_of(pod) == node and oracle.unserved(pod)
    ]
    if len(waiting) > 1:
        yield f"{' and '.join(sorted(waiting))} wait for Allocate on {node} at once"


def misserved(node: str, wanted: str, served: str) -> Iterator[str]:
    """6: yield who got another pod's cards."""
    if wanted != served:
        yield f"the plugin of {node} was called for {wanted} and served {served}"


def unexplained(pod: Json, names: tuple[str, ...], answer: Json) -> Iterator[str]:
    """7: yield the nodes that a filter neither takes nor says why not."""
    fitting = set(answer.get("NodeNames") or ())
    told = {
        **(answer.get("FailedNodes") or {}),
        **(answer.get("FailedAndUnresolvableNodes") or {}),
    }
    for name in names:
        if name not in fitting and not told.get(name):
            yield f"{name} was refused to {pod['metadata']['name']} without a reason"
    for name in fitting & told.keys():
        yield f"{name} both fits and does not fit {pod['metadata']['name']}"


def may_have_left(changes: list[Change], card: Card, *, now_s: float, limit_s: float) -> bool:
    """4: whether anything that the API server has shown lets a card leave a ledger.

    Args:
        changes: all that the operator may have learned since it last had the card.
        card: which.
        now_s: Unix seconds.
        limit_s: how old a handshake without answer must be, at the least.
    """
    node, vendor, uuid = card
    keys = oracle.VENDORS[vendor]
    path = f"{oracle.NODES}{node}"
    for change in changes:
        if change.path != path:
            continue
        if change.after is None:
            return True
        for raw in (change.before, change.after):
            if raw is None:
                continue
            text = oracle.notes(raw).get(keys.register, "")
            listed = oracle.registered(text)
            if text.strip() == "[]" or (listed is not None and uuid not in listed):
                return True
            free = (raw.get("status") or {}).get("allocatable", {}).get(keys.count, "0")
            if free == "0" and oracle.asked_s(raw, keys, now_s=now_s) >= limit_s:
                return True
    return False
