"""How many pods the PodDisruptionBudgets still let go, and which ones a set of pods breaks."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from vgpu_operator.model import budgets, records

Broken = Mapping[str, tuple[budgets.Budget, ...]]
"""By UID of a pod, the budgets that its eviction would break."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """All budgets.

    Attributes:
        by_namespace: the budgets.
        of_pods: by UID those that a pod's eviction counts against, once asked.
        kept: pods that stay whoever else goes, once asked, by what decides it: namespace,
            labels (the same object for pods that are alike), whether it runs.
    """

    by_namespace: Mapping[str, Sequence[budgets.Budget]]
    of_pods: dict[str, tuple[budgets.Budget, ...]] = dataclasses.field(default_factory=dict)
    kept: dict[tuple[str, int, bool], bool] = dataclasses.field(default_factory=dict)

    def covering(self, record: records.PodRecord) -> tuple[budgets.Budget, ...]:
        """Return the budgets that a pod's eviction counts against.

        The Eviction API asks none for a pod that does not run yet.
        """
        if not self.by_namespace:
            return ()
        uid = record.key.uid
        found = self.of_pods.get(uid)
        if found is None:
            there = self.by_namespace.get(record.key.namespace, ())
            found = self.of_pods[uid] = tuple(
                budget
                for budget in there
                if record.phase != "Pending"
                and record.key.name not in budget.disrupted
                and budget.covers(record.key.namespace, record.labels)
            )
        return found

    def keeps(self, record: records.PodRecord) -> bool:
        """Whether a pod's eviction breaks a budget even where nobody else goes."""
        there = self.by_namespace.get(record.key.namespace)
        if there is None:
            return False
        if any(budget.disrupted for budget in there):
            return bool(self.broken((record,)))
        alike = record.key.namespace, id(record.labels), record.phase == "Pending"
        kept = self.kept.get(alike)
        if kept is None:
            kept = self.kept[alike] = bool(self.broken((record,)))
        return kept

    def broken(self, pods: Iterable[records.PodRecord]) -> Broken:
        """Return which budgets would be broken if these pods went one after another.

        Those of a pod that several cover always: the Eviction API refuses it whatever they
        allow (``pkg/registry/core/pod/storage/eviction.go``).
        """
        if not self.by_namespace:
            return {}
        taken: dict[str, int] = {}
        broken = {}
        for record in pods:
            covering = self.covering(record)
            over = []
            for budget in covering:
                name = str(budget)
                taken[name] = taken.get(name, 0) + 1
                if len(covering) > 1 or taken[name] > budget.allowed:
                    over.append(budget)
            if over:
                broken[record.key.uid] = tuple(over)
        return broken


def limits_of(all_budgets: Iterable[budgets.Budget]) -> Limits:
    """Return the budgets by namespace, in the order of their names."""
    by_namespace: dict[str, list[budgets.Budget]] = {}
    for budget in sorted(all_budgets, key=str):
        by_namespace.setdefault(budget.namespace, []).append(budget)
    return Limits(by_namespace)
