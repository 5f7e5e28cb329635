"""What a device plugin asks the API server, and what it sees there.

The operator's own effects (``flows.effects``) speak of records; a plugin
looks at nothing but names, phases and annotations, so it has its own few.
Failures are shared: ``effects.Conflict``, ``effects.Missing`` and their kin
are thrown at the ``yield``.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias, TypeVar, cast


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """A Node as a plugin sees it."""

    name: str
    resource_version: str
    annotations: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSeen:
    """A container of a Pod as a plugin sees it.

    Attributes:
        asked: how many devices of the plugin's resource it asks for.
        passing: an init container that ends before the others start.
        ran: it has been started before.
    """

    name: str
    asked: int = 0
    passing: bool = False
    ran: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A Pod as a plugin sees it; HAMi's looks at names, phase and annotations only.

    Attributes:
        node: where it is bound; empty while it is not.
        admitted: the kubelet has taken it in (``status.startTime`` is set).
        containers: init containers first, in the order of the Pod's spec.
    """

    namespace: str
    name: str
    phase: str = "Pending"
    annotations: Mapping[str, str] = field(default_factory=_nothing)
    uid: str = ""
    resource_version: str = ""
    node: str = ""
    admitted: bool = False
    containers: tuple[ContainerSeen, ...] = ()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GetNode:
    """Read a Node. Answer: ``NodeSeen``."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetPod:
    """Read a Pod; whoever knows it may answer, unless it is wanted fresh. Answer: ``PodSeen``."""

    namespace: str
    name: str
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNodePods:
    """Read all Pods of a Node. Answer: a tuple of ``PodSeen``, in the server's order."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPod:
    """Change annotations of a Pod. Answer: the ``PodSeen`` that came of it.

    ``uid`` and ``resource_version`` are preconditions where they are given.
    """

    namespace: str
    name: str
    annotations: Mapping[str, str]
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchNode:
    """Change annotations of a Node that still has that version; None removes.

    Answer: the ``NodeSeen`` that came of it.
    """

    name: str
    resource_version: str
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Let some time pass. Answer: None."""

    seconds: float


Effect: TypeAlias = GetNode | GetPod | ListNodePods | PatchPod | PatchNode | Pause
Answer: TypeAlias = NodeSeen | PodSeen | tuple[PodSeen, ...] | None

_Result = TypeVar("_Result")
Steps: TypeAlias = Generator[Effect, Answer, _Result]
"""A conversation with the API server that ends in a result."""


def read_node(name: str) -> Steps[NodeSeen]:
    """Ask for a Node."""
    return cast(NodeSeen, (yield GetNode(name=name)))


def read_pod(namespace: str, name: str, *, fresh: bool = False) -> Steps[PodSeen]:
    """Ask for a Pod."""
    return cast(PodSeen, (yield GetPod(namespace=namespace, name=name, fresh=fresh)))


def list_node_pods(node: str) -> Steps[tuple[PodSeen, ...]]:
    """Ask for the Pods of a Node."""
    return cast(tuple[PodSeen, ...], (yield ListNodePods(node=node)))


def annotate_pod(pod: PodSeen, annotations: Mapping[str, str]) -> Steps[PodSeen]:
    """Change annotations of a Pod, whatever happened to it meanwhile."""
    answer = yield PatchPod(namespace=pod.namespace, name=pod.name, annotations=annotations)
    return cast(PodSeen, answer)


def change_pod(pod: PodSeen, annotations: Mapping[str, str]) -> Steps[PodSeen]:
    """Change annotations of a Pod that still is as it was seen."""
    answer = yield PatchPod(
        namespace=pod.namespace,
        name=pod.name,
        annotations=annotations,
        uid=pod.uid,
        resource_version=pod.resource_version,
    )
    return cast(PodSeen, answer)
