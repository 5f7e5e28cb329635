"""PodDisruptionBudgets: which pods one covers, and how many of them may go now."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Operator(enum.StrEnum):
    """How a requirement compares, in Kubernetes' words."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a selector says about one label.

    Attributes:
        values: of ``IN`` and ``NOT_IN``; empty with the others.
    """

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether it holds of these labels; a label that is missing is in no set.

        >>> away = Requirement(key="a", operator=Operator.NOT_IN, values=frozenset({"1"}))
        >>> away.holds({}), away.holds({"a": "2"}), away.holds({"a": "1"})
        (True, True, False)
        """
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget.

    Attributes:
        selector: all of it must hold of a pod; empty covers every pod of the namespace,
            None covers none.
        allowed: how many more pods may go now; not below 0.
        disrupted: names of pods whose eviction it has taken into account already.
        lets_unready_go: pods that are not ready may go whatever it allows.
    """

    namespace: str
    name: str
    selector: tuple[Requirement, ...] | None = None
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()
    lets_unready_go: bool = False

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the budget speaks of a pod with these labels.

        >>> Budget(namespace="a", name="all", selector=()).covers("a", {})
        True
        >>> Budget(namespace="a", name="none").covers("a", {})
        False
        """
        if self.selector is None or namespace != self.namespace:
            return False
        return all(requirement.holds(labels) for requirement in self.selector)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
