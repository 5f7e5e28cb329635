"""What the list of differences is made of: a recorded case with our answer, and a line."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from support import compare_answers
from support.compare_answers import Path

AFTER_FILTER: Final = ("annotations", "bind", "filter", "labels", "usage_after", "simulation")
"""Fields that follow from where the pod goes."""


@dataclass(frozen=True)
class Seen:
    """One recorded case, our answer, and where they differ."""

    case: Mapping[str, Any]
    answer: Mapping[str, Any]
    wrong: Mapping[Path, compare_answers.Difference]

    @property
    def name(self) -> str:
        name: str = self.case["name"]
        return name

    @property
    def expect(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.case["expect"]
        return found

    @cached_property
    def containers(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The pod's containers with their field, init containers first."""
        spec = self.case.get("pod", {}).get("spec", {})
        return [
            (field, container)
            for field in ("initContainers", "containers")
            for container in spec.get(field) or ()
        ]

    def amounts(self) -> Iterator[tuple[str, Any]]:
        """Every amount of a resource with a domain that the pod asks for."""
        for _, container in self.containers:
            resources = container.get("resources") or {}
            for part in ("limits", "requests"):
                for name, value in (resources.get(part) or {}).items():
                    if "/" in name:
                        yield name, value

    def notes(self, node: str) -> Mapping[str, str]:
        """Return the annotations of that node, as it is when the pod asks."""
        annotations = self._of_node(node).get("metadata", {}).get("annotations")
        return annotations or {}

    def allocatable(self, node: str) -> Mapping[str, Any]:
        """Return what the kubelet of that node offers."""
        return self._of_node(node).get("status", {}).get("allocatable") or {}

    def _of_node(self, node: str) -> Mapping[str, Any]:
        found = (raw for raw in self.case["nodes"] if raw["metadata"]["name"] == node)
        return next(found, {})

    @property
    def chosen(self) -> set[str]:
        """The nodes that HAMi and we take, where one is taken."""
        both = (answer.get("filter", {}).get("node") for answer in (self.expect, self.answer))
        return {node for node in both if node}

    def placement(self, nodes: Iterable[str]) -> Iterator[Path]:
        """Yield what differs because one of these nodes is another one than with HAMi.

        That is where the pod goes, and what is written and held there. The scores
        and refusals of other nodes are not among it.
        """
        others = set(nodes)
        if not self.chosen & others:
            return
        for path in self.wrong:
            of_node = path[:2] in (("filter", "scores"), ("filter", "failedNodes"))
            if path[0] in AFTER_FILTER and (not of_node or path[2] in others):
                yield path


def everything(seen: Seen) -> Iterable[Path]:
    """Explain all fields: for rows that name their cases."""
    return seen.wrong


Explains: TypeAlias = Callable[[Seen], Iterable[Path]]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One line of the document.

    Attributes:
        name: how tests and people call it.
        what: what we do otherwise.
        why: a reason that a user of HAMi accepts.
        switch: the setting that brings HAMi's way back; empty when there is none.
        explains: which differing fields of a case it explains.
        cases: only these cases; empty is every case.
        fields: only fields that begin so (``filter``, ``annotations``); empty is all.
    """

    name: str
    what: str
    why: str
    switch: str = ""
    explains: Explains = everything
    cases: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    def explained(self, seen: Seen) -> frozenset[Path]:
        """Return the differing fields that this line explains."""
        if self.cases and seen.name not in self.cases:
            return frozenset()
        found = frozenset(self.explains(seen)) & seen.wrong.keys()
        if self.fields:
            found = frozenset(path for path in found if path[0] in self.fields)
        return found
