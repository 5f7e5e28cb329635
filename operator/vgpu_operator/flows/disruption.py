"""How many pods the PodDisruptionBudgets still let go, and which ones a set of pods breaks."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vgpu_operator.model import budgets, records

Broken = Mapping[str, tuple[budgets.Budget, ...]]
"""By UID of a pod, the budgets that its eviction would break."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """All budgets.

    Attributes:
        by_namespace: the budgets.
        of_alike: those that pods' evictions count against, once asked, by namespace and labels
            (the same object for pods that are alike).
    """

    by_namespace: Mapping[str, Sequence[budgets.Budget]]
    of_alike: dict[tuple[str, int], tuple[budgets.Budget, ...]] = dataclasses.field(
        default_factory=dict
    )

    def covering(self, record: records.PodRecord) -> tuple[budgets.Budget, ...]:
        """Return the budgets that a pod's eviction counts against.

        The Eviction API asks none for a pod that does not run yet.
        """
        found = self._of_alike(record)
        if any(budget.disrupted for budget in found):
            name = record.key.name
            return tuple(budget for budget in found if name not in budget.disrupted)
        return found

    def keeps(self, record: records.PodRecord) -> bool:
        """Whether a pod's eviction breaks a budget even where nobody else goes."""
        return _keep(self.covering(record))

    def keeps_alike(self, record: records.PodRecord) -> bool:
        """Whether that is so of pods that are alike, those in ``disrupted`` aside."""
        return _keep(self._of_alike(record))

    def disrupted(self) -> Iterator[tuple[str, str]]:
        """Yield namespace and name of pods that some budget has taken into account already."""
        for namespace, there in self.by_namespace.items():
            for name in frozenset().union(*(budget.disrupted for budget in there)):
                yield namespace, name

    def _of_alike(self, record: records.PodRecord) -> tuple[budgets.Budget, ...]:
        there = self.by_namespace.get(record.key.namespace)
        if there is None or record.phase == "Pending":
            return ()
        alike = record.key.namespace, id(record.labels)
        found = self.of_alike.get(alike)
        if found is None:
            namespace, labels = record.key.namespace, record.labels
            found = tuple(budget for budget in there if budget.covers(namespace, labels))
            self.of_alike[alike] = found
        if not record.ready and len(found) == 1 and found[0].lets_unready_go:
            return ()
        return found

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


def _keep(covering: Sequence[budgets.Budget]) -> bool:
    """Whether these budgets let nobody go: one that is used up, or several."""
    return len(covering) > 1 or any(budget.allowed < 1 for budget in covering)


def limits_of(all_budgets: Iterable[budgets.Budget]) -> Limits:
    """Return the budgets by namespace, in the order of their names."""
    by_namespace: dict[str, list[budgets.Budget]] = {}
    for budget in sorted(all_budgets, key=str):
        by_namespace.setdefault(budget.namespace, []).append(budget)
    return Limits(by_namespace)
