"""Random clusters of every vendor that is judged for all nodes at once, and pods to place there.

Pods are raw objects that the vendors read themselves: their limits, init
containers, selection annotations, policies and weights. Few sizes and words,
so that ties and every kind of refusal are common. A seed always gives the
same questions.
"""

import dataclasses
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from support import clusters, recorded_asks
from vgpu_operator.model import allocation, device, policy, quota, records, request, settings
from vgpu_operator.scheduling import fit
from vgpu_operator.vendors import base, registry, requests

Json = dict[str, Any]

EVERY: Final = registry.build(settings.build(recorded_asks.EVERY_VENDOR))
FAST: Final = {vendor.spec.keyword: vendor for vendor in EVERY if vendor.vectorised}
NODES: Final = ("node-a", "node-b", "node-c")

_WEIGHTS: Final = ("slot=1,core=1,memory=1", "slot=0,core=2,memory=1", "slot=3,core=0,memory=0")
_CARD_POLICIES: Final = tuple(word.value for word in policy.CardPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A cluster, a pod to place there, the configured policies, and what the quota leaves."""

    cluster: clusters.Cluster
    wish: request.PodRequest
    defaults: fit.Defaults
    allowances: quota.Allowances


def questions(seed: int, number: int) -> Iterator[Question]:
    """Yield that many questions."""
    dice = random.Random(seed)  # noqa: S311
    for _ in range(number):
        yield _Draw(dice).question()


class _Draw:
    """One question under way; ``words`` are the vendors that take part in it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.words = dice.sample(sorted(FAST), dice.choice([1, 2, 2, 3]))
        self.roomy = dice.random() < 0.6

    def question(self) -> Question:
        nodes = {name: self.node(name) for name in NODES}
        cluster = clusters.Cluster(nodes=nodes, vendors=tuple(FAST))
        ids = [card.id for one in nodes.values() for held in one.cards.values() for card in held]
        cluster.pods = [self.held(number, nodes) for number in range(self.dice.randint(0, 4))]
        wish = requests.pod_request(self.pod("p1", ids), EVERY, aliases={})
        defaults = fit.Defaults(
            card_policies=(policy.CardPolicy(self.dice.choice(_CARD_POLICIES)),), vendors=FAST
        )
        policies = wish.card_policies or defaults.card_policies
        # Links are judged card by card, and a quota is then told in a sentence of its own.
        linked = "NVIDIA" in wish.vendors and policy.CardPolicy.TOPOLOGY_AWARE in policies
        allowances = quota.NO_LIMITS if linked else self.allowances()
        return Question(cluster=cluster, wish=wish, defaults=defaults, allowances=allowances)

    # Nodes

    def node(self, name: str) -> clusters.Node:
        cards = {
            word: tuple(self.card(name, word, at) for at in range(self.dice.randint(1, 5)))
            for word in self.words
            if self.roomy or self.dice.random() < 0.8
        }
        ids = [card.id for held in cards.values() for card in held]
        few = self.dice.sample(ids, min(len(ids), self.dice.choice([0, 0, 0, 1, 2])))
        offered = (8,) if self.roomy else (8, 8, 0, None)
        return clusters.Node(
            cards=cards,
            allocatable={word: self.dice.choice(offered) for word in cards},
            cordoned=frozenset(few),
        )

    def card(self, node: str, word: str, at: int) -> device.Device:
        unit = FAST[word].spec.memory_unit_mib
        sizes = (4, 4, 8) if self.roomy else (0, 4, 4, 8)
        return clusters.card(
            f"{word}-{node}-{at}",
            index=self.dice.choice([at, at, 0]),
            slots=self.dice.choice([1, 2, 3] if self.roomy else [0, 1, 2]),
            memory_mib=unit * self.dice.choice(sizes),
            cores_percent=self.dice.choice([100, 100, 200] if self.roomy else [0, 100, 200]),
            card_type=self.dice.choice([word, f"{word}-X1", f"a {word.lower()} X2", "other"])
            if not self.roomy
            else self.dice.choice([word, f"{word}-X1", f"{word}-X2"]),
            numa=self.dice.choice([-1, 0, 0, 1]),
            mode=self.dice.choice(["", "hami-core", "mps"]),
            healthy=self.dice.random() < 0.9,
        )

    # Pods

    def pod(self, name: str, ids: Sequence[str]) -> Json:
        """Return a pod with one to four containers, each of some vendors or none."""
        containers = [self.container(at) for at in range(self.dice.randint(1, 4))]
        inits = self.dice.randint(0, len(containers) - 1) if self.dice.random() < 0.5 else 0
        for container in containers[:inits]:
            if self.dice.random() < 0.4:
                container["restartPolicy"] = "Always"
        return {
            "metadata": {
                "name": name,
                "namespace": "team-a",
                "uid": f"uid-of-{name}",
                "annotations": self.rules(ids),
            },
            "spec": {"initContainers": containers[:inits], "containers": containers[inits:]},
        }

    def container(self, at: int) -> Json:
        limits: Json = {}
        for word in self.words:
            if self.dice.random() < 0.6:
                limits |= self.amounts(FAST[word].spec)
        return {"name": f"c{at}", "resources": {"limits": limits}}

    def amounts(self, spec: base.VendorSpec) -> dict[str, str]:
        drawn = {
            spec.count_resource: self.dice.choice([1, 1, 1, 2, 3]),
            spec.memory_resource: self.dice.choice([None, 0, 1, 1, 2, 4, 6]),
            spec.memory_percent_resource: self.dice.choice([None, None, 30, 50, 100]),
            spec.cores_resource: self.dice.choice([None, 0, 0, 30, 60, 100, 150]),
        }
        return {name: str(value) for name, value in drawn.items() if name and value is not None}

    def rules(self, ids: Sequence[str]) -> dict[str, str]:
        """Return annotations of which most pods have few."""
        texts: dict[str, str] = {}
        policies = self.dice.sample(_CARD_POLICIES, self.dice.randint(1, 3))
        bound = False
        for word in self.words:
            spec = FAST[word].spec
            words = ["X1", "x2", word, "H20"]
            some = [*self.dice.sample(list(ids), min(len(ids), 3)), "GPU-zz"]
            for key, known in (
                (spec.use_type_key, words),
                (spec.avoid_type_key, words),
                (spec.use_id_key, some),
                (spec.avoid_id_key, some),
            ):
                if key and self.dice.random() < 0.1:
                    most = self.dice.randint(1, min(2, len(known)))
                    texts[key] = ",".join(self.dice.sample(known, most))
            if spec.mode_key and self.dice.random() < 0.1:
                texts[spec.mode_key] = self.dice.choice(["hami-core,x", "mps", ""])
            if spec.numa_bind_key and self.dice.random() < 0.4:
                texts[spec.numa_bind_key] = "true"
                bound = True
        if bound:
            # Links on every NUMA node are tested with the vendor; the twin knows no links.
            policies = [one for one in policies if one != "topology-aware"] or ["binpack"]
            texts["hami.io/gpu-scheduler-policy"] = ",".join(policies)
        elif self.dice.random() < 0.7:
            texts["hami.io/gpu-scheduler-policy"] = ",".join(policies)
        if self.dice.random() < 0.3:
            texts["hami.io/node-scheduler-policy"] = self.dice.choice(["binpack", "spread"])
        if self.dice.random() < 0.3:
            texts["hami.io/device-scoring-weights"] = self.dice.choice(_WEIGHTS)
        return texts

    def held(self, number: int, nodes: dict[str, clusters.Node]) -> records.PodRecord:
        """Return a pod that holds something somewhere, more than it asked for too."""
        node = self.dice.choice([*NODES, "node-z"])
        wanted = requests.pod_request(self.pod(f"held-{number}", ()), EVERY, aliases={})
        promised: dict[str, allocation.PodShares] = {}
        for word in self.words:
            unit = FAST[word].spec.memory_unit_mib
            ids = [card.id for card in nodes[node].cards.get(word, ())] if node in nodes else []
            promised[word] = tuple(
                tuple(
                    clusters.share(
                        self.dice.choice([*ids, "GPU-zz"]),
                        unit * self.dice.choice([0, 1, 2, 9]),
                        self.dice.choice([0, 30, 60, 100]),
                    )
                    for _ in range(self.dice.randint(0, 2))
                )
                for _ in wanted.containers
            )
        record = clusters.pod(
            wanted,
            allocation.Allocation(node=node, shares=promised),
            phase=self.dice.choice(["Running", "Running", "Pending", "Succeeded", "Failed"]),
            deleting=self.dice.random() < 0.2,
            init_done=self.dice.random() < 0.5,
            faults=(self.words[0],) if self.dice.random() < 0.05 else (),
        )
        return dataclasses.replace(record, node=self.dice.choice([node, node, node, "", "node-b"]))

    def allowances(self) -> quota.Allowances:
        """Return what the namespace may still take of some of the vendors."""
        if self.dice.random() < 0.5:
            return quota.NO_LIMITS

        def some(unit: int) -> int | None:
            return self.dice.choice([None, 0, 2, 3, 4, 6, 9]) and unit * self.dice.randint(0, 9)

        return {
            word: quota.Allowance(memory_mib=some(FAST[word].spec.memory_unit_mib), cores=some(30))
            for word in self.words
        }
